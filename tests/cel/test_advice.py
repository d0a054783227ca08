"""What is said about an expression that does not compile: a case table."""

from pathlib import Path

from drawbridge.cel.dra import Selectors
from drawbridge.cel.dra.advice import describe_problem
from drawbridge.dra.gates import DEFAULTS
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases/advice.yaml")
SELECTORS = Selectors.of_gates(DEFAULTS)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_what_to_write_instead(case: YamlValue) -> None:
    admitted, problem = SELECTORS.check_admission(case["expression"])
    assert not admitted
    assert problem is not None
    assert describe_problem(problem, case["expression"]) == case["says"]
