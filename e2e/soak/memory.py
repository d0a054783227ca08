"""Samples the memory of processes, and finds how it grows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# A process whose caches still fill, or whose allocator returns pages in steps, is not a leak.
GROWN_MIB, GROWN_PART = 24.0, 0.12
# For as long, a process that begins to lead fills its caches.
LEAST_SECONDS = 300.0
# For as long, attackers fill the caches of a process that starts: each has a bound.
FILLING_SECONDS = 1320.0


def used_mib(pid: int) -> float:
    """Return the memory of a process and of those that it started; 0 if it ended.

    What several of them share counts once: a copy of a process shares nearly all of it.
    """
    return _rolled_up(pid, "Pss:") + sum(map(used_mib, children(pid)))


def own_mib(pid: int) -> float:
    """Return the memory of a process alone, as if it shared none of it; 0 if it ended.

    How many copies it has, and for how long, depends on what else its machine does.
    """
    return _rolled_up(pid, "Rss:")


def children(pid: int) -> list[int]:
    """Return the processes that a process started, and that have not ended."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        texts = [(task / "children").read_text(encoding="ascii") for task in tasks]
    except OSError:
        return []
    return [int(child) for child in " ".join(texts).split()]


def _rolled_up(pid: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def name_role(name: str, *, leads: bool, has_led: bool) -> str:
    """Return what the samples of a process are called: it is compared with itself in one role."""
    if leads:
        return f"{name}, leading"
    return f"{name}, after it led" if has_led else name


@dataclass
class Memory:
    """Samples by process name; those of a life are those since its last start.

    A peak has the copies of a process, too.
    """

    lives: dict[str, tuple[int, float]] = field(default_factory=dict)
    samples: defaultdict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    peaks: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def sample(self, now: float, pids: Mapping[str, int]) -> None:
        """Read every process once."""
        for name, pid in pids.items():
            if size := own_mib(pid):
                self.add(name, pid, now, size)
                self.peaks[name] = max(self.peaks[name], used_mib(pid))

    def add(self, name: str, pid: int, now: float, size: float) -> None:
        """Add a sample; those of an earlier life go."""
        if self.lives.get(name, (0, 0.0))[0] != pid:
            # It may have begun in another role.
            lives = (began for each, began in self.lives.values() if each == pid)
            self.lives[name] = pid, min(lives, default=now)
            self.samples[name] = []
        self.samples[name].append((now, size))

    def growth(self, name: str) -> tuple[float, float, float]:
        """Return the mean MiB of the last half of the last life, and how they grow in it.

        That is in MiB per hour, and in how many seconds: those in which the caches were full.
        """
        filled = self.lives[name][1] + FILLING_SECONDS
        half = self.samples[name][len(self.samples[name]) // 2 :]
        mean = sum(size for _, size in half) / max(1, len(half))
        samples = [each for each in half if each[0] >= filled]
        seconds = samples[-1][0] - samples[0][0] if samples else 0.0
        return mean, slope(samples) * 3600, seconds

    def has_grown(self, name: str) -> bool:
        """Whether the memory of a last half that is long enough grows more than caches explain."""
        mean, an_hour, seconds = self.growth(name)
        if seconds < LEAST_SECONDS:
            return False
        return an_hour * seconds / 3600 > max(GROWN_MIB, GROWN_PART * mean)

    def rows(self) -> Iterator[str]:
        """Yield a line of the report for each process."""
        for name in sorted(self.samples):
            mean, an_hour, seconds = self.growth(name)
            yield (
                f"{name:48}  {mean:7.1f}  {self.peaks[name]:7.1f}  "
                f"{an_hour:+8.1f}  {seconds / 60:5.1f} min"
            )


HEAD = f"{'process':48}  {'MiB':>7}  {'peak':>7}  {'MiB/h':>8}  over the last"


def slope(samples: list[tuple[float, float]]) -> float:
    """Return the slope of the line of least squares."""
    if len(samples) < 3:
        return 0.0
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    square = sum((x - mean_x) ** 2 for x, _ in samples)
    return sum((x - mean_x) * (y - mean_y) for x, y in samples) / square if square else 0.0
