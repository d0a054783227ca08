"""Implements the reconcilers' protocols: object stores over a Writer, and a reporter.

`controller.protocols` declares the protocols. The reporter writes logs, events and metrics.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from controller.protocols import ApiRequestError, Gauge, ObjectReference, Unstructured
from drawbridge.cluster.errors import ApiError, NotLeadingError, UnreachableError
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.resources import Resource
from drawbridge.cluster.session import Session
from drawbridge.cluster.write import Writer
from drawbridge.config.model import Configuration
from drawbridge.config.policy import apply_policies
from drawbridge.finding import Finding, Severity
from drawbridge.process import metrics
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("controller.process")
_API_ERRORS: Final = (ApiRequestError, ApiError, NotLeadingError, OSError, TimeoutError)
_MERGE_PATCH: Final = "application/merge-patch+json"
_LOG_LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
}
_GAUGES: Final = {
    Gauge.LEADING: metrics.CONTROLLER_LEADING,
    Gauge.PODS_WITHOUT_TEMPLATE: metrics.PODS_WITHOUT_TEMPLATE,
    Gauge.MATCH_CONDITIONS_INACTIVE: metrics.MATCH_CONDITIONS_INACTIVE,
    Gauge.DUAL_NODES: metrics.DUAL_NODES,
    Gauge.DUAL_NODE_IDLE_DEVICES: metrics.DUAL_NODE_IDLE_DEVICES,
    Gauge.OWNED_NODES: metrics.OWNED_NODES,
    Gauge.UNFENCED_NODES: metrics.UNFENCED_NODES,
    Gauge.OTHER_WEBHOOKS: metrics.OTHER_WEBHOOKS,
}


@contextlib.contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert ApiError to the error type that the reconcilers know."""
    try:
        yield
    except ApiError as error:
        raise ApiRequestError(error.code, f"{error}") from error


async def read_server_version(session: Session) -> str:
    """Read the API server's minor version; raises ApiRequestError."""
    with _convert_errors():
        return await session.version()


class ApiObjectStore:
    """Objects of one kind on the API server; implements `controller.protocols.ObjectStore`.

    `namespace` is the default for calls that pass none.
    """

    def __init__(self, writer: Writer, resource: Resource, namespace: str = "") -> None:
        self._writer = writer
        self._resource = resource
        self._namespace = namespace

    async def read(self, name: str, namespace: str = "") -> Unstructured | None:
        """Read an object from the API server; None if it does not exist."""
        with _convert_errors():
            return await self._writer.read(
                self._resource, name, namespace=namespace or self._namespace
            )

    async def list(self, namespace: str = "", *, fields: str = "") -> list[Unstructured]:
        """List the objects of a namespace that match a field selector."""
        with _convert_errors():
            return await self._writer.list(
                self._resource, namespace=namespace or self._namespace, fields=fields
            )

    async def create(
        self, value: Unstructured, namespace: str = "", *, dry_run: bool = False
    ) -> Unstructured:
        """Create an object and return the stored form; with `dry_run` nothing is stored."""
        with _convert_errors():
            return await self._writer.create(
                self._resource, value, namespace=namespace or self._namespace, dry_run=dry_run
            )

    async def replace(self, value: Unstructured, namespace: str = "") -> Unstructured:
        """Replace an object; fails with 409 if it changed since it was read."""
        with _convert_errors():
            return await self._writer.replace(
                self._resource, value, namespace=namespace or self._namespace
            )

    async def apply(self, value: Unstructured, namespace: str = "") -> Unstructured:
        """Apply the fields that this controller owns (server-side apply)."""
        with _convert_errors():
            return await self._writer.apply(
                self._resource, value, namespace=namespace or self._namespace
            )

    async def merge(self, name: str, value: Unstructured, namespace: str = "") -> Unstructured:
        """Apply a JSON merge patch; null removes a field."""
        with _convert_errors():
            return await self._writer.patch(
                self._resource,
                name,
                value,
                namespace=namespace or self._namespace,
                content_type=_MERGE_PATCH,
            )

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        """Delete this version of this object; False if another object has the name by now."""
        with _convert_errors():
            return await self._writer.delete(
                self._resource,
                name,
                namespace=namespace or self._namespace,
                uid=uid,
                version=version,
            )


class EventReporter:
    """Logs, records events and sets metrics; implements `controller.protocols.Reporter`."""

    def __init__(self, recorder: EventRecorder, configuration: Callable[[], Configuration]) -> None:
        self._recorder = recorder
        self._configuration = configuration

    def report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        """Report a finding with the severity that the configuration sets; does not block."""
        for treated_finding in apply_policies((finding,), self._configuration().findings):
            self._report(treated_finding, reference, action)

    def _report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        about = "/".join(filter(None, (reference.kind, reference.namespace, reference.name)))
        content: Any = msgspec.to_builtins(finding)
        level = _LOG_LEVELS[finding.severity]
        log_event(_LOG, level, finding.message, about=about, finding=content)
        involved = InvolvedObject(
            api_version=reference.api_version,
            kind=reference.kind,
            namespace=reference.namespace,
            name=reference.name,
            uid=reference.uid,
        )
        self._recorder.record(finding, involved, action)

    def count(self, reconciler: str, event: str) -> None:
        """Count one event of a reconciler, such as `created`."""
        metrics.CONTROLLER_EVENTS.labels(reconciler, event).inc()

    def set_gauge(self, gauge: Gauge, value: float) -> None:
        """Set a gauge to its current value."""
        _GAUGES[gauge].set(value)


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
        metrics.CONTROLLER_PANICS.inc()
        _LOG.error("%s", text, exc_info=error, extra={"fields": {"reconciler": reconciler}})
