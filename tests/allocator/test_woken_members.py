"""Which members of a group another one wakes that was answered."""

import msgspec
import pytest
from msgspec.structs import replace

from allocator.decisions.waiting import SCHEDULING_SECONDS
from allocator.scheduler.protocol import GroupMember, PodOnNode, PreFilterGroupRequest
from allocator.state.record_states import RecordEvent
from drawbridge.dra.nodes import Node
from tests.allocator.clusters import Cluster, allocation_on, claim, gpu_slice, members_of
from tests.allocator.contests import HIGH, Contest
from tests.allocator.fake_process import FakeProcess

pytestmark = pytest.mark.asyncio
NAMES, LARGE = ["m0", "m1", "m2", "m3"], ("m2", "m3")


async def test_all_members_are_woken_once_some_have_devices() -> None:
    process = FakeProcess(Cluster(n1=4))
    held = allocation_on("n1", 0)
    process.cluster.add_claim(claim("c-m1", version=2, allocation=held))
    asked = members_of(process.cluster, ["m0", "m1", "m2", "m3"])
    assert (await process.calls.prefilter_group(asked)).fit
    assert process.published == ["m1", "m2", "m3"]


async def test_two_members_that_other_filters_refuse_do_not_wake_each_other_without_end() -> None:
    process = FakeProcess(Cluster(n1=4))
    process.cluster.add_claim(claim("c-m1", version=2, allocation=allocation_on("n1", 0)))
    names = ["m0", "m1"]
    for name in (*names, *names):
        others = [each for each in names if each != name]
        asked = members_of(process.cluster, [name, *others])
        assert (await process.calls.prefilter_group(asked)).fit
    assert process.published == ["m1"]
    process.cluster.now += SCHEDULING_SECONDS
    assert (await process.calls.prefilter_group(members_of(process.cluster, names))).fit
    assert process.published == ["m1", "m1"]


async def test_members_whose_records_are_not_kept_do_not_wake_each_other_without_end() -> None:
    process = FakeProcess(Cluster(n1=4))
    process.cluster.state.records.limit = 1
    process.cluster.add_claim(claim("c-m1", version=2, allocation=allocation_on("n1", 0)))
    for names in (["m0", "m1"], ["m1", "m0"]) * 4:
        assert (await process.calls.prefilter_group(members_of(process.cluster, names))).fit
    assert process.published == []


async def test_a_member_whose_record_was_dropped_is_woken_when_it_has_devices() -> None:
    process, names = FakeProcess(Cluster(n1=2)), ["m2", "m0", "m1"]
    for first in (1, 2, 0):
        asked = members_of(process.cluster, names[first:] + names[:first])
        assert not (await process.calls.prefilter_group(asked)).fit
    records = process.cluster.state.records
    records.end("m0", RecordEvent.DROPPED)
    records.limit = len(records)
    process.cluster.add(Node("n2"), gpu_slice("n2", 3))
    assert (await process.calls.prefilter_group(members_of(process.cluster, names))).fit
    assert process.published == ["m0", "m1"]


@pytest.mark.parametrize("asked", ["m0", "m1"])
async def test_the_member_that_was_asked_about_is_woken_for_what_concerns_another_one(
    asked: str,
) -> None:
    contest = Contest(n1=1, n2=1)
    cluster, names = contest.cluster, [asked, *{"m0", "m1"} - {asked}]
    for node in ("n1", "n2"):
        contest.run(f"on-{node}", node, 0)
    assert cluster.ask_group("default/g", *names, priority=HIGH).group_preemptible
    assert len(cluster.decisions.preempt(contest.preemption(asked), cluster.now).evictions) == 2
    contest.waiting.note_answer(asked, [], cluster.now)
    for node in ("n1", "n2"):
        contest.evict(f"on-{node}")
    # What is kept for one of them is for a more important pod, and the other one waits on.
    contest.preempt("above", priority=2 * HIGH)
    assert contest.woken() == [asked]
    reply = cluster.ask_group("default/g", *names, priority=HIGH)
    assert "waits for 1 device" in reply.message
    contest.waiting.note_answer(asked, [], cluster.now)
    for node in ("n1", "n2"):
        contest.end(f"on-{node}")
    assert contest.woken(3.0) == ["above", asked]


async def test_members_without_a_part_do_not_wake_each_other_while_others_have_theirs() -> None:
    process = FakeProcess(Cluster(n1=2))
    for name in (*NAMES, *LARGE, *LARGE):
        reply = await process.calls.prefilter_group(_asked(process, name))
        assert bool(reply.fit) is (name not in LARGE)
    assert process.published == ["m1"]


async def test_members_without_a_part_are_tried_once_the_others_have_theirs() -> None:
    """A device that came meanwhile is for them, too."""
    process = FakeProcess(Cluster(n1=2))
    for name in NAMES:
        await process.calls.prefilter_group(_asked(process, name))
    process.cluster.add(Node("n2", {"name": "n2"}), gpu_slice("n2", 6))
    process.cluster.now += SCHEDULING_SECONDS
    assert not set(LARGE) & {*process.waiting.wake(process.cluster.now).woken}
    for name in ("m0", "m1"):
        assert process.calls.reserve(PodOnNode(pod_uid=name, node="n1")).reserved
    assert process.waiting.wake(process.cluster.now).woken == LARGE


async def test_members_without_a_part_ask_for_victims_once_the_others_have_theirs() -> None:
    """Nobody asked for them while the group waited for what its victims release."""
    process = FakeProcess(Cluster(n1=2))
    for name in NAMES:
        await process.calls.prefilter_group(_asked(process, name))
    process.cluster.now += SCHEDULING_SECONDS
    assert not set(LARGE) & {*process.waiting.wake(process.cluster.now).woken}
    for name in ("m0", "m1"):
        assert process.calls.reserve(PodOnNode(pod_uid=name, node="n1")).reserved
    assert process.waiting.wake(process.cluster.now).woken == LARGE
    assert process.waiting.wake(process.cluster.now).woken == ()


def _asked(process: FakeProcess, name: str) -> PreFilterGroupRequest:
    """Ask for one of four members, of which two must run and two need more than node n1 has."""
    asked = members_of(process.cluster, [name, *(each for each in NAMES if each != name)])
    members = [
        _with_devices(each, 3 if each.pod.uid in LARGE else 1) for each in asked.members or ()
    ]
    group = replace(asked.group, min_count=2)
    return replace(asked, group=group, members=tuple(members))


def _with_devices(member: GroupMember, count: int) -> GroupMember:
    """Return a member that asks for so many devices."""
    own = claim(f"c-{member.pod.uid}", count)
    return replace(member, claims=(msgspec.Raw(msgspec.json.encode(own)),))
