"""The solver's hand-written cases, put to Kubernetes' own allocator: equal in everything.

So no case says of upstream what upstream does not do, and the solutions that the tables expect are
valid by the checker.
"""

from pathlib import Path
from typing import Any

import pytest

from drawbridge.solver.deviations import OURS, UPSTREAM
from e2e.checker import check
from e2e.checker.expressions import Expressions
from e2e.differential.compare import differences
from e2e.differential.ours import answer
from e2e.differential.theirs import Oracle
from tests.solver.short import scenario
from tests.tables import every_row, load_cases

TABLES = sorted((Path(__file__).parent.parent / "solver" / "cases").glob("*.yaml"))
BEYOND = ("compatibility", "unsetGroups", "compatibleOnlyWith", "partitions")
LISTS = ("slices", "classes", "claims", "allocated", "rules", "nodes")
CASES = [
    pytest.param(case, id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in load_cases(table)
    if "steps" not in case and not any(f"'{word}'" in str(scenario(case)) for word in BEYOND)
]


@every_row("case", CASES)
def test_upstream_answers_the_case_as_we_do_without_our_deviations(
    case: dict[str, Any], oracle: Oracle, expressions: Expressions
) -> None:
    asked = {name: [] for name in LISTS} | scenario(case)
    strict, own = answer(asked, UPSTREAM), answer(asked, OURS)
    for node, theirs in oracle.answer(asked, seconds=0.5).items():
        # Some cases are there because upstream's search does not end.
        if theirs["verdict"] != "timeout":
            assert differences(strict[node], theirs) == []
        if own[node]["verdict"] == "allocated":
            assert check(asked, node, own[node]["allocations"], expressions) == []
