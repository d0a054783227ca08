"""Tests of pool counters against the table and a simple implementation of the rule."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.counters import (
    Counters,
    Shortage,
    available_counters,
    charge,
    consumed_counters,
    unknown_counters,
)
from drawbridge.dra.device import Counter, CounterSet, CounterUse, Device
from drawbridge.dra.quantity import Quantity, from_json
from tests.tables import every_row, read_yaml

GROUPS = read_yaml((Path(__file__).parent / "cases" / "counters.yaml").read_text(encoding="utf-8"))
CASES = [pytest.param(case, id=case["name"]) for group in GROUPS.values() for case in group]


def counters(values: dict[str, object]) -> dict[str, Counter]:
    return {name: Counter(from_json(value)) for name, value in values.items()}


def device(name: str, uses: Any) -> Device:  # noqa: ANN401  # a mapping of sets, or a list of them
    listed = uses if isinstance(uses, list) else [uses]
    consumed = [CounterUse(key, counters(use[key])) for use in listed for key in use]
    return Device(name, consumes_counters=tuple(consumed))


def pool(case: dict[str, Any]) -> tuple[dict[str, CounterSet], dict[str, Device]]:
    sets = {name: CounterSet(name, counters(values)) for name, values in case["sets"].items()}
    return sets, {name: device(name, uses) for name, uses in case["devices"].items()}


@every_row("case", CASES)
def test_devices_are_allocated_while_every_counter_of_the_pool_suffices(
    case: dict[str, Any],
) -> None:
    sets, devices = pool(case)
    state: Counters | Shortage = available_counters(
        sets, devices.values(), case.get("allocated", ())
    )
    for name in case["take"]:
        assert isinstance(state, Counters), f"refused before {name}"
        state = charge(state, consumed_counters(devices[name]))
    if "refused" in case:
        assert isinstance(state, Shortage)
        assert [state.counter_set, state.counter] == case["refused"]
        assert state.available < state.requested
    else:
        assert isinstance(state, Counters)
        expected = {
            (counter_set, name): counter.value.nanos()
            for counter_set, values in case["left"].items()
            for name, counter in counters(values).items()
        }
        assert {key: state.remaining[key] for key in expected} == expected


@every_row("case", CASES)
def test_unknown_counter_sets_and_counters_are_reported(case: dict[str, Any]) -> None:
    sets, devices = pool(case)
    missing = {
        name: [list(each) for each in unknown_counters(devices[name], sets)] for name in devices
    }
    expected = case.get("unknown", {})
    assert missing == {name: expected.get(name, []) for name in devices}


def test_charging_does_not_change_the_old_state() -> None:
    sets = {"gpu": CounterSet("gpu", counters({"memory": 3}))}
    two = consumed_counters(device("a", {"gpu": {"memory": 2}}))
    before = available_counters(sets, (), ())
    after = charge(before, two)
    assert isinstance(after, Counters)
    assert isinstance(charge(after, two), Shortage)
    assert charge(before, two) == after


def test_counters_are_over_committed_from_the_start_or_by_devices() -> None:
    sets = {
        "gpu": CounterSet("gpu", counters({"memory": 1})),
        "link": CounterSet("link", counters({"lanes": -1})),
    }
    big = device("a", {"gpu": {"memory": 5}})
    state = available_counters(sets, [big], {"a"})
    assert state.over_committed == {("gpu", "memory"), ("link", "lanes")}


SETS = st.dictionaries(
    st.sampled_from("xyz"), st.dictionaries(st.sampled_from("mn"), st.integers(-1, 6), min_size=1)
)


@given(SETS, st.lists(SETS, max_size=7), st.sets(st.integers(0, 6)))
def test_charging_agrees_with_comparing_the_whole_pool_every_time(
    totals: dict[str, dict[str, int]], uses: list[dict[str, dict[str, int]]], held: set[int]
) -> None:
    """The rule at length: after each candidate, no counter of the pool may be below zero."""
    sets = {
        name: CounterSet(name, {k: Counter(Quantity.of(v)) for k, v in values.items()})
        for name, values in totals.items()
    }
    devices = [device(str(i), {k: dict(v) for k, v in use.items()}) for i, use in enumerate(uses)]
    allocated = {str(i) for i in held}
    left = {(s, k): v for s, values in totals.items() for k, v in values.items()}
    for i, use in enumerate(uses):
        for key in left if i in held else ():
            left[key] -= use.get(key[0], {}).get(key[1], 0)
    state = available_counters(sets, devices, allocated)
    for i, use in enumerate(uses):
        if i in held or not use:
            continue
        after = {key: v - use.get(key[0], {}).get(key[1], 0) for key, v in left.items()}
        result = charge(state, consumed_counters(devices[i]))
        assert isinstance(result, Counters) == all(v >= 0 for v in after.values())
        if isinstance(result, Counters):
            state, left = result, after
            assert result.remaining == {key: v * 10**9 for key, v in after.items()}
