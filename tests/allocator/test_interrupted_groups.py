"""Groups of which a part is bound gather devices one at a time, for a limited part of the time."""

import pytest

from allocator.decisions.interrupted_groups import (
    FIRST_SECONDS,
    GATHER_SECONDS,
    INTERRUPTED_SECONDS,
    NAMESPACE_PAUSE_SECONDS,
    PAUSE_SECONDS,
    InterruptedGroups,
)
from allocator.state import group_records
from allocator.state.group_records import GroupTable

ONE, TWO, OTHER = "a/g1", "a/g2", "b/g1"


@pytest.fixture
def groups() -> InterruptedGroups:
    interrupted = InterruptedGroups(GroupTable())
    interrupted.begin_term([ONE, TWO, OTHER])
    return interrupted


def test_one_group_at_a_time_gathers(groups: InterruptedGroups) -> None:
    assert groups.gather(ONE, 5.0) == groups.gather(ONE, 20.0) == 5.0 + GATHER_SECONDS
    assert groups.gather(TWO, 5.0) is None
    groups.complete(ONE)
    assert groups.gather(TWO, 20.0) == 20.0 + GATHER_SECONDS


def test_a_group_that_was_not_interrupted_gathers_nothing(groups: InterruptedGroups) -> None:
    assert groups.gather("a/g3", 0.0) is None
    assert groups.gather("", 0.0) is None
    assert not groups.is_gathering("")


def test_after_a_group_that_gathered_in_vain_nobody_gathers_for_as_long(
    groups: InterruptedGroups,
) -> None:
    groups.gather(ONE, 0.0)
    after = GATHER_SECONDS + PAUSE_SECONDS
    assert groups.gather(OTHER, GATHER_SECONDS) is None
    assert not groups.is_gathering(ONE)
    assert groups.gather(OTHER, after - 1) is None
    assert groups.gather(OTHER, after) == after + GATHER_SECONDS


def test_the_groups_of_a_namespace_gather_in_vain_for_a_tenth_of_the_time(
    groups: InterruptedGroups,
) -> None:
    groups.gather(ONE, 0.0)
    after = GATHER_SECONDS + NAMESPACE_PAUSE_SECONDS
    assert [groups.gather(key, after - 1) for key in (ONE, TWO)] == [None, None]
    assert groups.gather(TWO, after) == after + GATHER_SECONDS


def test_no_number_of_groups_gathers_in_vain_for_more_than_half_of_the_time() -> None:
    groups = InterruptedGroups(GroupTable())
    keys = [f"n{number}/g" for number in range(100)]
    groups.begin_term(keys)
    gathering = 0
    for now in range(840):
        for key in keys:
            groups.gather(key, float(now))
        gathering += any(map(groups.is_gathering, keys))
    assert gathering == 420


def test_a_new_term_begins_with_its_own_groups() -> None:
    table = GroupTable()
    groups = InterruptedGroups(table)
    groups.begin_term([ONE, TWO, OTHER])
    groups.gather(ONE, 0.0)
    table.end_term()
    groups.begin_term([TWO])
    assert (groups.gather(ONE, 1.0), groups.gather(TWO, 1.0)) == (None, 1.0 + GATHER_SECONDS)


def test_interrupted_groups_come_first_for_a_limited_time(groups: InterruptedGroups) -> None:
    groups.expire(5.0)
    groups.expire(5.0 + INTERRUPTED_SECONDS - 1)
    assert ONE in groups
    groups.expire(5.0 + INTERRUPTED_SECONDS)
    assert ONE not in groups
    assert groups.gather(ONE, 5.0 + INTERRUPTED_SECONDS) is None


def test_a_namespace_with_many_groups_pushes_out_none_of_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_records, "MAX_MEMBERS", 64)
    groups = InterruptedGroups(GroupTable())
    groups.begin_term([*(f"a/g{number}" for number in range(64 + 9)), "z/g"])
    assert "z/g" in groups
    assert groups.come_first("b/other", 1.0) == (64, 1.0 + FIRST_SECONDS)
    for number in range(64):
        groups.note_partly_bound(f"a/new{number}", 1.0)
    assert "z/g" in groups


def test_a_namespace_that_gathered_in_vain_waits_in_the_next_term_too() -> None:
    table = GroupTable()
    groups = InterruptedGroups(table)
    groups.begin_term([ONE, TWO])
    groups.gather(ONE, 0.0)
    groups.expire(GATHER_SECONDS)
    table.end_term()
    groups.begin_term([TWO])
    assert groups.gather(TWO, GATHER_SECONDS + NAMESPACE_PAUSE_SECONDS - 1) is None
