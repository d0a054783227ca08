"""What a list of the API server has delivered so far."""

import logging
from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from drawbridge.cluster.history import Identity
from drawbridge.cluster.store import (
    CachedObject,
    ObjectHeader,
    ObjectIndex,
    ObjectKey,
    pause_garbage_collection,
    read_header,
)
from drawbridge.foreign_json import UNDECODABLE

T = TypeVar("T")
_LOG = logging.getLogger("drawbridge.cluster.cache")


class ListedHeaders:
    """Which objects a list has, at which versions."""

    def __init__(self) -> None:
        self.identities: dict[ObjectKey, Identity] = {}

    def clear(self) -> None:
        """Begin again."""
        self.identities.clear()

    def add(self, header: ObjectHeader, _raw: bytes | msgspec.Raw) -> None:
        """Add an object."""
        self.identities[header.key] = header.identity

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


class Listing(ListedHeaders, Generic[T]):
    """The decoded objects of a list as well; those that cannot be decoded are only named."""

    def __init__(self, index: ObjectIndex[T]) -> None:
        super().__init__()
        self._index = index
        self.objects: dict[ObjectKey, CachedObject[T]] = {}

    def clear(self) -> None:
        """Begin again."""
        super().clear()
        self.objects.clear()

    def add(self, header: ObjectHeader, raw: bytes | msgspec.Raw) -> None:
        """Decode an object, and add it."""
        super().add(header, raw)
        # Copied, because a view keeps the whole page in memory as long as one object lives.
        decoded = self._index.read(header, bytes(raw))
        if decoded is not None:
            self.objects[header.key] = decoded
