"""Every rule of the checker has been seen to fail, and its nearest valid neighbour to pass."""

import copy
from pathlib import Path
from typing import Any

from e2e.checker import RULES, check
from e2e.checker.expressions import Expressions
from tests.tables import every_row, read_yaml

TABLE = read_yaml((Path(__file__).parent / "cases" / "checker.yaml").read_text("utf-8"))
SHORT = {
    "S": "scenario",
    "C": "scenario.claims.0.spec.devices",
    "D": "scenario.slices.0.spec.devices",
    "A": "allocations",
    "R": "allocations.0.devices.results",
}


def edited(*edits: dict[str, Any]) -> dict[str, Any]:
    situation = copy.deepcopy(TABLE["base"])
    for edit in edits:
        for path, value in edit.items():
            head, dot, rest = path.rstrip("+").partition(".")
            put(situation, f"{SHORT[head]}{dot}{rest}".split("."), value, append=path.endswith("+"))
    return situation


def put(target: Any, path: list[str], value: Any, *, append: bool) -> None:  # noqa: ANN401  # JSON
    *parents, last = (int(step) if step.isdigit() else step for step in path)
    for step in parents:
        target = target[step]
    if isinstance(value, dict) and "times" in value:
        value = [value["of"]] * value["times"]
    if append:
        target[last].append(value)
    elif value is None:
        target.pop(last, None)
    else:
        target[last] = value


def rules(situation: dict[str, Any], expressions: Expressions) -> set[str]:
    violations = check(situation["scenario"], "n1", situation["allocations"], expressions)
    return {violation.rule for violation in violations}


@every_row("case", TABLE["cases"], ids=lambda case: case["rule"])
def test_a_broken_rule_is_named_and_its_neighbour_is_valid(
    case: dict[str, Any], expressions: Expressions
) -> None:
    both = case.get("both", {})
    broken = edited(both, case["broken"])
    assert rules(broken, expressions) == {case["rule"], *case.get("also", ())}
    assert (
        rules(edited(both if "valid" in case else {}, case.get("valid", {})), expressions) == set()
    )


def test_every_rule_has_a_case() -> None:
    assert {case["rule"] for case in TABLE["cases"]} == set(RULES)
