"""How often the pods of a scheduler evict others, and which do so before their delay."""

import datetime as dt

from tests.cluster.fake.kinds import JSON
from tests.world import clock


class Evictions:
    """What a scheduler was told to evict; each pod waits for the configured delay before."""

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self.counts: dict[str, int] = {}  # by the UID of the preemptor
        self.early: list[str] = []

    def note(self, pod: JSON) -> None:
        """Note that others go for a pod; the time of its creation has no parts of a second."""
        metadata = pod["metadata"]
        uid, created = metadata["uid"], dt.datetime.fromisoformat(metadata["creationTimestamp"])
        self.counts[uid] = self.counts.get(uid, 0) + 1
        if (clock.now() - created).total_seconds() < self._delay:
            self.early.append(metadata["name"])
