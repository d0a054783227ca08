"""Other webhooks that change or check the same pods for devices, told from their configurations.

They are recognised by the names that their charts give them. Whether one meets a pod of ours is
judged by its rules and by what its selectors say of our own label; of other labels nothing is
known here, so they count as matching. The API server calls mutating webhooks by the name of their
configuration, then in the order of its list, and all validating ones after these.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from dra.finding import Finding
from dra.names import TRANSLATE_LABEL
from registration.controller_codes import OTHER_WEBHOOK
from registration.scope import Mode

Object = dict[str, Any]
_MUTATING: Final = "MutatingWebhookConfiguration"


class Project(NamedTuple):
    """A project whose webhook is known, by words in its names, service or path."""

    name: str
    words: re.Pattern[str]
    does: str
    remedy: str
    # Whether it should have run before ours, because it adds what is translated.
    first: bool = False


def _of(name: str, words: str, does: str, remedy: str, *, first: bool = False) -> Project:
    return Project(name, re.compile(words), does, remedy, first)


_KEEP_OFF: Final = (
    f"Keep it off translated namespaces: namespaceSelector {TRANSLATE_LABEL} NotIn [enforce]."
)
# In this order: the first that fits names the project.
PROJECTS: Final[tuple[Project, ...]] = (
    _of(
        "HAMi-DRA",
        r"hami-?dra",
        "translates the same resources into claims of its own",
        f"Let one of the two translate. {_KEEP_OFF}",
    ),
    _of(
        "HAMi",
        r"vgpu\.hami\.io|hami-(webhook|scheduler)|\bhami\b",
        "hands pods with its resources to hami-scheduler and may refuse privileged ones",
        "Label translated namespaces hami.io/webhook: ignore.",
    ),
    _of(
        "Koordinator",
        r"koordinator|koord-manager",
        "rewrites Koordinator's resources and may set the scheduler",
        _KEEP_OFF,
    ),
    _of(
        "KAI",
        r"\bkai-|kai\.scheduler|run-?ai|run\.ai|pod-?grouper",
        "adds environment and configuration for fractions of GPUs",
        _KEEP_OFF,
    ),
    _of(
        "tensor-fusion",
        r"tensor-?fusion",
        "replaces GPUs by remote ones and creates workloads, also on dry runs",
        'Label the pods tensor-fusion.ai/enabled: "false", or keep one of the two off.',
    ),
    _of(
        "network-resources-injector",
        r"network-?resources-?injector",
        "adds the resources of secondary networks to the first container",
        "Let it run before ours; after it, ours is called again only where reinvocation is on.",
        first=True,
    ),
    _of(
        "Volcano",
        r"volcano-admission|volcano\.sh",
        "sets queue and scheduler of Volcano's pods",
        "Map the device classes in Volcano's queues; they count extended resources.",
    ),
    _of(
        "Kueue",
        r"kueue",
        "gates pods until their queue admits what they ask for",
        "Map the device classes in Kueue's configuration; queues count extended resources.",
        first=True,
    ),
    _of(
        "InstaSlice",
        r"instaslice",
        "gates pods that ask for MIG resources until it has made a slice",
        _KEEP_OFF,
    ),
    _of(
        "GKE Warden",
        r"warden-(mutating|validating)|gke-.*gpu",
        "changes and checks pods that ask for GPUs",
        "Nothing can be changed there; watch what it refuses.",
    ),
    _of(
        "NVIDIA",
        r"nvidia|gpu-operator",
        "changes or checks pods that ask for GPUs",
        _KEEP_OFF,
    ),
)


def others(configurations: Iterable[Object], ours: str = "drawbridge") -> tuple[Finding, ...]:
    """Name the known webhooks that may touch the pods we translate, in the order of their calls."""
    found = []
    for each in configurations:
        name = (each.get("metadata") or {}).get("name", "")
        kind = each.get("kind") or _MUTATING
        if name == ours:
            continue
        for webhook in each.get("webhooks") or ():
            project = _project(name, webhook)
            if project is not None and _on_pods(webhook) and _may_match(webhook):
                at = _At(kind, name, f"{webhook.get('name')}")
                told = _finding(at, project, _order(kind, name, ours))
                found.append(((kind != _MUTATING, name), told))
    return tuple(finding for _, finding in sorted(found, key=lambda each: each[0]))


class _At(NamedTuple):
    """A webhook, for messages."""

    kind: str
    configuration: str
    webhook: str


def _project(configuration: str, webhook: Mapping[str, Any]) -> Project | None:
    client = webhook.get("clientConfig") or {}
    service = client.get("service") or {}
    texts = (configuration, webhook.get("name"), service.get("name"), service.get("namespace"))
    known = " ".join(f"{each}".lower() for each in texts if each)
    return next((each for each in PROJECTS if each.words.search(known)), None)


def _on_pods(webhook: Mapping[str, Any]) -> bool:
    """Whether its rules name pods when they are made."""
    return any(
        {"", "*"} & set(rule.get("apiGroups") or ())
        and {"pods", "*", "*/*"} & set(rule.get("resources") or ())
        and {"CREATE", "*"} & set(rule.get("operations") or ())
        for rule in webhook.get("rules") or ()
    )


def _may_match(webhook: Mapping[str, Any]) -> bool:
    """Whether its selector of namespaces leaves those in that we translate."""
    selector = webhook.get("namespaceSelector") or {}
    wanted = (selector.get("matchLabels") or {}).get(TRANSLATE_LABEL, Mode.ENFORCE)
    if wanted != Mode.ENFORCE:
        return False
    for each in selector.get("matchExpressions") or ():
        if each.get("key") != TRANSLATE_LABEL:
            continue
        named = Mode.ENFORCE in (each.get("values") or ())
        operator = each.get("operator")
        if operator == "DoesNotExist" or (operator == "NotIn" and named):
            return False
        if operator == "In" and not named:
            return False
    return True


def _order(kind: str, theirs: str, ours: str) -> str:
    if kind != _MUTATING:
        return "checks after ours"
    return "runs before ours" if theirs < ours else "runs after ours"


def _finding(at: _At, project: Project, order: str) -> Finding:
    late = project.first and order == "runs after ours"
    again = " (it should run before; ours is called again then)" if late else ""
    message = (
        f"{project.name}: {at.webhook} of {at.configuration} {order}{again}; it {project.does}"
    )
    about = f"{at.kind}/{at.configuration}"
    return OTHER_WEBHOOK.at("webhooks", message, object=about, remedy=project.remedy)
