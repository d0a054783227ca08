"""The patch that switches webhooks off and on changes nothing else, and nothing twice."""

from typing import Any

from drawbridge.agreement.switch import SWITCH_CONDITION, compose_switch, is_switched_off
from tests.tables import every_row

OWN = {"name": "mine", "expression": "true"}
NEVER = {"name": SWITCH_CONDITION, "expression": "false"}


def live(*conditions: list[dict[str, str]] | None) -> dict[str, Any]:
    """Return a webhook configuration with these conditions, webhook by webhook."""
    webhooks: list[dict[str, Any]] = [{"name": f"w{i}"} for i in range(len(conditions))]
    for webhook, listed in zip(webhooks, conditions, strict=True):
        if listed is not None:
            webhook["matchConditions"] = listed
    return {"metadata": {"name": "drawbridge", "resourceVersion": "7"}, "webhooks": webhooks}


@every_row(
    ("before", "off", "after"),
    [
        ([None, [OWN]], True, [[NEVER], [OWN, NEVER]]),
        ([[NEVER], [OWN]], True, [[NEVER], [OWN, NEVER]]),  # an interrupted command
        ([[NEVER], [OWN, NEVER]], True, None),
        ([[NEVER], [NEVER, OWN]], False, [[], [OWN]]),
        ([[], [OWN, NEVER]], False, [[], [OWN]]),
        ([None, [OWN]], False, None),
        ([], True, None),
    ],
)
def test_a_switch_adds_or_removes_its_own_condition(
    before: list[Any], off: object, after: list[Any] | None
) -> None:
    patch = compose_switch(live(*before), off=bool(off))
    if after is None:
        assert patch is None
        return
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert [each["matchConditions"] for each in patch["webhooks"]] == after
    assert {is_switched_off(each) for each in patch["webhooks"]} == {off}


def test_a_webhook_is_on_without_conditions() -> None:
    assert not is_switched_off({"name": "w"})
    assert not is_switched_off({"name": "w", "matchConditions": None})
