"""Pauses of groups grow with their failures, and those of a namespace with its failing groups."""

from allocator.state.group_records import GroupTable
from allocator.state.pauses import FAILING_SECONDS, FREE_FAILURES
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
