"""The switch of the whole installation: a match condition that no object satisfies.

The API server itself evaluates it, so it acts within a moment and while no process of Drawbridge
runs. It is all that the switch changes: the labels of the namespaces stay, and say what is on
again afterwards. The condition has a name of its own, so the controller and an upgrade keep it.
"""

from collections.abc import Mapping
from typing import Any, Final

from drawbridge.names import JUDGE_CONFIGURATION, WEBHOOK_CONFIGURATION

SWITCH_CONDITION: Final = "switched-off"
# The plural names and the names of the webhook configurations, in the order of switching off. The
# guard precedes the webhook for pods, because it denies what that webhook did not get.
SWITCHED: Final = (
    ("validatingwebhookconfigurations", WEBHOOK_CONFIGURATION),
    ("validatingwebhookconfigurations", JUDGE_CONFIGURATION),
    ("mutatingwebhookconfigurations", WEBHOOK_CONFIGURATION),
)
_NEVER: Final = {"name": SWITCH_CONDITION, "expression": "false"}

JSONObject = dict[str, Any]


def is_switched_off(webhook: Mapping[str, Any]) -> bool:
    """Return whether a webhook has the condition of the switch."""
    conditions = webhook.get("matchConditions") or ()
    return any(each.get("name") == SWITCH_CONDITION for each in conditions)


def compose_switch(live: Mapping[str, Any], *, off: bool) -> JSONObject | None:
    """Return a merge patch for a webhook configuration; None if it is as wanted.

    The patch fails with 409 if the configuration has changed.
    """
    webhooks = live.get("webhooks") or []
    changed = [_switch(webhook, off=off) for webhook in webhooks]
    if changed == webhooks:
        return None
    version = live["metadata"].get("resourceVersion", "")
    return {"metadata": {"resourceVersion": version}, "webhooks": changed}


def _switch(webhook: JSONObject, *, off: bool) -> JSONObject:
    if is_switched_off(webhook) == off:
        return webhook
    conditions = webhook.get("matchConditions") or []
    kept = [each for each in conditions if each.get("name") != SWITCH_CONDITION]
    return {**webhook, "matchConditions": [*kept, _NEVER] if off else kept}
