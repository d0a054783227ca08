"""What duties tell: as log and event, in the way that the configuration wants it."""

import logging

import pytest

from cluster.events import Events, Reference
from config.model import Configuration, Policy
from config.string_formats import FindingCode
from controller.api_server import Telling, report
from controller.protocols import About
from dra.finding import Finding, Severity
from registration.controller_codes import DUAL_NODES
from runtime import metrics

ABOUT = About("ConfigMap", "drawbridge-facts", "own", "uid-1")


class Heard(Events):
    """Events that nobody writes."""

    def __init__(self) -> None:
        self.said: list[tuple[Finding, Reference]] = []

    def say(self, finding: Finding, about: Reference, action: str) -> None:
        """Remember what was said."""
        assert action == "LabelNodes"
        self.said.append((finding, about))


@pytest.mark.parametrize(
    ("policy", "severities"),
    [
        (None, [Severity.WARNING]),
        (Policy.OFF, []),
        (Policy.ENFORCE, [Severity.ERROR]),
        (Policy.WARN, [Severity.WARNING]),
    ],
)
def test_a_finding_is_told_as_the_configuration_wants_it(
    policy: Policy | None, severities: list[Severity], caplog: pytest.LogCaptureFixture
) -> None:
    policies = {} if policy is None else {FindingCode(DUAL_NODES.name): policy}
    heard = Heard()
    telling = Telling(heard, lambda: Configuration(findings=policies))
    with caplog.at_level(logging.INFO, "controller.process"):
        telling.say(DUAL_NODES.at("", "a has both"), ABOUT, "LabelNodes")
    assert [finding.severity for finding, _ in heard.said] == severities
    assert [about.uid for _, about in heard.said] == ["uid-1"] * len(severities)
    assert [each.getMessage() for each in caplog.records] == ["a has both"] * len(severities)


def sample(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def test_what_the_world_did_is_a_warning_and_a_bug_is_counted_with_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bugs = sample("controller_runtime_webhook_panics_total")
    failed = sample("drawbridge_controller_steps_total", duty="dual", outcome="failed")
    report("dual", OSError("no route"))
    report("dual", KeyError("oops"))
    report("dual", None)
    world, bug = caplog.records
    assert (world.levelno, world.exc_info) == (logging.WARNING, None)
    assert (bug.levelno, bool(bug.exc_info)) == (logging.ERROR, True)
    assert sample("controller_runtime_webhook_panics_total") == bugs + 1
    now = sample("drawbridge_controller_steps_total", duty="dual", outcome="failed")
    assert now == failed + 2
