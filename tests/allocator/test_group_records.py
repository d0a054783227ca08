"""The records of groups: what is dropped beyond the limit, and what a new term keeps."""

from typing import cast

import pytest

from allocator.decisions.group_questions import GroupQuestion
from allocator.decisions.group_victims import GroupVictimSearch
from allocator.scheduler.protocol import GroupReference
from allocator.state import group_records
from allocator.state.group_records import GroupHold, GroupTable
from allocator.state.pauses import NO_PAUSE, Pause


def asked(key: str, *members: str) -> GroupQuestion:
    """What the scheduler asks about a group."""
    return GroupQuestion(GroupReference(key=key), members, 0)


def held(key: str) -> GroupHold:
    """The hold of a group with a member."""
    return GroupHold(key, frozenset("p"), frozenset("p"), since=0.0, until=1.0)


def test_the_namespace_with_most_members_loses_its_oldest_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_records, "MAX_MEMBERS", 4)
    table = GroupTable()
    for key in ("red/first", "red/second", "blue/g"):
        table.change(key, question=asked(key, "a", "b"), hold=held(key))
    assert table.get("red/first").question is None
    assert [each.key for each in table.holds()] == ["red/second", "blue/g"]


def test_a_search_for_victims_counts_as_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_records, "MAX_MEMBERS", group_records.VICTIM_SEARCH_MEMBERS * 2)
    table = GroupTable()
    search = cast("GroupVictimSearch", object())
    for number in range(3):
        table.change(f"red/g{number}", cut_victims=search)
    assert [table.get(f"red/g{number}").cut_victims for number in range(3)] == [
        None,
        search,
        search,
    ]


def test_a_new_term_keeps_what_was_asked() -> None:
    table = GroupTable()
    question = asked("red/g", "a")
    table.change("red/g", question=question, hold=held("red/g"), evicted=True, woken=1.0)
    table.change("red/g", pause=Pause(1, 5.0), eviction_pause=Pause(1, 5.0))
    table.end_term()
    record = table.get("red/g")
    assert (record.question, record.hold, record.evicted, record.woken) == (
        question,
        None,
        False,
        None,
    )
    assert record.pause == record.eviction_pause == NO_PAUSE
    assert table.holds() == []


def test_what_begins_in_a_new_term_stays_until_the_next_one() -> None:
    table = GroupTable()
    table.change("red/g", evicted=True)
    table.end_term()
    table.change("red/g", hold=held("red/g"))
    table.change("blue/g", evicted=True, pause=Pause(1, 5.0))
    assert [each.key for each in table.holds()] == ["red/g"]
    assert (table.get("red/g").evicted, table.get("blue/g").evicted) == (False, True)
    table.end_term()
    assert table.holds() == []
    assert table.get("blue/g").pause == NO_PAUSE
