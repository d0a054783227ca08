"""Tests of the immutable mapping against a dictionary."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.layered_map import LayeredMap

ABSENT = 0
changes = st.dictionaries(st.integers(0, 400), st.integers(0, 3), max_size=40)


@given(st.lists(changes, min_size=1, max_size=30), st.integers(0, 29))
def test_a_map_and_its_changes_equal_those_of_a_dictionary(
    steps: list[dict[int, int]], since: int
) -> None:
    maps = [LayeredMap(ABSENT, dict.fromkeys(range(300), 9))]
    plain = [dict(maps[0])]
    for step in steps:
        maps.append(maps[-1].updated(step))
        merged = plain[-1] | step
        plain.append({key: value for key, value in merged.items() if value != ABSENT})
    assert [dict(each) for each in maps] == plain
    start = min(since, len(maps) - 1)
    before, after = plain[start], plain[-1]
    expected = {key for key in before | after if before.get(key) != after.get(key)}
    assert maps[-1].changed_keys(maps[start]) == expected
    assert maps[start].changed_keys(maps[-1]) == expected


def test_maps_of_different_origin_are_compared_entry_by_entry() -> None:
    first, other = LayeredMap(ABSENT, {1: 1, 2: 2}), LayeredMap(ABSENT, {2: 2, 3: 3})
    assert first.changed_keys(other) == {1, 3}


def test_changes_are_found_after_the_recent_entries_are_merged() -> None:
    before = LayeredMap(ABSENT, dict.fromkeys(range(300), 9))
    maps = [before, before.updated(dict.fromkeys(range(15), 1))]
    for i in range(15, 60):
        maps.append(maps[-1].updated({i: ABSENT}))
    assert [each.changed_keys(before) for each in maps[1:]] == [
        set(range(i)) for i in range(15, 61)
    ]
    assert all(
        after.changed_keys(one) == {i} for i, (one, after) in enumerate(pairwise(maps[1:]), 15)
    )
