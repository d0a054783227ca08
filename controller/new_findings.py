"""Reports what each run finds: when it comes, each hour while it lasts, and again after a gap."""

import time
from collections.abc import Callable, Mapping

from controller.protocols import ObjectReference, Reporter
from drawbridge.finding import REPEAT_SECONDS, Finding, Severity


class NewFindings:
    """Compares the findings of a run with those of the run before."""

    def __init__(
        self, reporter: Reporter, action: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._reporter = reporter
        self._action = action
        self._now = now
        self._told: dict[Finding, float] = {}  # when the findings of the last run were told

    def report(self, findings: Mapping[Finding, ObjectReference]) -> None:
        """Report those that the previous run did not have, or that were told an hour ago."""
        before, now = self._told, self._now()
        self._told = {}
        for finding, reference in findings.items():
            told = before.get(finding)
            lasts = finding.severity is not Severity.INFO
            if told is None or (lasts and now - told >= REPEAT_SECONDS):
                self._reporter.report(finding, reference, self._action)
                told = now
            self._told[finding] = told
