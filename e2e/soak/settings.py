"""How long a soak runs, on how many nodes, and with which seed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SoakSettings:
    """`minutes` with faults and attacks, after shorter phases for comparison.

    `minutes` also decides whether memory is judged: caches fill for more than 20 minutes.
    """

    minutes: float = 5.0
    seed: int = 1
    nodes: int = 100
    pods_per_gpu: float = 1.05
    lifetime: float = 100.0
    calm: bool = True
    slow_volume: float = 40.0

    @property
    def calm_minutes(self) -> float:
        """Return how long each phase without faults takes."""
        return max(1.0, min(5.0, self.minutes / 12)) if self.calm else 0.0

    @property
    def judges_memory(self) -> bool:
        """Return whether the run is long enough to judge memory."""
        return self.minutes >= 60
