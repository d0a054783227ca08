"""Searches for groups that are cut: they go on where they stopped, with each question."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from allocator.decisions.waiting import WaitingPods
from drawbridge.agreement import allocator_codes
from tests.allocator.clusters import (
    FOUR,
    Cluster,
    allocation_on,
    ask_group,
    claim,
    codes,
    gpu_slice,
    members_of,
)
from tests.allocator.contests import HIGH, Contest


@pytest.mark.parametrize("nodes", [4, 65])
def test_a_search_that_is_cut_after_each_step_ends_nevertheless(nodes: int) -> None:
    uids = [f"m{number}" for number in range(nodes)]
    sizes: dict[str, Any] = {f"n{number}": 1 for number in range(nodes)}
    cluster = Cluster(**sizes)
    request = members_of(cluster, uids)
    cut = 0
    while not (reply := ask_group(cluster.decisions, request, 0.0, lambda: True)).fit:
        assert codes(reply) == [allocator_codes.SEARCH_CONTINUES.name]
        assert not reply.complete
        cut += 1
    assert 0 < cut < 12 * nodes
    assert len(cluster.held()) == nodes


def test_a_search_in_devices_that_are_kept_ends_however_short_its_turns_are() -> None:
    contest = keep_for_four()
    asked = members_of(contest.cluster, FOUR)
    replies = (ask_group(contest.cluster.decisions, asked, 0.0, lambda: True) for _ in range(60))
    assert any(reply.fit for reply in replies)


def keep_for_four() -> Contest:
    """Return a cluster that keeps the devices of victims, one on each node, for a group."""
    contest = Contest(**dict.fromkeys(("n0", "n1", "n2", "n3"), 1))
    for node in contest.running:
        contest.run(f"low-{node}", node, 0)
    contest.cluster.ask_group("default/g", *FOUR, priority=HIGH)
    decisions = contest.cluster.decisions
    evictions = decisions.preempt(contest.preemption("m0"), contest.cluster.now).evictions
    for uid in [uid for each in evictions for uid in each.victims]:
        contest.end(uid)
    return contest


def cut_while_promising(cluster: Cluster, uids: Sequence[str]) -> None:
    """Ask about a group until a part of its members has devices."""
    while not cluster.held():
        reply = ask_group(cluster.decisions, members_of(cluster, uids), 0.0, lambda: True)
        assert not reply.complete


def test_what_a_decision_has_promised_goes_back_with_it() -> None:
    cluster = Cluster(n1=4)
    cut_while_promising(cluster, FOUR)
    assert 0 < len(cluster.held()) < 4
    # Another member is there now, for which no device is left.
    reply = ask_group(cluster.decisions, members_of(cluster, [*FOUR, "m4"]), 0.0)
    assert codes(reply) == [allocator_codes.GANG_TOO_LARGE.name]
    assert cluster.held() == []


def test_what_members_that_left_the_group_were_promised_goes_back() -> None:
    cluster = Cluster(n1=4)
    cut_while_promising(cluster, FOUR)
    promised = {uid for uid in FOUR if cluster.decisions.reservations.is_promised(uid)}
    left = [uid for uid in FOUR if uid not in promised]
    assert ask_group(cluster.decisions, members_of(cluster, left), 0.0).fit
    assert len(cluster.held()) == len(left) < len(FOUR)


def test_a_member_that_loses_its_claim_meanwhile_gets_the_others_nothing() -> None:
    cluster = Cluster(n1=4)
    cut_while_promising(cluster, FOUR)
    cluster.delete_claim("c-m3")
    answer = cluster.decisions.groups.answer_again("default/g", 0.0)
    assert answer is not None
    assert answer.reason is not None
    assert answer.reason.message == "3 of 4 members of the group fit"
    assert cluster.held() == []


def test_a_member_whose_claim_loses_its_devices_meanwhile_is_searched_for_again() -> None:
    cluster, held = Cluster(n1=3), claim("shared", allocation=allocation_on("n1", 0))
    asked = members_of(cluster, ("m0", "m1"))
    assert asked.members
    shared = msgspec.Raw(msgspec.json.encode(held))
    members = tuple(replace(each, claims=(*each.claims, shared)) for each in asked.members)
    asked = replace(asked, members=members)
    assert not ask_group(cluster.decisions, asked, 0.0, lambda: True).complete
    cluster.add_claim(claim("shared", version=2))
    assert ask_group(cluster.decisions, asked, 0.0).fit
    assert {"shared", "c-m0"} <= cluster.state.ledger.reservations.keys()


def test_a_pod_asks_beside_a_group_that_is_cut_while_it_is_promised_devices() -> None:
    cluster = Cluster(n1=4)
    cut_while_promising(cluster, FOUR)
    assert cluster.schedule("alone", claim("of-alone")) == "n1"
    reply = ask_group(cluster.decisions, members_of(cluster, FOUR), 0.0)
    assert codes(reply) == [allocator_codes.GANG_TOO_LARGE.name]
    assert len(cluster.held()) == 1


def test_a_search_that_is_cut_goes_on_whichever_member_is_asked_about() -> None:
    cluster = Cluster(n1=4)
    replies = []
    for number in range(40):
        order = [*FOUR[number % 4 :], *FOUR[: number % 4]]
        request = members_of(cluster, order)
        replies.append(ask_group(cluster.decisions, request, 0.0, lambda: True))
    assert any(reply.fit for reply in replies)


def test_a_search_that_was_cut_does_not_refuse_by_an_earlier_state() -> None:
    cluster = Cluster(n1=3)
    request = members_of(cluster, FOUR)
    ask_group(cluster.decisions, request, 0.0, lambda: True)
    cluster.add(gpu_slice("n1", 4, generation=2))
    replies = [ask_group(cluster.decisions, request, 0.0, lambda: True)]
    while not replies[-1].complete:
        replies.append(ask_group(cluster.decisions, request, 0.0, lambda: True))
    assert replies[-1].fit


def test_the_search_continues_in_the_turns_of_waking() -> None:
    cluster = Cluster(n1=4)
    waiting = WaitingPods(cluster.decisions)
    reply = ask_group(cluster.decisions, members_of(cluster, FOUR), 0.0, lambda: True)
    waiting.note_answer("m0", [], 0.0, complete=reply.complete)
    turns = [waiting.wake(2.0 + turn / 100, out_of_time=lambda: True) for turn in range(40)]
    # A turn without time tells one member.
    assert [turn.woken for turn in turns if turn.woken] == [(uid,) for uid in FOUR]


@pytest.mark.parametrize("asked", [FOUR, FOUR[:1]], ids=["all members ask", "one member asks"])
def test_a_group_whose_search_was_cut_comes_before_pods_behind_it(asked: tuple[str, ...]) -> None:
    """On Kubernetes 1.37 only the first member asks while the group does not fit."""
    cluster = Cluster(n1=4)
    held = allocation_on("n1", 0, 1, 2, 3)
    cluster.add_claim(claim("held", allocation=held, pods=["holder"], version=2))
    waiting = WaitingPods(cluster.decisions)
    for uid in asked:
        cluster.ask_group("default/g", *FOUR, min_count=4, asking=uid)
        waiting.note_answer(uid, [], 0.0)
    for number in range(4):
        cluster.prefilter(f"single-{number}", claim(f"d{number}"))
        waiting.note_answer(f"single-{number}", [], 1.0)
    assert waiting.wake(2.0).woken == ()
    cluster.add_claim(claim("held", version=3))
    assert waiting.wake(4.0, out_of_time=lambda: True).woken == ()
    assert set(waiting.wake(4.1).woken) == set(FOUR)
