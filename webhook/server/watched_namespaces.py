"""The labels of all namespaces, from a watch, and of those that it does not show yet."""

from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.resources import NAMESPACES
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from webhook.server.namespace_reads import NamespaceReads

_READ_SECONDS: Final = 5.0
_NO_LABELS: Final[Mapping[str, str]] = {}


class _LabeledMetadata(msgspec.Struct, frozen=True):
    labels: Mapping[str, str] | None = None


class NamespaceObject(msgspec.Struct, frozen=True):
    """A Namespace with its labels only."""

    metadata: _LabeledMetadata = _LabeledMetadata()


_decode_namespace: Final = msgspec.json.Decoder(NamespaceObject).decode


class WatchedNamespaces:
    """The labels of the namespaces of a cluster."""

    def __init__(self, session: Session) -> None:
        self.cache = Cache(session, NAMESPACES, NamespaceObject)
        self._client = ResourceClient(session, NAMESPACES, _decode_namespace)
        self._reads = NamespaceReads(self._read_labels)
        self.cache.subscribe(self._on_namespace)

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels that the watch shows, or None if it does not show the namespace."""
        cached = self.cache.get(name)
        return None if cached is None else cached.value.metadata.labels or _NO_LABELS

    def recently_read(self, name: str) -> Mapping[str, str] | None:
        """Return the labels that were read a short time ago, or None."""
        return self._reads.get(name)

    async def read(self, name: str, seconds: float) -> Mapping[str, str] | None:
        """Read the labels from the API server, or return None after the given time."""
        return await self._reads.read(name, seconds)

    async def _read_labels(self, name: str) -> Mapping[str, str] | None:
        current = await self._client.read(name, seconds=_READ_SECONDS)
        return None if current is None else current.metadata.labels or _NO_LABELS

    def _on_namespace(
        self,
        before: CachedObject[NamespaceObject] | None,
        after: CachedObject[NamespaceObject] | None,
    ) -> None:
        changed = before or after
        if changed is not None:
            self._reads.forget(changed.name)
