"""Findings about claims are reported once, by the replica that leads."""

from types import SimpleNamespace
from typing import cast

import pytest

from allocator.scheduler.protocol import SchedulingPod
from allocator.state.reports import ClaimFinding, EndedHold, HoldEnd
from allocator.writes.reports import ReportWriter
from drawbridge.agreement.allocator_codes import DEVICES_MAY_BE_IN_USE
from drawbridge.cluster.events import EventRecorder
from drawbridge.config.model import Configuration
from drawbridge.finding import REPEAT_SECONDS, Code, Finding
from drawbridge.ledger.codes import DEVICE_HELD_TWICE
from drawbridge.process import metrics
from tests.allocator.test_live_state import OURS, THEIRS


class Replica:
    """A reporter, what it records, and whether its kube-scheduler leads."""

    def __init__(self, *, leads: bool) -> None:
        self.leads = leads
        self.recorded: list[str] = []
        self.messages: list[str] = []
        recorder, self.time = SimpleNamespace(record=self._record), 1000.0
        self.reporter = ReportWriter(
            cast("EventRecorder", recorder), Configuration, lambda: self.leads, lambda: self.time
        )

    def _record(self, finding: Finding, involved: object, _action: str) -> bool:
        text = f"{finding.code} {getattr(involved, 'name', '')}"
        self.recorded.append(text)
        self.messages.append(finding.message)
        return self.recorded.count(text) == 1


HELD_TWICE = DEVICE_HELD_TWICE.at("status", "two claims have one device")
TOLD = ["DeviceHeldTwice ours", "DeviceHeldTwice theirs"]


def test_a_finding_is_reported_once_an_hour_for_each_claim() -> None:
    replica = Replica(leads=True)
    for hours in (1, 2):
        for claim in (OURS, THEIRS, OURS):
            replica.reporter.report(ClaimFinding(HELD_TWICE, claim))
        assert replica.recorded == TOLD * hours
        replica.time += REPEAT_SECONDS
    assert replica.reporter.take_left() == []


def test_a_replica_that_does_not_lead_leaves_findings_until_it_leads() -> None:
    replica = Replica(leads=False)
    for claim in (OURS, THEIRS, OURS):
        replica.reporter.report(ClaimFinding(HELD_TWICE, claim))
    assert replica.recorded == []
    replica.leads = True
    assert sorted(replica.reporter.take_left()) == ["ours", "theirs"]
    assert replica.reporter.take_left() == []
    for claim in (OURS, THEIRS):
        replica.reporter.report(ClaimFinding(HELD_TWICE, claim))
    assert replica.recorded == TOLD


def count_doubles() -> float:
    (metric,) = metrics.ALLOCATOR_DOUBLES.collect()
    return metric.samples[0].value


def test_a_conflict_across_namespaces_counts_once_and_the_log_has_all_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = count_doubles()
    replica, whole = Replica(leads=True), "held by a/ours and b/theirs"
    for claim, own in ((OURS, "a/ours"), (THEIRS, "b/theirs")):
        text = f"held by {own} and a claim of another namespace"
        replica.reporter.report(ClaimFinding(DEVICE_HELD_TWICE.at("", text), claim, whole))
        assert replica.messages[-1] == text
    assert count_doubles() == before + 1
    assert [each.getMessage() for each in caplog.records] == [whole, whole]


def test_each_rival_of_another_namespace_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, replica = count_doubles(), Replica(leads=True)
    rivals = [f"held by a/ours and b/{name}" for name in ("one", "two")]
    finding = DEVICE_HELD_TWICE.at("", "held by a/ours and a claim of another namespace")
    for whole in (*rivals, *rivals):
        replica.reporter.report(ClaimFinding(finding, OURS, whole))
    assert count_doubles() == before + 2
    assert [each.getMessage() for each in caplog.records] == rivals
    assert replica.messages == [finding.message] * 2


def test_a_hold_that_ends_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    pod = cast("SchedulingPod", SimpleNamespace(name="train-0", namespace="team", uid="u-1"))
    replica = Replica(leads=True)
    for _ in range(3):
        replica.reporter.report(EndedHold(pod, HoldEnd.DEADLINE, 1, 2))
    assert replica.recorded == ["GangHoldEnded train-0"] * 3
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("code", "level"), [(DEVICE_HELD_TWICE, 40), (DEVICES_MAY_BE_IN_USE, 30)])
def test_a_finding_is_logged_at_the_level_of_its_severity(
    code: Code, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    Replica(leads=True).reporter.report(ClaimFinding(code.at("status", "why"), OURS))
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [(level, "why")]
