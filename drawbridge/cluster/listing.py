"""What a list of the API server has delivered so far."""

import logging
from collections.abc import Iterable
from typing import Generic, Self, TypeVar

import msgspec

from drawbridge.cluster.history import Identity
from drawbridge.cluster.store import (
    ObjectHeader,
    ObjectIndex,
    ObjectKey,
    ObjectState,
    pause_garbage_collection,
    read_header,
)
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.memory_shares import HeldMemory

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
    """The states of the objects of a list as well.

    It holds the memory that they take until it ends, whether they replace the others or not. So the
    objects of one list cannot take more than the share of their writer.
    """

    def __init__(self, index: ObjectIndex[T]) -> None:
        super().__init__()
        self._index = index
        self._held = HeldMemory(index.shares)
        self._states: dict[ObjectKey, ObjectState[T]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again, or end."""
        super().clear()
        self._states = {}
        self._held.give_back()

    def add(self, header: ObjectHeader, raw: bytes | msgspec.Raw) -> None:
        """Decode an object, and add it."""
        super().add(header, raw)
        # Copied, because a view keeps the whole page in memory as long as one object lives.
        state = self._states[header.key] = self._index.read(header, bytes(raw))
        self._held.add(self._index.find(header.key).charge, state.charge)

    def replace_all(self, version: str) -> None:
        """Let the objects of the complete list replace all others."""
        self._index.replace(self._states, version)
