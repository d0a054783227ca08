"""Holds for groups: how long they last, why they end, and the pauses after those in vain."""

from typing import Any

import pytest
from msgspec.structs import replace

from allocator.decisions.waiting import WaitingPods
from allocator.decisions.wake_turns import is_woken_by_member
from allocator.scheduler.protocol import GroupReference, PreFilterRequest
from allocator.state.group_holds import (
    MAX_HOLD_SECONDS,
    RECENT_DELAYS,
    STEP_SECONDS,
    STEPS_PER_DELAY,
)
from allocator.state.pod_table import PodTable
from allocator.state.record_states import RecordEvent
from allocator.state.reports import EndedHold, HoldEnd
from drawbridge.agreement import allocator_codes
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.quantity import Quantity
from tests.allocator.clusters import (
    FOUR,
    Cluster,
    allocation_on,
    ask_group,
    claim,
    codes,
    gpu_slice,
    members_of,
    pod,
)
from tests.allocator.test_quotas import DEVICES


def test_a_hold_ends_as_a_whole() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.decisions.expire(STEP_SECONDS - 0.1)
    assert len(cluster.held()) == 4
    cluster.decisions.expire(STEP_SECONDS)
    assert cluster.held() == []


def test_each_reserved_member_moves_the_deadline_within_a_limit() -> None:
    uids = [f"m{number}" for number in range(9)]
    cluster = Cluster(n1=9)
    cluster.ask_group("default/g", *uids)
    for uid in uids[:-1]:
        assert not cluster.reserve(uid, "n1")
        cluster.now += STEP_SECONDS - 1
        cluster.decisions.reservations.renew(uids, cluster.now)
        cluster.decisions.expire(cluster.now)
    assert cluster.now > MAX_HOLD_SECONDS
    assert cluster.decisions.reservations.find("m8") is None


def test_a_member_that_gives_its_devices_back_ends_the_hold() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.reserve("m0", "n1")
    cluster.decisions.unreserve("m0", cluster.now)
    assert cluster.held() == []


def test_at_the_end_of_a_cycle_for_the_group_a_part_goes_back_to_the_hold() -> None:
    """A hold can begin in the middle of a cycle, whose first members are refused already."""
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4, asking="m3")
    cluster.reserve("m3", "n1")
    cluster.decisions.unreserve("m3", cluster.now, cycle=True)
    assert len(cluster.held()) == 4
    assert cluster.schedule_group(*FOUR) == ["n1"] * 4
    cluster.decisions.unreserve("m3", cluster.now, cycle=True)
    assert len(cluster.held()) == 3


@pytest.mark.parametrize("size", [4, 64])
def test_a_member_of_a_large_group_costs_what_one_of_a_small_group_does(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = [f"m{number}" for number in range(size)]
    cluster = Cluster(n1=size)
    asked = members_of(cluster, uids)
    ask_group(cluster.decisions, asked, cluster.now)
    assert len(cluster.held()) == size
    changed, change = [], PodTable.change

    def note(table: PodTable, uid: str, event: RecordEvent, **changes: Any) -> None:  # noqa: ANN401  # as there
        changed.append(uid)
        change(table, uid, event, **changes)

    monkeypatch.setattr(PodTable, "change", note)
    cluster.decisions.prefilter(
        PreFilterRequest(
            pod=asked.members[1].pod, claims=asked.members[1].claims, group=asked.group
        ),
        cluster.now,
    )
    assert not cluster.reserve("m1", "n1")
    assert set(changed) == {"m1"}
    assert len(changed) <= 12


def ask_alone(cluster: Cluster, uid: str) -> str:
    """Ask as the scheduler does for the last member that waits; return its node."""
    (fit,) = cluster.prefilter(uid, claim(f"c-{uid}")).fit
    return fit.node


def test_the_last_member_is_asked_about_alone_and_completes_the_hold() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    for uid in FOUR[:3]:
        cluster.reserve(uid, "n1")
    assert ask_alone(cluster, "m3") == "n1"
    assert cluster.decisions.groups.holds.find("default/g", cluster.now) is not None
    cluster.reserve("m3", "n1")
    for uid in FOUR:
        cluster.write(uid)
    cluster.decisions.expire(cluster.now)
    assert not cluster.state.reports
    assert cluster.decisions.reservations.groups.paused_until("default/g", "pause") == 0


def test_the_part_of_the_last_member_lasts_as_long_as_the_hold() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    for uid in FOUR[:3]:
        cluster.reserve(uid, "n1")
    for _ in range(2):  # also a second time
        ask_alone(cluster, "m3")
    cluster.now = STEP_SECONDS - 1
    cluster.decisions.expire(cluster.now)
    assert cluster.nodes("other", claim("d")) == []
    assert not cluster.reserve("m3", "n1")


def test_a_member_keeps_its_part_if_the_scheduler_selects_a_node_that_is_full_by_then() -> None:
    cluster = Cluster(n1=2, n2=1)
    cluster.ask_group("default/g", "m0", "m1", min_count=2)
    assert cluster.schedule("other", claim("d")) == "n2"
    assert "not free any more" in cluster.reserve("m0", "n2")
    assert len(cluster.held()) == 3
    assert [cluster.reserve(uid, "n1") for uid in ("m0", "m1")] == ["", ""]


def test_a_hold_ends_that_lost_a_part_to_a_pod_with_a_higher_priority() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    assert cluster.nodes("high", claim("d"), priority=1000) == ["n1"]
    cluster.decisions.expire(cluster.now)
    assert cluster.held() == ["n1/gpu-0"]


@pytest.mark.parametrize(("namespace", "pause"), [("other", 0), ("default", 1)])
def test_a_gang_pauses_only_if_its_own_namespace_took_its_devices(
    namespace: str, pause: int
) -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.now = 3.0
    assert cluster.nodes("high", claim("d"), priority=1000, namespace=namespace)
    cluster.decisions.expire(cluster.now)
    until = cluster.decisions.reservations.groups.paused_until("default/g", "pause")
    assert max(0.0, until - cluster.now) == pause


def test_a_member_that_is_deleted_ends_the_hold_in_vain() -> None:
    cluster = Cluster(n1=4)
    cluster.add(pod("m0", "c-m0"))
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.now = 3.0
    cluster.state.apply(pod("m0", "c-m0"), None)
    cluster.decisions.end("m0")
    cluster.decisions.expire(cluster.now)
    assert cluster.held() == []
    assert cluster.decisions.reservations.groups.paused_until("default/g", "pause") == 4.0


def test_a_gang_that_gets_new_members_for_ever_holds_devices_for_a_limited_part_of_the_time() -> (
    None
):
    cluster = Cluster(n1=4)
    held = 0
    for second in range(0, 4000, 5):
        cluster.now = float(second)
        cluster.decisions.expire(cluster.now)
        held += 5 * bool(cluster.held())
        new = [f"x{second}"] if second % 10 == 0 else []
        if new or not cluster.held():
            cluster.ask_group("default/g", *new, *FOUR, min_count=4)
    assert held < 4000 * 0.3


def test_a_gang_of_one_that_is_bound_forgives_nothing_to_other_gangs() -> None:
    def held_seconds(bound_each: int) -> int:
        cluster = Cluster(n1=4)
        held = 0
        for second in range(500):
            cluster.now = float(second)
            cluster.decisions.expire(cluster.now)
            held += bool(cluster.held())
            uids = [f"{each}-{second}" for each in FOUR]
            if not cluster.held():
                cluster.ask_group(f"default/g{second}", *uids, min_count=4)
            if second % bound_each == 0:
                uid = f"ok{second}"
                group = GroupReference(key="default/ok")
                cluster.decisions.groups.note_member(cluster.pod(uid), group, cluster.now)
                cluster.add(pod(uid, "c-x", node="n9"))
                cluster.decisions.end(uid)
        return held

    assert held_seconds(30) == held_seconds(1000)


def test_a_group_that_could_not_use_its_devices_pauses_before_it_gets_them_again() -> None:
    cluster = Cluster(n1=4)
    pauses = []
    for _ in range(10):
        cluster.ask_group("default/g", *FOUR, min_count=4)
        cluster.now += STEP_SECONDS
        cluster.decisions.expire(cluster.now)
        reply = cluster.ask_group("default/g", *FOUR, min_count=4)
        assert codes(reply) == [allocator_codes.GANG_PAUSES.name]
        assert cluster.held() == []
        until = cluster.decisions.reservations.groups.paused_until("default/g", "pause")
        pauses.append(until - cluster.now)
        cluster.now = until
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_a_group_that_pauses_asks_for_victims_afterwards() -> None:
    cluster, members = Cluster(n1=2), ("m0", "m1")
    waiting = WaitingPods(cluster.decisions)
    cluster.ask_group("default/g", *members, min_count=2)
    cluster.now = STEP_SECONDS
    cluster.decisions.expire(cluster.now)
    for number in range(2):
        name, taken = f"other-{number}", allocation_on("n1", number)
        cluster.add_claim(claim(name, allocation=taken, pods=[name]))
    for uid in members:
        reply = cluster.ask_group("default/g", *members, min_count=2, asking=uid)
        assert codes(reply) == [allocator_codes.GANG_PAUSES.name]
        waiting.note_answer(uid, [], cluster.now)
    until = cluster.decisions.reservations.groups.paused_until("default/g", "pause")
    assert waiting.wake(until - 0.1).woken == ()
    assert {*waiting.wake(until).woken} == {*members}


def test_groups_of_one_namespace_that_never_complete_do_not_hold_devices_all_the_time() -> None:
    cluster = Cluster(n1=4)
    held = 0
    for second in range(1000):
        cluster.now = float(second)
        cluster.decisions.expire(cluster.now)
        held += bool(cluster.held())
        uids = [f"{each}-{second}" for each in FOUR]
        if not cluster.held():
            cluster.ask_group(f"default/g{second}", *uids, min_count=4)
    assert held < 300
    cluster.decisions.expire(2000.0)
    cluster.now = 1000.0
    assert cluster.ask_group("other/g", *FOUR, min_count=4).fit


def test_a_group_of_which_a_member_is_bound_pauses_no_more() -> None:
    cluster = Cluster(n1=4)
    groups = cluster.decisions.reservations.groups
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.now = STEP_SECONDS
    cluster.decisions.expire(cluster.now)
    cluster.add(pod("m0", "c-m0", node="n1"))
    cluster.decisions.end("m0")
    assert groups.paused_until("default/g", "pause") == 0


def test_a_new_member_is_added_to_what_is_held() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", "m0", "m1", "m2")
    cluster.reserve("m0", "n1")
    assert cluster.ask_group("default/g", "m3", "m1", "m2", scheduled=1).fit
    assert len(cluster.held()) == 4


def test_a_busy_scheduler_has_more_time_for_groups_that_were_woken() -> None:
    cluster = Cluster(n1=4)
    decisions = cluster.decisions

    def wake() -> float:
        """Wake the group and return how long its hold lasts if nobody asks about it."""
        cluster.now = max(
            cluster.now, decisions.reservations.groups.paused_until("default/g", "pause")
        )
        assert decisions.groups.answer_again("default/g", cluster.now) is not None
        hold = decisions.groups.holds.find("default/g", cluster.now)
        assert hold is not None
        return hold.until - cluster.now

    cluster.ask_group("default/g", *FOUR, min_count=4)
    decisions.groups.holds.end("default/g", cluster.now)
    assert wake() == STEP_SECONDS
    # The scheduler comes to it after the end of the hold.
    cluster.now += STEP_SECONDS + 5
    decisions.expire(cluster.now)
    group = GroupReference(key="default/g", min_count=4)
    for member in FOUR:
        decisions.prefilter(
            replace(cluster.request(member, claim(f"c-{member}")), group=group), cluster.now
        )
    assert wake() == STEPS_PER_DELAY * (STEP_SECONDS + 5)
    decisions.groups.holds.end("default/g", cluster.now)
    for _ in range(RECENT_DELAYS):
        assert wake() >= STEP_SECONDS
        cluster.now += 1
        for member in FOUR:
            assert not cluster.reserve(member, "n1")
        for member in FOUR:
            decisions.unreserve(member, cluster.now)
    assert wake() == STEP_SECONDS


def test_a_tenant_that_is_slow_gives_no_other_one_more_time() -> None:
    cluster = Cluster(n1=4)
    decisions = cluster.decisions
    for number in range(9):
        key = f"slow/g{number}"
        cluster.ask_group(key, f"s{number}", min_count=1)
        decisions.groups.holds.end(key, cluster.now)
        assert decisions.groups.answer_again(key, cluster.now) is not None
        decisions.groups.holds.end(key, cluster.now)
    cluster.now = 100.0
    for number in range(9):
        cluster.ask_group(f"slow/g{number}", f"s{number}", min_count=2)
    cluster.ask_group("slow/g", "s", min_count=1)
    cluster.ask_group("default/g", "m0", min_count=1)
    slow, usual = (decisions.groups.holds.find(key, 100.0) for key in ("slow/g", "default/g"))
    assert slow is not None
    assert usual is not None
    assert (slow.until, usual.until) == (100 + MAX_HOLD_SECONDS, 100 + STEP_SECONDS)


@pytest.mark.parametrize("end", [each for each in HoldEnd if each is not HoldEnd.LEADER_CHANGED])
def test_a_hold_that_ends_says_why(end: HoldEnd) -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    match end:
        case HoldEnd.DEADLINE:
            cluster.decisions.expire(STEP_SECONDS)
        case HoldEnd.GIVEN_BACK:
            cluster.reserve("m0", "n1")
            cluster.decisions.unreserve("m0", cluster.now)
        case HoldEnd.UNUSED:
            cluster.ask_group("default/g", *FOUR, min_count=4)
        case HoldEnd.LOST:
            assert cluster.nodes("high", claim("d"), priority=1000) == ["n1"]
            cluster.decisions.expire(cluster.now)
    (ended,) = cluster.state.take_reports()
    assert isinstance(ended, EndedHold)
    assert (ended.pod.uid in FOUR, ended.end, ended.members) == (True, end, 4)
    assert not cluster.state.reports


def test_a_hold_that_is_used_or_replaced_did_not_end_in_vain() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", "m0", "m1", "m2")
    assert cluster.ask_group("default/g", "m3", "m0", "m1", "m2").fit
    for uid in FOUR:
        assert not cluster.reserve(uid, "n1")
    assert not cluster.state.reports


def test_a_member_that_pauses_when_its_group_gets_devices_is_woken_afterwards() -> None:
    cluster = Cluster(n1=2)
    waiting, members = WaitingPods(cluster.decisions), ("m0", "m1")

    def ask(uid: str) -> bool:
        reply = cluster.ask_group("default/g", *members, min_count=2, asking=uid)
        waiting.note_answer(uid, [each.node for each in reply.fit], cluster.now)
        return bool(reply.fit)

    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["x"]))
    assert not any(map(ask, members))
    cluster.delete_claim("held")
    assert waiting.wake(1.0).woken == members
    cluster.now = 1.1
    cluster.schedule("high", claim("d", namespace="other"), priority=9, namespace="other")
    assert not ask("m1")
    cluster.decisions.unreserve("high")
    assert ask("m0")
    assert not is_woken_by_member(cluster.state.records.get("m1"), cluster.now)
    assert not cluster.reserve("m0", "n1")
    waiting.note_reservation("m0", reserved=True)
    assert waiting.wake(1.2).woken == ()
    assert waiting.wake(2.0).woken == ("m1",)
    cluster.now = 2.0
    assert ask("m1")
    # It has its answer, which other filters refuse now.
    assert [waiting.wake(float(at)).woken for at in range(3, 15)] == [()] * 12


def test_a_change_of_the_leader_ends_a_hold() -> None:
    cluster = Cluster(n1=4)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.decisions.begin_term()
    (ended,) = cluster.state.take_reports()
    assert isinstance(ended, EndedHold)
    assert (ended.end, ended.left) == (HoldEnd.LEADER_CHANGED, 4)


def test_a_decision_that_was_cut_before_a_change_of_the_leader_holds_devices_as_long() -> None:
    cluster, later = Cluster(n1=4), 3600.0
    asked = members_of(cluster, FOUR)
    asked = replace(asked, group=replace(asked.group, min_count=2))
    while not cluster.held():
        assert not ask_group(cluster.decisions, asked, 0.0, lambda: True).complete
    cluster.decisions.begin_term()
    while not ask_group(cluster.decisions, asked, later, lambda: True).complete:
        assert cluster.decisions.groups.holds.find("default/g", later) is None
    cluster.decisions.expire(later + 1.0)
    assert len(cluster.held()) == 4


def test_a_member_that_pauses_is_not_woken_because_another_one_is_decided_about() -> None:
    """The quota has no room for m0, which waits; other filters refuse m1, which has its devices."""
    quota = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(1)})
    cluster = Cluster(quotas=[quota], n1=2)
    waiting = WaitingPods(cluster.decisions)
    cluster.add_claim(claim("c-m1", allocation=allocation_on("n1", 0), pods=["m1"]))
    for uid in ("m0", "m1"):
        reply = cluster.ask_group("default/g", "m0", "m1", min_count=1, asking=uid)
        assert bool(reply.fit) is (uid == "m1")
        waiting.note_answer(uid, [each.node for each in reply.fit], cluster.now)

    def wake(now: float, *, changed: bool = True) -> tuple[str, ...]:
        if changed:
            cluster.add(gpu_slice("n2", 1, generation=int(now * 10)))
        return waiting.wake(now).woken

    assert wake(2.0) == ("m1",)
    assert wake(2.5) == ()
    assert wake(3.0, changed=False) == ("m1",)
    assert [at for at in range(4, 40) if wake(float(at))] == [5, 9, 17, 33]
