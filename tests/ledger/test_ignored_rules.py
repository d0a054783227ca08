"""The rules of a pod that a simulation does not check."""

from operator import itemgetter
from pathlib import Path

from drawbridge.ledger.ignored_rules import find_ignored_rules
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "ignored_rules.yaml")


@every_row("case", CASES, ids=itemgetter("name"))
def test_rules_that_only_the_scheduler_checks_are_found(case: YamlValue) -> None:
    assert list(find_ignored_rules({"spec": case["spec"]})) == case["found"]
