"""What the controller's duties need of the outside, over the real thing: `controller.protocols`.

Objects of one kind through a writer, and telling by log, event and counter. Knows no duty.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from cluster.errors import ApiError, NotLeadingError
from cluster.events import Events, Reference
from cluster.resources import Resource
from cluster.write import Writer
from config.model import Configuration
from config.policy import treated
from controller.protocols import About, Object
from dra.finding import Finding, Severity
from runtime import metrics
from runtime.logs import say

_LOG: Final = logging.getLogger("controller.process")
_WORLD: Final = (ApiError, NotLeadingError, OSError, TimeoutError)
_MERGE: Final = "application/merge-patch+json"
_LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
}


class Bound:
    """Objects of one kind on the API server; fulfils `controller.protocols.Store`.

    Where a caller names no namespace, it is `namespace`.
    """

    def __init__(self, writer: Writer, resource: Resource, namespace: str = "") -> None:
        self._writer = writer
        self._resource = resource
        self._namespace = namespace

    async def read(self, name: str, namespace: str = "") -> Object | None:
        """Give an object as it is now."""
        return await self._writer.read(self._resource, name, namespace=namespace or self._namespace)

    async def list(self, namespace: str = "", *, fields: str = "") -> list[Object]:
        """Give the objects of a namespace, those that a field selector selects."""
        return await self._writer.list(
            self._resource, namespace=namespace or self._namespace, fields=fields
        )

    async def create(self, value: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        """Make an object, or see what would be made."""
        return await self._writer.create(
            self._resource, value, namespace=namespace or self._namespace, dry_run=dry_run
        )

    async def replace(self, value: Object, namespace: str = "") -> Object:
        """Write an object unless it has changed since it was read."""
        return await self._writer.replace(
            self._resource, value, namespace=namespace or self._namespace
        )

    async def apply(self, value: Object, namespace: str = "") -> Object:
        """Say the fields that are ours."""
        return await self._writer.apply(
            self._resource, value, namespace=namespace or self._namespace
        )

    async def merge(self, name: str, value: Object, namespace: str = "") -> Object:
        """Change what `value` says, null takes away."""
        return await self._writer.patch(
            self._resource, name, value, namespace=namespace or self._namespace, content=_MERGE
        )

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        """Delete just this version of just this object; False where it is another by now."""
        return await self._writer.delete(
            self._resource, name, namespace=namespace or self._namespace, uid=uid, version=version
        )


class Telling:
    """Tells by log and event, and counts; fulfils `controller.protocols.Told`."""

    def __init__(self, events: Events, configuration: Callable[[], Configuration]) -> None:
        self._events = events
        self._configuration = configuration

    def say(self, finding: Finding, about: About, action: str) -> None:
        """Tell a finding about an object as the configuration wants it; never waits."""
        for each in treated((finding,), self._configuration().findings):
            self._say(each, about, action)

    def _say(self, finding: Finding, about: About, action: str) -> None:
        where = "/".join(filter(None, (about.kind, about.namespace, about.name)))
        content: Any = msgspec.to_builtins(finding)
        say(_LOG, _LEVELS[finding.severity], finding.message, about=where, finding=content)
        reference = Reference(
            api_version=about.api_version,
            kind=about.kind,
            namespace=about.namespace,
            name=about.name,
            uid=about.uid,
        )
        self._events.say(finding, reference, action)

    def count(self, duty: str, what: str) -> None:
        """Count something that a duty did or met."""
        metrics.MET.labels(duty, what).inc()

    def level(self, duty: str, what: str, amount: float) -> None:
        """Say how much of something there is now."""
        metrics.LEVEL.labels(duty, what).set(amount)


def report(duty: str, error: Exception | None) -> None:
    """Log and count a step; what the API server said is no bug and carries no stack."""
    metrics.STEPS.labels(duty, "failed" if error else "done").inc()
    if error is None:
        return
    text = "a duty failed and is tried again"
    if isinstance(error, _WORLD):
        say(_LOG, logging.WARNING, text, duty=duty, reason=f"{error}")
    else:
        metrics.PANICS.inc()
        _LOG.error("%s", text, exc_info=error, extra={"fields": {"duty": duty}})
