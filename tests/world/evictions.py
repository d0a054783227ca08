"""How often the pods of a scheduler evict others, and which do so before their delay."""

import datetime as dt
from collections.abc import Collection

from tests.cluster.fake.kinds import JSON
from tests.world import clock


class Evictions:
    """What a scheduler was told to evict; each pod waits for the configured delay before."""

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self.counts: dict[str, int] = {}  # by the UID of the preemptor
        self._victims: dict[str, set[str]] = {}  # likewise
        self.early: list[str] = []

    def note(self, pod: JSON, victims: Collection[str]) -> None:
        """Note that others go for a pod; the time of its creation has no parts of a second.

        The same ones count once: a watch can be behind their end for long.
        """
        metadata = pod["metadata"]
        uid, created = metadata["uid"], dt.datetime.fromisoformat(metadata["creationTimestamp"])
        seen = self._victims.setdefault(uid, set())
        self.counts[uid] = self.counts.get(uid, 0) + (not seen.issuperset(victims))
        seen.update(victims)
        if (clock.now() - created).total_seconds() < self._delay:
            self.early.append(metadata["name"])
