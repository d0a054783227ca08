"""Findings of the reconcilers as logs and events, and API errors."""

import logging

import pytest

from controller.api_server import EventReporter, ResultReporter
from controller.protocols import ObjectReference
from drawbridge.agreement.operation_codes import DUAL_NODES
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.config.model import Configuration, Policy
from drawbridge.config.string_formats import FindingCode
from drawbridge.finding import Finding, Severity
from drawbridge.process import metrics

ABOUT = ObjectReference("ConfigMap", "drawbridge-facts", "own", "uid-1")


class FakeRecorder(EventRecorder):
    """Records findings and writes no events; a finding about the same object is a repetition."""

    def __init__(self) -> None:
        self.recorded: list[tuple[Finding, InvolvedObject]] = []

    def record(self, finding: Finding, involved: InvolvedObject, action: str) -> bool:
        """Store the finding."""
        assert action == "LabelNodes"
        is_new = all(about != involved for _, about in self.recorded)
        self.recorded.append((finding, involved))
        return is_new


@pytest.mark.parametrize(
    ("policy", "severities"),
    [
        (None, [Severity.WARNING]),
        (Policy.OFF, []),
        (Policy.ENFORCE, [Severity.ERROR]),
        (Policy.WARN, [Severity.WARNING]),
    ],
)
def test_the_configuration_sets_the_severity_of_a_reported_finding(
    policy: Policy | None, severities: list[Severity], caplog: pytest.LogCaptureFixture
) -> None:
    policies = {} if policy is None else {FindingCode(DUAL_NODES.name): policy}
    recorder = FakeRecorder()
    reporter = EventReporter(recorder, lambda: Configuration(findings=policies))
    with caplog.at_level(logging.INFO, "controller.process"):
        reporter.report(DUAL_NODES.at("", "a has both"), ABOUT, "LabelNodes")
    assert [finding.severity for finding, _ in recorder.recorded] == severities
    assert [about.uid for _, about in recorder.recorded] == ["uid-1"] * len(severities)
    assert [each.getMessage() for each in caplog.records] == ["a has both"] * len(severities)


def test_a_repetition_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    """A client can cause a finding about each of its pods with one write, without end."""
    recorder = FakeRecorder()
    reporter = EventReporter(recorder, Configuration)
    for pod in ("a", "b", "a", "b"):
        about = ObjectReference("Pod", pod, "team", f"uid-{pod}")
        reporter.report(DUAL_NODES.at("", "has both"), about, "LabelNodes")
    assert len(recorder.recorded) == 4
    told = [vars(each)["fields"]["about"] for each in caplog.records]
    assert told == ["Pod/team/a", "Pod/team/b"]


def sample(name: str, **labels: str) -> float:
    return metrics.CONTROLLER.get_sample_value(name, labels) or 0.0


def test_an_exception_that_ends_the_work_on_one_object_counts_and_has_a_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bugs = sample("drawbridge_controller_panics_total")
    EventReporter(FakeRecorder(), Configuration).report_bug("templates", KeyError("oops"))
    (bug,) = caplog.records
    assert (bug.levelno, bool(bug.exc_info)) == (logging.ERROR, True)
    assert sample("drawbridge_controller_panics_total") == bugs + 1


def test_an_api_error_logs_a_warning_and_an_unexpected_error_logs_a_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bugs = sample("drawbridge_controller_panics_total")
    failed = sample("drawbridge_controller_steps_total", reconciler="dual", outcome="failed")
    results = ResultReporter()
    results.report("dual", OSError("no route"))
    results.report("dual", KeyError("oops"))
    failing = "drawbridge_controller_failing", {"reconciler": "dual"}
    assert metrics.CONTROLLER.get_sample_value(*failing) == 1
    results.report("dual", None)
    assert metrics.CONTROLLER.get_sample_value(*failing) == 0
    results.end_term()
    assert metrics.CONTROLLER.get_sample_value(*failing) is None
    api_error, bug = caplog.records
    assert (api_error.levelno, api_error.exc_info) == (logging.WARNING, None)
    assert (bug.levelno, bool(bug.exc_info)) == (logging.ERROR, True)
    assert sample("drawbridge_controller_panics_total") == bugs + 1
    now = sample("drawbridge_controller_steps_total", reconciler="dual", outcome="failed")
    assert now == failed + 2
