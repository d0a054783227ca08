"""What a strategy is told of a node, and what it costs to find out."""

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from drawbridge.choice.amounts import NodeRoom
from drawbridge.choice.catalog import choose_strategy
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import from_json
from drawbridge.ledger.driver_nodes import DriverNodes
from drawbridge.ledger.planner import Planner
from drawbridge.solver.world import PoolUse, View
from tests.allocator.clusters import DRIVER, as_slice, gpu_slice

POOL = PoolID(DRIVER, "n1")
GPUS = 64


class Uses:
    """The use of pools, which counts how often each is read."""

    def __init__(self, uses: Mapping[PoolID, PoolUse]) -> None:
        self.reads: Counter[PoolID] = Counter()
        self._uses = uses

    def get(self, pool: PoolID, default: PoolUse) -> PoolUse:
        """Return the use of a pool."""
        self.reads[pool] += 1
        return self._uses.get(pool, default)


def find_room(planner: Planner, view: View, *, capacity: str) -> NodeRoom:
    of_driver = DriverNodes(DRIVER, choose_strategy("packed", {capacity: 1}))
    of_driver.put("n1", of_driver.read("n1", planner))
    amounts: Any = SimpleNamespace(left=lambda _: {})
    return of_driver.find_room("n1", planner, view, amounts)


def test_the_use_of_a_pool_is_read_once_for_all_its_devices() -> None:
    planner = Planner()
    planner.update(Node("n1", {}))
    capacity = {"memory": {"value": "8Gi"}}
    planner.update(gpu_slice("n1", GPUS, capacity=capacity, allowMultipleAllocations=True))
    shares = {"gpu-1": {"memory": from_json("2Gi")}, "gpu-2": {}}
    uses: Any = Uses({POOL: PoolUse(frozenset({"gpu-0"}), shares)})
    room = find_room(planner, View(uses), capacity="memory")
    assert room.free == (0, 750, 1000, *[1000] * (GPUS - 3))
    assert room.used == ((1000,), (250,), *[(0,)] * (GPUS - 2))
    assert uses.reads == {POOL: 1}


def test_the_counters_of_a_pool_are_read_once_for_all_its_devices() -> None:
    planner = Planner()
    planner.update(Node("n1", {}))
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    sets = [
        {"name": f"set-{gpu}", "counters": {"slices": {"value": "4"}}} for gpu in range(GPUS // 2)
    ]
    devices = [
        {
            "name": f"gpu-{number}",
            "consumesCounters": [
                {"counterSet": f"set-{number // 2}", "counters": {"slices": {"value": "1"}}}
            ],
        }
        for number in range(GPUS)
    ]
    for kind, content in (("sharedCounters", sets), ("devices", devices)):
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, kind: content}
        planner.update(as_slice({"metadata": {"name": kind}, "spec": spec}))
    uses: Any = Uses({POOL: PoolUse(frozenset({"gpu-0", "gpu-1", "gpu-2"}))})
    room = find_room(planner, View(uses), capacity="memory")
    assert room.free == (500, 750, *[1000] * (GPUS // 2 - 2))
    assert uses.reads == {POOL: 2}  # for the devices, and for the counters
