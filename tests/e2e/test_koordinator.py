"""The comparison of bridge placement with the meaning of Koordinator's hints, and its cases."""

from collections import Counter

import pytest

from e2e.koordinator import compare
from e2e.koordinator.compare import compare_seeds
from e2e.koordinator.generate import generate
from e2e.koordinator.machines import ChosenHardware, OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices
from e2e.koordinator.ours import Answer
from e2e.koordinator.request import DeviceRequest
from e2e.nodes.machine import machine
from tests.thorough import drawn

JOINT = ("gpu", "rdma")
SEEDS = range(600)
BLOCKS = [range(first, first + 50) for first in range(0, drawn(100, thorough=10_000), 50)]


@pytest.mark.parametrize("seeds", BLOCKS, ids=lambda seeds: str(seeds[0]))
def test_bridge_placement_gives_what_the_hints_require(seeds: range) -> None:
    """A small share of what THOROUGH=1 compares before a release."""
    comparison = compare_seeds(seeds)
    assert comparison.differences == {}
    assert comparison.counts.total() == len(seeds)
    assert comparison.counts["placed"] > len(seeds) / 4


def test_a_choice_that_violates_a_hint_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """NICs that are taken from anywhere, as without the rule."""
    far = ChosenHardware((0,), (3,))
    request = DeviceRequest(1, 100, JOINT, same_pcie=True)
    case = OccupiedMachine(machine("node-1", "aws-p4d")), request
    monkeypatch.setattr(compare, "answer", lambda *_: Answer(far))
    monkeypatch.setattr(compare, "generate", lambda _: case)
    assert set(compare_seeds([0]).differences) == {"violation", "preference"}
    monkeypatch.setattr(compare, "answer", lambda *_: Answer(waits="nothing is free"))
    assert set(compare_seeds([0]).differences) == {"refused"}


def test_a_choice_that_begins_to_use_a_part_of_the_machine_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = OccupiedMachine(machine("node-1", "aws-p4d"), frozenset({0}))
    monkeypatch.setattr(compare, "answer", lambda *_: Answer(ChosenHardware((7,))))
    monkeypatch.setattr(compare, "generate", lambda _: (used, DeviceRequest(1)))
    assert set(compare_seeds([0]).differences) == {"packing"}


def test_the_seeds_have_enough_of_everything() -> None:
    cases = [generate(seed) for seed in SEEDS]
    possible = [each for each in cases if next(enumerate_choices(*each), None) is not None]
    assert len(SEEDS) / 4 < len(possible) < len(SEEDS) - 10
    counts = Counter(
        name
        for _, request in possible
        for name in ("rdma", "types", "same_pcie", "functions", "strategy", "scope", "policy")
        if getattr(request, name)
    )
    assert min(counts.values()) > 10, counts
    assert len(counts) == 7
    assert sum(on.partitions is not None for on, _ in cases) > 10
