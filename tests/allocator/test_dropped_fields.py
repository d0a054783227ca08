"""API servers of another version, without a feature gate or with policies store less than asked."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from allocator.writes.cluster_writes import Check
from drawbridge.api_error import ApiError
from drawbridge.dra.allocation import Allocation, AllocationResult, Consumer, to_json
from drawbridge.dra.claim import Claim
from drawbridge.dra.quantity import parse
from drawbridge.ledger.allocation_mark import (
    can_be_released,
    format_mark,
    is_allocated_by_us,
    make_mark,
)
from drawbridge.names import ALLOCATION_ANNOTATION, CLAIM_FINALIZER
from tests.allocator.binding_rig import Rig
from tests.allocator.clusters import Cluster, claim, gpu_slice
from tests.allocator.fake_cluster import Fault, KilledError
from tests.allocator.test_binding import allocate_without_binding

SHARE = "4f7a1a0e-0000-4000-8000-000000000001"
SHARED = {"share_id": SHARE, "consumed_capacity": {"memory": parse("10Gi")}}
CONDITIONS = {"binding_conditions": ("Attached",), "binding_failure_conditions": ("Broken",)}
SKIPPED = {"skip_node_operations": ("PrepareResources",)}


def _with(allocation: Allocation, fields: dict[str, Any]) -> Allocation:
    results = tuple(replace(each, **fields) for each in allocation.devices.results)
    return replace(allocation, devices=replace(allocation.devices, results=results))


def _reserve(rig: Rig, fields: dict[str, Any]) -> None:
    """Reserve a device of claim a whose result has these fields."""
    rig.reservations.reserve("pod", "a")
    reserved = rig.reservations.pods["uid-pod"]
    (of_claim,) = reserved.claims
    if of_claim.allocation is not None:
        allocation = _with(of_claim.allocation, fields)
        mark = format_mark(make_mark(allocation, lambda *_: ()))
        of_claim = replace(of_claim, allocation=allocation, mark=mark)
    rig.reservations.pods["uid-pod"] = replace(reserved, claims=(of_claim,))


def _drop(rig: Rig, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the API server store no allocation with these fields."""
    empty = AllocationResult(request="", driver="", pool="", device="")
    dropped = {name: getattr(empty, name) for name in fields}
    allocate = rig.cluster.allocate

    async def store_less(
        claim: Claim, allocation: Allocation, consumers: Sequence[Consumer], check: Check
    ) -> Claim:
        return await allocate(claim, _with(allocation, dropped), consumers, check)

    monkeypatch.setattr(rig.cluster, "allocate", store_less)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fields", "dropped"),
    [
        (SHARED, "shareID"),
        ({"consumed_capacity": SHARED["consumed_capacity"]}, "consumedCapacity"),
        (CONDITIONS, "bindingConditions"),
        (SKIPPED, "skipNodeOperations"),
    ],
)
@pytest.mark.parametrize("fault", [None, "lose", "kill after"])
async def test_a_pod_is_not_bound_with_less_than_was_written(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], dropped: str, fault: Fault | None
) -> None:
    rig = Rig()
    _drop(rig, fields, monkeypatch)
    rig.cluster.faults |= {2: fault} if fault else {}
    for _ in range(2 if fault else 1):
        if not rig.reported:
            _reserve(rig, fields)
            try:
                assert await rig.bind()
            except KilledError:
                rig.start()
    message = f"claim n/a: the API server has not stored {dropped} of device d.io/p/gpu-0-0"
    assert rig.reported == [f"AllocationNotStored a: {message}"]
    assert rig.cluster.is_clean("a")
    assert rig.cluster.node_of("pod") == ""
    assert rig.reservations.penalised == []
    names = {each.name: each.encode_name for each in msgspec.structs.fields(AllocationResult)}
    written = {names[name] for name in fields}
    assert rig.reservations.dropped == (set() if fault else written)


@pytest.mark.asyncio
async def test_a_forged_mark_ends_the_allocation_of_its_claim_only() -> None:
    rig = Rig()
    await allocate_without_binding(rig)
    allocation = rig.claim("a").status.allocation
    assert allocation is not None
    forged = format_mark(make_mark(_with(allocation, CONDITIONS | SHARED), lambda *_: ()))
    metadata = replace(rig.claim("a").metadata, annotations={ALLOCATION_ANNOTATION: forged})
    rig.cluster.put(replace(rig.claim("a"), metadata=metadata))
    rig.reservations.reserve("pod", "a")
    assert "has not stored bindingConditions" in await rig.bind()
    assert rig.cluster.is_clean("a")
    assert (rig.reservations.dropped, rig.reservations.penalised) == (set(), [])


@pytest.mark.asyncio
@pytest.mark.parametrize("fields", [SHARED, CONDITIONS | SHARED, SKIPPED])
async def test_a_pod_is_bound_with_all_that_was_written(fields: dict[str, Any]) -> None:
    rig = Rig()
    _reserve(rig, fields)
    rig.cluster.faults[3] = "refuse"
    message = await rig.bind()
    assert "stored" not in message
    assert rig.claim("a").status.allocation is not None


@pytest.mark.asyncio
async def test_a_share_that_was_not_stored_is_of_our_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    _reserve(rig, SHARED)
    _drop(rig, {"share_id": None}, monkeypatch)
    monkeypatch.setattr(rig.cluster, "deallocate", _refuse)
    assert await rig.bind() == "403 Forbidden: forbidden"
    assert is_allocated_by_us(rig.claim("a"))
    mark = rig.claim("a").metadata.annotations[ALLOCATION_ANNOTATION]
    named = {ALLOCATION_ANNOTATION: mark.replace("gpu-0-0", "gpu-1-0")}
    other = replace(rig.claim("a").metadata, annotations=named)
    assert not is_allocated_by_us(replace(rig.claim("a"), metadata=other))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"annotations": {}}, f"annotation {ALLOCATION_ANNOTATION}"),
        ({"annotations": {ALLOCATION_ANNOTATION: "none"}}, f"annotation {ALLOCATION_ANNOTATION}"),
        ({"finalizers": ()}, f"finalizer {CLAIM_FINALIZER}"),
    ],
)
@pytest.mark.parametrize("fault", [None, "lose"])
async def test_a_claim_is_not_allocated_if_it_could_not_be_released(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], missing: str, fault: Fault | None
) -> None:
    rig = Rig()
    mark = rig.cluster.mark

    async def store_less(claim: Claim, text: str, check: Check) -> Claim:
        marked = await mark(claim, text, check)
        rig.cluster.put(replace(marked, metadata=replace(marked.metadata, **changed)))
        if fault and len(rig.cluster.writes) == 1:
            rig.cluster.answer(fault)
        return rig.claim(claim.metadata.name)

    rig.reservations.reserve("pod", "a")
    with monkeypatch.context() as policy:
        policy.setattr(rig.cluster, "mark", store_less)
        message = await rig.bind()
    assert f"the API server has not stored {missing} as it was written" in message
    assert rig.reported == [f"MarkNotStored a: {message}"]
    assert "allocate a" not in rig.cluster.writes
    assert rig.reservations.ended == [("uid-pod", False)]
    metadata = rig.claim("a").metadata
    assert not metadata.finalizers or metadata.annotations == {ALLOCATION_ANNOTATION: "none"}
    rig.reservations.reserve("pod", "a")
    assert not await rig.bind()
    assert can_be_released(rig.claim("a"))


async def _refuse(_: Claim) -> Claim:
    raise ApiError(403, "Forbidden", "forbidden")


def test_no_allocation_is_written_for_a_device_that_another_claim_got_meanwhile() -> None:
    cluster = Cluster(n1=1)
    capacity = {"memory": {"value": "40Gi", "requestPolicy": {"default": "10Gi"}}}
    cluster.add(gpu_slice("n1", 1, generation=2, capacity=capacity, allowMultipleAllocations=True))
    reservations = cluster.decisions.reservations
    for uid in ("p", "q"):
        cluster.schedule(uid, claim(f"of-{uid}"))
        assert not reservations.begin_write(uid)
    ours, theirs = (reservations.find(uid) for uid in ("q", "p"))
    assert ours is not None
    assert theirs is not None
    assert not reservations.find_lost_device(ours.claims[0])
    assert theirs.claims[0].allocation is not None
    whole = to_json(_with(theirs.claims[0].allocation, {"share_id": None, "consumed_capacity": {}}))
    cluster.add_claim(claim("of-p", version=2, allocation=whole, pods=["p"]))
    lost = reservations.find_lost_device(ours.claims[0])
    assert lost == "cannot write the allocation: another claim holds one of them"
