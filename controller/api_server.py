"""Implements the reconcilers' reporter, which writes logs, events and metrics.

`controller.protocols` declares the protocols.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec.structs import asdict

from controller.protocols import Gauge, ObjectReference
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.config.model import Configuration
from drawbridge.config.policy import apply_policies
from drawbridge.finding import Finding
from drawbridge.process import metrics
from drawbridge.process.logs import log_finding

_LOG: Final = logging.getLogger("controller.process")
_API_ERRORS: Final = (ApiError, NotLeadingError, OSError, TimeoutError)
GAUGES: Final = {
    Gauge.LEADING: metrics.CONTROLLER_LEADING,
    Gauge.PODS_WITHOUT_TEMPLATE: metrics.PODS_WITHOUT_TEMPLATE,
    Gauge.MATCH_CONDITIONS_INACTIVE: metrics.MATCH_CONDITIONS_INACTIVE,
    Gauge.DUAL_NODES: metrics.DUAL_NODES,
    Gauge.DUAL_NODE_IDLE_DEVICES: metrics.DUAL_NODE_IDLE_DEVICES,
    Gauge.OWNED_NODES: metrics.OWNED_NODES,
    Gauge.UNFENCED_NODES: metrics.UNFENCED_NODES,
    Gauge.OTHER_WEBHOOKS: metrics.OTHER_WEBHOOKS,
    Gauge.MOVING_NODES: metrics.MOVING_NODES,
    Gauge.BUNDLES_MISSING: metrics.BUNDLES_MISSING,
}


class EventReporter:
    """Logs, records events and sets metrics."""

    def __init__(self, recorder: EventRecorder, configuration: Callable[[], Configuration]) -> None:
        self._recorder = recorder
        self._configuration = configuration

    def report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        """Report a finding with the severity that the configuration sets; does not block."""
        for treated_finding in apply_policies((finding,), self._configuration().findings):
            self._report(treated_finding, reference, action)

    def _report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        involved = InvolvedObject(**asdict(reference))
        # Clients can cause findings without end. What limits the events limits the log.
        if self._recorder.record(finding, involved, action):
            about = "/".join(filter(None, (reference.kind, reference.namespace, reference.name)))
            log_finding(_LOG, finding, about=about)

    def report_bug(self, reconciler: str, error: Exception) -> None:
        """Count and log an exception that nothing expects, which ended the work on one object."""
        metrics.CONTROLLER_PANICS.inc()
        text = "unhandled exception; other objects were processed"
        _LOG.error(text, exc_info=error, extra={"fields": {"reconciler": reconciler}})

    def count(self, reconciler: str, event: str) -> None:
        """Count one event of a reconciler, such as `created`."""
        metrics.CONTROLLER_EVENTS.labels(reconciler, event).inc()

    def set_gauge(self, gauge: Gauge, value: float) -> None:
        """Set a gauge to its current value."""
        GAUGES[gauge].set(value)


class ResultReporter:
    """Counts and logs the runs of all reconcilers of a process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._logs: dict[str, FailureLog] = {}  # by reconciler

    def report(self, reconciler: str, error: Exception | None) -> None:
        """Count a run and log its failure; only an unexpected error has a stack."""
        metrics.CONTROLLER_STEPS.labels(reconciler, "failed" if error else "done").inc()
        metrics.CONTROLLER_FAILING.labels(reconciler).set(error is not None)
        if (log := self._logs.get(reconciler)) is None:
            end = f"reconciliation of {reconciler} succeeds again after %.0f s"
            log = self._logs[reconciler] = FailureLog(_LOG, end, self._now)
        text = "reconciliation failed and will be retried"
        if error is None:
            log.succeed()
        elif isinstance(error, _API_ERRORS):
            reason, level = f"{error}", logging.WARNING
            log.fail(error, text, level=level, reconciler=reconciler, reason=reason)
        else:
            metrics.CONTROLLER_PANICS.inc()
            kind, level = type(error).__name__, logging.ERROR
            log.note(kind, level, text, bug=error, reconciler=reconciler)

    @staticmethod
    def end_term() -> None:
        """Say of no reconciler whether it fails: another replica runs them."""
        metrics.CONTROLLER_FAILING.clear()
