"""Preemption for devices: who must go, what is kept for the preemptor, and who waits."""

import pytest
from msgspec.structs import replace

from allocator.decisions import PROMISE_SECONDS
from allocator.preemptors import KEEP_SECONDS
from allocator.protocol import PreemptRequest
from tests.allocator.clusters import allocation_on, claim, pod
from tests.allocator.contests import HIGH, LOW, Contest


@pytest.fixture
def full() -> Contest:
    """One node with two devices and two pods; `first` is kept first."""
    contest = Contest(n1=2)
    contest.run("first", "n1", 0)
    contest.run("second", "n1", 1)
    return contest


# --- who must go ---


def test_no_more_pods_go_than_needed_and_those_listed_first_stay(full: Contest) -> None:
    reply = full.preempt("high")
    assert (reply.node, reply.victims) == ("n1", ("second",))


def test_a_pod_without_the_devices_stays() -> None:
    contest = Contest(n1=2)
    contest.run("holder", "n1", 0, 1)
    contest.enlist("other", "n1")
    assert contest.victims("high") == ["holder"]


def test_several_pods_go_for_several_devices(full: Contest) -> None:
    assert sorted(full.victims("high", 2)) == ["first", "second"]


@pytest.mark.parametrize("priority", [LOW, LOW - 1])
def test_a_pod_of_equal_or_higher_priority_never_goes(full: Contest, priority: int) -> None:
    reply = full.preempt("pod", priority=priority)
    assert (reply.node, reply.victims, reply.waiting) == ("", (), False)
    assert f"priority below {priority}" in reply.message


def test_nobody_goes_if_that_does_not_help(full: Contest) -> None:
    assert full.victims("high", 3) == []


def test_the_node_with_fewer_violations_is_chosen() -> None:
    contest = Contest(n1=1, n2=1)
    contest.run("guarded", "n1", 0, violates=True)
    contest.run("important", "n2", 0, priority=50)
    reply = contest.preempt("high")
    assert (reply.victims, reply.violations) == (("important",), 0)


def test_violations_are_counted_if_they_cannot_be_avoided() -> None:
    contest = Contest(n1=1)
    contest.run("guarded", "n1", 0, violates=True)
    assert contest.preempt("high").violations == 1


def test_the_node_with_the_less_important_victim_is_chosen() -> None:
    contest = Contest(n1=1, n2=1, n3=1)
    contest.run("important", "n1", 0, priority=50)
    contest.run("old", "n2", 0, start="2026-01-01T00:00:00Z")
    contest.run("new", "n3", 0, start="2026-01-02T00:00:00Z")
    assert contest.victims("high") == ["new"]


def test_a_pod_that_must_go_anyway_gives_its_devices(full: Contest) -> None:
    full.enlist("first", "n1", required=True)
    assert full.victims("high") == ["first"]


def test_required_pods_count_for_the_choice_of_the_node() -> None:
    contest = Contest(n1=1, n2=1)
    contest.run("one", "n1", 0)
    contest.enlist("cpu", "n1", required=True)
    contest.run("two", "n2", 0)
    assert contest.preempt("high").node == "n2"


# --- shared claims and other consumers ---


def shared_by(*pods: str) -> Contest:
    contest = Contest(n1=1)
    contest.share("shared", "n1", 0, pods=pods)
    for uid in pods:
        contest.cluster.add(pod(uid, "shared", node="n1"))
    return contest


def test_all_pods_that_share_a_claim_go_together() -> None:
    contest = shared_by("one", "two")
    contest.enlist("one", "n1")
    contest.enlist("two", "n1")
    assert sorted(contest.victims("high")) == ["one", "two"]


def test_nobody_goes_if_an_important_pod_shares_the_claim() -> None:
    contest = shared_by("one", "two")
    contest.enlist("one", "n1")
    contest.enlist("two", "n1", priority=HIGH)
    assert contest.victims("high") == []


def test_nobody_goes_for_a_claim_that_a_pod_with_a_reservation_shares() -> None:
    contest = shared_by("low")
    contest.enlist("low", "n1")
    assert contest.cluster.nodes("peer", claim("shared", version=2), priority=HIGH) == ["n1"]
    assert not contest.cluster.reserve("peer", "n1")
    assert contest.victims("high") == []


def test_a_claim_with_a_consumer_that_is_no_pod_is_never_released() -> None:
    contest = shared_by("one")
    used = claim("shared", allocation=allocation_on("n1", 0), pods=["one"], version=3)
    used["status"]["reservedFor"].append(
        {"apiGroup": "x", "resource": "y", "name": "z", "uid": "w"}
    )
    contest.cluster.add_claim(used)
    contest.enlist("one", "n1")
    assert contest.victims("high") == []


def test_a_pod_does_not_preempt_those_with_which_it_shares_its_claim() -> None:
    contest = shared_by("one")
    contest.enlist("one", "n1")
    fitting = contest.cluster.nodes("high", claim("shared", version=2), priority=HIGH)
    assert fitting == ["n1"]  # where the claim is allocated
    assert contest.cluster.decisions.preempt(contest.preemption("high"), 0.0).victims == ()


# --- what the preemptor waits for ---


def test_a_preemptor_waits_for_its_victim_and_takes_no_second_one(full: Contest) -> None:
    assert full.victims("high") == ["second"]
    assert not full.is_preemptible("high")
    full.evict("second")
    assert not full.is_preemptible("high")
    full.gone("second")  # its claim is still allocated
    reply = full.preempt("high")
    assert (reply.waiting, reply.victims) == (True, ())
    assert "waits for 1 device that is being released on node n1" in reply.message


def test_devices_that_are_being_released_need_no_victim(full: Contest) -> None:
    full.evict("first")
    assert not full.is_preemptible("high")
    assert full.preempt("high").waiting


def test_each_preemptor_has_a_victim_of_its_own(full: Contest) -> None:
    assert full.victims("one") + full.victims("two") == ["second", "first"]
    assert full.victims("three") == []


def test_a_victim_that_is_gone_but_not_deallocated_is_not_counted_twice(full: Contest) -> None:
    full.victims("one")
    full.gone("second")
    assert full.victims("two") == ["first"]


def test_devices_that_became_free_meanwhile_need_no_victim(full: Contest) -> None:
    assert full.ask("high") == []
    full.end("first")
    reply = full.cluster.decisions.preempt(full.preemption("high"), 0.0)
    assert (reply.waiting, reply.victims) == (True, ())


def test_a_pod_that_only_the_scheduler_has_seen_to_end_needs_no_victim(full: Contest) -> None:
    del full.running["n1"]["first"]
    reply = full.preempt("high")
    assert (reply.waiting, reply.victims) == (True, ())
    assert full.victims("other") == ["second"]
    full.end("first")
    assert full.ask("contender", priority=LOW) == []
    assert full.woken() == ["high"]


def test_a_pod_that_has_not_ended_after_all_is_a_victim_later(full: Contest) -> None:
    listed = full.running["n1"].pop("first")
    assert full.preempt("high").waiting
    full.running["n1"]["first"] = listed
    assert full.woken(at=KEEP_SECONDS) == ["high"]
    assert len(full.victims("high")) == 1


def test_a_plugin_that_does_not_list_the_running_pods_says_nothing_about_them(
    full: Contest,
) -> None:
    assert full.ask("high") == []
    request = full.preemption("high")
    nodes = tuple(replace(each, running=None, pods=each.pods[1:]) for each in request.nodes)
    reply = full.cluster.decisions.preempt(replace(request, nodes=nodes), 0.0)
    assert reply.victims == ("second",)


def test_a_pod_that_the_allocator_does_not_know_gets_no_victims(full: Contest) -> None:
    reply = full.cluster.decisions.preempt(PreemptRequest(pod_uid="unknown"), 0.0)
    assert "restarted" in reply.message


def test_a_preemptor_that_asks_before_the_release_is_seen_is_woken_after_it(full: Contest) -> None:
    full.victims("high")
    full.gone("second")
    # The scheduler has seen the deallocation already, and no other event will wake the pod.
    assert full.ask("high") == []
    assert full.woken() == []
    full.deallocate("of-second")
    assert full.woken() == ["high"]
    assert full.ask("high") == ["n1"]


# --- what is kept ---


def test_the_devices_of_a_victim_are_kept_for_the_preemptor(full: Contest) -> None:
    full.victims("high")
    full.end("second")
    for contender in ("a", "b"):
        assert full.ask(contender, priority=LOW) == []
    assert full.woken() == ["high"]
    assert full.ask("contender", priority=HIGH) == []
    assert full.ask("high") == ["n1"]
    assert not full.cluster.reserve("high", "n1")


def test_a_contender_that_reserves_at_once_does_not_get_them(full: Contest) -> None:
    full.ask("contender", priority=LOW)
    full.victims("high")
    full.end("second")
    assert "not free any more" in full.cluster.reserve("contender", "n1")


def test_a_device_of_the_first_victim_is_kept_until_the_last_one_ends(full: Contest) -> None:
    assert len(full.victims("high", 2)) == 2
    full.end("first")
    assert full.ask("contender", priority=LOW) == []
    assert full.woken() == []
    full.end("second")
    assert full.woken() == ["high"]
    assert full.ask("high", 2) == ["n1"]


def test_a_free_device_is_kept_beside_that_of_the_victim() -> None:
    contest = Contest(n1=2)
    contest.run("holder", "n1", 0)
    assert contest.victims("high", 2) == ["holder"]
    assert contest.ask("contender", priority=LOW) == []


def test_equal_preemptors_are_woken_each_for_its_own_victim(full: Contest) -> None:
    assert full.victims("one") == ["second"]
    assert full.victims("two") == ["first"]
    full.end("first")
    assert full.woken() == ["two"]
    full.end("second")
    assert full.woken() == ["one"]


def test_what_a_preemptor_does_not_use_is_free_when_it_is_reserved() -> None:
    contest = Contest(n1=2)
    contest.run("holder", "n1", 0, 1)
    contest.victims("high")
    contest.end("holder")
    assert contest.ask("low", priority=LOW) == []
    assert contest.ask("high") == ["n1"]
    assert not contest.cluster.reserve("high", "n1")
    assert contest.woken() == ["low"]


def test_nothing_is_kept_for_a_preemptor_that_is_gone(full: Contest) -> None:
    full.ask("low", priority=LOW)
    full.victims("high")
    full.end("second")
    assert full.woken() == ["high"]
    full.cluster.state.apply(pod("high", "of-high"), None)
    assert full.woken() == ["low"]


def test_a_preemptor_whose_victims_stay_can_try_again(full: Contest) -> None:
    full.victims("high")
    assert full.woken(at=KEEP_SECONDS - 1) == []
    assert full.woken(at=KEEP_SECONDS) == ["high"]
    assert full.victims("high") == ["second"]


def test_a_victim_that_takes_long_to_terminate_is_waited_for(full: Contest) -> None:
    full.victims("high")
    full.evict("second")
    assert full.woken(at=10 * KEEP_SECONDS) == []
    full.end("second")
    assert full.woken() == ["high"]


def test_devices_that_a_preemptor_does_not_use_are_free_after_a_time(full: Contest) -> None:
    full.ask("low", priority=LOW)
    full.victims("high")
    full.end("second")
    assert full.woken() == ["high"]
    assert full.woken(at=KEEP_SECONDS) == ["high"]
    # It is promised the device again, each time later.
    assert any("low" in full.woken(at=KEEP_SECONDS + seconds) for seconds in range(8))


def test_a_new_term_keeps_nothing(full: Contest) -> None:
    full.victims("high")
    full.end("second")
    full.ask("low", priority=LOW)
    full.cluster.decisions.begin_term()
    assert full.ask("low", priority=LOW) == ["n1"]


# --- a higher priority ---


def test_a_higher_priority_takes_over_what_is_kept(full: Contest) -> None:
    full.victims("high")
    full.end("second")
    assert full.ask("highest", priority=HIGH + 1) == ["n1"]
    assert full.ask("third", priority=LOW) == []
    assert not full.cluster.reserve("highest", "n1")
    assert full.woken() == ["high"]  # which can preempt again
    assert full.victims("high") == ["first"]


def test_a_higher_priority_takes_over_what_is_being_released(full: Contest) -> None:
    full.victims("high")
    full.evict("second")
    assert full.preempt("highest", priority=HIGH + 1).waiting
    assert full.woken() == ["high"]
    assert full.victims("high") == ["first"]
    full.end("second")
    assert full.woken() == ["highest"]


def test_a_higher_priority_takes_over_what_was_promised_to_a_woken_pod(full: Contest) -> None:
    full.ask("low", priority=LOW)
    full.end("second")
    assert full.woken() == ["low"]
    assert full.ask("equal", priority=LOW) == []
    assert full.ask("high") == ["n1"]
    assert not full.cluster.reserve("high", "n1")
    assert full.ask("low", priority=LOW) == []


def test_a_reservation_of_the_scheduler_is_not_taken_over(full: Contest) -> None:
    full.ask("low", priority=LOW)
    full.end("second")
    assert full.woken() == ["low"]
    assert full.ask("low", priority=LOW) == ["n1"]
    assert not full.cluster.reserve("low", "n1")
    full.cluster.now = PROMISE_SECONDS + 1
    assert full.ask("high") == []
    full.enlist("low", "n1")
    assert full.victims("high") == ["low"]
    assert full.cluster.decisions.is_victim("low")
    full.cluster.decisions.unreserve("low")  # the scheduler cancels its binding
    assert full.ask("contender", priority=LOW) == []
    assert full.woken() == ["high"]


# --- asking again ---


def test_a_pod_that_got_no_victims_asks_again_when_a_pod_ends() -> None:
    contest = shared_by("low", "peer")
    contest.enlist("low", "n1")
    contest.enlist("peer", "n1", priority=HIGH)
    contest.woken()
    assert contest.victims("high") == []
    assert contest.woken(at=100) == []
    contest.cluster.state.apply(pod("peer", "shared", node="n1"), None)
    assert contest.woken() == ["high"]
    assert contest.victims("high") == ["low"]


def test_a_pod_that_gets_no_victims_again_and_again_asks_less_and_less() -> None:
    contest = Contest(n1=1)
    contest.run("equal", "n1", 0, priority=HIGH)
    times = []
    for second in range(100):
        contest.cluster.state.apply(pod(f"other{second}", "none"), None)
        contest.victims("high") if not second or times[-1:] == [second - 1] else None
        times += [second] if contest.woken(at=second) else []
    assert times == [0, 1, 3, 7, 15, 31, 63]
