"""What a list of the API server has delivered so far.

Each page is compared with the cache when it arrives, because to compare everything at the end would
hold the event loop. Nothing else changes the cache meanwhile.
"""

import logging
from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from drawbridge.cluster.history import HistoryChangedError, Identity, contradicts
from drawbridge.cluster.store import (
    CachedObject,
    ObjectHeader,
    ObjectIndex,
    ObjectKey,
    pause_garbage_collection,
    read_header,
)
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.resource_version import parse_version

T = TypeVar("T")
_LOG = logging.getLogger("drawbridge.cluster.cache")


class ListedHeaders(Generic[T]):
    """Which objects a list has, at which versions, and which of them contradicts the cache."""

    def __init__(self, index: ObjectIndex[T], synced_to: str) -> None:
        self._index, self._synced_to = index, synced_to
        self._latest = parse_version(synced_to)
        self._contradicting: ObjectKey | None = None
        self.identities: dict[ObjectKey, Identity] = {}
        self.unseen = index.keys()  # without those that the list has

    def clear(self) -> None:
        """Begin again."""
        self.identities.clear()
        self._contradicting, self.unseen = None, self._index.keys()

    def add(self, header: ObjectHeader, _raw: bytes | msgspec.Raw) -> None:
        """Add an object."""
        key, identity, index = header.key, header.identity, self._index
        is_deleted = identity.uid in index.deleted
        cached = index.find_identity(key)
        if contradicts(identity, cached, self._latest, is_deleted=is_deleted):
            self._contradicting = self._contradicting or key
        self.identities[key] = identity
        for names in self.unseen:
            names.pop(key, None)

    def check(self, path: str) -> None:
        """Raise HistoryChangedError if an object contradicts what was cached."""
        if (key := self._contradicting) is not None:
            name, at = "/".join(filter(None, key)), self.identities[key].version
            raise HistoryChangedError(
                f"{path}: {name} has version {at}, and was another object or deleted when "
                f"version {self._synced_to} was reached"
            )

    def add_page(self, items: Iterable[msgspec.Raw]) -> None:
        """Add the objects of a page; those without valid metadata are left out."""
        with pause_garbage_collection():
            for raw in items:
                try:
                    header = read_header(raw)
                except UNDECODABLE as error:
                    _LOG.warning("an item of a list has no valid metadata: %s", error)
                    continue
                self.add(header, raw)


class Listing(ListedHeaders[T]):
    """The decoded objects that the cache does not have, and those that cannot be decoded, too."""

    def __init__(self, index: ObjectIndex[T], synced_to: str) -> None:
        super().__init__(index, synced_to)
        self.changed: dict[ObjectKey, CachedObject[T]] = {}
        self.unreadable: set[ObjectKey] = set()

    def clear(self) -> None:
        """Begin again."""
        super().clear()
        self.changed.clear()
        self.unreadable.clear()

    def add(self, header: ObjectHeader, raw: bytes | msgspec.Raw) -> None:
        """Decode an object, and add it."""
        super().add(header, raw)
        # Copied, because a view keeps the whole page in memory as long as one object lives.
        decoded = self._index.read(header, bytes(raw))
        if decoded is None:
            self.unreadable.add(header.key)
        elif decoded is not self._index.objects.get(header.key):
            self.changed[header.key] = decoded
