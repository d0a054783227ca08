"""The write path: the order of writes, faults at each of them, and binding conditions."""

import asyncio
import datetime as dt

import pytest
from msgspec.structs import replace

from allocator.writes import binding
from allocator.writes.binding_conditions import LEFT_SECONDS
from allocator.writes.cluster_writes import check_nothing
from drawbridge.api_error import ApiError
from drawbridge.dra.allocation import Condition, Consumer, DeviceStatus
from drawbridge.dra.claim import Claim
from drawbridge.ledger.reduced_claim import reduce_claim
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.binding_rig import ORDER, Rig
from tests.allocator.fake_cluster import NOW, Fault, KilledError

pytestmark = pytest.mark.asyncio


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_all_marks_precede_the_first_allocation_and_the_binding_is_last(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a", "b")
    assert not await rig.bind()
    assert rig.cluster.writes == ORDER
    assert rig.cluster.node_of("pod") == "node-1"
    assert rig.reservations.ended == [("uid-pod", True)]
    status = rig.claim("a").status
    assert status.reserved_for == (Consumer("pods", "pod", "uid-pod"),)
    assert status.allocation is not None
    assert status.allocation.allocation_timestamp == "2023-11-14T22:13:20Z"
    assert rig.reservations.observed[-1] == rig.claim("b")


async def test_the_lease_is_read_between_the_marks_and_the_allocations(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a", "b")
    assert not await rig.bind()
    assert rig.cluster.confirmed == [2]
    assert not await rig.bind()
    assert rig.cluster.confirmed == [2]  # nothing is allocated


async def test_nothing_is_allocated_if_another_one_leads_after_the_marks(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a", "b")
    rig.cluster.other_leads = True
    assert await rig.bind() == "host-b holds the Lease"
    assert "allocate a" not in rig.cluster.writes
    assert rig.cluster.is_clean("a")


async def test_the_lease_is_read_again_after_a_claim_was_marked_again(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a", "b")
    original = rig.cluster.confirm_leading

    async def change_claim() -> None:
        await original()
        if len(rig.cluster.confirmed) == 1:
            rig.cluster.put(replace(rig.claim("a"), status=rig.claim("a").status))
            await rig.cluster.unmark(rig.claim("a"))

    rig.cluster.confirm_leading = change_claim  # type: ignore[method-assign]  # the same
    assert not await rig.bind()
    writes = rig.cluster.writes
    assert writes[rig.cluster.confirmed[-1] - 1 :][:2] == ["mark a", "allocate a"]


async def test_a_repeated_call_renews_the_claims_so_that_an_earlier_release_fails(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a", "b")
    assert not await rig.bind()
    before = rig.claim("a")
    assert not await rig.bind()
    assert rig.cluster.writes == [*ORDER, "mark a", "mark b", "bind"]
    with pytest.raises(ApiError, match="409 Conflict"):
        await rig.cluster.deallocate(before)


async def test_a_repeated_call_keeps_a_mark_of_which_the_watch_has_a_part(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.reservations.reserve("pod", "a")
    assert not await rig.bind()
    await rig.cluster.mark(rig.claim("a"), "of another client", check_nothing)
    monkeypatch.setattr(rig.cluster, "get", lambda _, name: reduce_claim(rig.claim(name)))
    assert not await rig.bind()
    assert rig.claim("a").metadata.annotations == {ALLOCATION_ANNOTATION: "of another client "}


async def test_calls_for_one_pod_take_turns(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a", "b")
    assert await asyncio.gather(rig.bind(), rig.bind(), rig.bind()) == ["", "", ""]
    renewed = ["mark a", "mark b", "bind"]
    assert rig.cluster.writes == [*ORDER, *renewed, *renewed]
    assert not rig.binder.is_writing("uid-pod")


async def test_without_a_reservation_on_the_node_nothing_is_written(rig: Rig) -> None:
    assert await rig.bind() == "no devices are reserved for the pod on node node-1"
    rig.reservations.reserve("pod", "a", node="node-2")
    assert "no devices are reserved" in await rig.bind()
    rig.reservations.reserve("pod", "a")
    rig.reservations.refusal = "the devices are gone"
    assert await rig.bind() == "the devices are gone"
    assert rig.cluster.writes == []


async def test_a_claim_with_the_maximum_of_consumers_is_refused(rig: Rig) -> None:
    rig.reservations.reserve("first", "a")
    assert not await rig.bind("first")
    many = tuple(Consumer("pods", f"p{i}", f"u{i}") for i in range(256))
    rig.cluster.put(
        replace(rig.claim("a"), status=replace(rig.claim("a").status, reserved_for=many))
    )
    rig.reservations.reserve("second", "a")
    assert await rig.bind("second") == "claim n/a already has 256 consumers"


@pytest.mark.parametrize("number", range(1, 6))
async def test_a_write_whose_response_is_lost_is_found_and_continued(rig: Rig, number: int) -> None:
    rig.reservations.reserve("pod", "a", "b")
    rig.cluster.faults[number] = "lose"
    assert not await rig.bind()
    assert rig.cluster.node_of("pod") == "node-1"
    assert rig.consumers("a") == rig.consumers("b") == ["pod"]


@pytest.mark.parametrize("number", range(1, 6))
async def test_a_refused_write_is_undone_as_far_as_nothing_is_allocated(
    rig: Rig, number: int
) -> None:
    rig.reservations.reserve("pod", "a", "b")
    rig.cluster.faults[number] = "refuse"
    assert await rig.bind() == "403 Forbidden: forbidden"
    assert rig.reservations.ended == [("uid-pod", False)]
    assert rig.cluster.is_clean("a") is (number <= 3)
    assert rig.cluster.is_clean("b") is (number <= 4)
    # What was allocated is found by the next attempt.
    rig.reservations.reserve("pod", "a", "b")
    assert not await rig.bind()
    assert rig.consumers("a") == rig.consumers("b") == ["pod"]


@pytest.mark.parametrize("when", ["kill before", "kill after"])
@pytest.mark.parametrize("number", range(1, 6))
async def test_after_a_crash_at_any_write_nothing_is_left_and_the_pod_is_bound(
    rig: Rig, number: int, when: Fault
) -> None:
    rig.reservations.reserve("pod", "a", "b")
    rig.cluster.faults[number] = when
    with pytest.raises(KilledError):
        await rig.bind()
    rig.start()
    await rig.recovery.begin_term()
    for name in ("a", "b"):
        assert rig.cluster.is_clean(name) or rig.claim(name).status.allocation is not None
    rig.reservations.reserve("pod", "a", "b")
    assert not await rig.bind()
    assert rig.cluster.node_of("pod") == "node-1"
    assert rig.consumers("a") == rig.consumers("b") == ["pod"]


async def test_an_allocation_that_an_earlier_leader_sent_late_conflicts(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    late = await rig.cluster.mark(rig.claim("a"), '{"allocator":"drawbridge"}')
    await rig.recovery.begin_term()
    assert rig.cluster.is_clean("a")
    with pytest.raises(Exception, match="409 Conflict"):
        await rig.cluster.allocate(late, {"devices": {}}, (), check_nothing)


@pytest.mark.parametrize("number", range(1, 6))
async def test_a_process_that_stops_leading_writes_nothing_more(rig: Rig, number: int) -> None:
    rig.reservations.reserve("pod", "a", "b")
    rig.cluster.faults |= dict.fromkeys(range(number, 20), "not leading")
    assert await rig.bind() == "host-b holds the Lease"
    stored = list(rig.cluster.claims.values())
    await rig.recovery.run_turn()
    assert list(rig.cluster.claims.values()) == stored
    rig.cluster.faults.clear()
    await rig.recovery.run_turn()
    assert rig.cluster.is_clean("a") is (number <= 3)
    assert rig.reservations.ended == [("uid-pod", False)]


@pytest.mark.parametrize("number", range(1, 6))
async def test_a_call_of_an_earlier_term_writes_no_more_than_it_already_sent(
    rig: Rig, number: int
) -> None:
    rig.reservations.reserve("pod", "a", "b")
    original = rig.cluster.answer  # the term starts while this response is on its way

    def start_term(fault: Fault | None) -> None:
        if len(rig.cluster.writes) == number:
            rig.binder.end_term()
            rig.reservations.begin_term()
            rig.reservations.reserve("pod", "a", "b", device="gpu-5")
        original(fault)

    rig.cluster.answer = start_term  # type: ignore[method-assign]  # the same
    message = await rig.bind()
    assert bool(message) is (number < 5)
    assert rig.cluster.writes == ORDER[:number]
    assert rig.reservations.ended == []
    assert "uid-pod" in rig.reservations.pods


async def test_devices_stay_reserved_until_the_api_server_tells_what_it_has(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[2] = "lose"
    original = rig.cluster.answer  # the server goes down with the response

    def lose(fault: Fault | None) -> None:
        rig.cluster.is_down = fault is not None
        original(fault)

    rig.cluster.answer = lose  # type: ignore[method-assign]  # the same
    assert await rig.bind() == "connection refused"
    assert rig.reservations.ended == []
    rig.cluster.is_down = False
    await rig.recovery.run_turn()
    assert rig.reservations.ended == [("uid-pod", False)]
    assert rig.reservations.observed[-1].status.allocation is not None


async def test_a_claim_that_somebody_else_changed_is_read_again(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    stale = rig.claim("a")
    rig.cluster.put(stale)
    rig.cluster.get = lambda *_: stale  # type: ignore[method-assign]  # the watch is behind
    assert not await rig.bind()
    assert rig.cluster.writes == ["mark a", "mark a", "allocate a", "bind"]


async def test_another_allocation_of_the_claim_is_never_overwritten(rig: Rig) -> None:
    rig.reservations.reserve("other", "a", device="gpu-7")
    assert not await rig.bind("other")
    theirs = rig.claim("a")
    rig.cluster.put(replace(theirs, status=type(theirs.status)()))
    rig.reservations.reserve("pod", "a")
    rig.cluster.put(theirs)
    assert await rig.bind() == "claim n/a got another allocation meanwhile"
    assert rig.claim("a").status == theirs.status


async def test_a_pod_that_names_another_claim_by_now_is_not_bound(rig: Rig) -> None:
    """Its controller has generated one more, which has no devices; those of the first are free."""
    rig.reservations.reserve("pod", "a")
    rig.cluster.put_pod("pod", claims=("b",))
    assert await rig.bind() == "the pod names another claim by now: b"
    assert rig.cluster.node_of("pod") == ""
    assert rig.cluster.is_clean("a")


async def test_a_pod_that_has_changed_otherwise_is_bound(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.put_pod("pod", claims=("a",))
    assert not await rig.bind()
    assert rig.cluster.node_of("pod") == "node-1"
    assert rig.consumers("a") == ["pod"]


async def test_a_claim_of_which_no_watch_has_told_is_written_although_another_had_its_name(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.reservations.reserve("pod", "a")
    before = replace(rig.claim("a"), metadata=replace(rig.claim("a").metadata, uid="before"))
    monkeypatch.setattr(rig.cluster, "get", lambda *_: before)
    assert not await rig.bind()


async def test_a_claim_with_the_same_name_or_being_deleted_is_refused(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    rig.cluster.put(replace(rig.claim("a"), metadata=replace(rig.claim("a").metadata, uid="new")))
    assert await rig.bind() == "claim n/a was deleted, and another claim has its name"
    rig.reservations.reserve("pod", "b")
    deleted = replace(rig.claim("b").metadata, deletion_timestamp="2023-11-14T22:13:20Z")
    rig.cluster.put(replace(rig.claim("b"), metadata=deleted))
    assert await rig.bind() == "claim n/b is being deleted"
    rig.reservations.reserve("pod", "b")
    rig.cluster.server.remove("resourceclaims", "b", "n")
    assert await rig.bind() == "claim n/b was deleted"


@pytest.mark.parametrize(
    ("node", "message"),
    [(None, "the pod was deleted"), ("node-9", "the pod is already bound to node node-9")],
)
async def test_a_pod_that_is_gone_or_elsewhere_is_not_tried_again(
    rig: Rig, node: str | None, message: str
) -> None:
    rig.reservations.reserve("pod", "a")
    if node is None:
        rig.cluster.server.remove("pods", "pod", "n")
    else:
        rig.cluster.put_pod("pod", node)
    assert await rig.bind() == message
    assert rig.reservations.ended == [("uid-pod", False)]


# --- binding conditions ---


def report_condition(rig: Rig, condition: str, age: float = 0) -> None:
    """Let the device of claim a need a condition, and report one."""
    claim = rig.claim("a")
    allocation = claim.status.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    needs = replace(
        result, binding_conditions=("Attached",), binding_failure_conditions=("Broken",)
    )
    device = DeviceStatus("d.io", "p", "gpu-0-0", conditions=(Condition(condition, "True"),))
    time = f"{dt.datetime.fromtimestamp(NOW - age, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    status = replace(
        claim.status,
        allocation=replace(
            allocation,
            devices=replace(allocation.devices, results=(needs,)),
            allocation_timestamp=time,
        ),
        devices=(device,),
    )
    rig.cluster.put(replace(claim, status=status))


async def allocate_without_binding(rig: Rig) -> None:
    """Let a pod fail to bind after the allocation of claim a."""
    rig.reservations.reserve("pod", "a")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind()
    assert rig.outcome is binding.BindOutcome.FAILED
    rig.reservations.reserve("pod", "a")


async def test_a_pod_is_bound_after_its_devices_report_their_conditions(rig: Rig) -> None:
    await allocate_without_binding(rig)
    report_condition(rig, "Waiting")
    message = "claim n/a: device d.io/p/gpu-0-0 does not report Attached"
    assert (await rig.bind(), rig.outcome) == (message, binding.BindOutcome.WAITS)
    assert rig.claim("a").status.allocation is not None
    assert rig.reservations.ended[-1] == ("uid-pod", True)
    report_condition(rig, "Attached")
    assert not await rig.bind()


@pytest.mark.parametrize("shown", ["nothing", "the claim that had its name", "the claim"])
@pytest.mark.parametrize("happens", ["is attached", "is deleted"])
async def test_who_waits_for_devices_does_not_trust_a_watch_that_is_behind(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, shown: str, happens: str
) -> None:
    await allocate_without_binding(rig)
    report_condition(rig, "Waiting")
    rig.binder._times = rig.binder._times._replace(wait=5)  # noqa: SLF001
    before = replace(rig.claim("b"), metadata=replace(rig.claim("b").metadata, name="a"))
    if shown != "the claim":
        cached = before if shown == "the claim that had its name" else None
        monkeypatch.setattr(rig.cluster, "get", lambda *_: cached)
    next_change = rig.cluster.next_change

    def change(claim: Claim) -> "asyncio.Future[None]":
        if happens == "is attached":
            report_condition(rig, "Attached")
        else:
            metadata = replace(rig.claim("a").metadata, finalizers=())
            rig.cluster.put(replace(rig.claim("a"), metadata=metadata))
            rig.cluster.server.remove("resourceclaims", "a", "n")
        monkeypatch.setattr(rig.cluster, "next_change", next_change)
        return next_change(claim)

    monkeypatch.setattr(rig.cluster, "next_change", change)
    problem = "" if happens == "is attached" else "claim n/a was deleted"
    assert await rig.bind() == problem
    assert rig.cluster.node_of("pod") == ("" if problem else "node-1")


@pytest.mark.parametrize(("condition", "waits"), [("Broken", 0), ("Waiting", LEFT_SECONDS)])
async def test_a_failed_device_is_given_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, condition: str, waits: float
) -> None:
    await allocate_without_binding(rig)
    report_condition(rig, condition, 601)
    if waits:  # this process sees the device for the first time
        assert await rig.bind()
        rig.reservations.reserve("pod", "a")
        later = asyncio.get_running_loop().time() + waits
        monkeypatch.setattr(binding, "_loop_time", lambda: later)
    assert "device d.io/p/gpu-0-0" in await rig.bind()
    assert rig.claim("a").status.allocation is None
    assert rig.reservations.penalised == ["gpu-0-0"]
    assert rig.cluster.node_of("pod") == ""


async def test_pods_that_share_a_claim_with_a_group_leave_its_failed_device(rig: Rig) -> None:
    rig.reservations.group = Consumer.of_pod_group("train", "uid-train")
    await allocate_without_binding(rig)
    rig.reservations.group = None
    for pod in ("first", "second"):
        rig.reservations.reserve(pod, "a")
        rig.cluster.faults[len(rig.cluster.writes) + 2] = "refuse"
        assert await rig.bind(pod)
    assert rig.consumers("a") == ["train", "first", "second"]
    report_condition(rig, "Broken")
    rig.reservations.pods.clear()
    rig.reservations.reserve("first", "a")
    assert "reports Broken" in await rig.bind("first")
    assert rig.consumers("a") == ["train", "second"]
    rig.cluster.faults.clear()
    rig.cluster.writes.clear()
    rig.reservations.reserve("third", "a")
    assert "reports Broken" in await rig.bind("third")
    assert rig.cluster.writes == []
    rig.reservations.pods.clear()
    rig.reservations.reserve("second", "a")
    assert "reports Broken" in await rig.bind("second")
    assert rig.claim("a").status.allocation is None


async def test_a_member_does_not_wait_until_others_leave_a_failed_device(rig: Rig) -> None:
    rig.reservations.group = Consumer.of_pod_group("train", "uid-train")
    await allocate_without_binding(rig)
    report_condition(rig, "Broken")
    rig.reservations.pods.clear()
    for pod in ("m0", "m1"):
        rig.reservations.reserve(pod, "a", "b")
    assert "reports Broken" in await rig.bind("m0")
    assert rig.claim("a").status.allocation is None
    assert "was deallocated meanwhile" in await rig.bind("m1")


# --- taking back ---


async def test_release_deallocates_what_only_the_unbound_pod_uses(rig: Rig) -> None:
    await allocate_without_binding(rig)
    reply = await rig.binder.release("uid-pod")
    assert reply.released == ("n/a",)
    assert rig.cluster.is_clean("a")
    assert (await rig.binder.release("uid-pod")).released == ()


async def test_release_keeps_what_others_use_allocated_or_bound(rig: Rig) -> None:
    rig.reservations.reserve("first", "a")
    assert not await rig.bind("first")
    assert (await rig.binder.release("uid-first")).released == ()
    rig.reservations.reserve("second", "a")
    assert (await rig.binder.release("uid-second")).released == ()
    unmarked = replace(rig.claim("a").metadata, annotations={})
    status = replace(rig.claim("a").status, reserved_for=())
    rig.cluster.put(replace(rig.claim("a"), metadata=unmarked, status=status))
    assert (await rig.binder.release("uid-second")).released == ()
    assert rig.claim("a").status.allocation is not None


# --- claims of a group ---

GROUP = Consumer.of_pod_group("train", "uid-train")


def reserve_for_group(rig: Rig, *pods: str) -> None:
    rig.reservations.group = GROUP
    for each in pods:
        rig.reservations.reserve(each, "a")


async def test_a_claim_of_a_group_is_reserved_for_the_group_once(rig: Rig) -> None:
    pods = [f"m{number}" for number in range(16)]
    reserve_for_group(rig, *pods)
    assert set(await asyncio.gather(*map(rig.bind, pods))) == {""}
    assert rig.claim("a").status.reserved_for == (GROUP,)
    assert {rig.cluster.node_of(each) for each in pods} == {"node-1"}


async def test_a_claim_of_a_group_is_kept_while_a_member_has_a_node(rig: Rig) -> None:
    reserve_for_group(rig, "m0", "m1")
    assert not await rig.bind("m0")
    rig.reservations.pods.pop("uid-m0")
    assert (await rig.binder.release("uid-m1")).released == ()
    assert rig.claim("a").status.reserved_for == (GROUP,)


async def test_a_claim_of_a_group_is_kept_while_another_member_is_reserved(rig: Rig) -> None:
    reserve_for_group(rig, "m0", "m1")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind("m0")
    reserve_for_group(rig, "m0")
    assert (await rig.binder.release("uid-m0")).released == ()


async def test_the_last_member_without_a_node_releases_the_claim_of_the_group(rig: Rig) -> None:
    reserve_for_group(rig, "m0")
    rig.cluster.faults[3] = "refuse"
    assert await rig.bind("m0")
    reserve_for_group(rig, "m0")
    assert (await rig.binder.release("uid-m0")).released == ("n/a",)
    assert rig.cluster.is_clean("a")
