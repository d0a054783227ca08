"""Which pods the API server sends us: matchConditions derived from the configuration.

Written as CEL that cannot fail, because an error would refuse the pod. Of the webhook configuration
nothing else is touched, above all not the certificate authority; the webhook for updates has a
condition that never changes, and brings it along. What makes a pod interesting is said elsewhere.
"""

from collections.abc import Mapping
from typing import Any, Final

from config.model import Configuration
from dra.finding import Finding
from dra.names import POD_WEBHOOK, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION
from registration import controller_codes
from translate.interest import CONTAINERS, RESOURCES, Interest, interest

API_VERSION: Final = "admissionregistration.k8s.io/v1"
KIND: Final = "MutatingWebhookConfiguration"
ASKS: Final = "asks-for-devices"
_SHOWN: Final = 5
_WIDEN: Final = (
    "Take the label's Exists out of the namespaceSelector of the webhooks pods.drawbridge.dev and "
    "workloads.drawbridge.dev."
)

_APPLY: Final = "Apply the manifests of the installation again; they bring it back."

Object = dict[str, Any]
Conditions = Mapping[str, Mapping[str, str]]


def conditions(by: Interest) -> Conditions:
    """The expression of every condition, by webhook and name."""
    # The mark first: the API server asks once more about a pod that we have just translated.
    asks = " ||\n".join([_marked(by), *_containers(by), *_keys(by)])
    return {POD_WEBHOOK: {ASKS: asks}}


def _containers(by: Interest) -> list[str]:
    return [_among(f"object.spec.{part}", "c", _resources(by)) for part in CONTAINERS]


def _resources(by: Interest) -> str:
    starts = " || ".join(f"k.startsWith({_quoted(each)})" for each in by.devices)
    device = f"k.contains('/') && (!k.contains({_quoted(by.native)}) || {starts})"
    named = [_among(f"c.resources.{part}", "k", device) for part in RESOURCES]
    return f"has(c.resources) && ({' || '.join(named)})"


def _keys(by: Interest) -> list[str]:
    prefixed = " || ".join(f"k.startsWith({_quoted(each)})" for each in by.prefixes)
    names = ", ".join(map(_quoted, by.annotations))
    return [
        _among("object.metadata.annotations", "k", f"k in [{names}] || {prefixed}"),
        _among("object.metadata.labels", "k", prefixed),
    ]


def _marked(by: Interest) -> str:
    """A pod that says it is translated is looked at, whoever wrote that on it."""
    name = "c.resourceClaimTemplateName"
    ours = f"has({name}) && {name}.startsWith({_quoted(by.templates)})"
    mark = _among("object.metadata.annotations", "k", f"k == {_quoted(by.mark)}")
    return f"{mark} ||\n{_among('object.spec.resourceClaims', 'c', ours)}"


def _among(where: str, name: str, test: str) -> str:
    """Say that something in a list or map passes; one that is missing or null has nothing in it."""
    return f"(has({where}) && {where} != null && {where}.exists({name}, {test}))"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def applied(live: Object, wanted: Conditions) -> Object | None:
    """What to apply so that the live webhooks have these conditions; None where they do."""
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


def inactive(live: Object | None, configuration: Configuration) -> tuple[Finding, ...]:
    """Say what of the configuration the live object may keep from us.

    A webhook without any condition gets every pod. One whose conditions are ours gets what the
    configuration speaks of. Of anything else, whoever wrote it, nothing is certain.
    """
    about = f"{KIND}/{WEBHOOK_CONFIGURATION}"
    if live is None:
        message = f"there is no {KIND} {WEBHOOK_CONFIGURATION}: no pod is sent to Drawbridge"
        return (controller_codes.NAME_NOT_ACTIVE.at("", message, object=about),)
    found = []
    if all(each.get("name") != POD_WEBHOOK for each in _webhooks(live)):
        message = f"{about}: no webhook {POD_WEBHOOK}, so the API server sends no pod"
        found.append(
            controller_codes.NAME_NOT_ACTIVE.at("webhooks", message, object=about, remedy=_APPLY)
        )
    for i, each in enumerate(_webhooks(live)):
        wrong = _differences(each, conditions(interest(configuration)), strict=True)
        if wrong:
            message = f"webhook {each.get('name')}: {'; '.join(wrong)}{_named(configuration)}"
            path = f"webhooks[{i}].matchConditions"
            found.append(controller_codes.NAME_NOT_ACTIVE.at(path, message, object=about))
        if (
            each.get("name") == POD_WEBHOOK
            and configuration.scope.namespace_selector
            and _labelled(each)
        ):
            path = f"webhooks[{i}].namespaceSelector"
            message = (
                f"webhook {POD_WEBHOOK}: only pods of namespaces with the label "
                f"{TRANSLATE_LABEL} are sent, and scope.namespaceSelector is for those without it"
            )
            found.append(
                controller_codes.NAME_NOT_ACTIVE.at(path, message, object=about, remedy=_WIDEN)
            )
    return tuple(found)


def labelled(live: Object | None) -> bool:
    """Whether pods are sent only of namespaces that have the label."""
    return any(
        each.get("name") == POD_WEBHOOK and _labelled(each) for each in _webhooks(live or {})
    )


def _labelled(webhook: Mapping[str, Any]) -> bool:
    """Whether only namespaces with the label are selected."""
    selector = webhook.get("namespaceSelector") or {}
    return TRANSLATE_LABEL in (selector.get("matchLabels") or {}) or any(
        each.get("key") == TRANSLATE_LABEL and each.get("operator") in {"Exists", "In"}
        for each in selector.get("matchExpressions") or ()
    )


def _webhooks(live: Object) -> list[dict[str, Any]]:
    return [each for each in live.get("webhooks") or () if isinstance(each, dict)]


def _differences(
    webhook: Mapping[str, Any], wanted: Conditions, *, strict: bool = False
) -> list[str]:
    """Say where the conditions of a webhook are not those wanted.

    Strictly: only where that may keep pods away, which no condition at all does not.
    """
    own = wanted.get(webhook.get("name", ""), {})
    held = {
        each.get("name"): each.get("expression") for each in webhook.get("matchConditions") or ()
    }
    if not own or (strict and not held):
        return []
    found = [
        f"its condition {name} is another than ours" if name in held else f"it lacks {name}"
        for name, text in own.items()
        if held.get(name) != text and (name in held or not strict)
    ]
    if strict:
        others = sorted(name for name in held if name not in own)
        found += [f"condition {name} is not ours and may keep pods from us" for name in others]
    return found


def _named(configuration: Configuration) -> str:
    """Name what somebody configured, as that is what they wait for."""
    legacy = configuration.legacy
    names = sorted(str(each) for each in (*legacy.renames, *legacy.networks, *legacy.units))
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; configured names that may not be active: {', '.join(names[:_SHOWN])}{more}"
