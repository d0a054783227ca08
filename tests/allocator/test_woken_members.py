"""Which members of a group another one wakes that was answered."""

import msgspec
import pytest
from msgspec.structs import replace

from allocator.decisions.waiting import SCHEDULING_SECONDS
from allocator.scheduler.protocol import GroupMember
from tests.allocator.clusters import Cluster, allocation_on, claim, members_of
from tests.allocator.fake_process import FakeProcess

pytestmark = pytest.mark.asyncio


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


async def test_members_without_a_part_do_not_wake_each_other_while_others_have_theirs() -> None:
    process = FakeProcess(Cluster(n1=2))
    names, large = ["m0", "m1", "m2", "m3"], ("m2", "m3")
    for name in (*names, *large, *large):
        asked = members_of(process.cluster, [name, *(each for each in names if each != name)])
        members = [
            _with_devices(each, 3 if each.pod.uid in large else 1) for each in asked.members or ()
        ]
        group = replace(asked.group, min_count=2)
        asked = replace(asked, group=group, members=tuple(members))
        assert bool((await process.calls.prefilter_group(asked)).fit) is (name not in large)
    assert process.published == ["m1"]


def _with_devices(member: GroupMember, count: int) -> GroupMember:
    """Return a member that asks for so many devices."""
    own = claim(f"c-{member.pod.uid}", count)
    return replace(member, claims=(msgspec.Raw(msgspec.json.encode(own)),))
