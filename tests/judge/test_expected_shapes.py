"""Requests that a node may satisfy which the configuration expects are not refused."""

from pathlib import Path

from drawbridge.config.model import Fleet
from drawbridge.config.string_formats import NodeShapeText, ObjectName
from drawbridge.dra import claim_codes
from drawbridge.finding import Finding, Severity
from drawbridge.judge.claims.codes import CODES, READ_UNGUARDED, SELECTOR_MAY_FAIL
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import claim_subject
from tests.judge.fleets import FLEETS, claim, context
from tests.tables import YamlValue, every_row, load_cases

# Findings about selectors that fail on a device, whatever nodes are expected.
UNRELATED = {READ_UNGUARDED.name, SELECTOR_MAY_FAIL.name}
CASES = load_cases(Path(__file__).parent / "cases/expected_shapes.yaml")
RELATED = (CODES.keys() | claim_codes.CODES.keys()) - UNRELATED


def judge(case: YamlValue, requests: YamlValue) -> tuple[Finding, ...]:
    """The findings about the devices of requests in a cluster that expects the nodes of a case."""
    entry = Fleet(class_=ObjectName("gpu"), expected_shapes=(NodeShapeText(case["shape"]),))
    short = {"requests": requests, "constraints": case.get("constraints", [])}
    of = context(FLEETS["two products"], fleet=[entry])
    findings = judge_subject(claim_subject(claim(short)), of)
    return tuple(each for each in findings if each.code in RELATED)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_request_that_an_expected_node_may_satisfy_is_only_warned_about(case: YamlValue) -> None:
    findings = judge(case, case["may"])
    assert findings
    for finding in findings:
        assert finding.severity is Severity.WARNING
        expected = f"the configuration expects nodes with {case['shape']} for class gpu"
        assert finding.message.endswith(f"(not refused, because {expected})")


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_request_that_no_expected_node_satisfies_is_refused(case: YamlValue) -> None:
    findings = judge(case, case["never"])
    assert findings
    assert {each.severity for each in findings} == {Severity.ERROR}
