"""Runs the case tables: the result on every node, and the result of upstream."""

from pathlib import Path
from typing import Any

import pytest

from drawbridge.dra.allocation import to_json
from drawbridge.solver.answers import Solution, SolverResult
from drawbridge.solver.deviations import OURS, UPSTREAM
from drawbridge.solver.memo import Memo
from drawbridge.solver.search import STEPS
from tests.solver.scenario import answers
from tests.solver.short import picked, scenario
from tests.tables import every_row, load_cases

TABLES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
CASES = [
    pytest.param(case, id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in load_cases(table)
]


def as_expected(answer: SolverResult, expected: Any) -> Any:  # noqa: ANN401  # has the form of the expectation
    """Write a result like the case: devices, allocations, or outcome and code."""
    if isinstance(answer, Solution):
        if isinstance(expected, dict) and "allocations" in expected:
            return {"allocations": list(map(to_json, answer.allocations))}
        return picked(answer.allocations)
    reason = answer.reasons[0]
    written: dict[str, Any] = {"outcome": answer.outcome.value, "code": reason.code}
    written |= {"message": reason.message, "of_node": answer.of_node}
    if isinstance(expected, dict):
        written = {key: written[key] for key in written if key in expected or key == "outcome"}
    return written


@every_row("case", CASES)
def test_the_result_is_as_the_table_states(case: dict[str, Any]) -> None:
    solved = answers(scenario(case), OURS, steps=case.get("steps", STEPS))
    expected = case["expect"]
    assert {node: as_expected(solved[node], each) for node, each in expected.items()} == expected


@every_row("case", [c for c in CASES if "upstream" in c.values[0]])
def test_deviations_can_be_turned_off(case: dict[str, Any]) -> None:
    solved = answers(scenario(case), UPSTREAM)
    expected = case["upstream"]
    assert {node: as_expected(solved[node], each) for node, each in expected.items()} == expected
    assert expected != case["expect"]


def test_without_the_gate_upstream_counts_a_share_as_the_device() -> None:
    for gate, expected in ((True, ["r=d0"]), (False, {"outcome": "not this node"})):
        plain = scenario(
            {
                "name": "a share",
                "gates": {"DRAConsumableCapacity": gate},
                "slices": [{"node": "n1", "devices": [{"name": "d0", "shared": True}]}],
                "allocated": [{"device": "n1/d0", "share": {}}],
                "requests": {"r": 1},
            }
        )
        assert as_expected(answers(plain, UPSTREAM)["n1"], expected) == expected


def test_a_memo_changes_no_result() -> None:
    memo = Memo()
    for case in (each.values[0] for each in CASES):
        plain = scenario(case)
        fresh = answers(plain, OURS)
        assert answers(plain, OURS, memo=memo) == fresh
        assert answers(plain, OURS, memo=memo) == fresh
