"""A queue that serves namespaces, or nodes, round-robin, so that none delays the others."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from drawbridge.turn_times import TurnTimes

NamespacedName: TypeAlias = tuple[str, str]


class FairQueue:
    """Pods that wait, each once. Namespaces take turns; within a namespace the oldest is first."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, None]] = {}
        self._times: TurnTimes[str] = TurnTimes()

    def __len__(self) -> int:
        return sum(len(names) for names in self._waiting.values())

    def add(self, key: NamespacedName) -> None:
        """Add a pod, unless it waits already."""
        namespace, name = key
        self._waiting.setdefault(namespace, {})[name] = None

    def update(self, keys: Iterable[NamespacedName]) -> None:
        """Add pods in order."""
        for key in keys:
            self.add(key)

    def note_time(self, namespace: str, seconds: float) -> None:
        """Note how long a turn took: those whose turns took less come before."""
        self._times.note(namespace, seconds)

    def discard(self, key: NamespacedName) -> None:
        """Remove a pod, if it waits."""
        namespace, name = key
        names = self._waiting.get(namespace, {})
        names.pop(name, None)
        if not names:
            self._waiting.pop(namespace, None)

    def drain(self) -> Iterator[NamespacedName]:
        """Remove and yield as many pods as wait now; pods that are added meanwhile take turns."""
        for _ in range(len(self)):
            if not self._waiting:
                return
            namespace = self._times.choose(self._waiting)
            names = self._waiting.pop(namespace)
            name = next(iter(names))
            del names[name]
            if names:
                self._waiting[namespace] = names  # to the end: the other namespaces come first
            yield namespace, name
