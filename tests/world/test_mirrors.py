"""The mirror of a quota in the world follows the quota, and what pods and claims use."""

from itertools import count

import pytest

from controller.quota_mirror import QuotaMirrorReconciler
from tests.world.conditions import draw_conditions
from tests.world.events import EVENTS
from tests.world.mirrors import the_mirror_says_what_the_other_side_leaves
from tests.world.script import Event
from tests.world.world import Outcome, play

# Pods use 1, claims 2, the mirror is deleted, and the quota is lowered to 3.
SCRIPT = tuple(Event(4.0, "change mirrored", number) for number in (8, 18, 13, 30))


def play_once() -> Outcome:
    return play(next(e for e in count() if draw_conditions(e, EVENTS).has_mirror), SCRIPT)


def test_a_mirror_follows_its_quota() -> None:
    outcome = play_once()
    assert not outcome.violation
    assert sum("/mirrored/resourcequotas/drawbridge-quota" in e for e in outcome.story) > 3


def test_a_mirror_that_nobody_writes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write_nothing(*_: object) -> None:
        """Leave the quota as it is."""

    monkeypatch.setattr(QuotaMirrorReconciler, "_mirror", write_nothing)
    assert play_once().violation.startswith(the_mirror_says_what_the_other_side_leaves.__name__)
