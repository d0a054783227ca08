"""What changed on which node since a search found nothing."""

from collections import OrderedDict
from typing import Final

# Beyond so many names, also of nodes that have gone, all nodes count as changed.
_MOST_NAMES: Final = 16_384


class ChangeLog:
    """Numbers the changes of nodes: a search that found nothing looks only at these again.

    Nodes of ever new names come and go: beyond a number, they are forgotten, and all are looked at.
    """

    def __init__(self) -> None:
        self.last = 0
        self.of_offers = 0  # the last one that was of what nodes offer, and not of its use
        self.lists = 0  # how often a node came to have devices, or none any more
        self._of_nodes: OrderedDict[str, int] = OrderedDict()
        self._of_all = 0

    def add(self, node: str | None, *, of_use: bool = False) -> None:
        """Record a change of one node, or with None of all."""
        self.last += 1
        self.of_offers = self.of_offers if of_use else self.last
        if node is None:
            self._of_all = self.last
            self._of_nodes.clear()
        else:
            self._of_nodes[node] = self.last
            self._of_nodes.move_to_end(node)
            if len(self._of_nodes) > _MOST_NAMES:
                self.add(None, of_use=of_use)

    def add_listed(self, node: str) -> None:
        """Record that a node came to have devices, or has none any more."""
        self.add(node)
        self.lists += 1

    def add_elsewhere(self) -> None:
        """Record a change of no node."""
        self.last += 1

    def changed_since(self, number: int) -> frozenset[str] | None:
        """Return the nodes that changed after a change; None if all may have."""
        if number < self._of_all:
            return None
        changed = set()
        for node, at in reversed(self._of_nodes.items()):
            if at <= number:
                break
            changed.add(node)
        return frozenset(changed)
