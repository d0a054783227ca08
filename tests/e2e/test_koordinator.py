"""The comparison of bridge placement with Koordinator: steps, meaning of hints, and enumeration."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from e2e.koordinator import compare
from e2e.koordinator.compare import compare_seeds
from e2e.koordinator.generate import generate
from e2e.koordinator.machines import HOPPER, OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices, find_violations
from e2e.koordinator.ours import Answer
from e2e.koordinator.request import DeviceRequest
from e2e.koordinator.steps import ChosenHardware, place
from e2e.nodes.machine import machine
from tests.tables import every_row
from tests.thorough import drawn

JOINT = ("gpu", "rdma")
SEEDS = range(600)


def occupied(shape: str, gpus: Sequence[int] = (), nics: Sequence[int] = ()) -> OccupiedMachine:
    return OccupiedMachine(machine("node-1", shape), frozenset(gpus), frozenset(nics))


# From the description of Koordinator's steps: GPUs of the smallest place with enough, the more used
# place of equal ones, a NIC for each root, no step back.
@every_row(
    ("on", "request_", "expected"),
    [
        (occupied("aws-p4d"), DeviceRequest(2), ((0, 1), ())),
        (occupied("aws-p4d", [0]), DeviceRequest(2), ((2, 3), ())),
        (occupied("aws-p4d", [0, 2, 3]), DeviceRequest(1), ((1,), ())),
        (occupied("aws-p4d", [7]), DeviceRequest(1), ((6,), ())),
        (occupied("aws-p4d", [0, 2]), DeviceRequest(3), ((4, 5, 6), ())),
        (occupied("hgx-h100"), DeviceRequest(4, 200, JOINT, same_pcie=True), ((0, 1, 2, 3),) * 2),
        (occupied("aws-p4d"), DeviceRequest(2, 200, JOINT, same_pcie=True), None),
        (occupied("aws-p4d", nics=[0]), DeviceRequest(1, 1, JOINT, same_pcie=True), None),
        (occupied("aws-p4d", nics=[0]), DeviceRequest(1, 1, JOINT), ((0,), (1,))),
        (occupied("aws-p4d"), DeviceRequest(3, 1, JOINT), ((0, 1, 2), (0, 1))),
        (occupied("aws-p4d", [0, 2, 4, 6]), DeviceRequest(2, scope="PCIe"), None),
        (occupied("aws-p4d", [0, 2, 4, 6]), DeviceRequest(2, scope="NUMANode"), ((1, 3), ())),
        (occupied("dgx-a100"), DeviceRequest(1, 2, strategy="RequestsAsCount"), ((2,), (0, 1))),
        (occupied("dgx-a100"), DeviceRequest(1, 200, strategy="RequestsAsCount"), ((2,), (0, 1))),
        (occupied("aws-p4d"), DeviceRequest(1, 1, strategy="ApplyForAll"), ((0,), (0, 1, 2, 3))),
        (
            occupied("aws-p4d"),
            DeviceRequest(1, 100, ("rdma", "gpu"), same_pcie=True),
            ((0,), (0,)),
        ),
    ],
)
def test_koordinator_takes_these_devices(
    on: OccupiedMachine, request_: DeviceRequest, expected: tuple[tuple[int, ...], ...] | None
) -> None:
    assert place(on, request_) == (ChosenHardware(*expected) if expected else None)


@every_row(
    ("used", "gpus", "expected"),
    [
        ((), 1, (0,)),
        ((4, 5), 1, (6,)),
        ((0,), 1, (1,)),
        ((0, 2), 1, (1,)),
        ((0, 5), 2, (2, 3)),
        ((0, 2, 5, 7), 2, None),
        ((0,), 4, (4, 5, 6, 7)),
        ((), 3, None),
    ],
)
def test_koordinator_honors_partitions_and_keeps_large_ones_free(
    used: tuple[int, ...], gpus: int, expected: tuple[int, ...] | None
) -> None:
    on = replace(occupied("hgx-h100", used), partitions=HOPPER, honors_partitions=True)
    placed = place(on, DeviceRequest(gpus))
    assert (placed.gpus if placed else None) == expected


def overrides_scope(on: OccupiedMachine, request: DeviceRequest) -> bool:
    """Koordinator's table of partitions takes precedence over the required scope."""
    return bool(request.scope) and on.partitions is not None


@every_row("seed", SEEDS)
def test_what_koordinator_takes_satisfies_the_hints_and_is_enumerated(seed: int) -> None:
    on, request = generate(seed)
    placed = place(on, request)
    if placed is None or overrides_scope(on, request):
        return
    assert list(find_violations(on, request, placed)) == []
    assert any(set(each.gpus) == set(placed.gpus) for each in enumerate_choices(on, request))


BLOCKS = [range(first, first + 50) for first in range(0, drawn(100, thorough=500), 50)]


@pytest.mark.parametrize("seeds", BLOCKS, ids=lambda seeds: str(seeds[0]))
def test_bridge_placement_gives_what_koordinator_gives_and_the_hints_require(seeds: range) -> None:
    """A small share of `python -m e2e.koordinator 0:10000`, which is run before a release."""
    comparison = compare_seeds(seeds)
    assert comparison.differences == {}
    assert comparison.counts["cases"] == len(seeds)
    assert comparison.counts["Drawbridge places"] >= comparison.counts["Koordinator places"] > 0


def test_a_choice_that_violates_a_hint_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """NICs that are taken from anywhere, as without the rule."""
    far = ChosenHardware((0,), (3,))
    monkeypatch.setattr(compare, "answer", lambda *_: Answer(far))
    monkeypatch.setattr(
        compare,
        "generate",
        lambda _: (occupied("aws-p4d"), DeviceRequest(1, 100, JOINT, same_pcie=True)),
    )
    assert set(compare_seeds([0]).differences) == {"violation", "preference"}
    monkeypatch.setattr(compare, "answer", lambda *_: Answer(waits="nothing is free"))
    assert set(compare_seeds([0]).differences) == {"placed"}


def test_the_seeds_have_enough_of_everything() -> None:
    cases = [generate(seed) for seed in SEEDS]
    placed = [request for on, request in cases if place(on, request)]
    assert len(placed) > len(SEEDS) / 4
    for name in ("rdma", "types", "same_pcie", "functions", "strategy", "scope", "policy"):
        assert sum(bool(getattr(each, name)) for each in placed) > 10, name
    assert sum(on.partitions is not None for on, _ in cases) > 10
    assert sum(next(enumerate_choices(*case), None) is None for case in cases) > 10
