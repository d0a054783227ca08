"""A namespace has one copy, and then the others have theirs."""

import asyncio

import pytest
from msgspec.structs import replace

from allocator.copies import decide_in_copy
from allocator.decisions.deciding_ahead import CopyReport, Decide, decide_ahead
from allocator.decisions.waiting import WaitingPods
from drawbridge.dra.device import Attribute
from drawbridge.dra.nodes import Node
from drawbridge.process.forked import ForkLimits
from drawbridge.solver.search import Search
from tests.allocator.clusters import Cluster, claim, gpu_slice
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
