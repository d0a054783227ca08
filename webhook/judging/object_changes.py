"""Changes of watched objects, kept from the watch until the judge applies them."""

from collections import deque
from typing import TypeAlias

import msgspec

from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.nodes import Node
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.dra.slices import Slice

JudgedObject: TypeAlias = Slice | DeviceClass | Node | Claim | Template | ResourceQuota


class ObjectChange(msgspec.Struct, frozen=True):
    """An object before and after a change. One of the two is None if it was added or deleted."""

    namespace: str
    name: str
    uid: str
    version: str
    before: JudgedObject | None
    after: JudgedObject | None


class PendingChanges:
    """The changes that are not applied yet: at most one for each object and batch.

    The event loop puts changes and seals them, so that a list of objects is never divided. Another
    thread takes the sealed batches.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], ObjectChange] = {}
        self._sealed: deque[tuple[ObjectChange, ...]] = deque()

    def __len__(self) -> int:
        return len(self._open) + sum(map(len, self._sealed))

    def put(self, kind: str, change: ObjectChange) -> None:
        """Add a change, in order. It is merged with an earlier one of the same object."""
        key = (kind, change.uid)
        earlier = self._open.pop(key, None)
        if earlier is not None:
            change = msgspec.structs.replace(change, before=earlier.before)
        self._open[key] = change

    def seal(self) -> None:
        """Offer the changes so far as one batch."""
        if self._open:
            self._sealed.append(tuple(self._open.values()))
            self._open = {}

    def take(self) -> tuple[ObjectChange, ...] | None:
        """Return the oldest sealed batch, or None."""
        return self._sealed.popleft() if self._sealed else None
