"""What a pod with a higher priority takes over of what others only count on."""

from typing import Any

import pytest

from allocator.decisions.pod_promises import Promise
from allocator.state.record_states import RecordEvent
from allocator.state.reserved_pods import PROMISE_SECONDS
from drawbridge.dra.nodes import Node
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.clusters import Cluster, as_claim, claim, pod
from tests.allocator.contests import HIGH, LOW, Contest, full_node, shared_device


@pytest.fixture
def full() -> Contest:
    return full_node()


def test_a_higher_priority_takes_over_what_is_kept(full: Contest) -> None:
    full.victims("high")
    full.end("second")
    assert full.ask("highest", priority=HIGH + 1) == ["n1"]
    assert full.ask("third", priority=LOW) == []
    assert not full.cluster.reserve("highest", "n1")
    assert full.woken() == ["high"]  # which can preempt again
    assert full.victims("high") == ["first"]


def test_a_higher_priority_that_waits_takes_over_what_is_kept(full: Contest) -> None:
    assert full.ask("highest", priority=HIGH + 1) == []
    full.victims("high")
    full.end("second")
    assert full.woken() == ["highest"]
    assert full.ask("highest", priority=HIGH + 1) == ["n1"]
    assert full.woken() == ["high"]  # which can preempt again


def test_a_refusal_of_a_lower_priority_is_none_of_a_higher_one_that_asks_the_same(
    full: Contest,
) -> None:
    assert full.woken() == []
    assert full.ask("highest", priority=HIGH + 1) == []
    full.victims("high")
    full.end("second")
    assert full.ask("low", priority=LOW) == []
    assert "highest" in full.woken()
    assert full.cluster.decisions.reservations.is_promised("highest")


def test_a_higher_priority_takes_over_what_was_promised_while_it_paused(full: Contest) -> None:
    assert full.woken() == []
    for uid, priority in (("high", HIGH), ("equal", HIGH), ("one", LOW), ("two", LOW)):
        assert full.ask(uid, priority=priority) == []
    records = full.cluster.state.records
    for uid, until in (("high", 1.5), ("equal", 1.6)):
        pause = records.get(uid).device_pause.extended(until)
        records.change(uid, RecordEvent.PAUSED, device_pause=pause)
    full.end("second")
    assert full.woken(at=1.0) == ["one"]
    assert full.woken(at=1.5) == ["high"]
    assert full.woken(at=1.6) == []


def test_who_can_take_nothing_over_is_searched_for_once_for_all_that_ask_the_same(
    full: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions, tried = full.cluster.decisions, list[str]()
    assert full.woken() == []
    full.end("second")
    uids = [f"high-{number}" for number in range(9)]
    assert [full.ask(uid, 2) for uid in uids] == [[]] * 9
    assert full.ask("low", priority=LOW) == ["n1"]
    assert decisions.promises.make("low", 0.0).node == "n1"
    promise = decisions.promises.make

    def note(uid: str, *args: Any) -> Promise:  # noqa: ANN401  # as there
        tried.append(uid)
        return promise(uid, *args)

    monkeypatch.setattr(decisions.promises, "make", note)
    assert full.woken() == []
    assert tried == uids[:1]


@pytest.mark.parametrize("turned", range(4))
def test_a_search_for_another_node_that_was_cut_takes_nothing_over(turned: int) -> None:
    """A pod that lacks something else on its node gets what is free before what is promised."""
    cluster = Cluster(nodes_per_call=1, n0=1, n1=0, n2=1, n3=1)
    requests = [{"name": "q", "exactly": {"deviceClassName": "gpu", "count": 1}}]
    cluster.prefilter("high", claim("c-high", requests=requests), priority=HIGH)
    cluster.prefilter("low", claim("c-low"))
    while not cluster.decisions.promises.make("low", 0.0, ("n0", "n3")).node:
        pass
    for _ in range(turned):
        cluster.prefilter("large", claim("c-large", 2))
    assert cluster.decisions.promises.make("high", 0.0, {"n0"}).node in {"", "n3"}
    assert cluster.decisions.reservations.is_promised("low")


def test_a_search_to_take_over_without_time_goes_on_with_the_nodes_that_are_left() -> None:
    """It examines some nodes with each call, and what changes meanwhile beside them."""
    sizes: dict[str, int] = {f"n{number:02}": 1 for number in range(30)}
    contest = Contest(**sizes, other=1, z=2)
    contest.run("holder", "z", 0, 1)
    assert contest.ask("high", 2) == []
    decisions, state = contest.cluster.decisions, contest.cluster.state
    contest.end("holder")
    for number in range(33):
        assert contest.ask(f"low-{number}", priority=LOW)
        assert decisions.promises.make(f"low-{number}", 0.0).node
    calls = 0
    while not (promise := decisions.promises.make("high", 0.0, (), lambda: True)).node:
        calls += 1
        assert promise.unfinished
        assert calls < 200
        if calls == 40:
            state.apply(None, Node("other", {"changed": ""}))
    assert promise.node == "z"
    assert calls > 40


def test_a_promise_of_a_claim_that_another_pod_has_reserved_is_not_taken_over() -> None:
    contest = Contest(n1=1, n2=1)
    cluster, shared = contest.cluster, claim("shared")
    assert cluster.schedule("first", shared) == "n1"
    assert cluster.nodes("second", shared) == ["n1"]
    assert cluster.decisions.promises.make("second", 0.0).node == "n1"
    assert contest.ask("low", priority=LOW) == ["n2"]
    assert cluster.decisions.promises.make("low", 0.0).node == "n2"
    assert contest.ask("high") == ["n2"]
    assert cluster.decisions.reservations.is_promised("second")


def test_a_claim_that_another_pod_has_reserved_is_not_free_for_one_that_preempts() -> None:
    contest = Contest(n1=1, n2=1)
    cluster, shared = contest.cluster, claim("shared")
    contest.run("holder", "n2", 0)
    assert cluster.schedule("first", shared) == "n1"
    assert cluster.nodes("second", shared) == ["n1"]
    assert contest.ask("high") == []
    assert cluster.decisions.promises.make("second", 0.0).node == "n1"
    reply = cluster.decisions.preempt(contest.preemption("high"), 0.0)
    assert reply.victims == ("holder",)


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


def test_what_a_claim_has_by_now_is_not_taken_over_from_a_pod_that_shares_it() -> None:
    contest = shared_device(other="3Gi")
    cluster, reservations = contest.cluster, contest.cluster.decisions.reservations
    for uid in ("one", "two"):
        assert cluster.nodes(uid, claim("shared"), priority=LOW) == ["n1"]
        assert cluster.decisions.promises.make(uid, cluster.now).node == "n1"
    assert not cluster.reserve("one", "n1")
    cluster.write("one")
    cluster.add(pod("one", "shared", node="n1"))
    contest.enlist("one", "n1")
    assert reservations.is_promised("two")
    assert contest.ask("high") == []
    assert len(contest.victims("high")) == 1
    assert reservations.is_promised("two")


def test_a_claim_has_nothing_without_the_promises_of_all_its_pods_until_it_is_allocated() -> None:
    cluster = Cluster(n1=2)
    reservations = cluster.decisions.reservations
    for uid, name in (("one", "shared"), ("two", "shared"), ("three", "own")):
        assert cluster.nodes(uid, claim(name)) == ["n1"]
        assert cluster.decisions.promises.make(uid, cluster.now).node == "n1"
    assert reservations.promised_claims(("one", "three")) == {"own"}
    assert reservations.promised_claims(("one", "two", "another")) == {"shared"}
    reservation = reservations.find("three")
    assert reservation is not None
    mark = {ALLOCATION_ANNOTATION: reservation.claims[0].mark}
    cluster.add_claim(marked := claim("own", version=2, annotations=mark))
    cluster.state.ledger.hold_marked(as_claim(marked))
    assert reservations.promised_claims(("three",)) == set()
    assert not cluster.reserve("one", "n1")
    assert reservations.promised_claims(("one", "two")) == set()
    cluster.write("one")
    assert reservations.promised_claims(("two",)) == set()


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
    assert full.cluster.decisions.preemptors.is_victim("low")
    full.cluster.decisions.unreserve("low")  # the scheduler cancels its binding
    assert full.ask("contender", priority=LOW) == []
    assert full.woken() == ["high"]
