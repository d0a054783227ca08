"""The groups of near cards, from what drivers publish."""

from typing import Any

import pytest
from msgspec.structs import replace

from drawbridge.choice.levels import Near
from drawbridge.choice.nearness import Groups
from drawbridge.dra.gates import DEFAULTS
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.ledger.cards import find_cards
from drawbridge.ledger.near_cards import find_groups
from drawbridge.ledger.planner import Planner
from drawbridge.solver.world import PoolUse
from tests.allocator.clusters import DRIVER, Cluster, as_slice, gpu_slice

_STANDARD = "resource.kubernetes.io/numaNode"
_ROOT = "resource.kubernetes.io/pcieRoot"
_ROOTS = [("pci0000:10", 0), ("pci0000:80", 1), ("pci0000:80", 1)]


def _numa(name: str, *numbers: int) -> list[dict[str, Any]]:
    return [{name: {"int": each}} for each in numbers]


@pytest.mark.parametrize(
    ("near", "devices", "expected"),
    [
        ("numa", _numa(_STANDARD, 1, 1, 0), ((0, 0, 1),)),
        ("numa", _numa("numaNode", 0, 1, 1), ((0, 1, 1),)),
        ("numa", _numa("numa", 3, 3, 3), ((0, 0, 0),)),
        ("numa", _numa("dra.net/numaNode", 0, 1, 0), ((0, 1, 0),)),
        ("numa", [*_numa(_STANDARD, 5, 5), {}], ((0, 0, -1),)),
        ("numa", [{}, {}, {}], ()),
        ("numa", [{_STANDARD: {"ints": [0, 1]}}, {_STANDARD: {"ints": [1, 0]}}], ((0, 0),)),
        (
            "links",
            [{_ROOT: {"string": root}, _STANDARD: {"int": numa}} for root, numa in _ROOTS],
            ((0, 1, 1), (0, 1, 1)),
        ),
        ("links", _numa(_STANDARD, 0, 0), ((0, 0),)),
        (
            "links",
            [{"partition1": {"int": each}, "partition2": {"int": each // 2}} for each in range(4)],
            ((0, 0, 1, 1),),
        ),
        ("links", [{}, {}], ()),
    ],
)  # fmt: skip
def test_devices_with_equal_values_are_in_one_group(
    near: Near, devices: list[dict[str, Any]], expected: Groups
) -> None:
    cluster = Cluster()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    published = [{"name": f"gpu-{i}", "attributes": each} for i, each in enumerate(devices)]
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": published}
    cluster.add(Node("n1"), as_slice({"metadata": {"name": "s"}, "spec": spec}))
    cards = find_cards(cluster.state.planner.node_pools("n1"), DRIVER)
    assert find_groups(cards, near) == expected


def test_a_device_with_shares_has_nothing_left_if_no_more_can_be_given() -> None:
    use = PoolUse(shares={"gpu-0": {"memory": parse("1Gi")}})
    capacity = {"memory": {"value": "4Gi"}}
    published = gpu_slice("n1", 1, capacity=capacity, allowMultipleAllocations=True)
    for gates, left in ((DEFAULTS, 750), (replace(DEFAULTS, consumable_capacity=False), 0)):
        planner = Planner(gates)
        for each in (Node("n1"), published):
            planner.update(each)
        (card,) = find_cards(planner.node_pools("n1"), DRIVER)
        assert card.free(use, {}) == left


def test_without_cards_there_is_no_group() -> None:
    assert find_groups((), "links") == ()
