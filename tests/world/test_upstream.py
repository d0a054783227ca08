"""Races and mistakes of Kubernetes that the world must find, and must not find once mended."""

import random
from collections.abc import Callable

import pytest

from tests.world.script import Event
from tests.world.stock import MENDED
from tests.world.world import play

SEEDS = 60


def write_load(seed: int) -> tuple[Event, ...]:
    """Draw a script of many pods of the stock scheduler that come and go."""
    drawn = random.Random(seed)
    names = ("create native", "create native", "finish")
    return tuple(
        Event(round(drawn.expovariate(6), 3), drawn.choice(names), drawn.getrandbits(16))
        for _ in range(60)
    )


# A pod is deleted with force while another one waits for its device.
FORCED = (
    *(Event(0.1, "slow driver", number) for number in range(5)),
    *(Event(0.2, "create native", 1) for _ in range(4)),
    *(Event(8.0, "delete with force", 0) for _ in range(2)),
)


def find_violation(defect: str, write_script: Callable[[int], tuple[Event, ...]]) -> str:
    """Return what the first seed breaks that a defect fails, and that its mend does not."""
    for seed in range(SEEDS):
        script = write_script(seed)
        if (outcome := play(seed, script, [defect])).violation:
            assert not play(seed, script).violation
            return outcome.violation
    return f"no seed below {SEEDS} shows it"


@pytest.mark.parametrize(
    ("defect", "invariant"),
    [
        ("136269", "no_device_is_allocated_to_two_claims"),
        ("140436", "no_pod_waits_for_the_stock_scheduler"),
    ],
)
def test_a_mended_defect_is_found_in_the_code_before(defect: str, invariant: str) -> None:
    assert defect in MENDED
    assert find_violation(defect, write_load).startswith(invariant)


def test_kubernetes_gives_a_device_away_that_a_vanished_pod_uses() -> None:
    violation = find_violation("141471", lambda _: FORCED)
    assert violation.startswith("no_device_is_used_by_two_pods")
