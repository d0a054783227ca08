"""Which nodes changed since when: a search that found nothing looks only at these again."""

from collections import OrderedDict


class ChangeLog:
    """Numbers the changes of nodes. Its size is bounded by the number of nodes."""

    def __init__(self) -> None:
        self.last = 0
        self._of_nodes: OrderedDict[str, int] = OrderedDict()
        self._of_all = 0

    def add(self, node: str | None) -> None:
        """Record a change of one node, or with None of all."""
        self.last += 1
        if node is None:
            self._of_all = self.last
            self._of_nodes.clear()
        else:
            self._of_nodes[node] = self.last
            self._of_nodes.move_to_end(node)

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
