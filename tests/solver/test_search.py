"""Tests of the search: pruning changes no result, long claims do not recurse deeper."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drawbridge.solver import search
from drawbridge.solver.bounds import SearchBounds
from drawbridge.solver.deviations import OURS, UPSTREAM, Deviations
from drawbridge.solver.memo import Memo
from tests.solver.scenario import answers, outcome
from tests.solver.short import picked, scenario
from tests.thorough import drawn

ATTRIBUTES = st.fixed_dictionaries(
    {}, optional={"x": st.integers(1, 2), "root": st.sampled_from(["a", "b", ["a", "b"]])}
)
SELECTORS = st.sampled_from(
    [
        "true",
        'device.attributes["gpu.example.com"].x == 1',
        '"x" in device.attributes["gpu.example.com"]',
        "!device.allowMultipleAllocations",
    ]
)

DEVICES = st.fixed_dictionaries(
    {"attributes": ATTRIBUTES, "shared": st.booleans()},
    optional={
        "capacity": st.fixed_dictionaries({"mem": st.integers(1, 3)}),
        "draws": st.fixed_dictionaries({"g": st.fixed_dictionaries({"slots": st.integers(0, 2)})}),
        "groups": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
        "taints": st.just(["sick:NoSchedule"]),
    },
)
REQUEST = st.fixed_dictionaries(
    {"class": st.sampled_from(["gpu", "any"])},
    optional={
        "count": st.integers(1, 3),
        "if": SELECTORS,
        "capacity": st.fixed_dictionaries({"mem": st.integers(1, 2)}),
        "all": st.just(value=True),
        "tolerate": st.just([{"operator": "Exists"}]),
    },
)
ADMIN = st.builds(lambda request, admin: request | {"admin": admin}, REQUEST, st.just(value=True))
REQUESTS = st.lists(
    st.one_of(REQUEST, REQUEST, ADMIN, st.lists(REQUEST, min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
).map(lambda many: {f"r{i}": each for i, each in enumerate(many)})
CLAIMS = st.fixed_dictionaries(
    {"requests": REQUESTS},
    optional={
        "match": st.just(["gpu.example.com/root"]),
        "distinct": st.just(["gpu.example.com/root"]),
    },
)
CASES = st.fixed_dictionaries(
    {
        "name": st.just("generated"),
        "gates": st.fixed_dictionaries(
            {
                "DRADeviceCompatibilityGroups": st.just(value=True),
                "DRAListTypeAttributes": st.booleans(),
            }
        ),
        "claims": st.lists(CLAIMS, min_size=1, max_size=2),
        "devices": st.lists(DEVICES, min_size=1, max_size=6),
        "held": st.lists(st.integers(0, 5), max_size=2, unique=True),
        "slots": st.integers(0, 4),
    }
)


def expand_case(case: dict[str, Any]) -> dict[str, Any]:
    devices = [{"name": f"d{i}", **each} for i, each in enumerate(case["devices"])]
    nodes = ["n1", "n2"]
    slices = [
        {"node": node, "count": 2, **part}
        for node in nodes
        for part in ({"counters": {"g": {"slots": case["slots"]}}}, {"devices": devices})
    ]
    held = [f"{node}/d{i}" for node in nodes for i in case["held"] if i < len(devices)]
    return scenario(case | {"nodes": nodes, "slices": slices, "allocated": held})


# Without lists, an attribute with a list has no value that another device could have, too.
LISTS_WITHOUT_THEIR_GATE = {
    "name": "lists without their gate",
    "gates": {"DRADeviceCompatibilityGroups": True, "DRAListTypeAttributes": False},
    "claims": [
        {
            "requests": {"r0": {"class": "gpu"}, "r1": {"class": "gpu"}},
            "distinct": ["gpu.example.com/root"],
        }
    ],
    "devices": [
        {"attributes": {"root": "a"}, "shared": False},
        {"attributes": {"root": ["a", "b"]}, "shared": False},
    ],
    "held": [],
    "slots": 0,
}


@example(case=LISTS_WITHOUT_THEIR_GATE)
@pytest.mark.parametrize("deviations", [OURS, UPSTREAM], ids=["ours", "upstream"])
@settings(
    max_examples=drawn(30, thorough=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(case=CASES)
def test_pruning_changes_no_result(
    deviations: Deviations, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    plain = expand_case(case)
    monkeypatch.setattr(search, "DEAD_ENDS_BEFORE_PRUNING", 10**9)
    unpruned = answers(plain, deviations, steps=50_000)
    monkeypatch.setattr(search, "DEAD_ENDS_BEFORE_PRUNING", 0)
    pruned = answers(plain, deviations)
    for node, expected in unpruned.items():
        if outcome(expected) == "gave up":
            continue
        assert outcome(pruned[node]) == outcome(expected)
        assert getattr(pruned[node], "allocations", None) == getattr(expected, "allocations", None)


def test_a_thousand_devices_in_forty_claims_do_not_exceed_the_call_stack() -> None:
    names = [f"d{i}" for i in range(1280)]
    case = {
        "name": "long",
        "slices": [
            {"node": "n1", "pool": "n1", "count": 10, "devices": names[i * 128 : (i + 1) * 128]}
            for i in range(10)
        ],
        "claims": [{"requests": {"r": 32}} for _ in range(40)],
    }
    answer = answers(scenario(case))["n1"]
    assert picked(answer.allocations) == [f"r={name}" for name in names]  # type: ignore[union-attr]


def test_nodes_in_the_same_state_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    original = SearchBounds.is_impossible

    def is_impossible(bounds: SearchBounds) -> bool:
        searched.append(bounds.state.node_view.node.name)
        return original(bounds)

    monkeypatch.setattr(SearchBounds, "is_impossible", is_impossible)
    roots = [{"name": f"d{i}", "attributes": {"root": f"r{i // 2}"}} for i in range(8)]
    nodes = [f"n{i}" for i in range(4)]
    slices = [{"node": node, "devices": roots} for node in nodes[:3]]
    slices.append({"node": "n3", "devices": [*roots[:7], {"name": "d7", "attributes": {}}]})
    case = {
        "name": "alike",
        "nodes": nodes,
        "slices": slices,
        "claims": [{"requests": {"r": 3}, "match": ["gpu.example.com/root"]}],
    }
    solved = answers(scenario(case), memo=Memo())
    assert searched == ["n0", "n3"]
    assert [each.node for each in solved.values()] == nodes
    assert {outcome(each) for each in solved.values()} == {"not this node"}
    assert solved["n2"].reasons[0].example == "n2: gpu.example.com/n2/d0"  # type: ignore[union-attr]


def test_a_wrong_key_of_nodes_costs_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ["n1", "n2", "n3"]
    nics = {"driver": "nic.example.com", "devices": [f"e{i}" for i in range(8)]}
    case = {
        "name": "unequal",
        "nodes": nodes,
        "slices": [
            {"node": n, **each} for n in nodes for each in ({"devices": ["d0", "d1"]}, nics)
        ],
        "allocated": ["n1/d1", "n2/d0"],
        "claims": [{"requests": {"nic": {"class": "nic"}, "r": "all"}}],
    }
    expected = answers(scenario(case))
    assert outcome(expected["n3"]) == "solved"
    monkeypatch.setattr(SearchBounds, "node_state_key", lambda _: "equal")
    with pytest.warns(UserWarning, match="a node rejects the result of an equal one"):
        assert answers(scenario(case), memo=Memo()) == expected
