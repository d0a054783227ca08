"""Implements the reconcilers' reporter, which writes logs, events and metrics.

`controller.protocols` declares the protocols.
"""

import logging
from collections.abc import Callable
from typing import Final

from controller.protocols import Gauge, ObjectReference
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError, UnreachableError
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.config.model import Configuration
from drawbridge.config.policy import apply_policies
from drawbridge.finding import Finding
from drawbridge.process import metrics
from drawbridge.process.logs import log_event, log_finding

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
        involved = InvolvedObject(
            api_version=reference.api_version,
            kind=reference.kind,
            namespace=reference.namespace,
            name=reference.name,
            uid=reference.uid,
        )
        # Clients can cause findings without end. What limits the events limits the log.
        if self._recorder.record(finding, involved, action):
            about = "/".join(filter(None, (reference.kind, reference.namespace, reference.name)))
            log_finding(_LOG, finding, about=about)

    def report_bug(self, reconciler: str, error: Exception) -> None:
        """Count and log an exception that nothing expects, which ended the work on one object."""
        _report_bug("unhandled exception; other objects were processed", reconciler, error)

    def count(self, reconciler: str, event: str) -> None:
        """Count one event of a reconciler, such as `created`."""
        metrics.CONTROLLER_EVENTS.labels(reconciler, event).inc()

    def set_gauge(self, gauge: Gauge, value: float) -> None:
        """Set a gauge to its current value."""
        GAUGES[gauge].set(value)


def report_result(reconciler: str, error: Exception | None) -> None:
    """Count a run of a reconciler and log its failure; only an unexpected error has a stack."""
    metrics.CONTROLLER_STEPS.labels(reconciler, "failed" if error else "done").inc()
    if error is None:
        return
    text = "reconciliation failed and will be retried"
    if isinstance(error, _API_ERRORS):
        # The session logs an outage once.
        level = logging.DEBUG if isinstance(error, UnreachableError) else logging.WARNING
        log_event(_LOG, level, text, reconciler=reconciler, reason=f"{error}")
    else:
        _report_bug(text, reconciler, error)


def _report_bug(text: str, reconciler: str, error: Exception) -> None:
    metrics.CONTROLLER_PANICS.inc()
    _LOG.error("%s", text, exc_info=error, extra={"fields": {"reconciler": reconciler}})
