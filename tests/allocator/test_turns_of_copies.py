"""A namespace has one copy, and then the others have theirs."""

import asyncio

import pytest
from msgspec.structs import replace

from allocator.copies import decide_in_copy
from allocator.decisions import searches_aside
from allocator.decisions.deciding_ahead import CopyReport, Decide, decide_ahead
from allocator.decisions.searches_aside import MAX_PREEMPTIONS, CutSearches
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import PreemptRequest
from drawbridge.dra.device import Attribute
from drawbridge.dra.nodes import Node
from drawbridge.process.forked import ForkLimits
from drawbridge.solver.search import Search
from tests.allocator.clusters import Cluster, claim, gpu_slice
from tests.allocator.contests import Contest
from tests.cuts import CutAt

NODES = 6


def cluster() -> Cluster:
    """Nodes of which no two are alike, whose searches are cut here."""
    made = Cluster(brief=CutAt(60))
    for number in range(NODES):
        name = f"n{number}"
        slice_ = gpu_slice(name, 4)
        devices = tuple(
            replace(each, attributes={"place": Attribute(string=f"{name}-{each.name}")})
            for each in slice_.devices
        )
        made.add(Node(name, {"name": name}), replace(slice_, devices=devices))
    return made


def ask(made: Cluster, waiting: WaitingPods, name: str) -> None:
    """Ask for a pod in a namespace of its own, whose selector reads what differs."""
    expression = f'device.attributes["gpu.example.com"].place != "{name}"'
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    plain = claim(f"of-{name}", requests=[{"name": "r", "exactly": exactly}])
    plain["metadata"]["namespace"] = name
    reply = made.decisions.prefilter(made.request(name, plain, namespace=name), 0.0)
    assert not reply.complete
    waiting.note_answer(name, (), 0.0, complete=False)


@pytest.mark.parametrize("hostile", [("h1",), ("h1", "h2", "h3")], ids=len)
def test_a_pod_waits_for_one_copy_of_each_other_namespace(
    monkeypatch: pytest.MonkeyPatch, hostile: tuple[str, ...]
) -> None:
    run, copies, is_copy = Search.run, [""], False

    def run_or_never_end(self: Search) -> object:
        while is_copy and copies[-1].startswith("h"):
            pass
        return run(self)

    async def copy(decide: Decide) -> CopyReport:
        nonlocal is_copy
        is_copy = True
        seconds = 0.1 if copies[-1].startswith("h") else 20.0
        report = await decide_in_copy(decide, ForkLimits(seconds=seconds))
        is_copy = False
        return report

    monkeypatch.setattr(Search, "run", run_or_never_end)
    made = cluster()
    waiting = WaitingPods(made.decisions)
    for each in (*hostile, "team"):
        ask(made, waiting, each)
    for now in range(1, 100):
        turn = waiting.wake(now)
        if "team" in turn.woken:
            break
        if turn.aside:
            copies.append(turn.aside)
            asyncio.run(decide_ahead(waiting, made.state.planner, turn.aside, now, copy))
    assert copies == ["", *hostile, "team"]


def test_a_namespace_whose_copies_took_less_time_comes_first() -> None:
    searches, took = CutSearches(), {"h1": 2.0, "h2": 2.0, "light": 0.1}
    turns = []
    for turn in range(60):
        for each in took:
            searches.add(each, f"{each}-{turn}", each)
        if turn == 30:
            searches.add("new", "new", "new")
        uid = searches.take()
        assert uid is not None
        turns.append(uid.partition("-")[0])
        searches.note_copy(took.get(turns[-1], 2.0))
    assert turns.count("light") > 10 * turns.count("h1")
    assert abs(turns.count("h1") - turns.count("h2")) <= 1
    # It has not waited until the others have had one more turn each.
    assert turns.index("new") <= 31


def test_a_namespace_that_stays_away_saves_no_time() -> None:
    searches, turns = CutSearches(), []
    for turn in range(100):
        searches.add("busy", "busy", "busy")
        if turn >= 50:
            searches.add("back", "back", "back")
        turns.append(searches.take())
        searches.note_copy(1.0)
    assert turns[50:].count("back") == 25


@pytest.mark.parametrize(("most", "expected"), [(100, "aaabbb"), (2, "aabbab")])
def test_copies_decide_about_one_search_of_a_namespace_until_its_end(
    monkeypatch: pytest.MonkeyPatch, most: int, expected: str
) -> None:
    monkeypatch.setattr(searches_aside, "MAX_COPIES", most)
    searches, left = CutSearches(), {"a": 3, "b": 3}
    for name in left:
        searches.add("team", name, name)
    turns = ""
    while (name := searches.take()) is not None:
        turns += name
        left[name] -= 1
        if left[name]:
            searches.add("team", name, name)
    assert turns == expected


def test_a_namespace_with_many_searches_for_victims_displaces_its_own() -> None:
    searches, request = CutSearches(), PreemptRequest(pod_uid="p", nodes=())
    searches.add_preemption("light", "p", "p", request)
    forgotten: list[str] = []
    for number in range(2 * MAX_PREEMPTIONS):
        forgotten += searches.add_preemption("heavy", f"h{number}", f"h{number}", request)
    assert forgotten == [f"h{number}" for number in range(MAX_PREEMPTIONS + 1)]
    assert searches.preemption("p") is request
    assert searches.preemption("h0") is None
    assert searches.end_preemption("p")
    assert not searches.end_preemption("p")


def test_a_pod_whose_search_for_victims_is_forgotten_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searches_aside, "MAX_PREEMPTIONS", 1)
    contest = Contest(n1=2)
    for number in range(2):
        contest.run(f"low-{number}", "n1", number)
    contest.woken()
    for uid in ("first", "second"):
        assert contest.ask(uid) == []
        contest.waiting.note_preemption(uid, refused=True, again=True, cut=contest.preemption(uid))
    assert contest.waiting.wake(100.0, may_copy=False).woken == ("first",)


def test_a_search_for_victims_that_is_cut_after_a_copy_has_ended_is_not_the_answered_one() -> None:
    searches, request = CutSearches(), PreemptRequest(pod_uid="p", nodes=())
    searches.add("n", "p", "p")
    searches.note_answered("p")
    searches.add_preemption("n", "p", "p", request)
    assert searches.take_answered() is None
    assert searches.take() == "p"
