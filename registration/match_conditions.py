"""Derive the matchConditions that select which pods the API server sends to the webhook.

The conditions are CEL expressions that cannot fail, because an evaluation error would reject the
pod. Only the matchConditions of `pods.drawbridge.dev` are managed here. The manifests set all other
fields of the webhook configuration, except the certificate authority.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from config.model import Configuration
from dra.finding import Finding
from dra.names import POD_WEBHOOK, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION
from registration import controller_codes
from translate.interest import CONTAINERS, RESOURCES, Interest, derive_interest

API_VERSION: Final = "admissionregistration.k8s.io/v1"
KIND: Final = "MutatingWebhookConfiguration"
CONDITION_NAME: Final = "asks-for-devices"
_MAX_SHOWN: Final = 5
_SELECTOR_REMEDY: Final = (
    "Remove the Exists requirement on the label from the namespaceSelector of the webhooks "
    "pods.drawbridge.dev and workloads.drawbridge.dev."
)
_WEBHOOK_REMEDY: Final = "Apply the installation manifests again to restore the webhook."

JSONObject = dict[str, Any]
MatchConditions = Mapping[str, Mapping[str, str]]


def build_conditions(interest: Interest) -> MatchConditions:
    """Return the CEL expression of each condition, by webhook and condition name."""
    # The checks for translated pods come first: the API server reinvokes the webhook for a pod that
    # was just translated.
    checks = " ||\n".join(
        [_check_translated(interest), *_check_containers(interest), *_check_keys(interest)]
    )
    return {POD_WEBHOOK: {CONDITION_NAME: checks}}


def _check_containers(interest: Interest) -> list[str]:
    test = _check_resources(interest)
    return [_exists(f"object.spec.{part}", "c", test) for part in CONTAINERS]


def _check_resources(interest: Interest) -> str:
    starts = " || ".join(f"k.startsWith({_quote(each)})" for each in interest.devices)
    device = f"k.contains('/') && (!k.contains({_quote(interest.native)}) || {starts})"
    checks = [_exists(f"c.resources.{part}", "k", device) for part in RESOURCES]
    return f"has(c.resources) && ({' || '.join(checks)})"


def _check_keys(interest: Interest) -> list[str]:
    prefixed = " || ".join(f"k.startsWith({_quote(each)})" for each in interest.prefixes)
    names = ", ".join(map(_quote, interest.annotations))
    return [
        _exists("object.metadata.annotations", "k", f"k in [{names}] || {prefixed}"),
        _exists("object.metadata.labels", "k", prefixed),
    ]


def _check_translated(interest: Interest) -> str:
    """Match pods that are marked as translated, no matter who wrote the mark."""
    name = "c.resourceClaimTemplateName"
    owned = f"has({name}) && {name}.startsWith({_quote(interest.templates)})"
    mark = _exists("object.metadata.annotations", "k", f"k == {_quote(interest.mark)}")
    return f"{mark} ||\n{_exists('object.spec.resourceClaims', 'c', owned)}"


def _exists(path: str, variable: str, test: str) -> str:
    """Check that an element of a list or map passes a test; missing or null counts as empty."""
    return f"(has({path}) && {path} != null && {path}.exists({variable}, {test}))"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def build_apply_object(live: JSONObject, wanted: MatchConditions) -> JSONObject | None:
    """Return the object to apply so that the live webhooks have the wanted conditions.

    Return None if they already have them.
    """
    webhooks = [each for each in _webhooks(live) if each.get("name") in wanted]
    if all(not _differences(each, wanted) for each in webhooks):
        return None
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": WEBHOOK_CONFIGURATION},
        "webhooks": [
            {
                "name": each["name"],
                "matchConditions": [
                    {"name": name, "expression": text}
                    for name, text in wanted[each["name"]].items()
                ],
            }
            for each in webhooks
        ],
    }


def find_inactive(live: JSONObject | None, configuration: Configuration) -> tuple[Finding, ...]:
    """Report why the API server may not send all pods that the configuration covers.

    A webhook without conditions receives every pod. A webhook with the derived conditions receives
    every pod that the configuration covers. Any other condition may exclude pods.
    """
    about = f"{KIND}/{WEBHOOK_CONFIGURATION}"
    if live is None:
        message = (
            f"{KIND} {WEBHOOK_CONFIGURATION} does not exist, so the API server sends no pods "
            "to Drawbridge"
        )
        return (controller_codes.NAME_NOT_ACTIVE.at("", message, object=about),)
    return tuple(_find_inactive(live, configuration, about))


def _find_inactive(live: JSONObject, configuration: Configuration, about: str) -> Iterator[Finding]:
    if all(each.get("name") != POD_WEBHOOK for each in _webhooks(live)):
        message = f"{about}: webhook {POD_WEBHOOK} is missing, so the API server sends no pods"
        yield controller_codes.NAME_NOT_ACTIVE.at(
            "webhooks", message, object=about, remedy=_WEBHOOK_REMEDY
        )
    wanted = build_conditions(derive_interest(configuration))
    for i, each in enumerate(_webhooks(live)):
        if wrong := _differences(each, wanted, strict=True):
            names = _format_configured_names(configuration)
            message = f"webhook {each.get('name')}: {'; '.join(wrong)}{names}"
            path = f"webhooks[{i}].matchConditions"
            yield controller_codes.NAME_NOT_ACTIVE.at(path, message, object=about)
        if _selects_too_little(each, configuration):
            path = f"webhooks[{i}].namespaceSelector"
            message = (
                f"webhook {POD_WEBHOOK}: namespaceSelector requires the label {TRANSLATE_LABEL}, "
                "but scope.namespaceSelector selects namespaces without it"
            )
            yield controller_codes.NAME_NOT_ACTIVE.at(
                path, message, object=about, remedy=_SELECTOR_REMEDY
            )


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
        each.get("name") == POD_WEBHOOK and _selects_by_label(each)
        for each in _webhooks(live or {})
    )


def _selects_by_label(webhook: Mapping[str, Any]) -> bool:
    """Return whether the namespaceSelector of a webhook requires the label."""
    selector = webhook.get("namespaceSelector") or {}
    return TRANSLATE_LABEL in (selector.get("matchLabels") or {}) or any(
        each.get("key") == TRANSLATE_LABEL and each.get("operator") in {"Exists", "In"}
        for each in selector.get("matchExpressions") or ()
    )


def _webhooks(live: JSONObject) -> list[dict[str, Any]]:
    return [each for each in live.get("webhooks") or () if isinstance(each, dict)]


def _differences(
    webhook: Mapping[str, Any], wanted: MatchConditions, *, strict: bool = False
) -> list[str]:
    """List the differences between the conditions of a webhook and the wanted ones.

    With `strict`, list only differences that may exclude pods. A webhook without conditions
    excludes none.
    """
    own = wanted.get(webhook.get("name", ""), {})
    live = {
        each.get("name"): each.get("expression") for each in webhook.get("matchConditions") or ()
    }
    if not own or (strict and not live):
        return []
    found = [
        f"condition {name} has a different expression"
        if name in live
        else f"condition {name} is missing"
        for name, text in own.items()
        if live.get(name) != text and (name in live or not strict)
    ]
    if strict:
        others = sorted(name for name in live if name not in own)
        found += [
            f"condition {name} is not managed by Drawbridge and may exclude pods" for name in others
        ]
    return found


def _format_configured_names(configuration: Configuration) -> str:
    """List the configured legacy names, because pods that use them may be excluded."""
    legacy = configuration.legacy
    names = sorted(str(each) for each in (*legacy.renames, *legacy.networks, *legacy.units))
    if not names:
        return ""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f"; configured names that may be inactive: {', '.join(names[:_MAX_SHOWN])}{more}"
