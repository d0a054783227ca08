"""What ends between two writes: reservations, other users of a claim, the server, a process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from allocator.writes.cluster_writes import FINALIZER, Check, PodName, PodPlace, check_nothing
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import error_from_response
from drawbridge.dra.allocation import (
    AllocatedDevices,
    Allocation,
    AllocationResult,
    ClaimStatus,
    Condition,
    Consumer,
    DeviceStatus,
)
from drawbridge.dra.claim import Claim
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.binding_rig import ORDER, Rig, contest
from tests.allocator.fake_cluster import Fault
from tests.cluster.fake.trouble import Seen

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


async def test_a_claim_that_was_allocated_before_its_pod_named_another_one_is_released(
    rig: Rig,
) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"  # the pod is not bound
    assert await rig.bind()
    rig.cluster.put_pod("pod", claims=("b",))
    rig.reservations.reserve("pod", "b")
    assert not await rig.bind()
    assert rig.cluster.is_clean("a")
    assert rig.consumers("b") == ["pod"]


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


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_what_the_lease_requires_counts_before_each_write(rig: Rig, number: int) -> None:
    rig.reservations.reserve("pod", "a", "b")

    def follow_lease() -> None:
        if len(rig.cluster.writes) >= number:
            rig.reservations.lost = "another scheduler owns it"

    rig.reservations.follow_lease = follow_lease  # type: ignore[method-assign]  # the policy is behind then
    assert rig.reservations.lost in await rig.bind()
    assert not any(each.startswith("allocate") for each in rig.cluster.writes)
    assert rig.cluster.is_clean("a")
    assert rig.cluster.is_clean("b")


@pytest.mark.parametrize(("number", "clean"), [(1, "ab"), (2, "ab"), (3, "ab"), (4, "b"), (5, "")])
async def test_what_counts_before_a_write_counts_before_it_is_sent_again(
    rig: Rig, number: int, clean: str
) -> None:
    """An API server that is overloaded asks for it some seconds later."""
    rig.reservations.reserve("pod", "a", "b")
    answer, sent = rig.cluster.session.answer, list[Seen]()

    async def refuse_once(seen: Seen) -> bytes:
        if seen.method != "GET":
            sent.append(seen)
            if len(sent) == number:
                rig.reservations.lost = "another scheduler owns it"
                contest(rig)
                raise error_from_response(429, {"Retry-After": "0"}, b"")
        return await answer(seen)

    rig.cluster.session.answer = refuse_once  # type: ignore[method-assign]  # at this moment
    message = await rig.bind()
    assert ("contradicts claim n/a" if number == 5 else rig.reservations.lost) in message
    assert sent[number:].count(sent[number - 1]) == 0
    assert all(map(rig.cluster.is_clean, clean))


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

    async def bind_meanwhile() -> AsyncIterator[Claim]:
        assert "no devices are reserved" in await rig.bind()
        async for each in listed():
            yield each

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


async def test_a_pod_that_changes_for_a_release_once_its_claims_are_written_is_read_again(
    rig: Rig,
) -> None:
    """Although the watch shows the change before the binding is sent."""
    rig.reservations.reserve("pod", "a")
    allocate, bind, seen = rig.cluster.allocate, rig.cluster.bind, list[Claim]()

    async def overtaken(*what: Any) -> Claim:  # noqa: ANN401  # as the write takes it
        seen.append(await allocate(*what))
        pod = PodName("n", "pod", "uid-pod")
        place = await rig.cluster.end_bindings(pod, seen[0])
        rig.cluster.first_versions["pod"] = place.version
        return seen[0]

    async def released_meanwhile(pod: PodName, node: str, version: str, check: Check) -> None:
        if rig.claim("a") == seen[0]:
            await rig.cluster.deallocate(seen[0])
        await bind(pod, node, version, check)

    rig.cluster.allocate = overtaken  # type: ignore[method-assign]  # another one acts at this moment
    rig.cluster.bind = released_meanwhile  # type: ignore[method-assign]  # the same
    assert await rig.bind() or rig.consumers("a") == ["pod"]


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

    async def lose_first(pod: PodName, node: str, version: str, check: Check) -> None:
        if failures:
            raise failures.pop()
        await bind(pod, node, version, check)

    rig.cluster.bind = lose_first  # type: ignore[method-assign]  # the first one does not arrive
    assert not await rig.bind()
    assert rig.cluster.node_of("pod") == "node-1"


async def test_a_pod_that_has_changed_since_it_was_seen_is_read_again(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.put_pod("pod")
    assert not await rig.bind()
    assert rig.cluster.writes == ["mark a", "allocate a", "bind", "mark a", "bind"]


@pytest.mark.parametrize("when", ["before the pod is read", "after the claims are written"])
async def test_a_release_by_the_next_leader_and_a_binding_that_is_sent_again_exclude_each_other(
    rig: Rig, when: str
) -> None:
    """The next leader has changed the pod, and this one does not know yet that its term is over."""
    rig.reservations.reserve("pod", "a")
    bind, seen, refused = rig.cluster.bind, list[Claim](), list[ApiError]()

    async def release(claim: Claim) -> None:
        try:
            await rig.cluster.deallocate(claim)
        except ApiError as error:
            refused.append(error)

    async def overtaken(pod: PodName, node: str, version: str, check: Check) -> None:
        if not seen:
            seen.append(rig.claim("a"))
            rig.cluster.other_leads = True
            await rig.cluster.end_bindings(pod, seen[0])
            if when == "before the pod is read":
                await release(seen[0])
        else:
            await release(seen[0])
        await bind(pod, node, version, check)

    rig.cluster.bind = overtaken  # type: ignore[method-assign]  # another one acts at this moment
    message = await rig.bind()
    is_bound = rig.cluster.node_of("pod") == "node-1"
    assert is_bound is (when == "after the claims are written")
    assert is_bound is bool(refused) is not bool(message)
    assert rig.consumers("a") == (["pod"] if is_bound else [])


async def test_a_binding_that_is_sent_late_fails_if_the_pod_has_changed(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    bind = rig.cluster.bind

    async def stop_before_it_is_sent(pod: PodName, node: str, version: str, _: Check) -> None:
        rig.leads = False  # the next leader tries the pod, and the scheduler reports that it waits
        rig.cluster.put_pod(pod.name)
        await bind(pod, node, version, check_nothing)

    rig.cluster.bind = stop_before_it_is_sent  # type: ignore[method-assign]  # the process stops
    assert await rig.bind() == "the term of the scheduler ended during the binding"
    assert rig.cluster.node_of("pod") == ""


class _LateBinding:
    """A binding that a process sends, and that arrives when a test says so."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self._bind, self._sent = rig, rig.cluster.bind, list[tuple[PodName, str, str]]()
        rig.cluster.bind = self._send  # type: ignore[method-assign]  # it arrives later

    async def _send(self, pod: PodName, node: str, version: str, _: Check) -> None:
        self._sent.append((pod, node, version))
        raise ApiError(0, "", "no response", unknown=True)

    async def arrive(self) -> bool:
        """Let all that was sent arrive; returns whether one of them binds the pod."""
        self._rig.cluster.bind = self._bind  # type: ignore[method-assign]  # what follows arrives
        sent = [self._bind(*each, check_nothing) for each in self._sent]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        errors = [each for each in answers if each is not None]
        assert all(isinstance(each, ApiError) and each.conflict for each in errors), errors
        return None in answers


@pytest.mark.parametrize("when", ["in this term", "in an earlier term"])
@pytest.mark.parametrize("how", ["alone", "shared", "of a group"])
async def test_a_binding_that_arrives_after_the_release_has_no_effect(
    rig: Rig, when: str, how: str
) -> None:
    if how == "of a group":
        rig.reservations.group = Consumer.of_pod_group("train", "uid-train")
    late = _LateBinding(rig)
    pods = ["pod"] if how == "alone" else ["pod", "other"]
    for pod in pods:
        rig.reservations.reserve(pod, "a")
        assert await rig.bind(pod) == "no response"
        assert f"uid-{pod}" in rig.reservations.bound, "its containers may run if it vanishes"
    group, users = rig.reservations.group, rig.reservations.users
    if when == "in an earlier term":
        rig.start()
        await rig.recovery.begin_term()
        rig.reservations.group, rig.reservations.users = group, users
        users["a"].pop("other", None)  # the watch of the next leader does not show it
    rig.reservations.reserve("pod", "a")
    if how == "of a group":
        rig.reservations.pods.pop("uid-other", None)
    released = (await rig.binder.release("uid-pod")).released
    assert released == (() if how == "shared" else ("n/a",))
    if how == "shared":
        rig.reservations.reserve("other", "a")
        assert (await rig.binder.release("uid-other")).released == ("n/a",)
    assert not await late.arrive()
    assert [rig.cluster.node_of(pod) for pod in pods] == ["" for _ in pods]
    assert rig.cluster.is_clean("a")


async def test_an_allocation_without_a_binding_is_released_and_leaves_nothing(rig: Rig) -> None:
    await rig.recovery.begin_term()
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind() == "403 Forbidden: forbidden"
    assert not rig.reservations.bound
    allocated = rig.claim("a")
    rig.reservations.reserve("pod", "a")
    assert (await rig.binder.release("uid-pod")).released == ("n/a",)
    assert rig.reservations.unused == [allocated], "no pod runs with its devices"
    assert rig.cluster.is_clean("a")


async def test_a_claim_is_kept_if_the_binding_arrives_before_the_pod_changes(rig: Rig) -> None:
    late = _LateBinding(rig)
    rig.reservations.reserve("pod", "a")
    assert await rig.bind() == "no response"
    rig.reservations.reserve("pod", "a")
    change = rig.cluster.end_bindings

    async def arrive_first(pod: PodName, claim: Claim) -> PodPlace:
        assert await late.arrive()
        return await change(pod, claim)

    rig.cluster.end_bindings = arrive_first  # type: ignore[method-assign]  # before it arrives
    assert (await rig.binder.release("uid-pod")).released == ()
    assert rig.cluster.node_of("pod") == "node-1"
    assert rig.consumers("a") == ["pod"]


async def test_each_release_after_a_binding_changes_the_pod(rig: Rig) -> None:
    """The allocation stays in between, because it cannot be removed."""
    rig.reservations.reserve("pod", "a")
    versions = []
    for _ in range(3):
        late = _LateBinding(rig)
        assert await rig.bind() == "no response"
        rig.reservations.reserve("pod", "a")
        rig.cluster.faults[len(rig.cluster.writes) + 2] = "refuse"
        assert (await rig.binder.release("uid-pod")).message == "403 Forbidden: forbidden"
        assert not await late.arrive()
        place = await rig.cluster.read_place(PodName("n", "pod", "uid-pod"))
        assert place is not None
        versions.append(place.version)
    assert len(set(versions)) == len(versions)


async def test_nothing_is_released_until_the_pod_can_be_changed(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults |= {3: "refuse", 4: "refuse"}
    assert await rig.bind() == "403 Forbidden: forbidden"
    rig.reservations.reserve("pod", "a")
    assert (await rig.binder.release("uid-pod")).message == "403 Forbidden: forbidden"
    assert rig.cluster.writes[3:] == ["change pod"]
    assert rig.reservations.times.get("retry", "uid-pod") is not None, "the pod is tried again"
    assert (await rig.binder.release("uid-pod")).released == ("n/a",)


async def test_the_claim_of_a_pod_that_is_gone_is_released(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind()
    rig.reservations.reserve("pod", "a")
    rig.cluster.server.remove("pods", "pod", "n")
    assert (await rig.binder.release("uid-pod")).released == ("n/a",)
    assert "change pod" not in rig.cluster.writes
    assert not rig.reservations.unused, "it may have run"


async def test_the_condition_of_a_released_pod_names_the_claim(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind()
    version = rig.claim("a").metadata.resource_version
    rig.reservations.reserve("pod", "a")
    assert (await rig.binder.release("uid-pod")).released == ("n/a",)
    stored = rig.cluster.server.get("pods", "pod", "n")
    assert stored is not None
    assert stored["status"]["conditions"] == [
        {
            "type": "drawbridge.dev/released",
            "status": "True",
            "reason": "AllocationReleased",
            "message": f"the allocation of claim n/a at version {version} is being released",
        }
    ]


async def test_release_keeps_what_another_client_allocates_to_a_claim_with_a_mark(
    rig: Rig,
) -> None:
    """It writes between our mark and our allocation, so that the mark names other devices."""
    rig.reservations.reserve("pod", "a")
    original = rig.cluster.confirm_leading

    async def allocate_meanwhile() -> None:
        result = AllocationResult(request="r", driver="d.io", pool="p", device="of-others")
        status = ClaimStatus(allocation=Allocation(AllocatedDevices((result,))))
        rig.cluster.put(replace(rig.claim("a"), status=status))
        await original()

    rig.cluster.confirm_leading = allocate_meanwhile  # type: ignore[method-assign]  # at this moment
    assert await rig.bind() == "claim n/a got another allocation meanwhile"
    theirs = rig.claim("a")
    rig.reservations.reserve("pod", "a")
    assert (await rig.binder.release("uid-pod")).released == ()
    assert rig.claim("a") == theirs


@pytest.mark.parametrize("mark", ["{}", "x"])
async def test_release_ends_what_has_a_mark_that_no_allocator_writes(rig: Rig, mark: str) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"  # the pod is not bound
    assert await rig.bind()
    rig.reservations.reserve("pod", "a")
    changed = replace(rig.claim("a").metadata, annotations={ALLOCATION_ANNOTATION: mark})
    rig.cluster.put(replace(rig.claim("a"), metadata=changed))
    assert (await rig.binder.release("uid-pod")).released == ("n/a",)
