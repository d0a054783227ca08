"""Pauses of groups grow with their failures, and those of a namespace with its failing groups."""

import pytest

from allocator.state.group_holds import HoldEnd
from allocator.state.group_records import PAUSES, GroupTable
from allocator.state.pauses import FAILING_SECONDS, FREE_FAILURES
from tests.allocator.contests import HIGH, Contest
from tests.allocator.fake_process import FakeProcess
from tests.tables import every_row

NEW = "a/new"


def pauses_after(*events: str) -> GroupTable:
    """Let groups fail (`a/g`) and succeed (`+a/g`), one each second."""
    pauses = GroupTable()
    for second, event in enumerate(events):
        if event.startswith("+"):
            pauses.forgive(event[1:])
        else:
            pauses.pause(event, "pause", float(second))
    return pauses


FIVE = tuple(f"a/g{number}" for number in range(FREE_FAILURES + 1))


@every_row(
    ("events", "group", "seconds"),
    [
        ([], "a/g", 0),
        (["a/g"], "a/g", 1),
        (["a/g"], NEW, 0),
        (["a/g"] * 4, "a/g", 8),
        (["a/g"] * 40, "a/g", 60),
        # One group that fails for ever stops no other one.
        (["a/g"] * 40, NEW, 0),
        (["a/g", "a/g", "+a/g"], "a/g", 0),
        (FIVE[:4], NEW, 0),
        (FIVE, NEW, 1),
        ((*FIVE, "a/g5"), NEW, 2),
        (FIVE, "b/g", 0),
        # Only a group that has failed itself is forgiven.
        ((*FIVE, "+a/other"), NEW, 0),
        ((*FIVE[:4], "+a/other", "a/g4"), NEW, 1),
        ((*FIVE[:4], "+a/g0", "a/g4"), NEW, 0),
    ],
)
def test_a_pause_lasts(events: list[str], group: str, seconds: int) -> None:
    last = max((second for second, each in enumerate(events) if each[0] != "+"), default=0)
    until = pauses_after(*events).paused_until(group, "pause")
    assert until - last == seconds or (seconds == 0 and until <= len(events))


def test_a_group_that_failed_long_ago_counts_no_longer_for_its_namespace() -> None:
    pauses = pauses_after(*FIVE[:4])
    pauses.pause("a/g4", "pause", FAILING_SECONDS + 1)
    assert pauses.paused_until(NEW, "pause") == 0


def test_a_pause_can_be_longer_than_usual() -> None:
    pauses = GroupTable()
    pauses.pause("a/g", "pause", 10.0, 4.0)
    assert pauses.paused_until("a/g", "pause") == 14.0


@pytest.mark.asyncio
async def test_a_gang_asks_for_victims_again_at_the_end_of_its_pause() -> None:
    contest = Contest(n1=2)
    process, cluster = FakeProcess(contest.cluster), contest.cluster
    for number in range(2):
        contest.run(f"first-{number}", "n1", number)
    cluster.ask_group("default/g", "m0", "m1", priority=HIGH)
    assert process.calls.preempt(contest.preemption("m0")).evictions
    for number in range(2):
        contest.end(f"first-{number}")
    # What its victims have released is held for it, and it does not use that.
    assert cluster.ask_group("default/g", "m0", "m1", priority=HIGH).fit
    cluster.decisions.groups.holds.end("default/g", 0.0, HoldEnd.DEADLINE)
    for number in range(2):
        contest.run(f"second-{number}", "n1", number)
    cluster.now = 2.0
    process.waiting.wake(cluster.now)  # hears of those that have ended
    text = "because the group did not use the devices of pods that were evicted for it"
    for uid in ("m0", "m1"):
        cluster.ask_group("default/g", "m0", "m1", asking=uid, priority=HIGH)
        process.waiting.note_answer(uid, (), cluster.now)
        assert text in process.calls.preempt(contest.preemption(uid)).message
    end = PAUSES["eviction_pause"].first
    assert process.waiting.wake(end - 1.0).woken == ()
    cluster.now = end
    assert process.waiting.wake(end).woken == ("m0", "m1")
    cluster.ask_group("default/g", "m0", "m1", priority=HIGH)
    assert process.calls.preempt(contest.preemption("m0")).evictions
