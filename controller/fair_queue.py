"""A queue that serves namespaces, or nodes, round-robin, so that none delays the others."""

import itertools
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import TypeAlias

from drawbridge.turn_times import TurnTimes

NamespacedName: TypeAlias = tuple[str, str]
_Rank: TypeAlias = tuple[int, float]  # when its last turn failed, and what its turns took


class FairQueue:
    """Pods that wait, each once. Namespaces take turns; within a namespace the oldest is first.

    Namespaces whose last turn failed come behind the others: that can have ended a run.
    """

    def __init__(self) -> None:
        # Pods by namespace. A namespace without any stays until its turn, or until the next drain.
        self._waiting: dict[str, dict[str, None]] = {}
        self._times: TurnTimes[str] = TurnTimes()
        # Namespaces whose last turn failed, and when.
        self._failed: dict[str, int] = {}
        # One for each of these namespaces: its rank, its place among equals, its name.
        self._turns: list[tuple[_Rank, int, str]] = []
        self._places = itertools.count(1)

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

    def note_turn(self, namespace: str, seconds: float, *, failed: bool = False) -> None:
        """Note how long a turn took: those whose turns took less come before."""
        self._times.note(namespace, seconds)
        self._failed.pop(namespace, None)
        if failed:
            self._failed[namespace] = next(self._places)

    def discard(self, key: NamespacedName) -> None:
        """Remove a pod, if it waits."""
        namespace, name = key
        self._waiting.get(namespace, {}).pop(name, None)

    def drain(self) -> Iterator[NamespacedName]:
        """Remove and yield as many pods as wait now; pods that are added meanwhile take turns."""
        waiting = {namespace: names for namespace, names in self._waiting.items() if names}
        self._waiting, self._turns = {}, []
        self._failed = {name: at for name, at in self._failed.items() if name in waiting}
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
        heappush(self._turns, (self._rank(namespace), next(self._places), namespace))

    def _rank(self, namespace: str) -> _Rank:
        """Return what is least for the namespace that has the next turn."""
        return self._failed.get(namespace, 0), self._times.taken(namespace)

    def _take_turn(self) -> str:
        """Remove and return the namespace that has the next turn."""
        while True:
            noted, place, namespace = self._turns[0]
            rank = self._rank(namespace)
            if rank <= noted:
                break
            heapreplace(self._turns, (rank, place, namespace))
        heappop(self._turns)
        self._times.begin(namespace)
        return namespace
