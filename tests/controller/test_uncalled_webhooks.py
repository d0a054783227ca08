"""Webhooks that the API server does not call: removed, or switched off."""

from typing import Any

from controller.protocols import Gauge
from drawbridge.agreement.match_conditions import GUARD_KIND, KIND
from drawbridge.agreement.switch import SWITCH_CONDITION
from drawbridge.names import GUARD_WEBHOOK, JUDGE_CONFIGURATION, WEBHOOK_CONFIGURATION
from tests.controller.test_match_conditions import Scene, asks, live, validating
from tests.tables import every_row

OFF = {"name": SWITCH_CONDITION, "expression": "false"}


def without(stored: dict[str, Any], name: str) -> dict[str, Any]:
    return {**stored, "webhooks": [each for each in stored["webhooks"] if each["name"] != name]}


def off(stored: dict[str, Any]) -> dict[str, Any]:
    webhooks = [
        {**each, "matchConditions": [*each.get("matchConditions", ()), OFF]}
        for each in stored["webhooks"]
    ]
    return {**stored, "webhooks": webhooks}


OWN, JUDGE = validating(WEBHOOK_CONFIGURATION), validating(JUDGE_CONFIGURATION)
# What a webhook configuration is changed to, and what is told of it.
BROKEN: dict[str, tuple[str, str, dict[str, Any] | None, list[str]]] = {
    "all that validate are deleted": (
        GUARD_KIND, WEBHOOK_CONFIGURATION, None, ["NameNotActive"],
    ),
    "the guard is removed": (
        GUARD_KIND, WEBHOOK_CONFIGURATION, without(OWN, GUARD_WEBHOOK), ["NameNotActive"],
    ),
    "the webhook for workloads is removed and the others are off": (
        GUARD_KIND, WEBHOOK_CONFIGURATION, off(without(OWN, "workloads.drawbridge.dev")),
        ["NameNotActive", "SwitchedOff"],
    ),
    "the webhook for updates is removed": (
        KIND, WEBHOOK_CONFIGURATION, without(live(asks()), "updates.drawbridge.dev"),
        ["NameNotActive"],
    ),
    "a webhook of the judge is removed": (
        GUARD_KIND, JUDGE_CONFIGURATION, without(JUDGE, "pods.judge.drawbridge.dev"),
        ["NameNotActive"],
    ),
    "the judge is off": (GUARD_KIND, JUDGE_CONFIGURATION, off(JUDGE), ["SwitchedOff"]),
    "the judge is removed, as an installation without it": (
        GUARD_KIND, JUDGE_CONFIGURATION, None, [],
    ),
}  # fmt: skip


@every_row(("kind", "name", "changed", "codes"), [*BROKEN.values()])
def test_each_webhook_that_is_not_called_is_reported_until_it_is(
    kind: str, name: str, changed: dict[str, Any] | None, codes: list[str]
) -> None:
    scene = Scene(asks())
    scene.stores[GUARD_KIND].put(JUDGE)
    assert (scene.reconcile(), scene.reporter.codes) == ([], [])
    stored = scene.stores[kind].objects["", name]
    if changed is None:
        scene.stores[kind].remove(name)
    else:
        scene.stores[kind].put(changed)
    for _ in range(2):
        assert scene.reconcile() == []
        assert scene.reporter.codes == codes
        assert scene.reporter.gauges == {Gauge.MATCH_CONDITIONS_INACTIVE: len(codes)}
    references = {(about.kind, about.name) for _, about in scene.reporter.reported}
    assert references == ({(kind, name)} if codes else set())
    scene.stores[kind].put(stored)
    scene.reconcile()
    assert scene.reporter.gauges == {Gauge.MATCH_CONDITIONS_INACTIVE: 0}
