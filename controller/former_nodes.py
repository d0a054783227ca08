"""The names of nodes that were ours: another node that has one of them can be that of others.

A process that does not lead notes them, too: nothing that is stored tells of a deleted node.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from controller.protocols import WatchedObject
from controller.watched_objects import WatchedNode
from drawbridge.agreement.owned_pools import has_fence

# By then, every allocator knows of a change, or the API server answers nobody.
FORGET_SECONDS: Final = 600.0


class FormerNodes(Collection[str]):
    """Nodes that are given back, and the names of those that were deleted.

    `elapsed` is a clock that is never set.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._since: dict[str, float] = {}  # the latest one last

    def __contains__(self, name: object) -> bool:
        return name in self._since

    def __iter__(self) -> Iterator[str]:
        return iter(self._since)

    def __len__(self) -> int:
        return len(self._since)

    def node_changed(
        self, before: WatchedObject[WatchedNode] | None, after: WatchedObject[WatchedNode] | None
    ) -> None:
        """Note the name of a node with the taint that is deleted, or given back without it."""
        if before is None or not has_fence(before.value.spec.taints or ()):
            return
        if after is not None and after.uid == before.uid:
            is_same = after.value.metadata.labels == before.value.metadata.labels
            if is_same or has_fence(after.value.spec.taints or ()):
                return
        now = self._elapsed()
        self._since.pop(before.name, None)
        self._since[before.name] = now
        while now - next(iter(self._since.values())) > FORGET_SECONDS:
            del self._since[next(iter(self._since))]

    def add(self, names: Collection[str]) -> None:
        """Note nodes that are given back."""
        now = self._elapsed()
        self._since |= {name: now for name in sorted(names) if name not in self._since}

    def discard(self, name: str) -> None:
        """Forget a node that is ours, or that others can use."""
        self._since.pop(name, None)
