"""A queue that serves namespaces, or nodes, round-robin, so that none delays the others."""

import itertools
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import TypeAlias

from drawbridge.turn_times import TurnTimes

NamespacedName: TypeAlias = tuple[str, str]


class FairQueue:
    """Pods that wait, each once. Namespaces take turns; within a namespace the oldest is first."""

    def __init__(self) -> None:
        # Pods by namespace. A namespace without any stays until its turn, or until the next drain.
        self._waiting: dict[str, dict[str, None]] = {}
        self._times: TurnTimes[str] = TurnTimes()
        # One for each of these namespaces: what its turns took, its place among equals, its name.
        self._turns: list[tuple[float, int, str]] = []
        self._places = itertools.count()

    def __len__(self) -> int:
        return sum(len(names) for names in self._waiting.values())

    def add(self, key: NamespacedName) -> None:
        """Add a pod, unless it waits already."""
        namespace, name = key
        if namespace not in self._waiting:
            self._put(namespace, {})
        self._waiting[namespace][name] = None

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
        self._waiting.get(namespace, {}).pop(name, None)

    def drain(self) -> Iterator[NamespacedName]:
        """Remove and yield as many pods as wait now; pods that are added meanwhile take turns."""
        waiting = {namespace: names for namespace, names in self._waiting.items() if names}
        self._waiting, self._turns = {}, []
        for namespace, names in waiting.items():
            self._put(namespace, names)
        for _ in range(len(self)):
            while self._turns:
                namespace = self._take_turn()
                names = self._waiting.pop(namespace)
                if names:
                    break
            else:
                return
            name = next(iter(names))
            del names[name]
            if names:
                self._put(namespace, names)  # behind others that have taken as long
            yield namespace, name

    def _put(self, namespace: str, names: dict[str, None]) -> None:
        self._waiting[namespace] = names
        heappush(self._turns, (self._times.taken(namespace), next(self._places), namespace))

    def _take_turn(self) -> str:
        """Remove and return the namespace that has the next turn."""
        while True:
            noted, place, namespace = self._turns[0]
            taken = self._times.taken(namespace)
            if taken <= noted:
                break
            heapreplace(self._turns, (taken, place, namespace))
        heappop(self._turns)
        self._times.begin(namespace)
        return namespace
