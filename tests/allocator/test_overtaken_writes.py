"""What ends between two writes: reservations, other users of a claim, the server, a process."""

import pytest
from msgspec.structs import replace

from allocator.writes.cluster_writes import FINALIZER, PodName
from drawbridge.api_error import ApiError
from drawbridge.dra.allocation import ClaimStatus, Condition, Consumer, DeviceStatus
from drawbridge.dra.claim import Claim
from tests.allocator.binding_rig import ORDER, Rig
from tests.allocator.fake_cluster import Fault

pytestmark = pytest.mark.asyncio


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_claim_with_the_mark_of_an_earlier_allocation_gets_the_finalizer_again(
    rig: Rig,
) -> None:
    rig.reservations.reserve("first", "a")
    assert not await rig.bind("first")
    # The claim controller deallocates the claim of a pod that has ended, and keeps the mark.
    freed = replace(rig.claim("a"), status=ClaimStatus())
    rig.cluster.put(replace(freed, metadata=replace(freed.metadata, finalizers=())))
    rig.reservations.reserve("second", "a")
    assert not await rig.bind("second")
    assert rig.claim("a").metadata.finalizers == (FINALIZER,)


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_nothing_is_written_for_a_claim_whose_devices_are_not_reserved_any_more(
    rig: Rig, number: int
) -> None:
    rig.reservations.reserve("pod", "a", "b")
    rig.reservations.keeps = lambda _: len(rig.cluster.writes) < number  # type: ignore[method-assign]  # lost then
    assert "are not reserved any more" in await rig.bind()
    assert not any(each.startswith("allocate") for each in rig.cluster.writes)
    assert rig.cluster.is_clean("a")
    assert rig.cluster.is_clean("b")


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_nothing_is_written_for_a_device_that_went_to_another_owner(
    rig: Rig, number: int
) -> None:
    rig.reservations.reserve("pod", "a", "b")
    lost = "another scheduler owns it"
    rig.reservations.find_lost_device = lambda _: lost * (len(rig.cluster.writes) >= number)  # type: ignore[method-assign]  # lost then
    assert lost in await rig.bind()
    assert not any(each.startswith("allocate") for each in rig.cluster.writes)
    assert rig.cluster.is_clean("a")
    assert rig.cluster.is_clean("b")


async def test_an_unexpected_exception_leaves_nothing_behind(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    allocate = rig.cluster.allocate

    async def fail(*_: object) -> Claim:
        raise RuntimeError("a bug")

    rig.cluster.allocate = fail  # type: ignore[method-assign]  # a bug
    with pytest.raises(RuntimeError):
        await rig.bind()
    rig.cluster.allocate = allocate  # type: ignore[method-assign]  # mended
    await rig.recovery.run_turn()
    assert rig.reservations.ended == [("uid-pod", False)]
    assert rig.cluster.is_clean("a")


async def test_the_reservations_of_an_earlier_term_end_before_the_claims_are_listed(
    rig: Rig,
) -> None:
    rig.reservations.reserve("pod", "a")
    listed = rig.cluster.list_claims

    async def bind_meanwhile() -> list[Claim]:
        assert "no devices are reserved" in await rig.bind()
        return await listed()

    rig.cluster.list_claims = bind_meanwhile  # type: ignore[method-assign]  # a call that waited
    await rig.recovery.begin_term()
    assert rig.cluster.writes == []


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_call_writes_no_more_when_the_lease_comes_back_before_the_recovery(
    rig: Rig, number: int
) -> None:
    rig.reservations.reserve("pod", "a", "b")
    original = rig.cluster.answer  # another pair leads and ends during this response

    def lose_and_regain(fault: Fault | None) -> None:
        rig.leads = rig.leads and len(rig.cluster.writes) != number
        original(fault)

    rig.cluster.answer = lose_and_regain  # type: ignore[method-assign]  # the same
    assert await rig.bind() == "the term of the scheduler ended during the binding"
    assert [each for each in rig.cluster.writes if "unmark" not in each] == ORDER[:number]


async def test_clean_up_tries_each_write_whatever_happens_to_the_others(
    rig: Rig,
) -> None:
    for name in ("first", "second"):
        rig.reservations.reserve(name, "a")
        original, rig.cluster.read_claim = rig.cluster.read_claim, _unreachable  # type: ignore[method-assign]  # no reads
        rig.cluster.faults[len(rig.cluster.writes) + 1] = "refuse"
        assert await rig.bind(name)
        rig.cluster.read_claim = original  # type: ignore[method-assign]  # reachable again
    asked: list[str] = []

    async def count(_: str, name: str) -> Claim | None:
        asked.append(name)
        raise ApiError(0, "", "no response", unknown=True)

    rig.cluster.read_claim = count  # type: ignore[method-assign]  # no response
    await rig.recovery.run_turn()
    assert asked == ["a", "a"]


async def _unreachable(*_: object) -> Claim | None:
    raise ApiError(0, "", "no response", unknown=True)


async def _share_a_broken_device(rig: Rig) -> None:
    """Let two pods use claim a, then let its device fail."""
    rig.reservations.reserve("first", "a")
    assert not await rig.bind("first")
    allocated = rig.claim("a")
    allocation = allocated.status.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    failing = replace(result, binding_failure_conditions=("Broken",))
    broken = DeviceStatus("d.io", "p", "gpu-0-0", conditions=(Condition("Broken", "True"),))
    devices = replace(allocation.devices, results=(failing,))
    status = replace(
        allocated.status, allocation=replace(allocation, devices=devices), devices=(broken,)
    )
    rig.cluster.put(replace(allocated, status=status))


async def test_a_failed_device_stays_allocated_for_a_pod_that_runs(rig: Rig) -> None:
    await _share_a_broken_device(rig)
    rig.reservations.reserve("second", "a")
    assert "reports Broken" in await rig.bind("second")
    assert rig.claim("a").status.allocation is not None
    assert rig.consumers("a") == ["first"]


async def test_the_last_of_several_unbound_pods_deallocates_the_claim(rig: Rig) -> None:
    await _share_a_broken_device(rig)
    for pod in ("first", "second"):
        rig.cluster.put_pod(pod)
    consumers = tuple(Consumer("pods", name, f"uid-{name}") for name in ("first", "second"))
    shared = rig.claim("a")
    rig.cluster.put(replace(shared, status=replace(shared.status, reserved_for=consumers)))
    rig.reservations.reserve("second", "a")
    assert (await rig.binder.release("uid-second")).released == ()
    assert rig.consumers("a") == ["first"]
    assert (await rig.binder.release("uid-first")).released == ("n/a",)
    assert rig.cluster.is_clean("a")


async def test_a_binding_without_a_response_is_sent_again(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    bind, lost = rig.cluster.bind, ApiError(0, "", "no response", unknown=True)
    failures = [lost]

    async def lose_first(pod: PodName, node: str, version: str) -> None:
        if failures:
            raise failures.pop()
        await bind(pod, node, version)

    rig.cluster.bind = lose_first  # type: ignore[method-assign]  # the first one does not arrive
    assert not await rig.bind()
    assert rig.cluster.node_of("pod") == "node-1"


async def test_a_pod_that_has_changed_since_it_was_seen_is_read_again(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.put_pod("pod")
    assert not await rig.bind()
    assert rig.cluster.writes == ["mark a", "allocate a", "bind", "bind"]


async def test_a_binding_that_is_sent_late_fails_if_the_pod_has_changed(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    bind = rig.cluster.bind

    async def stop_before_it_is_sent(pod: PodName, node: str, version: str) -> None:
        rig.leads = False  # the next leader tries the pod, and the scheduler reports that it waits
        rig.cluster.put_pod(pod.name)
        await bind(pod, node, version)

    rig.cluster.bind = stop_before_it_is_sent  # type: ignore[method-assign]  # the process stops
    assert await rig.bind() == "the term of the scheduler ended during the binding"
    assert rig.cluster.node_of("pod") == ""


@pytest.mark.parametrize("when", ["in this term", "in an earlier term"])
async def test_nothing_is_released_while_a_binding_may_still_arrive(rig: Rig, when: str) -> None:
    rig.reservations.reserve("pod", "a")
    bind = rig.cluster.bind

    async def lose(*_: object) -> None:
        raise ApiError(0, "", "no response", unknown=True)

    rig.cluster.bind = lose  # type: ignore[method-assign]  # it arrives later
    assert await rig.bind() == "no response"
    assert set(rig.reservations.bound) == {"uid-pod"}, "its containers may run if it vanishes"
    if when == "in an earlier term":
        rig.start()
        await rig.recovery.begin_term()
    rig.reservations.reserve("pod", "a")
    reply = await rig.binder.release("uid-pod")
    assert reply.released == ()
    assert "an earlier request may still bind the pod" in reply.message
    rig.cluster.bind = bind  # type: ignore[method-assign]  # it arrives
    assert not await rig.bind()
    assert rig.claim("a").status.allocation is not None


async def test_an_allocation_of_this_term_is_released_at_once(rig: Rig) -> None:
    await rig.recovery.begin_term()
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind() == "403 Forbidden: forbidden"
    assert not rig.reservations.bound
    assert rig.cluster.writes == ["mark a", "allocate a", "bind"]
    rig.reservations.reserve("pod", "a")
    assert (await rig.binder.release("uid-pod")).released == ("n/a",)
    assert rig.cluster.is_clean("a")


async def test_an_allocation_of_the_last_term_is_kept_in_this_one(rig: Rig) -> None:
    await rig.recovery.begin_term()
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind() == "403 Forbidden: forbidden"
    await rig.recovery.begin_term()
    rig.reservations.reserve("pod", "a")
    reply = await rig.binder.release("uid-pod")
    assert "an earlier request may still bind the pod" in reply.message


async def test_an_allocation_is_kept_if_its_write_may_be_of_an_earlier_term(rig: Rig) -> None:
    await rig.recovery.begin_term()
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults |= {2: "lose", 3: "refuse"}
    assert await rig.bind() == "403 Forbidden: forbidden"
    rig.reservations.reserve("pod", "a")
    reply = await rig.binder.release("uid-pod")
    assert "an earlier request may still bind the pod" in reply.message
