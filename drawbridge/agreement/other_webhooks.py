"""Report known webhooks of other projects that change or check the same pods.

A project is recognized by the names in its webhook configuration. A webhook is reported if its
rules match pod creation and its selectors do not exclude translated namespaces. Selectors on
labels other than the translate label count as matching. The API server calls mutating webhooks in
the order of their configuration names, and all validating webhooks after these.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from drawbridge.agreement.operation_codes import OTHER_WEBHOOK
from drawbridge.agreement.scope import Mode
from drawbridge.finding import Finding
from drawbridge.names import TRANSLATE_LABEL

WebhookConfiguration = dict[str, Any]
_MUTATING: Final = "MutatingWebhookConfiguration"


class KnownProject(NamedTuple):
    """A project whose webhook is recognized by a pattern in its names or its service."""

    name: str
    pattern: re.Pattern[str]
    effect: str
    remedy: str
    # Why it must run before Drawbridge; empty if it need not.
    must_run_first: str = ""


def _project(
    name: str, pattern: str, effect: str, remedy: str, *, must_run_first: str = ""
) -> KnownProject:
    return KnownProject(name, re.compile(pattern), effect, remedy, must_run_first)


_ADDS: Final = "it must run before; the API server then calls Drawbridge again"
_READS: Final = "it must run before; afterwards it finds no resource names of devices"
# Without a target, requests for TPUs stay.
_READS_TPUS: Final = "it must run before if a target has google.com/tpu"
# Only mutating webhooks read names to change pods; the validating ones of the same projects do not.
_ONLY_MUTATING: Final = frozenset({_READS, _READS_TPUS})
_FIRST: Final = (
    "Install it with a webhook configuration whose name sorts before that of Drawbridge, or keep "
    "these pods out of translated namespaces."
)
_FIRST_FOR_TPUS: Final = f"If a target has google.com/tpu: {_FIRST}"
_EXCLUDE: Final = (
    "Exclude translated namespaces from it: "
    f"set namespaceSelector {TRANSLATE_LABEL} NotIn [enforce]."
)
# The first pattern that matches names the project.
PROJECTS: Final[tuple[KnownProject, ...]] = (
    _project(
        "HAMi-DRA",
        r"hami-?dra",
        "translates the same resources into its own claims",
        f"Use only one of the two to translate. {_EXCLUDE}",
    ),
    _project(
        "HAMi",
        r"vgpu\.hami\.io|hami-(webhook|scheduler)|\bhami\b",
        "assigns pods with its resources to hami-scheduler and may reject privileged pods",
        "Add the label hami.io/webhook: ignore to translated namespaces.",
    ),
    _project(
        "Koordinator",
        r"koordinator|koord-manager",
        "rewrites Koordinator resources and may set the scheduler",
        _EXCLUDE,
    ),
    _project(
        "KAI",
        r"\bkai-|kai\.scheduler|run-?ai|run\.ai|pod-?grouper",
        "adds environment variables and configuration for GPU fractions",
        _EXCLUDE,
    ),
    _project(
        "tensor-fusion",
        r"tensor-?fusion",
        "replaces GPUs with remote GPUs and creates workloads, even on dry runs",
        'Add the label tensor-fusion.ai/enabled: "false" to the pods, or use only one of the two.',
    ),
    _project(
        "network-resources-injector",
        r"network-?resources-?injector",
        "adds the resources of secondary networks to the first container",
        "Make it run before Drawbridge, or set reinvocationPolicy: IfNeeded for Drawbridge.",
        must_run_first=_ADDS,
    ),
    _project(
        "Volcano",
        r"volcano-admission|volcano\.sh",
        "sets the queue and the scheduler of Volcano pods",
        "Map the device classes in the Volcano queues; queues count extended resources. Translate "
        "its jobs in their manifests: it compares their templates with nodes.",
    ),
    _project(
        "Kueue",
        r"kueue",
        "adds scheduling gates until a queue admits the requests of the pod",
        "Map the device classes in the Kueue configuration; queues count extended resources.",
        must_run_first=_ADDS,
    ),
    _project(
        "YuniKorn",
        r"yunikorn",
        "sets its scheduler, which runs no pods with claims, for all pods that it processes",
        "Add translated namespaces to admissionController.filtering.bypassNamespaces of YuniKorn.",
    ),
    _project(
        "Slurm bridge",
        r"slurm-?bridge|slinky",
        "sets its scheduler and denies pods with claims, in the namespaces that it manages",
        "Do not list translated namespaces in admission.managedNamespaces of Slurm bridge.",
    ),
    _project(
        "InstaSlice",
        r"instaslice",
        "adds scheduling gates to pods that request MIG resources until a slice exists",
        _EXCLUDE,
    ),
    _project(
        "GKE Warden",
        r"warden-(mutating|validating)|gke-.*gpu",
        "changes and checks pods that request GPUs",
        "This webhook cannot be configured. Check which pods it rejects.",
    ),
    _project(
        "NVSentinel",
        r"nvsentinel",
        "adds checks of the GPUs as init containers to pods that request nvidia.com/gpu",
        _FIRST,
        must_run_first=_READS,
    ),
    _project(
        "LeaderWorkerSet",
        r"(?:^| )lws-(?!system\b)|leaderworkerset",
        "sets the addresses of TPU workers in pods that request google.com/tpu",
        _FIRST_FOR_TPUS,
        must_run_first=_READS_TPUS,
    ),
    _project(
        "KubeRay for TPUs",
        r"kuberay-tpu",
        "sets the addresses of TPU workers in pods that request google.com/tpu",
        _FIRST_FOR_TPUS,
        must_run_first=_READS_TPUS,
    ),
    _project(
        "NVIDIA",
        r"nvidia|gpu-operator",
        "changes or checks pods that request GPUs",
        _EXCLUDE,
    ),
)


def find_other_webhooks(
    configurations: Iterable[WebhookConfiguration], own_name: str = "drawbridge"
) -> tuple[Finding, ...]:
    """Report the known webhooks that may handle translated pods, in the order of their calls."""
    ordered = []
    for configuration in configurations:
        name = (configuration.get("metadata") or {}).get("name", "")
        kind = configuration.get("kind") or _MUTATING
        if name == own_name:
            continue
        for webhook in configuration.get("webhooks") or ():
            project = _recognize(name, webhook)
            if project is None or (project.must_run_first in _ONLY_MUTATING and kind != _MUTATING):
                continue
            if _matches_pods(webhook) and _may_match_namespace(webhook):
                source = _Source(kind, name, f"{webhook.get('name')}")
                finding = _build_finding(source, project, _describe_order(kind, name, own_name))
                ordered.append(((kind != _MUTATING, name), finding))
    return tuple(finding for _, finding in sorted(ordered, key=lambda each: each[0]))


class _Source(NamedTuple):
    """The webhook that a message names."""

    kind: str
    configuration: str
    webhook: str


def _recognize(configuration: str, webhook: Mapping[str, Any]) -> KnownProject | None:
    client = webhook.get("clientConfig") or {}
    service = client.get("service") or {}
    texts = (configuration, webhook.get("name"), service.get("name"), service.get("namespace"))
    names = " ".join(f"{each}".lower() for each in texts if each)
    return next((each for each in PROJECTS if each.pattern.search(names)), None)


def _matches_pods(webhook: Mapping[str, Any]) -> bool:
    """Return whether a rule of the webhook matches the creation of pods."""
    return any(
        {"", "*"} & set(rule.get("apiGroups") or ())
        and {"pods", "*", "*/*"} & set(rule.get("resources") or ())
        and {"CREATE", "*"} & set(rule.get("operations") or ())
        for rule in webhook.get("rules") or ()
    )


def _may_match_namespace(webhook: Mapping[str, Any]) -> bool:
    """Return whether the namespaceSelector may match translated namespaces."""
    selector = webhook.get("namespaceSelector") or {}
    required = (selector.get("matchLabels") or {}).get(TRANSLATE_LABEL, Mode.ENFORCE)
    if required != Mode.ENFORCE:
        return False
    for match_expression in selector.get("matchExpressions") or ():
        if match_expression.get("key") != TRANSLATE_LABEL:
            continue
        lists_enforce = Mode.ENFORCE in (match_expression.get("values") or ())
        operator = match_expression.get("operator")
        if operator == "DoesNotExist" or (operator == "NotIn" and lists_enforce):
            return False
        if operator == "In" and not lists_enforce:
            return False
    return True


def _describe_order(kind: str, name: str, own_name: str) -> str:
    if kind != _MUTATING:
        return "checks pods after Drawbridge"
    return "runs before Drawbridge" if name < own_name else "runs after Drawbridge"


def _build_finding(source: _Source, project: KnownProject, order: str) -> Finding:
    late = project.must_run_first and order == "runs after Drawbridge"
    note = f" ({project.must_run_first})" if late else ""
    message = (
        f"{project.name}: webhook {source.webhook} of {source.configuration} {order}{note}; "
        f"it {project.effect}"
    )
    about = f"{source.kind}/{source.configuration}"
    return OTHER_WEBHOOK.at("webhooks", message, object=about, remedy=project.remedy)
