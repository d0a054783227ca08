"""Groups: their members get devices together or not at all, and holds end."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from allocator.decisions.interrupted_groups import FIRST_SECONDS, GATHER_SECONDS, YOUNG_SECONDS
from allocator.decisions.member_nodes import MAX_KINDS
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PreFilterGroupRequest,
    PreFilterReply,
    ProtocolError,
)
from allocator.state import group_records
from allocator.state.group_holds import STEP_SECONDS
from drawbridge.agreement import allocator_codes
from drawbridge.ledger.pods import NodeAffinity
from drawbridge.pod_groups import COSCHEDULING_LABEL
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


def test_all_members_get_devices_together() -> None:
    cluster = Cluster(n1=3, n2=1)
    reply = cluster.ask_group("default/g", *FOUR, min_count=4)
    assert reply.fit
    assert cluster.held() == ["n1/gpu-0", "n1/gpu-1", "n1/gpu-2", "n2/gpu-0"]
    assert cluster.nodes("other", claim("d")) == []


def test_each_member_gets_its_part() -> None:
    cluster = Cluster(n1=3, n2=1)
    assert sorted(cluster.schedule_group(*FOUR)) == ["n1", "n1", "n1", "n2"]


def test_a_group_that_does_not_fit_holds_nothing_and_is_told_what_is_missing() -> None:
    cluster = Cluster(n1=3)
    reply = cluster.ask_group("default/g", *FOUR, min_count=4)
    assert (reply.fit, cluster.held()) == ((), [])
    assert codes(reply) == [allocator_codes.GANG_TOO_LARGE.name]
    assert reply.message == "3 of 4 members of the group fit"


def test_the_other_members_of_a_refused_group_are_not_asked_about_again() -> None:
    cluster = Cluster(n1=3)
    group = GroupReference(key="default/g", min_count=4)
    refused = cluster.ask_group("default/g", *FOUR, min_count=4)
    single = replace(cluster.request("m1", claim("c-m1")), group=group)
    assert cluster.decisions.prefilter(single, cluster.now).message == refused.message
    cluster.add(gpu_slice("n1", 4, generation=2))
    assert cluster.decisions.prefilter(single, cluster.now).members_needed


def test_members_that_are_scheduled_count() -> None:
    cluster = Cluster(n1=3)
    reply = cluster.ask_group("default/g", *FOUR, min_count=6, scheduled=3)
    assert len(cluster.held()) == 3
    assert reply.fit


def test_more_members_than_must_run_get_what_is_there() -> None:
    cluster = Cluster(n1=3)
    cluster.ask_group("default/g", *FOUR, min_count=2)
    assert len(cluster.held()) == 3


def test_a_group_without_a_number_needs_all_members_that_exist() -> None:
    assert Cluster(n1=3).ask_group("default/g", *FOUR).message == "3 of 4 members of the group fit"


@pytest.mark.parametrize(
    ("minimum", "said", "message"),
    [
        (4, 0, "2 of 4 members of the group exist"),
        (2, 0, ""),
        (0, 0, ""),
        (4, 2, ""),  # what the pod says counts first
    ],
)
def test_the_pod_group_of_coscheduling_says_how_many_members_must_run(
    minimum: int, said: int, message: str
) -> None:
    cluster = Cluster(n1=4, min_members={("default", "g"): minimum, ("other", "g"): 9})
    reply = cluster.ask_group(KEY, "m0", "m1", min_count=said)
    assert (reply.message, bool(reply.fit)) == (message, not message)


def test_a_group_whose_members_do_not_exist_yet_holds_nothing() -> None:
    cluster = Cluster(n1=8)
    reply = cluster.ask_group("default/g", *FOUR, min_count=5)
    assert codes(reply) == [allocator_codes.GANG_INCOMPLETE.name]
    assert cluster.held() == []


def ask_varied(cluster: Cluster, members: int, **fields: Any) -> PreFilterReply:  # noqa: ANN401  # of the pod
    """Ask for a gang whose members all want another number of devices."""
    group = GroupReference(key="default/g", min_count=1)
    asking = tuple(
        GroupMember(
            pod=replace(cluster.pod(f"m{number}"), **fields),
            claims=(Raw(msgspec.json.encode(claim(f"c-m{number}", number + 1))),),
        )
        for number in range(members)
    )
    request = PreFilterGroupRequest(pod_uid="m0", group=group, members=asking)
    return ask_group(cluster.decisions, request, 0.0)


def affinity(expressions: int) -> NodeAffinity:
    """Return a required node affinity that every node has."""
    present = {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}] * expressions}
    required = {"nodeSelectorTerms": [present]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return msgspec.convert({key: required}, NodeAffinity)


@pytest.mark.parametrize(
    ("members", "expressions", "searched"),
    [(MAX_KINDS, 0, True), (MAX_KINDS + 1, 0, False), (4, 16, True), (4, 17, False)],
)
def test_a_gang_of_too_many_different_members_is_refused_before_any_search(
    members: int,
    expressions: int,
    searched: bool,  # noqa: FBT001  # a column
) -> None:
    cluster = Cluster(n1=1)
    fields = {"node_affinity": affinity(expressions)} if expressions else {}
    reply = ask_varied(cluster, members, **fields)
    assert bool(reply.fit) is searched
    varied = allocator_codes.GANG_TOO_VARIED.name
    assert (varied in codes(reply)) is not searched
    assert not reply.preemptible or searched


def test_members_that_use_one_claim_are_decided_about_one_by_one() -> None:
    cluster = Cluster(n1=1)
    group = GroupReference(key="default/g", min_count=2)
    shared = (Raw(msgspec.json.encode(claim("shared"))),)
    members = tuple(GroupMember(pod=cluster.pod(uid), claims=shared) for uid in ("m0", "m1"))
    request = PreFilterGroupRequest(pod_uid="m0", group=group, members=members)
    assert ask_group(cluster.decisions, request, 0.0).fit


def test_a_member_that_cannot_use_its_claim_has_no_place() -> None:
    cluster = Cluster(n1=4)
    cluster.add_claim(claim("c-m3", deletionTimestamp="2026-01-01T00:00:00Z", version=9))
    assert cluster.ask_group("default/g", *FOUR, min_count=4).message == (
        "3 of 4 members of the group exist"
    )


def test_a_pod_that_is_no_member_is_a_mistake_of_the_plugin() -> None:
    cluster = Cluster(n1=1)
    group = GroupReference(key="default/g")
    with pytest.raises(ProtocolError):
        ask_group(cluster.decisions, PreFilterGroupRequest(pod_uid="x", group=group), 0.0)


# --- waking ---


def test_a_waiting_group_is_woken_as_a_whole() -> None:
    cluster = Cluster(n1=3)
    waiting = WaitingPods(cluster.decisions)
    for uid in FOUR:
        reply = cluster.ask_group("default/g", *FOUR, min_count=4, asking=uid)
        waiting.note_answer(uid, [], 0.0, complete=reply.complete)
    assert waiting.wake(2.0).woken == ()
    cluster.add(gpu_slice("n1", 4, generation=2))
    assert waiting.wake(4.0).woken == FOUR
    assert len(cluster.held()) == 4


def test_one_free_device_wakes_no_member_but_a_pod_alone() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["holder"], version=2))
    waiting = WaitingPods(cluster.decisions)
    for uid in FOUR:
        cluster.ask_group("default/g", *FOUR, min_count=4, asking=uid)
        waiting.note_answer(uid, [], 0.0)
    cluster.prefilter("alone", claim("d"))
    waiting.note_answer("alone", [], 1.0)
    cluster.add_claim(claim("held", version=3))
    assert waiting.wake(4.0).woken == ("alone",)


def test_a_namespace_with_many_gangs_delays_no_gang_of_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_records, "MAX_MEMBERS", 40)
    cluster = Cluster(n1=0)
    waiting = WaitingPods(cluster.decisions)
    keys = ["modest/g", *(f"greedy/g{number}" for number in range(50))]
    for number, key in enumerate(keys):
        uids = (f"p{number}", f"q{number}")
        cluster.ask_group(key, *uids, min_count=2)
        waiting.note_answer(uids[0], [], 0.0)
    cluster.add(gpu_slice("n1", 4, generation=2))
    assert {"p0", "q0"} <= set(waiting.wake(5.0).woken)


def test_a_pod_whose_gang_is_not_known_any_more_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_records, "MAX_MEMBERS", 40)
    cluster = Cluster(n1=0)
    waiting = WaitingPods(cluster.decisions)
    for number in range(50):
        uids = (f"p{number}", f"q{number}")
        cluster.ask_group(f"default/g{number}", *uids, min_count=2)
        waiting.note_answer(uids[0], [], 0.0)
    cluster.add(gpu_slice("n1", 4, generation=2))
    woken = {uid for second in range(5, 10) for uid in waiting.wake(float(second)).woken}
    assert woken >= {f"p{number}" for number in range(30)}


@pytest.mark.parametrize(
    ("members", "alone", "first"),
    [((9, 9), 5, "m0"), ((9, 1), 5, "alone"), ((1, 9), 5, "alone"), ((9, 5), 5, "m0")],
)
def test_a_gang_waits_in_the_place_of_its_least_important_member(
    members: tuple[int, int], alone: int, first: str
) -> None:
    cluster = Cluster(n1=2)
    held = claim("held", 2, allocation=allocation_on("n1", 0, 1), pods=["x"], version=2)
    cluster.add_claim(held)
    waiting = WaitingPods(cluster.decisions)
    priority = dict(zip(FOUR, members, strict=False))
    # The more important member is asked about when the other one does not exist yet.
    for uids in (["m0"], ["m0", "m1"], ["m1", "m0"]):
        cluster.ask_group("default/g", *uids, min_count=2, priority=priority)
        waiting.note_answer(uids[0], [], 0.0)
    cluster.prefilter("alone", claim("d"), priority=alone)
    waiting.note_answer("alone", [], 1.0)
    cluster.add_claim(claim("held", 2, version=3))
    assert waiting.wake(9.0).woken[0] == first


def test_the_place_of_a_gang_follows_the_members_that_arrive() -> None:
    cluster = Cluster(n1=2)
    held = claim("held", 2, allocation=allocation_on("n1", 0, 1), pods=["x"], version=2)
    cluster.add_claim(held)
    waiting = WaitingPods(cluster.decisions)
    priority = {"m0": 9, "m1": 9, "m2": 1}
    for uids in (["m0", "m1"], ["m1", "m0"], ["m2", "m0", "m1"]):
        cluster.ask_group("default/g", *uids, min_count=2, priority=priority)
        waiting.note_answer(uids[0], [], 0.0)
    cluster.prefilter("alone", claim("d"), priority=5)
    waiting.note_answer("alone", [], 1.0)
    cluster.add_claim(claim("held", 2, version=3))
    assert waiting.wake(9.0).woken == ("alone",)


def test_a_group_is_woken_after_its_pause() -> None:
    cluster = Cluster(n1=4)
    waiting = WaitingPods(cluster.decisions)
    cluster.ask_group("default/g", *FOUR, min_count=4)
    cluster.now = STEP_SECONDS
    cluster.decisions.expire(cluster.now)
    for uid in FOUR:
        cluster.ask_group("default/g", *FOUR, min_count=4, asking=uid)
        waiting.note_answer(uid, [], cluster.now)
    assert waiting.wake(cluster.now + 0.5).woken == ()
    assert waiting.next_time() == cluster.now + 1
    assert waiting.wake(cluster.now + 1).woken == FOUR


# --- after a change of the leader ---


def interrupted(free: int) -> Cluster:
    """Return a new term in which two of four members are bound, and some devices are free."""
    cluster = Cluster(n1=2 + free)
    group = {"labels": {COSCHEDULING_LABEL: "g"}}
    for number, uid in enumerate(FOUR):
        on = allocation_on("n1", number) if number < 2 else None
        pods = [uid] if number < 2 else []
        cluster.add_claim(claim(f"c-{uid}", allocation=on, pods=pods, version=2))
        cluster.add(pod(uid, f"c-{uid}", node="n1" if number < 2 else "", **group))
    cluster.decisions.begin_term()
    return cluster


KEY = f"default/{COSCHEDULING_LABEL}=g"


def test_members_of_a_partly_bound_group_come_before_all_others() -> None:
    cluster = interrupted(2)
    reply = cluster.prefilter("other", claim("d"), priority=1000)
    assert codes(reply) == [allocator_codes.GANG_INTERRUPTED.name]
    assert "1 group of which a part is bound gets devices first" in reply.message
    assert cluster.ask_group(KEY, "m2", "m3", min_count=4, scheduled=2).fit
    assert cluster.nodes("other", claim("d")) == []
    assert cluster.held() == [f"n1/gpu-{number}" for number in range(4)]


def test_no_pod_takes_over_what_is_held_for_a_partly_bound_group() -> None:
    cluster = interrupted(2)
    assert ask_interrupted(cluster).fit
    assert cluster.nodes("important", claim("d"), priority=1000) == []
    cluster.now = STEP_SECONDS
    cluster.decisions.expire(cluster.now)
    assert cluster.nodes("important", claim("d"), priority=1000) == ["n1"]


def test_others_wait_no_longer_than_until_the_group_has_an_answer() -> None:
    cluster = interrupted(2)
    assert not cluster.prefilter("other", claim("d")).fit
    assert not cluster.ask_group(KEY, "m2", "m3", min_count=5, scheduled=2).fit
    assert cluster.nodes("other", claim("d")) == ["n1"]


def test_others_wait_while_the_search_for_the_group_is_cut() -> None:
    cluster = interrupted(2)
    group = GroupReference(key=KEY, min_count=4, scheduled=2)
    request = replace(members_of(cluster, ("m2", "m3")), group=group)
    while not ask_group(cluster.decisions, request, 0.0, lambda: True).fit:
        assert codes(cluster.prefilter("other", claim("d"))) == [
            allocator_codes.GANG_INTERRUPTED.name
        ]
    assert cluster.nodes("other", claim("d")) == []


def test_a_group_that_nobody_asks_about_delays_others_for_a_moment() -> None:
    cluster = interrupted(2)
    assert not cluster.prefilter("other", claim("d")).fit
    cluster.now = FIRST_SECONDS
    assert cluster.nodes("other", claim("d")) == ["n1"]


def test_pods_behind_a_group_ask_for_victims_although_nothing_has_become_free() -> None:
    cluster = interrupted(0)
    waiting = WaitingPods(cluster.decisions)
    for uid, priority in (("low", 0), ("high", 1000)):
        assert not cluster.prefilter(uid, claim(f"of-{uid}"), priority=priority).preemptible
        waiting.note_answer(uid, [], cluster.now)
    assert not waiting.wake(FIRST_SECONDS - 0.1).woken
    cluster.now = FIRST_SECONDS
    assert waiting.wake(cluster.now).woken == ("high", "low")
    reply = cluster.prefilter("high", claim("of-high"), priority=1000)
    assert (reply.fit, reply.preemptible) == ((), True)


def test_a_partly_bound_group_gets_the_devices_that_become_free_first() -> None:
    cluster = interrupted(0)
    waiting = WaitingPods(cluster.decisions)
    waiting.wake(0.0)
    cluster.ask_group(KEY, "m2", "m3", min_count=4, scheduled=2)
    waiting.note_answer("high", [], 0.0)
    cluster.prefilter("high", claim("d"), claim("e"), priority=1000)
    waiting.note_answer("high", [], 0.0)
    for uid in ("m2", "m3"):
        cluster.ask_group(KEY, "m2", "m3", min_count=4, scheduled=2, asking=uid)
        waiting.note_answer(uid, [], 0.0)
    cluster.add(gpu_slice("n1", 4, generation=2))
    assert waiting.wake(2.0).woken == ("m2", "m3")


def ask_interrupted(cluster: Cluster, asking: str = "") -> PreFilterReply:
    return cluster.ask_group(KEY, "m2", "m3", min_count=4, scheduled=2, asking=asking)


def test_a_partly_bound_group_keeps_devices_one_by_one_until_enough_are_free() -> None:
    cluster = interrupted(1)
    waiting = WaitingPods(cluster.decisions)
    for uid in ("m2", "m3"):
        reply = ask_interrupted(cluster, uid)
        assert reply.message == "1 of 2 members of the group fit, 2 more are scheduled"
        waiting.note_answer(uid, [], 0.0)
    assert cluster.nodes("other", claim("d")) == []
    waiting.note_answer("other", [], 0.0)
    cluster.add(gpu_slice("n1", 4, generation=2))
    assert waiting.wake(2.0).woken == ("m2", "m3")
    assert [cluster.reserve(uid, "n1") for uid in ("m2", "m3")] == ["", ""]


def test_what_a_group_has_gathered_is_free_again_after_a_minute() -> None:
    cluster = interrupted(1)
    ask_interrupted(cluster)
    cluster.now = GATHER_SECONDS - 1
    ask_interrupted(cluster)
    assert cluster.nodes("other", claim("d")) == []
    cluster.now = GATHER_SECONDS
    cluster.decisions.expire(cluster.now)
    ask_interrupted(cluster)
    assert cluster.nodes("other", claim("d")) == ["n1"]


def test_a_group_that_was_interrupted_before_gathers_nothing_more_in_a_term_of_its_own() -> None:
    cluster = interrupted(1)
    cluster.add(pod("m1", "c-m1", phase="Failed", labels={COSCHEDULING_LABEL: "g"}))
    cluster.add(pod("m0", "c-m0", phase="Failed", labels={COSCHEDULING_LABEL: "g"}))
    cluster.decisions.begin_term()
    ask_interrupted(cluster)
    assert cluster.nodes("other", claim("d")) == ["n1"]


@pytest.mark.parametrize(("seconds", "first"), [(YOUNG_SECONDS - 1, True), (YOUNG_SECONDS, False)])
def test_a_group_of_which_a_part_is_bound_soon_after_a_change_of_the_leader_comes_first(
    seconds: float, *, first: bool
) -> None:
    cluster = Cluster(n1=3)
    group = {"labels": {COSCHEDULING_LABEL: "g"}}
    for uid in FOUR:
        cluster.add(pod(uid, f"c-{uid}", **group))
    cluster.decisions.begin_term()
    cluster.decisions.expire(0.0)
    assert not cluster.ask_group(KEY, *FOUR, min_count=4).fit
    for number, uid in enumerate(FOUR[:2]):
        on = allocation_on("n1", number)
        cluster.add_claim(claim(f"c-{uid}", allocation=on, pods=[uid], version=3))
        cluster.add(pod(uid, f"c-{uid}", node="n1", **group))
    cluster.now = seconds
    ask_interrupted(cluster)
    assert cluster.nodes("other", claim("d")) == ([] if first else ["n1"])


def test_members_of_another_scheduler_interrupt_nobody() -> None:
    cluster = Cluster(n1=2)
    fields: dict[str, Any] = {
        "labels": {COSCHEDULING_LABEL: "g"},
        "spec": {"schedulerName": "default-scheduler"},
    }
    cluster.add(pod("m1", "c-m1", **fields))
    bound: dict[str, Any] = {**fields, "spec": {**fields["spec"], "nodeName": "n1"}}
    cluster.add(pod("m0", "c-m0", **bound))
    cluster.decisions.begin_term()
    assert cluster.nodes("other", claim("d")) == ["n1"]
    assert not cluster.state.pods.bound_members_beside("m1")


def test_gated_and_ended_members_interrupt_nobody() -> None:
    cluster = Cluster(n1=2)
    group = {"labels": {COSCHEDULING_LABEL: "g"}}
    cluster.add(pod("m0", "c-m0", node="n1", **group), pod("m1", "c-m1", phase="Failed", **group))
    cluster.decisions.begin_term()
    assert cluster.nodes("other", claim("d")) == ["n1"]


@pytest.mark.parametrize("earlier", [0, 1, 3])
def test_a_pod_alone_waits_for_the_groups_before_it_and_for_no_later_one(earlier: int) -> None:
    """All devices become free at once each time, and another group arrives whenever one ends."""
    cluster = Cluster(n1=4)
    waiting = WaitingPods(cluster.decisions)
    numbers = itertools.count()

    def members(number: int) -> tuple[str, ...]:
        return tuple(f"g{number}-{each}" for each in FOUR)

    def arrive() -> None:
        number = next(numbers)
        for uid in members(number):
            key = f"default/g{number}"
            reply = cluster.ask_group(key, *members(number), min_count=4, asking=uid)
            waiting.note_answer(uid, [], cluster.now, complete=reply.complete)

    def end(uids: Sequence[str]) -> None:
        for uid in uids:
            cluster.decisions.end(uid)
        cluster.now += 100.0

    assert cluster.schedule("holder", claim("h", 4))
    for _ in range(earlier):
        arrive()
    cluster.now += 1.0
    assert not cluster.prefilter("alone", claim("d")).fit
    waiting.note_answer("alone", [], cluster.now)
    cluster.now += 1.0
    running: Sequence[str] = ("holder",)
    for number in range(earlier):
        arrive()
        end(running)
        running = waiting.wake(cluster.now).woken
        assert running == members(number)
        for uid in running:
            assert not cluster.reserve(uid, "n1")
            waiting.note_reservation(uid, reserved=True)
    arrive()
    end(running)
    assert waiting.wake(cluster.now).woken[0] == "alone"
