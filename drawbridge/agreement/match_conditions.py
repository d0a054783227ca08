"""Derive the matchConditions that select which pods the API server sends to the webhooks.

The conditions are CEL expressions that cannot fail, because an evaluation error would reject the
pod. `pods.drawbridge.dev` gets the pods that may request devices and all translated pods.
`guard.drawbridge.dev` runs after all mutating webhooks and gets the pods that still may request
devices, and the translated pods that have lost their claims. The manifests set all other fields of
the webhook configurations, except the certificate authority and the failurePolicy of the guard.

The manifests give `pods.drawbridge.dev` the widest condition, so that the API server creates all
other pods before a controller has led. It has the same name, so that there is always one, and
selects what any configuration needs, so that applying the manifests again excludes no pod.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drawbridge.agreement import operation_codes
from drawbridge.agreement.switch import SWITCH_CONDITION, is_switched_off
from drawbridge.agreement.uncalled_namespaces import find_uncalled_namespaces
from drawbridge.agreement.webhook_selectors import read_pod_webhook
from drawbridge.config.model import Configuration, Placement
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.names import (
    GUARD_WEBHOOK,
    JUDGE_CONFIGURATION,
    ORIGINAL_ANNOTATION,
    POD_WEBHOOK,
    TEMPLATE_PREFIX,
    TRANSLATE_LABEL,
    WEBHOOK_CONFIGURATION,
)
from drawbridge.pod_groups import FIELDS, LABELS
from drawbridge.translate.interest import (
    CONTAINERS,
    PREFIXES,
    RESOURCES,
    Interest,
    derive_interest,
)
from drawbridge.translate.legacy.pod_view import KOORDINATOR_PROPOSAL, NATIVE

API_VERSION: Final = "admissionregistration.k8s.io/v1"
KIND: Final = "MutatingWebhookConfiguration"
GUARD_KIND: Final = "ValidatingWebhookConfiguration"
# The webhooks of the manifests beside that for pods, by the kind and the name of their
# webhook configuration.
REGISTERED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    (KIND, WEBHOOK_CONFIGURATION): ("updates.drawbridge.dev",),
    (GUARD_KIND, WEBHOOK_CONFIGURATION): (
        "workloads.drawbridge.dev",
        GUARD_WEBHOOK,
        "configuration.drawbridge.dev",
    ),
    (GUARD_KIND, JUDGE_CONFIGURATION): tuple(
        f"{each}.judge.drawbridge.dev" for each in ("claims", "pods", "workloads", "classes")
    ),
}
CONDITION_NAME: Final = "asks-for-devices"
# Only in the guard, while the condition of the webhook for pods changes.
TRANSITION_NAME: Final = "was-sent-to-pods-webhook"
_EVERY_POD: Final = {CONDITION_NAME: "true"}
_FAIL, _IGNORE = "Fail", "Ignore"
_MAX_SHOWN: Final = 5
_SELECTOR_REMEDY: Final = (
    "Remove the Exists requirement on the label from the namespaceSelector of the webhooks "
    "pods.drawbridge.dev and workloads.drawbridge.dev."
)
_WEBHOOK_REMEDY: Final = "Apply the installation manifests again to restore the webhook."

JSONObject = dict[str, Any]
MatchConditions = Mapping[str, Mapping[str, str]]


def derive_conditions(configuration: Configuration) -> MatchConditions:
    """Return the conditions that the configuration requires.

    With `everyPod` they select every pod. Removing them would fail if another field manager, such
    as that of `kubectl replace`, owns them too.
    """
    if configuration.admission.every_pod:
        return {POD_WEBHOOK: _EVERY_POD, GUARD_WEBHOOK: _EVERY_POD}
    return build_conditions(derive_interest(configuration))


def derive_widest_conditions() -> Mapping[str, str]:
    """Return the conditions of the manifests for the webhook for pods.

    They select what any configuration requires, except with `everyPod`.
    """
    return derive_conditions(Configuration(placement=Placement.BRIDGE))[POD_WEBHOOK]


def build_conditions(interest: Interest) -> MatchConditions:
    """Return the CEL expression of each condition, by webhook and condition name."""
    requests = " ||\n".join([*_check_containers(), *_check_keys(interest)])
    # The checks for translated pods come first: the API server reinvokes the webhook for a pod that
    # was just translated.
    checks = [*(_check_scheduler() if interest.bridge else ()), _check_translated(), requests]
    every = " ||\n".join(checks)
    guarded = f"{requests} ||\n{_check_lost()}"
    return {POD_WEBHOOK: {CONDITION_NAME: every}, GUARD_WEBHOOK: {CONDITION_NAME: guarded}}


def _check_containers() -> list[str]:
    starts = " || ".join(f"k.startsWith({_quote(each)})" for each in KOORDINATOR_PROPOSAL)
    device = f"k.contains('/') && (!k.contains({_quote(NATIVE)}) || {starts})"
    checks = [_exists(f"c.resources.{part}", "k", device) for part in RESOURCES]
    test = f"has(c.resources) && ({' || '.join(checks)})"
    return [_exists(f"object.spec.{part}", "c", test) for part in CONTAINERS]


def _check_keys(interest: Interest) -> list[str]:
    prefixed = " || ".join(f"k.startsWith({_quote(each)})" for each in PREFIXES)
    names = ", ".join(map(_quote, interest.annotations))
    return [
        _exists("object.metadata.annotations", "k", f"k in [{names}] || {prefixed}"),
        _exists("object.metadata.labels", "k", prefixed),
    ]


def _check_scheduler() -> Iterator[str]:
    """Match pods that may need another scheduler: with claims, or members of a group."""
    yield _exists("object.spec.resourceClaims", "c", "true")
    for field in FIELDS:
        yield _exists(f"object.spec.{field}", "k", "true")
    yield _exists("object.metadata.labels", "k", f"k in [{', '.join(map(_quote, LABELS))}]")


def _check_translated() -> str:
    """Match pods that are marked as translated, no matter who wrote the mark."""
    name = "c.resourceClaimTemplateName"
    owned = f"has({name}) && {name}.startsWith({_quote(TEMPLATE_PREFIX)})"
    return f"{_check_mark()} ||\n{_exists('object.spec.resourceClaims', 'c', owned)}"


def _check_lost() -> str:
    """Match pods that are marked as translated although no container has a claim.

    An API server without DynamicResourceAllocation removes all claims after the mutating webhooks.
    """
    has_claim = f"has(c.resources) && {_exists('c.resources.claims', 'r', 'true')}"
    with_claims = (_exists(f"object.spec.{part}", "c", has_claim) for part in CONTAINERS)
    return f"({_check_mark()} && !({' || '.join(with_claims)}))"


def _check_mark() -> str:
    return _exists("object.metadata.annotations", "k", f"k == {_quote(ORIGINAL_ANNOTATION)}")


def _exists(path: str, variable: str, test: str) -> str:
    """Check that an element of a list or map passes a test; missing or null counts as empty."""
    return f"(has({path}) && {path} != null && {path}.exists({variable}, {test}))"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plan_applies(
    mutating: JSONObject | None,
    validating: JSONObject | None,
    configuration: Configuration,
    *,
    guard_served: bool,
) -> tuple[JSONObject, ...]:
    """Return the objects to apply, in this order, so that the live webhooks get their conditions.

    At every step the guard selects only pods that the API server also sends to the webhook for
    pods. If the condition of that webhook changes, the guard therefore first gets only pods that
    both the old and the new condition select. Objects that need no change are left out, and a
    missing webhook is not added.

    The guard gets failurePolicy Fail with its conditions, once it has a caBundle and `guard_served`
    is true: every replica of the webhook serves the guard. A replica of an older version responds
    with an error, which would deny pods. A missing caBundle sets the policy back to Ignore, and so
    does Ignore of the webhook for pods: the guard would deny the pods that this one lets through.
    """
    wanted = derive_conditions(configuration)
    pods, guard = _find_webhook(mutating, POD_WEBHOOK), _find_webhook(validating, GUARD_WEBHOOK)
    policy = _find_policy(guard, pods, is_ready=guard_served and pods is not None)
    if pods is None or _has_conditions(pods, wanted[POD_WEBHOOK]):
        return tuple(_compose_guard(guard, wanted[GUARD_WEBHOOK], policy))
    both = _find_common_conditions(pods, guard, wanted[GUARD_WEBHOOK])
    return (
        *_compose_guard(guard, both, _find_policy(guard, pods, is_ready=False)),
        _compose_apply(KIND, POD_WEBHOOK, wanted[POD_WEBHOOK]),
        *_compose_guard(guard and _with_conditions(guard, both), wanted[GUARD_WEBHOOK], policy),
    )


def _find_common_conditions(
    pods: JSONObject, guard: JSONObject | None, wanted: Mapping[str, str]
) -> Mapping[str, str]:
    """Return conditions of the guard that select no pod that only the old or new ones select."""
    if wanted == _EVERY_POD:
        return _read_conditions(guard or {})
    old = _read_conditions(pods).get(CONDITION_NAME)
    if old is None or {CONDITION_NAME: old} in (_EVERY_POD, derive_widest_conditions()):
        return wanted
    return {**wanted, TRANSITION_NAME: old}


def _compose_guard(
    live: JSONObject | None, wanted: Mapping[str, str], policy: str
) -> Iterator[JSONObject]:
    """Yield the change of the guard, unless it does not exist or needs none."""
    if live is None or (_has_conditions(live, wanted) and live.get("failurePolicy") == policy):
        return
    yield _compose_apply(GUARD_KIND, GUARD_WEBHOOK, wanted, failurePolicy=policy)


def _find_policy(guard: JSONObject | None, pods: JSONObject | None, *, is_ready: bool) -> str:
    """Return the failurePolicy of the guard.

    It is Fail once the guard is ready and has a caBundle, if an administrator did not choose
    Ignore for the webhook for pods.
    """
    live = guard or {}
    is_trusted = bool((live.get("clientConfig") or {}).get("caBundle"))
    if not is_trusted or (pods or {}).get("failurePolicy") == _IGNORE:
        return _IGNORE
    return _FAIL if is_ready or live.get("failurePolicy") == _FAIL else _IGNORE


def _compose_apply(
    kind: str, webhook: str, conditions: Mapping[str, str], **fields: str
) -> JSONObject:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION},
        "webhooks": [_with_conditions({"name": webhook, **fields}, conditions)],
    }


def _find_webhook(live: Mapping[str, Any] | None, name: str) -> JSONObject | None:
    return next((each for each in _webhooks(live or {}) if each.get("name") == name), None)


def read_pod_conditions(live: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    """Return all live conditions of the webhook for pods; None if the webhook does not exist."""
    webhook = _find_webhook(live, POD_WEBHOOK)
    return None if webhook is None else _list_conditions(webhook)


def are_as_derived(live: Mapping[str, Any] | None, configuration: Configuration) -> bool:
    """Return whether the webhook for pods has the conditions that the configuration requires."""
    wanted = derive_conditions(configuration)[POD_WEBHOOK]
    return _has_conditions(_find_webhook(live, POD_WEBHOOK) or {}, wanted)


def select_pod_webhook(live: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what decides which pods the webhook for pods gets; None if it does not exist."""
    webhook = _find_webhook(live, POD_WEBHOOK)
    if webhook is None:
        return None
    fields = ("name", "namespaceSelector", "objectSelector", "matchConditions")
    return {"webhooks": [{name: webhook[name] for name in fields if name in webhook}]}


def _list_conditions(webhook: Mapping[str, Any]) -> dict[str, str]:
    """Return all live conditions by name."""
    listed = webhook.get("matchConditions") or ()
    return {each.get("name", ""): each.get("expression", "") for each in listed}


def _read_conditions(webhook: Mapping[str, Any]) -> dict[str, str]:
    """Return the live conditions that Drawbridge manages, by name."""
    live = _list_conditions(webhook)
    return {name: live[name] for name in (CONDITION_NAME, TRANSITION_NAME) if name in live}


def _has_conditions(webhook: JSONObject, wanted: Mapping[str, str]) -> bool:
    return _read_conditions(webhook) == dict(wanted)


def _with_conditions(webhook: JSONObject, conditions: Mapping[str, str]) -> JSONObject:
    listed = [{"name": name, "expression": text} for name, text in conditions.items()]
    return {**webhook, "matchConditions": listed}


def find_inactive(live: JSONObject | None, configuration: Configuration) -> tuple[Finding, ...]:
    """Report why the API server may not send all pods that the configuration covers.

    A webhook without conditions receives every pod. A webhook with the derived conditions, or with
    the widest ones, receives every pod that the configuration covers. Any other condition may
    exclude pods.
    """
    about = f"{KIND}/{WEBHOOK_CONFIGURATION}"
    if live is None:
        message = (
            f"{KIND} {WEBHOOK_CONFIGURATION} does not exist, so the API server sends no pods "
            "to Drawbridge"
        )
        finding = operation_codes.NAME_NOT_ACTIVE.at(
            "", message, object=about, remedy=_WEBHOOK_REMEDY
        )
        return (finding,)
    return tuple(_find_inactive(live, configuration, about))


def _find_inactive(live: JSONObject, configuration: Configuration, about: str) -> Iterator[Finding]:
    if all(each.get("name") != POD_WEBHOOK for each in _webhooks(live)):
        message = f"{about}: webhook {POD_WEBHOOK} is missing, so the API server sends no pods"
        yield operation_codes.NAME_NOT_ACTIVE.at(
            "webhooks", message, object=about, remedy=_WEBHOOK_REMEDY
        )
    yield from _find_switched_off(live, about)
    wanted = derive_conditions(configuration)
    for i, webhook in enumerate(_webhooks(live)):
        if wrong := _find_excluding(webhook, wanted):
            names = _format_configured_names(configuration)
            message = f"webhook {webhook.get('name')}: {'; '.join(wrong)}{names}"
            path = f"webhooks[{i}].matchConditions"
            yield operation_codes.NAME_NOT_ACTIVE.at(path, message, object=about)
        if _selects_too_little(webhook, configuration):
            path = f"webhooks[{i}].namespaceSelector"
            message = (
                f"webhook {POD_WEBHOOK}: namespaceSelector requires the label {TRANSLATE_LABEL}, "
                "but scope.namespaceSelector selects namespaces without it"
            )
            yield operation_codes.NAME_NOT_ACTIVE.at(
                path, message, object=about, remedy=_SELECTOR_REMEDY
            )


def find_uncalled(
    kind: str,
    name: str,
    live: JSONObject | None,
    configuration: Configuration,
    namespaces: Mapping[str, Mapping[str, str]],
) -> Iterator[Finding]:
    """Report why the API server may not call all webhooks of a webhook configuration.

    `namespaces` are the labels by name, as far as they are known.
    """
    if kind == KIND:
        yield from find_inactive(live, configuration)
        yield from find_uncalled_namespaces(namespaces, configuration.scope, read_pod_webhook(live))
        yield from _find_missing(kind, name, live) if live else ()
    else:
        yield from _find_missing(kind, name, live)
        yield from _find_switched_off(live or {}, f"{kind}/{name}")


def _find_missing(kind: str, name: str, live: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Report the registered webhooks that a webhook configuration lacks, in one finding."""
    about, listed = f"{kind}/{name}", {each.get("name") for each in _webhooks(live or {})}
    if missing := [each for each in REGISTERED[kind, name] if each not in listed]:
        message = (
            f"{about}: missing {', '.join(missing)}, so the API server does not call Drawbridge"
        )
        yield operation_codes.NAME_NOT_ACTIVE.at(
            "webhooks", message, object=about, remedy=_WEBHOOK_REMEDY
        )


def _find_switched_off(live: JSONObject, about: str) -> Iterator[Finding]:
    """Report the webhooks of a webhook configuration that are switched off, in one finding."""
    names = [f"{each.get('name')}" for each in _webhooks(live) if is_switched_off(each)]
    if names:
        noun = "webhook" if len(names) == 1 else "webhooks"
        message = f"{noun} {', '.join(names)}: switched off"
        yield operation_codes.SWITCHED_OFF.at("webhooks", message, object=about)


def _selects_too_little(webhook: JSONObject, configuration: Configuration) -> bool:
    """Tell whether the pod webhook requires a label that `scope.namespaceSelector` does not."""
    return bool(
        webhook.get("name") == POD_WEBHOOK
        and configuration.scope.namespace_selector
        and _selects_by_label(webhook)
    )


def requires_namespace_label(live: JSONObject | None) -> bool:
    """Return whether the API server sends only pods of namespaces that have the label."""
    return any(
        webhook.get("name") == POD_WEBHOOK and _selects_by_label(webhook)
        for webhook in _webhooks(live or {})
    )


def _selects_by_label(webhook: Mapping[str, Any]) -> bool:
    """Return whether the namespaceSelector of a webhook requires the label."""
    selector = webhook.get("namespaceSelector") or {}
    return TRANSLATE_LABEL in (selector.get("matchLabels") or {}) or any(
        match_expression.get("key") == TRANSLATE_LABEL
        and match_expression.get("operator") in {"Exists", "In"}
        for match_expression in selector.get("matchExpressions") or ()
    )


def _webhooks(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in live.get("webhooks") or () if isinstance(each, dict)]


def _find_excluding(webhook: Mapping[str, Any], wanted: MatchConditions) -> list[str]:
    """Describe the live conditions of a webhook that may exclude pods of the configuration."""
    own = wanted.get(webhook.get("name", ""))
    live = _list_conditions(webhook)
    live.pop(SWITCH_CONDITION, None)
    if own is None or not live or (own != _EVERY_POD and live == derive_widest_conditions()):
        return []
    different = [
        f"condition {name} has a different expression"
        for name, text in own.items()
        if live.get(name, text) != text
    ]
    return different + [
        f"condition {name} is not required by the configuration and may exclude pods"
        if name == CONDITION_NAME
        else f"condition {name} is not managed by Drawbridge and may exclude pods"
        for name in sorted(live)
        if name not in own
    ]


def _format_configured_names(configuration: Configuration) -> str:
    """List the configured legacy names, because pods that use them may be excluded."""
    legacy = configuration.legacy
    configured = (*legacy.renames, *legacy.networks, *legacy.units, *configuration.named_devices)
    names = sorted(set(map(str, configured)))
    if not names:
        return ""
    return f"; configured names that may be inactive: {list_some(names, _MAX_SHOWN, 'name')}"
