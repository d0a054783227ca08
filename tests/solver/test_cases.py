"""The case tables: what the solver answers for each, on every node, and what upstream answers."""

from pathlib import Path
from typing import Any

import pytest

from solver.answers import Answer, Solution
from solver.deviations import OURS, UPSTREAM
from solver.memo import Memo
from solver.search import STEPS
from tests.solver.scenario import answers
from tests.solver.short import picked, scenario
from tests.tables import cases

TABLES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
CASES = [
    pytest.param(case, id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in cases(table)
]


def told(answer: Answer, expected: Any) -> Any:  # noqa: ANN401  # in the form of what is expected
    """Write an answer the way the case does: devices, allocations, or outcome and codes."""
    if isinstance(answer, Solution):
        if isinstance(expected, dict) and "allocations" in expected:
            return {"allocations": list(answer.allocations)}
        return picked(answer.allocations)
    told = {"outcome": answer.outcome.value, "code": answer.reasons[0].code}
    if isinstance(expected, dict):
        if "message" in expected:
            told["message"] = answer.reasons[0].message
        told = {key: told[key] for key in told if key in expected or key == "outcome"}
    return told


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_as_the_table_says(case: dict[str, Any]) -> None:
    found = answers(scenario(case), OURS, steps=case.get("steps", STEPS))
    expected = case["expect"]
    assert {node: told(found[node], each) for node, each in expected.items()} == expected


@pytest.mark.parametrize("case", [c for c in CASES if "upstream" in c.values[0]])
def test_where_we_deviate_upstream_can_still_be_asked(case: dict[str, Any]) -> None:
    found = answers(scenario(case), UPSTREAM)
    expected = case["upstream"]
    assert {node: told(found[node], each) for node, each in expected.items()} == expected
    assert expected != case["expect"]


def test_a_memo_changes_no_answer() -> None:
    memo = Memo()
    for case in (each.values[0] for each in CASES):
        plain = scenario(case)
        fresh = answers(plain, OURS)
        assert answers(plain, OURS, memo=memo) == fresh
        assert answers(plain, OURS, memo=memo) == fresh
