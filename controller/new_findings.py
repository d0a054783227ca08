"""Reports what each run finds: when it comes, and again only after it has gone."""

from collections.abc import Collection, Mapping

from controller.protocols import ObjectReference, Reporter
from drawbridge.finding import Finding


class NewFindings:
    """Compares the findings of a run with those of the run before."""

    def __init__(self, reporter: Reporter, action: str) -> None:
        self._reporter = reporter
        self._action = action
        self._last: Collection[Finding] = ()

    def report(self, findings: Mapping[Finding, ObjectReference]) -> None:
        """Report those that the previous run did not have, each about its object."""
        for finding, reference in findings.items():
            if finding not in self._last:
                self._reporter.report(finding, reference, self._action)
        self._last = findings.keys()
