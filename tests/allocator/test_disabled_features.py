"""A feature whose fields the API server drops is passed over for some time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from allocator.state.dropped_fields import DROPPED_SECONDS, DroppedFields
from allocator.state.live_state import LiveState
from drawbridge.dra.allocation import AllocationResult
from drawbridge.dra.gates import DEFAULTS, GATE_OF_RESULT_FIELD
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts.gather import describe_cluster
from drawbridge.facts.model import Facts
from drawbridge.ledger.allocation_mark import MarkedDevice
from tests.allocator.clusters import DRIVER, Cluster, as_slice, claim, gpu_class, owns_all
from tests.allocator.test_live_state import live_state

CONDITIONS = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
MEMORY = {"memory": {"value": "40Gi", "requestPolicy": {"default": "10Gi"}}}
FACTS = Facts(cluster=describe_cluster(DEFAULTS))


def _slice(*devices: dict[str, Any]) -> Slice:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
    return as_slice({"metadata": {"name": "n1-gpu"}, "spec": spec})


def _start() -> LiveState:
    live, *_ = live_state(facts=FACTS)
    return live


def _cluster(live: LiveState, published: Slice) -> Cluster:
    """Return the cluster of the current decisions, with a node."""
    cluster = Cluster()
    cluster.state, cluster.decisions = live.cluster, live.decisions
    cluster.state.decide_owners(owns_all)
    cluster.add(gpu_class(), Node("n1", {"name": "n1"}), published)
    return cluster


def _result(cluster: Cluster) -> AllocationResult:
    reserved = cluster.decisions.reservations.find("p")
    assert reserved is not None
    allocation = reserved.claims[0].allocation
    assert allocation is not None
    return allocation.devices.results[0]


@pytest.mark.asyncio
async def test_a_pod_gets_a_device_without_conditions_while_they_are_dropped() -> None:
    devices = [{"name": f"gpu-{each:02}", **CONDITIONS} for each in range(16)]
    published = _slice(*devices, {"name": "gpu-99"})
    live = _start()
    first = _cluster(live, published)
    first.schedule("p", claim("c"))
    assert _result(first).binding_conditions == ("Attached",)
    live.note_dropped(["bindingConditions", "bindingFailureConditions"])
    await asyncio.sleep(0)
    second = _cluster(live, published)
    second.schedule("p", claim("c"))
    assert _result(second).device == "gpu-99"


@pytest.mark.asyncio
async def test_a_pod_that_waits_for_a_device_with_conditions_is_told_why() -> None:
    live = _start()
    live.note_dropped(["bindingConditions"])
    await asyncio.sleep(0)
    reply = _cluster(live, _slice({"name": "gpu-0", **CONDITIONS})).prefilter("p", claim("c"))
    assert not reply.fit
    text = "1 node: 1 of 1 gpu device needs DRADeviceBindingConditions, which is not available"
    assert reply.message == text


@pytest.mark.asyncio
async def test_a_device_is_given_as_a_whole_while_the_fields_of_shares_are_dropped() -> None:
    published = _slice({"name": "gpu-0", "capacity": MEMORY, "allowMultipleAllocations": True})
    live = _start()
    first = _cluster(live, published)
    first.schedule("p", claim("c"))
    assert _result(first).share_id
    live.note_dropped(["shareID"])
    await asyncio.sleep(0)
    second = _cluster(live, published)
    amounts = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "10Gi"}}}
    reply = second.prefilter("q", claim("d", requests=[{"name": "r", "exactly": amounts}]))
    assert "has capacity requests, but the DRAConsumableCapacity feature" in reply.message
    second.schedule("p", claim("c"))
    assert _result(second).share_id is None


@pytest.mark.asyncio
async def test_what_needs_a_field_is_given_again_after_a_time_without_its_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, changes = asyncio.get_running_loop(), list[frozenset[str]]()
    call_at, ends = loop.call_at, list[tuple[asyncio.TimerHandle, float, Callable[[], object]]]()

    def call_later(seconds: float, function: Any, *args: Any) -> asyncio.TimerHandle:  # noqa: ANN401
        timer = call_at(loop.time() + seconds, function, *args)
        ends.append((timer, seconds, lambda: function(*args)))
        return timer

    monkeypatch.setattr(loop, "call_later", call_later)
    dropped = DroppedFields(lambda: changes.append(dropped.fields))
    dropped.note(["shareID"])
    dropped.note(["shareID"])
    dropped.note([])
    assert [(timer.cancelled(), seconds) for timer, seconds, _ in ends] == [
        (True, DROPPED_SECONDS),
        (False, DROPPED_SECONDS),
    ]
    ends[1][0].cancel()
    ends[1][2]()
    assert changes == [{"shareID"}, set()]


def test_each_field_whose_loss_is_seen_has_a_gate() -> None:
    fields = {*MarkedDevice.__struct_encode_fields__} & {*AllocationResult.__struct_encode_fields__}
    assert fields - {"driver", "pool", "device"} == GATE_OF_RESULT_FIELD.keys()
    assert {*GATE_OF_RESULT_FIELD.values()} <= {*DEFAULTS.__struct_fields__}
