"""Fakes for the reconcilers: a reporter and a clock."""

# ruff: noqa: D102  # fakes of documented protocols; objects are JSON

import datetime as dt
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from controller.giving_back import GivingBack
from controller.protocols import Gauge, ObjectReference
from drawbridge.agreement.required_versions import RequiredVersions
from drawbridge.dra.inventory import PoolID
from drawbridge.finding import Finding
from tests.cluster.memory_store import START, MemoryStore


@dataclass
class FakeReporter:
    """Records findings, bugs, counts and gauges."""

    reported: list[tuple[str, ObjectReference]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    gauges: dict[Gauge, float] = field(default_factory=dict)
    bugs: list[Exception] = field(default_factory=list)

    def report_bug(self, reconciler: str, error: Exception) -> None:
        assert reconciler
        self.bugs.append(error)

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

    def elapsed(self) -> float:
        return self.now.timestamp()


def given_back(elapsed: Callable[[], float]) -> GivingBack[Any]:
    """Return what tells when something can be given back where no scheduler leads."""

    async def list_pending() -> AsyncIterator[frozenset[PoolID]]:
        yield frozenset()

    return GivingBack(
        MemoryStore[dict[str, Any]](dict[str, Any]),
        list_pending,
        versions=RequiredVersions,
        find_touched=lambda _pools, _keys: (),
        elapsed=elapsed,
    )
