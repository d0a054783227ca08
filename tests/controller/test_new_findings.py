"""A finding is told when it comes, after it has gone, and each hour while it lasts."""

from controller.new_findings import NewFindings
from controller.protocols import ObjectReference
from drawbridge.agreement.operation_codes import DUAL_NODES, QUOTA_MIRRORED
from drawbridge.finding import REPEAT_SECONDS
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


def test_what_lasts_is_told_each_hour() -> None:
    reporter, reference, now = FakeReporter(), ObjectReference("Node", "n", ""), [1000.0]
    new_findings = NewFindings(reporter, "Look", lambda: now[0])
    lasting = dict.fromkeys((DUAL_NODES.at("", "both"), QUOTA_MIRRORED.at("", "note")), reference)
    told = []
    for _ in range(8):
        new_findings.report(lasting)
        told.append([each.message for each in reporter.findings])
        reporter.findings.clear()
        now[0] += REPEAT_SECONDS / 3
    assert told == [["both", "note"], [], [], ["both"], [], [], ["both"], []]
