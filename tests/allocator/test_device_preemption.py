"""Preemption for devices: who must go, what is kept for the preemptor, and who waits."""

from collections import Counter

import pytest
from msgspec.structs import replace

from allocator.scheduler.protocol import PreemptReply, PreemptRequest
from allocator.state.preemptors import KEEP_SECONDS
from allocator.state.seen_pods import MAX_GRACE_SECONDS
from tests.allocator.clusters import allocation_on, claim, gpu_slice, pod
from tests.allocator.contests import HIGH, LOW, Contest, full_node
from tests.tables import every_row


@pytest.fixture
def full() -> Contest:
    return full_node()


# --- who must go ---


def test_no_more_pods_go_than_needed_and_those_listed_first_stay(full: Contest) -> None:
    reply = full.preempt("high")
    assert (reply.node, reply.victims) == ("n1", ("second",))


def test_a_pod_without_the_devices_stays() -> None:
    contest = Contest(n1=2)
    contest.run("holder", "n1", 0, 1)
    contest.enlist("other", "n1")
    assert contest.victims("high") == ["holder"]


def test_a_node_that_only_the_scheduler_knows_gives_nothing(full: Contest) -> None:
    full.running["unknown"] = {}
    full.enlist("other", "unknown")
    assert full.victims("high") == ["second"]


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


def test_a_search_for_victims_ends_when_its_time_is_over() -> None:
    contest = Contest(n1=2, n2=2, n3=2)
    for node in ("n1", "n2", "n3"):
        for number in range(2):
            contest.run(f"{node}-{number}", node, number)
    assert contest.ask("high") == []
    asked: Counter[int] = Counter()

    def preempt(asks: int) -> PreemptReply:
        def out_of_time() -> bool:
            asked[asks] += 1
            return asked[asks] > asks

        return contest.cluster.decisions.preempt(contest.preemption("high"), 0.0, out_of_time)

    late = preempt(1)
    assert (late.node, late.victims) == ("", ())
    assert "in time" in late.message
    preempted = preempt(20)
    assert len(preempted.victims) == 1
    assert asked[20] < 30


# --- shared claims and other consumers ---


def shared_by(*pods: str) -> Contest:
    contest = Contest(n1=1)
    contest.share("shared", "n1", 0, pods=pods)
    for uid in pods:
        contest.cluster.add(pod(uid, "shared", node="n1"))
    return contest


def allocated(*pods: str) -> dict[str, object]:
    """Return the shared claim as the scheduler sends it."""
    return claim("shared", allocation=allocation_on("n1", 0), pods=pods)


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
    assert contest.cluster.nodes("peer", allocated("low"), priority=HIGH) == ["n1"]
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
    fitting = contest.cluster.nodes("high", allocated("one"), priority=HIGH)
    assert fitting == ["n1"]  # where the claim is allocated
    assert contest.cluster.decisions.preempt(contest.preemption("high"), 0.0).victims == ()


def test_the_devices_of_its_own_shared_claim_are_not_free_for_another_claim_of_a_pod() -> None:
    contest = shared_by("one")
    contest.enlist("one", "n1")
    assert contest.cluster.nodes("high", allocated("one"), claim("other"), priority=HIGH) == []
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
    assert "waits for 1 device that is being released on a node (n1)" in reply.message


def test_devices_that_are_being_released_need_no_victim(full: Contest) -> None:
    full.evict("first")
    assert not full.is_preemptible("high")
    assert full.preempt("high").waiting


def test_nobody_waits_for_a_pod_with_a_long_grace_period(full: Contest) -> None:
    full.evict("second", grace=MAX_GRACE_SECONDS + 1)
    assert full.is_preemptible("high")
    assert full.victims("high") == ["first"]
    assert full.victims("next") == []


def test_a_pod_within_the_longest_grace_period_is_waited_for(full: Contest) -> None:
    full.evict("second", grace=MAX_GRACE_SECONDS)
    assert full.preempt("high").waiting


def test_a_pod_with_a_long_grace_period_that_has_ended_is_waited_for(full: Contest) -> None:
    full.evict("second", grace=MAX_GRACE_SECONDS + 1)
    full.gone("second")
    assert full.preempt("high").waiting


def test_a_pod_that_a_finalizer_keeps_is_waited_for_only_for_a_time(full: Contest) -> None:
    assert full.woken() == []
    full.evict("second")
    assert full.preempt("high").waiting
    assert full.woken() == []
    assert full.woken(at=59.0) == []
    assert full.woken(at=60.0) == ["high"]
    assert full.victims("high") == ["first"]
    assert full.preempt("next").message
    full.end("second")
    assert "next" in full.woken()


def test_a_claim_that_a_finalizer_keeps_is_not_released_by_its_other_pods() -> None:
    contest = shared_by("kept", "low")
    contest.enlist("low", "n1")
    contest.cluster.add(pod("kept", "shared", node="n1", deletionTimestamp="2026-01-01T00:00:00Z"))
    contest.woken()
    contest.woken(at=60.0)
    assert contest.victims("high") == []
    contest.enlist("kept", "n1")
    assert contest.victims("high") == []


def test_each_preemptor_has_a_victim_of_its_own(full: Contest) -> None:
    assert full.victims("one") + full.victims("two") == ["second", "first"]
    assert full.victims("three") == []


def test_a_pod_that_terminates_for_a_more_important_pod_is_no_victim() -> None:
    contest = Contest(n1=1)
    contest.run("low", "n1", 0)
    assert contest.victims("high") == ["low"]
    contest.evict("low")
    reply = contest.preempt("middle", priority=50)
    assert (reply.node, reply.victims) == ("", ())
    contest.waiting.end("high")
    # The pod that asks again first gets it now.
    assert contest.preempt("middle", priority=50).waiting
    assert contest.preempt("small", priority=10).victims == ()


def test_a_victim_that_is_gone_but_not_deallocated_is_not_counted_twice(full: Contest) -> None:
    full.victims("one")
    full.gone("second")
    assert full.victims("two") == ["first"]


def test_a_more_important_pod_takes_only_what_it_needs_of_what_is_kept() -> None:
    contest = Contest(n1=3)
    for number in range(3):
        contest.run(f"low-{number}", "n1", number)
    victims = [contest.victims(f"middle-{number}", priority=50) for number in range(3)]
    for (uid,) in victims:
        contest.end(uid)
    assert contest.ask("high") == ["n1"]
    assert contest.ask("lowest", priority=LOW - 1) == []
    asked = [contest.ask(f"middle-{number}", priority=50) for number in range(3)]
    assert sorted(asked) == [[], ["n1"], ["n1"]]


def test_a_more_important_pod_takes_only_what_it_needs_of_what_is_promised() -> None:
    contest = Contest(n1=2)
    contest.run("first", "n1", 0)
    contest.run("second", "n1", 1)
    for uid in ("a", "b"):
        assert contest.ask(uid, priority=50) == []
    for uid in ("first", "second"):
        contest.end(uid)
    assert sorted(contest.woken()) == ["a", "b"]
    assert contest.ask("high") == ["n1"]
    assert contest.ask("lowest", priority=LOW - 1) == []
    assert sorted(contest.ask(uid, priority=50) for uid in ("a", "b")) == [[], ["n1"]]


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


def test_a_pod_that_ended_before_the_allocator_started_needs_no_victim(full: Contest) -> None:
    full.share("left", "n1", 2, pods=["unknown"])
    full.cluster.add(gpu_slice("n1", 3, generation=2))
    reply = full.preempt("high")
    assert (reply.waiting, reply.victims) == (True, ())
    full.deallocate("left")
    assert full.woken() == ["high"]


def test_a_pod_asks_for_victims_if_an_older_one_gets_the_device_that_it_waits_for(
    full: Contest,
) -> None:
    assert full.ask("older") == []
    full.evict("first")
    full.woken(at=1.0)
    assert full.ask("late") == []
    full.end("first")
    assert full.woken(at=2.0) == ["older", "late"]
    assert full.ask("older") == ["n1"]
    assert full.ask("late") == []
    assert full.preempt("late").victims == ("second",)


def test_a_pod_asks_for_victims_if_a_more_important_one_waits_for_its_device(full: Contest) -> None:
    full.evict("first")
    full.woken()
    assert full.ask("middle", priority=50) == []
    assert full.woken() == []
    assert full.ask("high") == []
    assert full.woken() == ["middle"]
    assert full.preempt("middle", priority=50).victims == ("second",)


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


def test_a_pod_that_gets_no_victims_is_woken_at_once_for_free_devices() -> None:
    contest = Contest(n1=2, n2=1)
    contest.run("peer", "n1", 0, 1, priority=HIGH)
    assert contest.ask("low", 2, priority=LOW) == []
    assert contest.preempt("high", 2).message
    for second in range(200):
        contest.cluster.state.apply(pod("other", "of-other", node="n2"), None)
        if "high" in contest.woken(at=float(second)):
            assert contest.preempt("high", 2).message
    contest.end("peer")
    assert contest.woken(at=199.0) == ["high"]
    assert contest.ask("high", 2) == ["n1"]


def test_a_pod_that_did_not_ask_for_victims_after_a_wake_is_woken_again() -> None:
    contest = Contest(n1=1)
    contest.run("peer", "n1", 0, priority=HIGH)
    assert contest.preempt("high").message
    woken = []
    for second in range(10):
        contest.cluster.state.apply(pod(f"other-{second}", "of-other", node="n1"), None)
        woken += contest.woken(at=float(second))
        assert contest.ask("high") == []  # and the plugin asks for no victims
    assert woken == ["high"] * 4


def test_pods_that_got_no_victims_ask_again_in_the_order_of_their_priority() -> None:
    contest = Contest(n1=1)
    contest.run("peer", "n1", 0, priority=9)
    for uid, priority in (("low", 1), ("high", 3), ("middle", 2)):
        assert contest.preempt(uid, priority=priority).message
    contest.cluster.state.apply(pod("other", "of-other", node="n1"), None)
    assert contest.woken() == ["high", "middle", "low"]


def test_a_pod_that_gets_no_victims_again_and_again_asks_less_and_less() -> None:
    contest = Contest(n1=1)
    contest.run("equal", "n1", 0, priority=HIGH)
    times = []
    for second in range(100):
        contest.cluster.state.apply(pod(f"other{second}", "none"), None)
        contest.victims("high") if not second or times[-1:] == [second - 1] else None
        times += [second] if contest.woken(at=second) else []
    assert times == [0, 1, 3, 7, 15, 31, 63]


@every_row(
    ("node", "claims", "end", "woken"),
    [
        ("n1", (), "deleted", ["high"]),
        ("n1", (), "replaced", ["high"]),
        ("n1", (), "Succeeded", ["high"]),
        ("n1", (), "Running", []),
        ("other", (), "deleted", []),
        ("other", ("none",), "deleted", ["high"]),
    ],
)
def test_a_pod_without_victims_asks_again_when_cpu_may_be_free(
    node: str, claims: tuple[str, ...], end: str, woken: list[str]
) -> None:
    contest = Contest(n1=1)
    contest.run("equal", "n1", 0, priority=HIGH)
    runs = pod("plain", *claims, node=node)
    contest.cluster.add(runs)
    contest.woken()
    assert contest.victims("high") == []
    after = {
        "deleted": None,
        "replaced": pod("other", node=node),
        "Succeeded": pod("plain", node=node, phase="Succeeded"),
        "Running": pod("plain", node=node, phase="Running"),
    }
    contest.cluster.state.apply(runs, after[end])
    assert contest.woken() == woken
    # What happens to a pod that has ended frees nothing.
    contest.cluster.state.apply(pod("done", node="n1", phase="Failed"), None)
    assert contest.woken(at=1000) == []


@every_row("examined", range(1, 12))
def test_a_search_without_time_names_too_many_pods_on_no_node(examined: int) -> None:
    contest = Contest(n1=2, n2=2)
    for node in ("n1", "n2"):
        for number in range(2):
            contest.run(f"{node}-{number}", node, number)
    assert contest.ask("high") == []
    left = iter(range(examined))
    reply = contest.cluster.decisions.preempt(
        contest.preemption("high"), 0.0, lambda: next(left, None) is None
    )
    assert reply.unfinished != bool(reply.node)
    assert len(reply.victims) <= 1


def test_a_pod_whose_search_for_victims_took_long_asks_again() -> None:
    contest = Contest(n1=1, n2=2)
    contest.run("one", "n1", 0)
    contest.run("two", "n2", 0, 1, priority=50)
    contest.woken()
    assert contest.ask("high") == []
    reply = contest.cluster.decisions.preempt(contest.preemption("high"), 0.0, lambda: True)
    assert reply.unfinished
    contest.waiting.note_preemption("high", refused=True, again=reply.unfinished)
    assert contest.woken() == ["high"]
    assert contest.victims("high") == ["one"]
