"""The labels of all namespaces, from a watch, and of those that it does not show yet."""

import functools
from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.cluster.cache import Cache, CachedObject
from drawbridge.cluster.resources import NAMESPACES
from drawbridge.cluster.session import ApiError, Session
from webhook.server.namespace_reads import NamespaceReads

_NO_LABELS: Final[Mapping[str, str]] = {}


class _LabeledMetadata(msgspec.Struct, frozen=True):
    labels: Mapping[str, str] | None = None


class NamespaceObject(msgspec.Struct, frozen=True):
    """A Namespace with its labels only."""

    metadata: _LabeledMetadata = _LabeledMetadata()


class WatchedNamespaces:
    """The labels of the namespaces of a cluster."""

    def __init__(self, session: Session) -> None:
        self.cache = Cache(session, NAMESPACES, NamespaceObject)
        self._reads = NamespaceReads(functools.partial(_read_labels, session))
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

    def _on_namespace(
        self,
        before: CachedObject[NamespaceObject] | None,
        after: CachedObject[NamespaceObject] | None,
    ) -> None:
        changed = before or after
        if changed is not None:
            self._reads.forget(changed.name)


async def _read_labels(session: Session, name: str) -> Mapping[str, str] | None:
    try:
        raw = await session.call("GET", NAMESPACES.path(name=name), seconds=5)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return msgspec.json.decode(raw, type=NamespaceObject).metadata.labels or _NO_LABELS
