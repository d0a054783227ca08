"""Copies that the system kills, which says nothing about the pods that they decide about."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from allocator.copies import decide_in_copy
from allocator.decisions import searches_aside
from allocator.decisions.deciding_ahead import CopyReport, Decide
from allocator.decisions.searches_aside import CutSearches
from drawbridge.solver.ahead import Learnt, Question
from tests.allocator.clusters import Cluster
from tests.allocator.fake_process import FakeProcess
from tests.allocator.test_calls import slow_request
from tests.cuts import CutAt

pytestmark = pytest.mark.asyncio
MOST = 3


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches_aside, "MAX_KILLED", MOST)


class Killed:
    """Copies of which the first ones are killed: at once, or at their first question."""

    def __init__(self, many: int, *, at_question: bool) -> None:
        self.many, self.at_question, self.begun = many, at_question, 0

    async def decide_in_copy(self, decide: Decide) -> CopyReport:
        """Let a copy decide."""
        self.begun += 1
        if self.begun > self.many:
            return await decide_in_copy(decide)

        def decide_and_die(tell: Callable[[Learnt], None], clock: Callable[[], float]) -> None:
            def tell_and_die(learnt: Learnt) -> None:
                tell(learnt)
                if isinstance(learnt, Question):
                    os.kill(os.getpid(), signal.SIGKILL)

            if not self.at_question:
                os.kill(os.getpid(), signal.SIGKILL)
            decide(tell_and_die, clock)

        return await decide_in_copy(decide_and_die)


@pytest.mark.parametrize("at_question", [False, True])
async def test_a_pod_whose_copies_were_killed_has_another_one(*, at_question: bool) -> None:
    copies = Killed(MOST - 1, at_question=at_question)
    process = FakeProcess(Cluster(brief=CutAt(4000), n1=1), copies=copies.decide_in_copy)
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: process.published)
    assert process.published == ["p"]
    assert process.calls.prefilter(slow_request("p")).fit
    assert copies.begun == MOST
    assert process.pauses.count(1.0) == MOST - 1


@pytest.mark.parametrize("at_question", [False, True])
async def test_a_pod_whose_copies_are_killed_again_and_again_waits_for_the_scheduler(
    *, at_question: bool
) -> None:
    copies = Killed(1000, at_question=at_question)
    process = FakeProcess(Cluster(brief=CutAt(4000), n1=1), copies=copies.decide_in_copy)
    assert not process.calls.prefilter(slow_request("p")).fit
    await process.run_until(lambda: process.pauses.count(1.0) == MOST)
    await asyncio.sleep(0)
    for _ in range(3):
        assert not process.waiting.wake(process.cluster.now).aside
    assert copies.begun == MOST
    assert process.published == []


async def test_only_the_search_loses_its_copies_that_were_killed() -> None:
    searches = CutSearches()
    lost = []
    for _ in range(MOST):
        for namespace in ("a", "b"):
            searches.add(namespace, namespace, namespace)
            assert searches.take() == namespace
            searches.note_copy(1.0)
            lost.append(searches.note_end(killed=namespace == "a"))
    assert lost == [False] * (2 * MOST - 2) + [True, False]


async def test_copies_that_were_killed_count_in_a_row() -> None:
    searches, ends = CutSearches(), [*[True] * (MOST - 1), False, *[True] * MOST]
    lost = []
    for killed in ends:
        searches.add("a", "a", "a")
        assert searches.take() == "a"
        lost.append(searches.note_end(killed=killed))
    assert lost == [False] * (len(ends) - 1) + [True]
