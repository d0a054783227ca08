"""What the calls of the scheduler do beside the decisions: time limits, and what goes on later."""

import asyncio
import itertools
import time
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from allocator.copies import CopyFailedError, decide_in_copy
from allocator.decisions.deciding_ahead import CopyReport, Decide
from allocator.decisions.waiting import Turn, WaitingPods
from allocator.scheduler.protocol import (
    ErrorCode,
    PodOnNode,
    PodReference,
    PostFilterReply,
    PreFilterRequest,
    ProtocolError,
    SchedulingPod,
    StatusRequest,
    UnreserveRequest,
)
from allocator.state.caches import without_unused_parts
from allocator.state.group_holds import STEP_SECONDS
from allocator.state.reports import EndedHold, HoldEnd
from allocator.state.reserved_pods import ANSWERED_SECONDS, RESERVATION_SECONDS
from drawbridge.dra.nodes import Node
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.process import metrics
from drawbridge.process.forked import ForkLimits, ForkRefusedError
from tests.allocator.clusters import (
    Cluster,
    claim,
    gpu_slice,
    members_of,
    pod,
    pod_fields,
)
from tests.allocator.contests import HIGH, LOW, Contest
from tests.allocator.fake_process import FakeProcess
from tests.cuts import CutAt
from tests.leftovers import children

pytestmark = pytest.mark.asyncio


def request(uid: str, count: int) -> PreFilterRequest:
    """A pod with a claim for some GPUs."""
    raw = msgspec.Raw(msgspec.json.encode(claim(f"of-{uid}", count)))
    about = SchedulingPod(namespace="default", name=uid, uid=uid)
    return PreFilterRequest(pod=about, claims=(raw,), max_nodes=2)


async def test_a_search_that_takes_long_continues_after_the_reply() -> None:
    ticks = iter(number / 10 for number in range(10_000))
    sizes = {f"n{number:02}": 1 for number in range(30)}
    process = FakeProcess(Cluster(**sizes, zone=4), now=lambda: next(ticks))
    reply = process.calls.prefilter(request("p", 4))
    assert (reply.fit, reply.complete) == ((), False)
    assert "the search continues" in reply.message
    assert process.changed.is_set()
    await process.run_until(lambda: process.published)
    assert process.published == ["p"]


SLOW = "[1,2,3,4,5,6,7,8,9,10]"
SLOW = f"{SLOW}.all(a, {SLOW}.all(b, {SLOW}.all(c, {SLOW}.all(d, a + b + c + d < 99))))"


def slow_request(uid: str) -> PreFilterRequest:
    """A pod with a selector that takes more than a millisecond."""
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": SLOW}}]}
    raw = msgspec.json.encode(claim(f"of-{uid}", requests=[{"name": "r", "exactly": exactly}]))
    about = SchedulingPod(namespace="default", name=uid, uid=uid)
    return PreFilterRequest(pod=about, claims=(msgspec.Raw(raw),), max_nodes=2)


async def test_a_search_that_is_cut_goes_on_in_a_copy_of_the_process() -> None:
    process = FakeProcess(Cluster(brief=CutAt(4000), n1=1))
    before = children()
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: process.published)
    assert process.published == ["p"]
    assert process.calls.prefilter(slow_request("p")).fit
    assert children() == before


@pytest.mark.parametrize("error", [ZeroDivisionError(), CopyFailedError("a traceback")])
async def test_a_copy_that_fails_is_logged_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> CopyReport:
        raise error

    process = FakeProcess(Cluster(brief=CutAt(4000), n1=1), copies=fail)
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: caplog.records)
    assert len(process.waiting) == 0
    assert process.published == []


async def test_a_pod_waits_while_the_system_refuses_a_copy() -> None:
    refusals = iter((True, True, False))

    async def refuse(decide: Decide) -> CopyReport:
        if next(refusals):
            raise ForkRefusedError
        return await decide_in_copy(decide)

    process = FakeProcess(Cluster(brief=CutAt(4000), n1=1), copies=refuse)
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: process.published)
    assert process.published == ["p"]


async def test_a_pod_whose_copy_got_no_time_has_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = iter((True, True, False))

    async def sleep_first(decide: Decide) -> CopyReport:
        if next(slow):
            return await decide_in_copy(lambda *_: time.sleep(60), ForkLimits(seconds=0.1))
        return await decide_in_copy(decide)

    process = FakeProcess(Cluster(brief=CutAt(4000), n1=1), copies=sleep_first)
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: process.published)
    assert process.published == ["p"]
    assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_garbage_is_collected_while_no_copy_shares_the_memory() -> None:
    events: list[str] = []

    async def decide(asked: Decide) -> CopyReport:
        events.append("begin")
        for _ in range(20):
            process.changed.set()
            await asyncio.sleep(0)
        report = await decide_in_copy(asked)
        events.append("end")
        return report

    process = FakeProcess(
        Cluster(brief=CutAt(4000), n1=1), copies=decide, collect=lambda: events.append("collect")
    )
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: process.published)
    begin, end = events.index("begin"), events.index("end")
    assert "collect" in events[:begin]
    assert "collect" not in events[begin:end]


@pytest.mark.parametrize("meanwhile", ["nothing", "taken", "unreserved", "filtered"])
async def test_a_pod_whose_reservation_ended_is_bound_if_the_devices_are_still_free(
    meanwhile: str,
) -> None:
    process = FakeProcess(Cluster(n1=1))
    assert process.calls.prefilter(request("p", 1)).fit
    node = PodOnNode(pod_uid="p", node="n1")
    assert process.calls.reserve(node).reserved
    process.cluster.decisions.expire(RESERVATION_SECONDS)
    process.cluster.now = RESERVATION_SECONDS
    match meanwhile:
        case "taken":
            process.calls.prefilter(request("q", 1))
            assert process.calls.reserve(PodOnNode(pod_uid="q", node="n1")).reserved
        case "unreserved":
            process.calls.unreserve(UnreserveRequest(pod_uid="p"))
        case "filtered":
            process.calls.prefilter(request("p", 1))
    assert (await process.calls.bind(node)).bound is (meanwhile == "nothing")


@pytest.mark.parametrize(
    ("held", "leading", "is_kept"),
    [(("p",), True, True), ((), True, False), (None, True, False), (("p",), False, True)],
)
async def test_the_status_renews_the_reservations_of_held_pods_whoever_leads(
    held: tuple[str, ...] | None, *, leading: bool, is_kept: bool
) -> None:
    process = FakeProcess(Cluster(n1=1))
    process.cluster.schedule("p", claim("c"))
    process.cluster.now = RESERVATION_SECONDS - 1
    process.leading = leading
    process.problems = [] if leading else ["nodes are not synced"]
    assert process.calls.status(StatusRequest(held_pods=held)).leading is leading
    process.cluster.decisions.expire(RESERVATION_SECONDS)
    assert bool(process.cluster.held()) is is_kept


@pytest.mark.parametrize("meanwhile", ["nothing", "5 s", "unreserved", "elsewhere", "a new term"])
async def test_a_pod_is_bound_by_what_is_reserved_with_the_answer(meanwhile: str) -> None:
    process = FakeProcess(Cluster(n1=1, n2=1))
    node = process.calls.prefilter(replace(request("p", 1), reserve=True)).reserved_on
    match meanwhile:
        case "5 s":
            assert process.cluster.decisions.expire(ANSWERED_SECONDS) == ("p",)
        case "unreserved":
            process.calls.unreserve(UnreserveRequest(pod_uid="p"))
        case "elsewhere":
            (other,) = {"n1", "n2"} - {node}
            assert process.calls.reserve(PodOnNode(pod_uid="p", node=other)).reserved
        case "a new term":
            process.cluster.decisions.begin_term()
    reply = await process.calls.bind(PodOnNode(pod_uid="p", node=node))
    assert reply.bound is (meanwhile in {"nothing", "5 s"})


async def test_nothing_is_promised_in_a_turn_after_the_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, turns = FakeProcess(Cluster(n1=1)), 0

    def wake(*_: object, **__: object) -> Turn:
        nonlocal turns
        turns += 1
        process.leading = False
        return Turn((), unfinished=True)

    monkeypatch.setattr(process.waiting, "wake", wake)
    await process.run_until(lambda: turns)
    assert turns == 1


async def test_a_release_that_takes_long_does_not_delay_the_scheduler() -> None:
    process = FakeProcess(Cluster(n1=1))
    reply = await process.calls.release(PodReference(pod_uid="p"))
    assert reply == PostFilterReply(message="the allocation of the pod is being removed")
    assert not process.changed.is_set()
    process.may_release.set()
    await asyncio.wait_for(process.changed.wait(), 10)
    assert (await process.calls.release(PodReference(pod_uid="p"))).released == ("p",)


async def test_a_standby_does_not_collect_the_pods_that_have_ended() -> None:
    process = FakeProcess(Cluster(n1=1))
    process.leading = False
    taken: list[str] = []
    original = process.cluster.state.pods.take_settled

    def take_settled() -> list[str]:
        taken.extend(original())
        return taken

    process.cluster.state.pods.take_settled = take_settled  # type: ignore[method-assign]  # noted
    process.cluster.state.apply(pod("p", "c"), None)
    await process.run_until(lambda: taken)
    assert taken == ["p"]
    assert process.published == []


async def test_calls_are_answered_while_a_standby_forgets_many_pods() -> None:
    process = FakeProcess(Cluster(n1=1), now=itertools.count(step=0.1).__next__)
    for uid in ("p", "q", "r"):
        process.cluster.add(pod(uid, f"of-{uid}"))
        process.calls.prefilter(request(uid, 1))
    process.leading = False
    for uid in ("p", "q", "r"):
        process.cluster.state.apply(process.cluster.pods["default", uid], None)
    await process.run_until(lambda: not len(process.cluster.state.records))
    assert process.pauses[:3] == [0.005, 0, 0]


async def test_many_turns_in_a_row_leave_time_for_others() -> None:
    process = FakeProcess(Cluster(n1=0))
    for number in range(1000):
        asked = request(f"p{number}", 1)
        pod_with_labels = replace(asked.pod, node_selector={"own": f"{number}"})
        process.calls.prefilter(replace(asked, pod=pod_with_labels))
    process.cluster.add(Node("n2", {"name": "n2"}), gpu_slice("n2", 1))
    await process.run_until(lambda: len(process.pauses) > 20)
    assert process.pauses.count(0) == 7
    assert max(process.pauses) == 0.02


async def test_after_a_turn_that_takes_long_others_have_as_much_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = FakeProcess(Cluster(n1=0))
    wake = process.waiting.wake

    def wake_slowly(now: float, **more: Any) -> Turn:  # noqa: ANN401  # passed on
        turn = wake(now, **more)
        process.cluster.now += 0.12  # one node took so long
        return turn

    monkeypatch.setattr(process.waiting, "wake", wake_slowly)
    await process.run_until(lambda: len(process.pauses) > 1)
    # After changes that arrive together.
    assert process.pauses[1] == pytest.approx(0.1)


async def test_what_is_written_for_a_victim_whose_binding_is_cancelled_is_taken_back() -> None:
    contest = Contest(n1=1)
    contest.run("victim", "n1", 0)
    process = FakeProcess(contest.cluster)
    process.may_release.set()
    assert contest.victims("high") == ["victim"]
    process.calls.unreserve(UnreserveRequest(pod_uid="other"))
    assert process.released == []
    process.calls.unreserve(UnreserveRequest(pod_uid="victim"))
    await process.run_until(lambda: process.released)
    assert process.released == ["victim"]


@pytest.mark.parametrize(("priority", "outcome"), [(HIGH, "victims"), (LOW, "none")])
async def test_requests_for_victims_are_counted(priority: int, outcome: str) -> None:
    contest = Contest(n1=1)
    contest.run("victim", "n1", 0, violates=True)
    process = FakeProcess(contest.cluster)
    contest.ask("pod", priority=priority)
    before = {each: preemptions(each) for each in ("victims", "none")}
    process.calls.preempt(contest.preemption("pod"))
    for label, value in before.items():
        assert preemptions(label) == value + (label == outcome)


async def test_a_pod_evicts_others_only_after_an_autoscaler_had_time_to_add_a_node() -> None:
    contest = Contest(n1=1)
    contest.run("victim", "n1", 0)
    process = FakeProcess(contest.cluster)
    process.waiting = WaitingPods(contest.cluster.decisions, eviction_delay=60.0)
    contest.ask("pod", priority=HIGH)
    process.waiting.note_answer("pod", (), 0.0)
    asked = contest.preemption("pod")
    early = process.calls.preempt(asked)
    assert (early.victims, early.waiting) == ((), False)
    assert "evicts no pod for another 60 s (preemption.delaySeconds)" in early.message
    process.cluster.now = 59.0
    assert process.waiting.wake(59.0).woken == ()
    assert process.calls.preempt(asked).victims == ()
    process.cluster.now = 60.0
    assert process.waiting.wake(60.0).woken == ("pod",)
    assert process.calls.preempt(asked).victims == ("victim",)


async def test_a_pod_that_gets_a_new_node_meanwhile_evicts_nobody() -> None:
    contest = Contest(n1=1)
    contest.run("victim", "n1", 0)
    process = FakeProcess(contest.cluster)
    process.waiting = WaitingPods(contest.cluster.decisions, eviction_delay=60.0)
    contest.ask("pod", priority=HIGH)
    process.waiting.note_answer("pod", (), 0.0)
    process.calls.preempt(contest.preemption("pod"))
    process.cluster.add(Node("n2", {"name": "n2"}), gpu_slice("n2", 1))
    process.cluster.now = 20.0
    assert process.waiting.wake(20.0).woken == ("pod",)
    reserved = contest.cluster.decisions.reservations.find("pod")
    assert reserved is not None
    assert reserved.node == "n2"


@pytest.mark.parametrize(
    ("about", "seconds"),
    [
        ({}, 0),
        ({"since": "2026-01-01T00:00:40Z", "generation": 1}, 40),
        # It has waited since it was created, for its gates.
        ({"since": "2026-01-01T00:00:40Z", "generation": 2}, 0),
        ({"since": "2026-01-01T00:00:40Z", "generation": 1, "status": "True"}, 0),
        ({"since": "2026-01-01T00:10:00Z", "generation": 1}, 0),
        ({"since": "soon", "generation": 1}, 0),
        ({"since": None, "generation": 1}, 0),
        ({"since": "2026-01-01T00:00:10Z", "created": "2026-01-01T00:01:00Z"}, 20),
    ],
    ids=["new", "told", "gated", "has-a-node", "future", "no-time", "no-text", "no-pod-yet"],
)
async def test_the_delay_goes_on_when_another_process_leads(
    about: dict[str, Any], seconds: int
) -> None:
    contest = Contest(n1=1)
    contest.run("victim", "n1", 0)
    contest.cluster.add(without_unused_parts(unschedulable_pod(**about)))
    process = FakeProcess(contest.cluster)
    process.waiting = WaitingPods(contest.cluster.decisions, eviction_delay=60.0)
    contest.cluster.decisions.server_time = lambda: start + process.cluster.now
    start = datetime(2026, 1, 1, 0, 1, 20, tzinfo=UTC).timestamp()
    contest.ask("pod", priority=HIGH)
    process.waiting.note_answer("pod", (), 0.0)
    early = process.calls.preempt(contest.preemption("pod"))
    assert f"evicts no pod for another {60 - seconds} s" in early.message
    process.cluster.now += 60 - seconds
    assert process.waiting.wake(process.cluster.now).woken == ("pod",)
    assert process.calls.preempt(contest.preemption("pod")).victims == ("victim",)


def unschedulable_pod(
    since: object = "", generation: int = 1, status: str = "False", created: str | None = None
) -> Pod:
    """A pod that the scheduler found no node for."""
    fields = pod_fields("pod", "of-pod", generation=generation, creationTimestamp=created)
    told = {"type": "PodScheduled", "status": status, "lastTransitionTime": since}
    read = pod_reader().read({**fields, "status": {"conditions": [told] if since != "" else []}})
    assert isinstance(read, Pod)
    return read


async def test_without_a_delay_a_pod_evicts_others_at_once() -> None:
    contest = Contest(n1=1)
    contest.run("victim", "n1", 0)
    contest.cluster.add(without_unused_parts(unschedulable_pod("2026-01-01T00:00:40Z")))
    process = FakeProcess(contest.cluster)
    contest.ask("pod", priority=HIGH)
    process.waiting.note_answer("pod", (), 0.0)
    assert process.calls.preempt(contest.preemption("pod")).victims == ("victim",)


async def test_other_calls_are_answered_while_the_members_of_a_group_are_received() -> None:
    ticks = itertools.count()
    process = FakeProcess(Cluster(n1=4), now=lambda: next(ticks) * 0.03)
    asked = members_of(process.cluster, ["m0", "m1", "m2", "m3"])
    call = asyncio.create_task(process.calls.prefilter_group(asked))
    answered = 0
    while not call.done():
        await asyncio.sleep(0)
        answered += process.calls.status(StatusRequest()).ready
    assert (await call).message == "the search for 4 members of the group continues"
    assert process.pauses == [0] * 4
    assert answered > len(process.pauses)


async def test_a_group_is_not_decided_about_when_another_leads_by_then() -> None:
    ticks = itertools.count()
    process = FakeProcess(Cluster(n1=4), now=lambda: next(ticks) * 0.03)
    asked = members_of(process.cluster, ["m0", "m1", "m2", "m3"])
    call = asyncio.create_task(process.calls.prefilter_group(asked))
    await asyncio.sleep(0)
    process.leading = False
    with pytest.raises(ProtocolError) as refused:
        await call
    assert refused.value.code is ErrorCode.NOT_LEADING
    assert process.cluster.held() == []


async def test_a_group_is_not_decided_about_when_the_decisions_were_made_anew_by_then() -> None:
    ticks = itertools.count()
    process = FakeProcess(Cluster(n1=4), now=lambda: next(ticks) * 0.03)
    asked = members_of(process.cluster, ["m0", "m1", "m2", "m3"])
    call = asyncio.create_task(process.calls.prefilter_group(asked))
    await asyncio.sleep(0)
    process.cluster = Cluster(n1=4)
    assert asked.members
    member = asked.members[0]
    process.calls.prefilter(PreFilterRequest(pod=member.pod, claims=member.claims))
    with pytest.raises(ProtocolError) as refused:
        await call
    assert refused.value.code is ErrorCode.NOT_READY


def preemptions(outcome: str) -> float:
    """How many requests for victims had an outcome."""
    name, labels = "drawbridge_allocator_preemptions_total", {"outcome": outcome}
    return metrics.ALLOCATOR.get_sample_value(name, labels) or 0.0


async def test_the_end_of_a_hold_is_reported_on_a_member() -> None:
    process = FakeProcess(Cluster(n1=2))
    process.cluster.ask_group("default/g", "m0", "m1", min_count=2)
    process.cluster.reserve("m0", "n1")
    process.cluster.now = STEP_SECONDS
    await process.run_until(lambda: process.reported)
    (ended,) = process.reported
    assert isinstance(ended, EndedHold)
    assert (ended.pod.uid, *ended[1:]) == ("m1", HoldEnd.DEADLINE, 1, 2)


async def test_what_a_process_tells_does_not_wait_for_the_end_of_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[int] = []
    process = FakeProcess(Cluster(n1=1), collect=lambda: collected.append(1))
    report, counted = cast(Any, object()), list[int]()

    def wake(*_: object, **__: object) -> Turn:
        process.cluster.state.reports.append(report)
        return Turn((), unfinished=True)

    monkeypatch.setattr(process.waiting, "wake", wake)
    monkeypatch.setattr(metrics.ALLOCATOR_WAITING, "set", counted.append)
    process.calls.prefilter(request("p", 2))
    await process.run_until(lambda: len(process.reported) > 2)
    assert process.reported[0] is report
    assert counted[:2] == [1, 1]
    assert len(collected) > 2
