"""What is kept for a pod that preempts, and until when."""

import pytest
from msgspec.structs import replace

from allocator.state.preemptors import EVICTION_SECONDS, KEEP_SECONDS
from allocator.state.seen_pods import TERMINATION_SECONDS
from drawbridge.dra.nodes import Node
from drawbridge.ledger.pods import Pod
from tests.allocator.clusters import DRIVER, as_slice, claim, gpu_slice, pod
from tests.allocator.contests import HIGH, LOW, Contest, full_node, shared_device


@pytest.fixture
def full() -> Contest:
    return full_node()


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


def test_who_waits_for_two_releases_waits_on_for_the_second_one(full: Contest) -> None:
    for uid in ("first", "second"):
        full.evict(uid)
    assert full.preempt("high", 2).waiting
    full.end("first")
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


def test_what_a_preemptor_does_not_use_is_free_when_it_is_released() -> None:
    contest = Contest(n1=2)
    contest.run("holder", "n1", 0, 1)
    contest.victims("high")
    assert contest.ask("low", priority=LOW) == []
    contest.end("holder")
    assert contest.ask("low", priority=LOW) == ["n1"]
    assert not contest.cluster.reserve("low", "n1")
    assert contest.ask("high") == ["n1"]
    assert not contest.cluster.reserve("high", "n1")


def partitioned(*, memory: int) -> Contest:
    """Return a GPU with four partitions that consume 1 of its memory; two pods have the last."""
    contest = Contest(n1=0)
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    counters = {"name": "gpu", "counters": {"memory": {"value": f"{memory}"}}}
    draw = [{"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}]
    devices = [{"name": f"gpu-{number}", "consumesCounters": draw} for number in range(4)]
    for name, part in (("c", {"sharedCounters": [counters]}), ("d", {"devices": devices})):
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, **part}
        contest.cluster.add(as_slice({"metadata": {"name": name}, "spec": spec}))
    contest.run("first", "n1", 2)
    contest.run("second", "n1", 3)
    return contest


def test_two_preemptors_for_partitions_of_one_gpu_get_one_victim_each() -> None:
    # Each gets another partition than its victim had, at the cost of the same memory.
    contest = partitioned(memory=2)
    assert contest.victims("one") == ["second"]
    assert contest.victims("two") == ["first"]
    contest.end("second")
    assert contest.woken() == ["one"]
    assert contest.ask("one") == ["n1"]
    assert not contest.cluster.reserve("one", "n1")
    contest.end("first")
    assert contest.woken() == ["two"]
    assert contest.ask("two") == ["n1"]
    assert not contest.cluster.reserve("two", "n1")


def test_two_preemptors_for_partitions_of_one_gpu_do_not_wait_for_each_other() -> None:
    contest = partitioned(memory=2)
    contest.victims("one")
    contest.victims("two")
    contest.end("second")
    contest.end("first")
    assert contest.woken() == ["one", "two"]
    assert contest.ask("low", priority=LOW) == []
    for uid in ("two", "one"):
        assert contest.ask(uid) == ["n1"]
        assert not contest.cluster.reserve(uid, "n1")


def test_a_partition_of_the_first_victim_is_kept_until_the_last_one_ends() -> None:
    """What has ended frees enough of the memory that both of them consumed."""
    contest = partitioned(memory=2)
    assert len(contest.victims("high", 2)) == 2
    contest.end("first")
    assert contest.ask("contender", priority=LOW) == []
    contest.end("second")
    assert contest.woken() == ["high"]
    assert contest.ask("high", 2) == ["n1"]


def test_a_higher_priority_takes_the_memory_that_is_kept_for_a_lower_one() -> None:
    contest = partitioned(memory=2)
    contest.victims("high")
    contest.end("second")
    assert contest.victims("highest", 2, priority=HIGH + 1) == ["first"]
    contest.end("first")
    assert contest.woken() == ["highest", "high"]
    assert contest.ask("highest", 2, priority=HIGH + 1) == ["n1"]
    assert not contest.cluster.reserve("highest", "n1")


def test_nothing_is_kept_for_a_preemptor_that_is_gone(full: Contest) -> None:
    full.ask("low", priority=LOW)
    full.victims("high")
    full.end("second")
    assert full.woken() == ["high"]
    full.cluster.state.apply(pod("high", "of-high"), None)
    assert full.woken() == ["low"]


def test_a_preemptor_whose_victims_stay_can_try_again(full: Contest) -> None:
    full.victims("high")
    assert full.woken(at=EVICTION_SECONDS - 1) == []
    assert full.woken(at=EVICTION_SECONDS) == ["high"]
    assert full.victims("high") == ["second"]


def test_a_victim_with_a_long_grace_period_is_replaced_by_another(full: Contest) -> None:
    assert full.victims("high") == ["second"]
    full.evict("second", grace=31_536_000)
    assert full.woken(at=EVICTION_SECONDS) == ["high"]
    assert full.victims("high") == ["first"]


def test_a_victim_with_a_long_grace_period_is_waited_for(full: Contest) -> None:
    full.victims("high")
    full.evict("second", grace=300)
    assert full.woken() == []
    assert full.woken(at=300.0) == []
    full.end("second")
    assert full.woken() == ["high"]


def test_a_victim_that_a_finalizer_keeps_is_replaced(full: Contest) -> None:
    full.victims("high")
    full.evict("second")
    assert full.woken() == []
    assert full.woken(at=30.0 + TERMINATION_SECONDS - 1) == []
    assert full.woken(at=30.0 + TERMINATION_SECONDS) == ["high"]
    assert full.victims("high") == ["first"]


def test_a_victim_that_a_finalizer_keeps_is_not_waited_for_again_when_it_changes(
    full: Contest,
) -> None:
    full.evict("second")
    full.woken()
    full.woken(at=30.0 + TERMINATION_SECONDS)
    full.evict("second")
    full.cluster.add(nominate(full.cluster.pods["default", "second"], "n1"))
    assert full.victims("high") == ["first"]


@pytest.mark.parametrize(("nominated", "free"), [("n1", []), ("n2", ["n1"]), ("", ["n1"])])
def test_a_new_leader_keeps_devices_for_a_pod_with_a_nominated_node(
    nominated: str, free: list[str]
) -> None:
    contest = Contest(n1=2)
    contest.run("holder", "n1", 0)
    contest.cluster.add(nominate(pod("high", "of-high"), nominated))
    contest.victims("high", 2)
    contest.evict("holder")
    contest.cluster.decisions.begin_term()
    assert contest.ask("high", 2) == []
    assert contest.ask("low", priority=LOW) == free


def test_a_nominated_node_comes_before_others_with_devices_that_are_released() -> None:
    contest = Contest(n1=1, n2=1)
    for node in ("n1", "n2"):
        contest.run(f"on-{node}", node, 0)
        contest.evict(f"on-{node}")
    contest.cluster.add(nominate(pod("high", "of-high"), "n2"))
    reply = contest.cluster.prefilter("high", claim("of-high"), priority=HIGH)
    assert "on a node (n2)" in reply.message


def test_a_nominated_pod_asks_for_victims_when_another_one_was_faster(full: Contest) -> None:
    """As after a restart of the allocator, while a pod still terminates on the nominated node."""
    full.cluster.add(nominate(pod("high", "of-high"), "n1"))
    full.evict("second")
    assert full.ask("high") == []
    full.end("second")
    full.run("other", "n1", 1, priority=HIGH)
    assert full.woken() == ["high"]
    assert full.victims("high") == ["first"]


def test_a_pod_asks_for_victims_that_are_bound_after_its_answer(full: Contest) -> None:
    """kube-scheduler sees no victims while the pods that have the devices are being bound."""
    assert full.woken() == []
    assert full.ask("high") == []
    assert full.ask("equal", priority=LOW) == []
    assert full.woken() == []
    full.end("second")
    full.run("other", "n1", 1, priority=LOW)
    assert full.woken() == ["high"]
    assert full.victims("high") == ["other"]
    assert full.woken() == []


def test_the_lowest_of_the_pods_that_were_bound_together_can_be_a_victim(full: Contest) -> None:
    assert full.woken() == []
    assert full.ask("high") == []
    full.end("second")
    full.run("other", "n1", 1, priority=LOW)
    above = pod("above", "of-above", node="n1")
    full.cluster.add(replace(above, spec=replace(above.spec, priority=HIGH)))
    assert full.woken() == ["high"]


def test_a_pod_asks_for_victims_again_when_nothing_is_kept_beside_them_any_more() -> None:
    """What a vanished pod had stays unpromised for a time, whoever has it as well."""
    full = Contest(vanished_seconds=10, n1=1)
    full.run("vanished", "n1", 0)
    full.end("vanished")
    full.run("other", "n1", 0, priority=LOW)
    full.cluster.state.vanished.observe_time(full.cluster.now)
    assert full.woken() == []
    assert full.ask("high") == []
    assert full.victims("high") == []
    later = full.cluster.now + TERMINATION_SECONDS + 10
    full.cluster.state.vanished.observe_time(later)
    assert full.woken(later) == ["high"]
    assert full.victims("high") == ["other"]


def test_many_pods_ask_for_victims_that_are_bound_some_in_each_turn(full: Contest) -> None:
    assert full.woken() == []
    pods = [f"high-{number}" for number in range(5)]
    assert [full.ask(each) for each in pods] == [[]] * 5
    full.end("second")
    full.run("other", "n1", 1, priority=LOW)
    assert full.waiting.end_settled(full.cluster.now)
    turns = [full.waiting.wake(full.cluster.now, out_of_time=lambda: True) for _ in range(5)]
    assert [each.woken for each in turns] == [(each,) for each in pods]
    assert [each.unfinished for each in turns][:4] == [True] * 4
    assert full.woken() == []


def test_pods_with_the_policy_never_keep_no_others_from_asking_for_bound_victims(
    full: Contest,
) -> None:
    assert full.woken() == []
    for uid, policy in (("never", "Never"), ("high", "PreemptLowerPriority")):
        waiting = pod(uid, f"of-{uid}")
        full.cluster.add(replace(waiting, spec=replace(waiting.spec, preemption_policy=policy)))
        assert full.ask(uid) == []
    full.end("second")
    full.run("other", "n1", 1, priority=LOW)
    assert full.woken() == ["high"]
    assert [each.uid for each in full.cluster.state.records.unasked.places] == ["high"]


def nominate(waiting: Pod, node: str) -> Pod:
    """Return a pod for which others were evicted on a node."""
    return replace(waiting, status=replace(waiting.status, nominated_node_name=node))


@pytest.mark.parametrize("ended", [False, True])
def test_a_preemptor_whose_node_is_cordoned_preempts_again(*, ended: bool) -> None:
    contest = Contest(n1=1, n2=1)
    contest.run("first", "n1", 0)
    contest.run("second", "n2", 0, priority=LOW + 1)
    assert contest.victims("high") == ["first"]
    contest.evict("first", grace=300)
    if ended:
        contest.end("first")
        assert contest.woken() == ["high"]
    contest.cluster.add(Node("n1", {"name": "n1"}, unschedulable=True))
    assert contest.woken(at=1.0) == ["high"]
    assert contest.victims("high") == ["second"]
    assert contest.ask("contender", priority=LOW) == []


def test_a_preemptor_whose_node_changes_otherwise_waits_on(full: Contest) -> None:
    full.victims("high")
    full.cluster.add(Node("n1", {"name": "n1", "other": "label"}))
    assert full.woken() == []
    assert not full.victims("high")


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


def test_pods_that_share_a_claim_preempt_for_it_once(full: Contest) -> None:
    shared = claim("wanted")
    assert full.woken() == []
    for uid in ("one", "two"):
        reply = full.cluster.prefilter(uid, shared, priority=HIGH)
        full.waiting.note_answer(uid, (), 0.0)
        if reply.preemptible:
            assert full.cluster.decisions.preempt(full.preemption(uid), 0.0).victims == ("second",)
            full.waiting.note_preemption(uid, refused=False)
    assert not reply.preemptible
    assert "waits for 1 device" in reply.message
    full.end("second")
    assert full.woken() == ["one"]
    assert full.cluster.nodes("one", shared, priority=HIGH) == ["n1"]
    assert not full.cluster.reserve("one", "n1")
    assert full.woken() == ["two"]
    assert full.cluster.nodes("two", shared, priority=HIGH) == ["n1"]


def ask_for(contest: Contest, uid: str, memory: str, priority: int = LOW) -> list[str]:
    """Ask for a share; returns the nodes."""
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": memory}}}
    asked = claim(f"of-{uid}", requests=[{"name": "r", "exactly": exactly}])
    reply = contest.cluster.prefilter(uid, asked, priority=priority)
    return [each.node for each in reply.fit]


def evict_for(contest: Contest, uid: str, memory: str) -> list[str]:
    """Ask for a share that is not free, and return the victims."""
    assert ask_for(contest, uid, memory, HIGH) == []
    return list(contest.cluster.decisions.preempt(contest.preemption(uid), 0.0).victims)


def test_the_share_of_the_first_victim_is_kept_until_the_last_one_ends() -> None:
    contest = shared_device(first="2Gi", second="2Gi")
    assert len(evict_for(contest, "high", "4Gi")) == 2
    contest.end("first")
    assert ask_for(contest, "contender", "1Gi") == []
    assert ask_for(contest, "high", "4Gi", HIGH) == []
    contest.end("second")
    assert ask_for(contest, "contender", "1Gi") == []
    assert ask_for(contest, "high", "4Gi", HIGH) == ["n1"]
    assert not contest.cluster.reserve("high", "n1")


def test_what_is_free_of_a_shared_device_is_kept_beside_the_share_of_the_victim() -> None:
    contest = shared_device(first="2Gi", other="1Gi")
    contest.enlist("other", "n1", HIGH)
    assert evict_for(contest, "high", "3Gi") == ["first"]
    assert ask_for(contest, "contender", "1Gi") == []
    contest.end("first")
    assert ask_for(contest, "high", "3Gi", HIGH) == ["n1"]


def test_what_victims_release_beyond_a_share_is_free() -> None:
    contest = shared_device(first="2Gi", second="1Gi")
    contest.enlist("second", "n1", HIGH)
    assert evict_for(contest, "high", "2Gi") == ["first"]
    assert ask_for(contest, "contender", "1Gi") == ["n1"]
    contest.end("first")
    assert ask_for(contest, "contender", "1Gi") == ["n1"]
    assert ask_for(contest, "larger", "2Gi") == []


def test_a_device_with_shares_that_is_published_as_a_whole_is_held() -> None:
    contest = shared_device(first="2Gi")
    contest.cluster.add(gpu_slice("n1", 1, generation=3))
    assert contest.ask("low", priority=LOW) == []
    assert contest.victims("high") == ["first"]
    contest.end("first")
    assert contest.ask("high") == ["n1"]
    assert not contest.cluster.reserve("high", "n1")


def test_another_preemptor_gets_other_shares_of_a_device_of_which_one_is_kept() -> None:
    contest = shared_device(first="1Gi", second="1Gi", other="2Gi")
    contest.enlist("other", "n1", HIGH)
    assert evict_for(contest, "one", "1Gi") == ["second"]
    contest.end("second")
    assert evict_for(contest, "two", "1Gi") == ["first"]
    contest.end("first")
    for uid in ("two", "one"):
        assert ask_for(contest, uid, "1Gi", HIGH) == ["n1"]
        assert not contest.cluster.reserve(uid, "n1")
