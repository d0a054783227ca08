"""Nodes that have no CPU left: schedulers know it, allocators do not."""

from collections.abc import Callable


class FullNodes:
    """The nodes on which no other pod can start, and who is told when one can again."""

    def __init__(self) -> None:
        self._names = dict[str, None]()
        self._told = list[Callable[[], None]]()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Let pods without devices use all that a node has."""
        self._names[name] = None

    def remove(self, name: str) -> None:
        """Let these pods end."""
        self._names.pop(name, None)
        for tell in self._told:
            tell()

    def tell(self, told: Callable[[], None]) -> None:
        """Call a scheduler whenever pods end."""
        self._told.append(told)
