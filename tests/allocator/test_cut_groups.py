"""What happens between two steps of a decision about a gang, in any order."""

import pytest
from msgspec.structs import replace

from allocator.decisions.group_devices import GroupDevices
from allocator.decisions.group_searches import run_to_end
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import GroupReference, PreFilterGroupRequest, PreFilterRequest
from allocator.state.group_holds import MAX_HOLD_SECONDS
from allocator.state.reserved_pods import PROMISE_SECONDS
from drawbridge.agreement import allocator_codes
from tests.allocator.clusters import (
    FOUR,
    Cluster,
    allocation_on,
    ask_group,
    claim,
    codes,
    members_of,
    pod,
)
from tests.allocator.cut_groups import play
from tests.allocator.test_group_searches import cut_while_promising
from tests.thorough import drawn


@pytest.mark.parametrize("seed", range(drawn(16, thorough=400)))
def test_whatever_happens_between_two_steps_each_device_is_held_for_one_pod_that_uses_it(
    seed: int,
) -> None:
    assert len(play(seed, 100).events) == 102


def alone(asked: PreFilterGroupRequest, number: int) -> PreFilterRequest:
    """Return what the scheduler asks for the last member that waits."""
    assert asked.members
    member = asked.members[number]
    return PreFilterRequest(pod=member.pod, claims=member.claims)


def test_a_pod_that_ends_while_its_group_is_received_is_not_remembered() -> None:
    cluster = Cluster(n1=4)
    waiting = WaitingPods(cluster.decisions)
    asked = members_of(cluster, FOUR)
    assert asked.members
    first, second, *others = asked.members
    members = (first, replace(second, pod=replace(second.pod, priority=9)), *others)
    cluster.add(pod("m1", "c-m1"))
    steps = cluster.decisions.receive_group(replace(asked, members=members), 0.0)
    for _ in members:
        next(steps)
    cluster.state.apply(pod("m1", "c-m1"), None)
    waiting.end_settled(0.0)
    assert run_to_end(steps).priority == 0
    assert "m1" not in set(cluster.state.records)


def test_a_member_that_is_being_bound_by_then_keeps_its_devices() -> None:
    cluster = Cluster(n1=4)
    asked = members_of(cluster, FOUR)
    cut_while_promising(cluster, FOUR)
    last = next(n for n in range(4) if not cluster.decisions.reservations.find(FOUR[n]))
    node = cluster.decisions.prefilter(alone(asked, last), 0.0).fit[0].node
    assert not cluster.reserve(FOUR[last], node)
    assert not cluster.decisions.reservations.begin_write(FOUR[last])
    while not ask_group(cluster.decisions, asked, 0.0, lambda: True).complete:
        assert cluster.decisions.reservations.is_writing(FOUR[last])
    assert cluster.decisions.reservations.is_writing(FOUR[last])


def test_a_hold_lasts_no_longer_than_its_first_part() -> None:
    cluster, now = Cluster(n1=4), 0.0
    cut_while_promising(cluster, FOUR)
    while not ask_group(cluster.decisions, members_of(cluster, FOUR), now, lambda: True).complete:
        now += 5
    hold = cluster.decisions.groups.holds.find("default/g", now)
    assert hold is not None
    parts = [cluster.state.records.get(uid).devices for uid in FOUR]
    assert min(part.until for part in parts if part) >= hold.since + MAX_HOLD_SECONDS
    assert now > hold.since


def test_members_that_lose_what_is_promised_meanwhile_get_it_again() -> None:
    cluster = Cluster(n1=4)
    cut_while_promising(cluster, FOUR)
    cluster.decisions.reservations.release_promised(FOUR)
    assert cluster.held() == []
    answer = cluster.decisions.groups.answer_again("default/g", 0.0)
    assert answer is not None
    assert set(answer.placed) == set(FOUR)


def shared_group(cluster: Cluster) -> PreFilterGroupRequest:
    """Two members of which each has a claim with devices, and two that need devices."""
    for number in (0, 1):
        cluster.add_claim(claim(f"c-m{number}", version=2, allocation=allocation_on("n1", number)))
    return members_of(cluster, FOUR)


def test_members_that_have_devices_are_woken_with_the_others() -> None:
    cluster = Cluster(n1=4)
    waiting, asked = WaitingPods(cluster.decisions), shared_group(cluster)
    for number, uid in enumerate(FOUR):
        request = replace(alone(asked, number), group=asked.group)
        assert cluster.decisions.prefilter(request, 0.0).members_needed
        reply = ask_group(cluster.decisions, replace(asked, pod_uid=uid), 0.0, lambda: True)
        waiting.note_answer(uid, [], 0.0, complete=reply.complete)
    woken = [uid for _ in range(40) for uid in waiting.wake(2.0, out_of_time=lambda: True).woken]
    assert set(woken) == set(FOUR)
    # None of them asks about all again.
    for number in range(4):
        request = replace(alone(asked, number), group=asked.group)
        assert cluster.decisions.prefilter(request, 2.0, lambda: True).fit


def test_members_that_have_devices_and_no_node_are_not_woken_again_and_again() -> None:
    cluster = Cluster(n1=4)
    waiting, asked = WaitingPods(cluster.decisions), shared_group(cluster)
    cluster.add_claim(claim("c-m1", version=3, allocation=allocation_on("n9", 0)))
    assert asked.members
    told: tuple[str, ...] = FOUR
    woken = 0
    for turn in range(200):
        for number, uid in enumerate(FOUR[:2]):
            if uid not in told:
                continue
            woken += 1
            request = replace(alone(asked, number), group=asked.group)
            reply = cluster.decisions.prefilter(request, 1.0 * turn)
            if reply.members_needed:
                some = replace(asked, pod_uid=uid, members=asked.members[:2])
                group = GroupReference(key="default/g", min_count=2)
                reply = ask_group(cluster.decisions, replace(some, group=group), 1.0 * turn)
            nodes = [each.node for each in reply.fit]
            waiting.note_answer(uid, nodes, 1.0 * turn, complete=reply.complete)
        told = waiting.wake(1.0 * turn).woken
    assert woken < 40


def test_a_group_that_asks_for_more_members_meanwhile_gets_devices_for_all_of_them() -> None:
    cluster = Cluster(n1=3)
    asked = members_of(cluster, FOUR)
    few = replace(asked, group=GroupReference(key="default/g", min_count=2))
    assert not ask_group(cluster.decisions, few, 0.0, lambda: True).complete
    reply = ask_group(cluster.decisions, asked, 0.0)
    assert codes(reply) == [allocator_codes.GANG_TOO_LARGE.name]
    assert cluster.held() == []


def test_a_decision_that_raises_an_exception_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(n1=4)
    cut_while_promising(cluster, FOUR)
    with monkeypatch.context() as broken:
        broken.setattr(GroupDevices, "_promise_to", None)
        with pytest.raises(TypeError):
            ask_group(cluster.decisions, members_of(cluster, FOUR), 0.0)
    assert ask_group(cluster.decisions, members_of(cluster, FOUR), 0.0).fit


def test_a_member_that_moves_to_another_group_takes_nothing_along() -> None:
    cluster = Cluster(n1=4)
    asked = members_of(cluster, FOUR)
    assert ask_group(cluster.decisions, asked, 0.0).fit
    other = GroupReference(key="default/other", min_count=2)
    cluster.decisions.prefilter(replace(alone(asked, 3), group=other), 0.0)
    assert cluster.decisions.groups.holds.find("default/g", 0.0) is None
    assert cluster.held() == []


def test_members_that_are_reserved_count_when_the_others_are_asked_about_again() -> None:
    cluster = Cluster(n1=4)
    for uid in FOUR:
        fit = cluster.ask_group("default/g", *FOUR, min_count=4, asking=uid).fit
        assert not cluster.reserve(uid, fit[0].node)
    cluster.now = 2 * PROMISE_SECONDS
    cluster.decisions.unreserve("m3", cluster.now)
    answer = cluster.decisions.groups.answer_again("default/g", cluster.now)
    assert answer is not None
    assert answer.placed == ("m3",)
