"""The labels of all namespaces, from a watch, and of those that it does not show yet."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import NAMESPACES
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from webhook.admission.protocols import NamespaceView

_LOG: Final = logging.getLogger("webhook.server.watched_namespaces")
# The watch shows a change long before. A namespace without a watch is read again after this time.
TRUSTED_SECONDS: Final = 5.0
MAX_REQUESTS: Final = 32
MAX_ENTRIES: Final = 1024
_READ_SECONDS: Final = 5.0

Labels = Mapping[str, str]
_NO_LABELS: Final[Labels] = {}


class _LabeledMetadata(msgspec.Struct, frozen=True):
    labels: Labels | None = None


class NamespaceObject(msgspec.Struct, frozen=True):
    """A Namespace with its labels only."""

    metadata: _LabeledMetadata = _LabeledMetadata()


_decode_namespace: Final = msgspec.json.Decoder(NamespaceObject).decode


class WatchedNamespaces:
    """The labels of the namespaces of a cluster.

    What is read is kept until the watch shows the namespace, or for a short time.
    """

    def __init__(self, session: Session) -> None:
        self.cache = Cache(session, NAMESPACES, NamespaceObject)
        self._client = ResourceClient(session, NAMESPACES, _decode_namespace)
        self._read: BoundedCache[str, Labels] = BoundedCache(MAX_ENTRIES)
        self._requests: dict[str, asyncio.Task[Labels | None]] = {}
        self._log = FailureLog(_LOG, "namespaces can be read again after %.0f s")
        self.cache.subscribe(self._on_namespace)

    def labels(self, name: str) -> Labels | None:
        """Return the labels that the watch shows, or None if it does not show the namespace."""
        cached = self.cache.get(name)
        return None if cached is None else cached.value.metadata.labels or _NO_LABELS

    def recently_read(self, name: str) -> Labels | None:
        """Return the labels that were read a short time ago, or None."""
        return self._read.get(name, time.monotonic())

    def namespace_labels(self, name: str) -> Labels | None:
        """Return the labels of a namespace, or None if it is unknown."""
        labels = self.labels(name)
        return self.recently_read(name) if labels is None else labels

    async def read_namespace_labels(self, name: str, seconds: float) -> Labels | None:
        """Read the labels from the API server, or return None after the given time.

        Concurrent callers share one request.
        """
        task = self._requests.get(name)
        if task is None:
            if len(self._requests) >= MAX_REQUESTS:
                return None
            task = asyncio.create_task(self._request(name))
            self._requests[name] = task
            task.add_done_callback(lambda _: self._requests.pop(name, None))
        # A caller that times out does not cancel the request of the others.
        done, _ = await asyncio.wait((task,), timeout=seconds)
        return task.result() if done else None

    async def _request(self, name: str) -> Labels | None:
        try:
            current = await self._client.read(name, seconds=_READ_SECONDS)
        except ApiError as error:
            text, level, reason = "a namespace cannot be read", logging.WARNING, f"{error}"
            self._log.fail(error, text, level=level, namespace=name, reason=reason)
            return None
        self._log.succeed()
        if current is None:
            return None
        labels = current.metadata.labels or _NO_LABELS
        self._read.put(name, labels, until=time.monotonic() + TRUSTED_SECONDS)
        return labels

    def _on_namespace(
        self,
        before: CachedObject[NamespaceObject] | None,
        after: CachedObject[NamespaceObject] | None,
    ) -> None:
        changed = before or after
        if changed is not None:
            self._read.pop(changed.name)


_: type[NamespaceView] = WatchedNamespaces
