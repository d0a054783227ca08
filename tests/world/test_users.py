"""What users do in the world, by seeds with little else: it happens, and breaks nothing."""

import pytest

from tests.world.conditions import draw_conditions
from tests.world.events import EVENTS
from tests.world.script import Event
from tests.world.world import Outcome, play

# Seeds in which a queue holds many pods back.
GATED = [each for each in range(60) if draw_conditions(each, EVENTS).gated > 0.2]
# Seeds in which webhooks of others change most pods.
CHANGED = [e for e in range(60) if draw_conditions(e, EVENTS).changed_by_others > 0.5]


def repeat(name: str, count: int, first: int = 0) -> tuple[Event, ...]:
    return tuple(Event(0.3, name, first + number) for number in range(count))


def find_outcome(script: tuple[Event, ...], what: str) -> Outcome:
    """Return the first run in which something happens; others have less or fail more."""
    played = (play(seed, script) for seed in range(20))
    return next(each for each in played if each.violation or what in each.counted)


def test_a_pod_gets_the_claim_of_a_template_that_comes_after_it() -> None:
    # Numbers of this size let the template come some seconds later.
    script = (*repeat("create from template", 3, 2080), Event(20.0, "create", 26))
    played = [play(seed, script) for seed in range(4)]
    written = [line for outcome in played for line in outcome.story if "-made-" in line]
    assert not any(outcome.violation for outcome in played)
    assert any("allocator" in line for line in written)


def test_another_claim_with_the_name_of_one_that_goes_gets_devices() -> None:
    script = (*repeat("create", 8, 26), *repeat("replace claim", 6, 1), Event(20.0, "finish", 0))
    outcome = play(1, script)
    assert not outcome.violation
    assert outcome.counted["claim that another one replaces"] > 0


@pytest.mark.parametrize("seed", GATED[:2])
def test_a_pod_gets_devices_when_its_gate_is_gone(seed: int) -> None:
    outcome = play(
        seed, (*repeat("create", 6, 26), *repeat("create gang", 2), *repeat("finish", 3))
    )
    assert not outcome.violation
    assert outcome.counted["pod with a gate"] > 0


def test_a_claim_of_others_is_reserved_for_a_pod_that_was_created_with_a_node() -> None:
    # The first numbers share a claim; the others choose a claim with devices, and its node.
    script = (
        *repeat("create sharing", 3),
        Event(8.0, "create placed", 66),
        Event(9.0, "finish", 0),
    )
    assert not find_outcome(script, "claim that a controller reserves").violation


@pytest.mark.parametrize("seed", CHANGED[:2])
def test_what_other_webhooks_do_after_ours_gives_no_devices_twice(seed: int) -> None:
    outcome = play(seed, (*repeat("create legacy", 9, 1), *repeat("create bare", 3)))
    counted = [name for name in outcome.counted if name.startswith("webhook of others that")]
    assert not outcome.violation
    assert len(counted) > 1
    assert outcome.counted["guard that allowed"] > 0


def test_pods_of_a_new_namespace_are_translated() -> None:
    outcome = play(1, repeat("create namespace", 2))
    assert not outcome.violation
    assert outcome.counted["review that translated"] > 1
