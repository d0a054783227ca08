"""Where nodes may have more room since the pods of a kind found none: only there they are tried."""

from collections.abc import Hashable, Sequence
from typing import Final

_MOST: Final = 200  # nodes with more room; then everything is tried again


class NewRoom:
    """Remembers which pods found no node, and the nodes that pods left or that opened since."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._since: dict[Hashable, int] = {}

    def copy(self) -> "NewRoom":
        """Return a copy that changes alone."""
        other = NewRoom()
        other._nodes, other._since = [*self._nodes], dict(self._since)
        return other

    def add(self, node: str) -> None:
        """Note that a node may have more room than before."""
        if len(self._nodes) == _MOST:
            self._nodes, self._since = [], {}
        if self._since:
            self._nodes.append(node)

    def note_none(self, alike: Hashable) -> None:
        """Note that alike pods fit on no node now."""
        self._since[alike] = len(self._nodes)

    def find(self, alike: Hashable) -> Sequence[str] | None:
        """Return the nodes where alike pods may fit now; None if they have not been tried."""
        since = self._since.get(alike)
        return None if since is None else self._nodes[since:]
