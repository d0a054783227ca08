"""Fakes for the reconcilers: a reporter and a clock."""

# ruff: noqa: D102  # fakes of documented protocols; objects are JSON

import datetime as dt
from dataclasses import dataclass, field

from controller.protocols import Gauge, ObjectReference
from drawbridge.finding import Finding
from tests.cluster.memory_store import START


@dataclass
class FakeReporter:
    """Records findings, counts and gauges."""

    reported: list[tuple[str, ObjectReference]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    gauges: dict[Gauge, float] = field(default_factory=dict)

    def report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        assert action
        self.findings.append(finding)
        self.reported.append((finding.code, reference))

    def count(self, reconciler: str, event: str) -> None:
        key = (reconciler, event)
        self.counts[key] = self.counts.get(key, 0) + 1

    def set_gauge(self, gauge: Gauge, value: float) -> None:
        self.gauges[gauge] = value

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.reported]


@dataclass
class FakeClock:
    """A wall clock that only moves when a test moves it."""

    now: dt.datetime = START

    def __call__(self) -> dt.datetime:
        return self.now
