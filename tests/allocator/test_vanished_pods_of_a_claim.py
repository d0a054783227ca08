"""Devices of a claim that several pods share, when these vanish one after the other."""

import pytest
from msgspec.structs import replace

from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.nodes import Node
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from tests.allocator.clusters import (
    DRIVER,
    allocation_on,
    as_claim,
    claim,
    device,
    gpu_slice,
    owns_all,
)
from tests.allocator.test_vanished_pods import (
    RELEASED,
    SECONDS,
    allocated,
    ended,
    is_free,
    running,
    state_with,
)


def test_a_device_is_kept_until_the_end_of_each_pod_is_confirmed() -> None:
    state = state_with(running("p"), running("q"), allocated("p", "q"))
    state.apply(allocated("p", "q"), RELEASED)
    state.apply(running("p"), ended("p"))
    assert not is_free(state)
    state.apply(running("q"), ended("q"))
    assert is_free(state)
    assert not state.vanished.claims


def test_the_pool_says_the_node_of_what_a_pod_had_and_outlasts_its_slices() -> None:
    # The name of a pool does not have to be that of its node, and an allocation can name another.
    published = replace(gpu_slice("n1", 1), pool="pool")
    results = [{"request": "r", "driver": DRIVER, "pool": "pool", "device": "gpu-0"}]
    allocation = {**allocation_on("n2"), "devices": {"results": results}}
    state = AllocatorState(Planner(), Ledger(), owns_all, SECONDS)
    of_both, of_one = (
        as_claim(claim("c", version=version, allocation=allocation, pods=pods))
        for version, pods in ((1, "pq"), (2, "q"))
    )
    for each in (Node("n1"), published, running("p"), running("q"), of_both):
        state.apply(None, each)
    state.apply(running("p"), None)
    state.apply(of_both, of_one)
    state.apply(published, None)
    state.apply(running("q"), None)
    state.apply(of_one, RELEASED)
    (kept,) = state.vanished.claims.values()
    assert (kept.node, kept.pods) == ("n1", {"p", "q"})


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_claim_that_vanishes_on_two_nodes_keeps_the_devices_of_each(*, is_lost: bool) -> None:
    state = state_with(Node("n2"), gpu_slice("n2", 1), running("p"), running("q"))
    for number, (uid, node) in enumerate((("p", "n1"), ("q", "n2"))):
        allocation = allocation_on(node, 0)
        held = as_claim(claim("c", version=10 * number + 1, allocation=allocation, pods=[uid]))
        state.apply(None, held)
        state.apply(running(uid), None)
        state.apply(held, as_claim(claim("c", version=10 * number + 2)))
        state.vanished.observe_time(100.0 + 20 * number)
    state.apply(Node("n1"), None if is_lost else Node("n1"))
    state.vanished.observe_time(121.0 if is_lost else 100.0 + 30 + SECONDS)
    assert is_free(state)
    assert state.ledger.holders(device("n2"))
