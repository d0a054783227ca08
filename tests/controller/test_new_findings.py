"""A finding is told when it comes, and again only after it has gone."""

from controller.new_findings import NewFindings
from controller.protocols import ObjectReference
from drawbridge.report.codes import CLAIM_PENDING
from tests.controller.harness import FakeReporter


def test_a_finding_is_told_again_after_it_has_gone() -> None:
    reporter, reference = FakeReporter(), ObjectReference("Node", "n", "")
    first, second = (CLAIM_PENDING.at("", text) for text in ("first", "second"))
    new_findings = NewFindings(reporter, "Look")
    told = []
    for findings in ((first,), (first, second), (second,), (second, first), ()):
        new_findings.report(dict.fromkeys(findings, reference))
        told.append([each.message for each in reporter.findings])
        reporter.findings.clear()
    assert told == [["first"], ["second"], [], ["first"], []]
