"""Which gangs have to be bound as a whole."""

import asyncio

import pytest

from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.store import Change
from tests.world.gangs import GROUP_LABEL, MIN_LABEL
from tests.world.whole_gangs import WholeGangs


def _pod(name: str, *, least: int = 2, node: str = "") -> JSON:
    labels = {GROUP_LABEL: "g"} | ({MIN_LABEL: f"{least}"} if least else {})
    spec = {"nodeName": node} if node else {}
    metadata = {"name": name, "uid": name, "namespace": "default", "labels": labels}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("before", "after", "least", "counted"),
    [
        ("", "", 2, [1]),
        ("kill scheduler", "", 2, [1]),
        ("", "kill scheduler", 2, []),
        ("", "finish", 2, [1]),
        ("", "", 0, []),  # a PodGroup says it
    ],
)
def test_a_gang_counts_that_comes_while_nothing_takes_promises(
    before: str, after: str, least: int, counted: list[int]
) -> None:
    gangs = WholeGangs()

    async def play() -> None:
        gangs.begin()
        for event in filter(None, [before]):
            gangs.begin(event)
        await asyncio.sleep(0.001)
        for pod in (_pod("m0", least=least), _pod("m0", least=least, node="n1")):
            gangs.follow(named("pods"), Change(1, None, pod))
        await asyncio.sleep(0.001)
        for event in filter(None, [after]):
            gangs.begin(event)

    asyncio.run(play())
    assert [bound for _, bound in gangs.list_bound()] == counted


def test_a_gang_that_came_before_the_faults_ended_counts_not() -> None:
    gangs = WholeGangs()

    async def play() -> None:
        gangs.follow(named("pods"), Change(1, None, _pod("m0")))
        await asyncio.sleep(0.001)
        gangs.begin()
        gangs.follow(named("pods"), Change(1, None, _pod("m0", node="n1")))

    asyncio.run(play())
    assert not [*gangs.list_bound()]
