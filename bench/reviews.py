"""Compares the CPU of reviews, by kinds of pods, with another tree.

`BASELINE=PATH python -m bench reviews` starts a process in the tree at PATH and one in this tree.
Both review the same bodies in alternating pairs. Each row shows the median of this tree's CPU time
relative to the baseline, and the 95 % bounds of that median. Without BASELINE, this tree is
compared with itself: the rows show the noise of the machine. With valgrind on the PATH, the last
column compares the instructions of one batch, which other processes do not affect.
"""

import contextlib
import itertools
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench._review_worker import NUMBER
from bench._scale import scaled
from bench.webhook_inprocess import KINDS

ROUNDS: Final = scaled(200, 2)
CALLS: Final = scaled(50, 5)
WARM: Final = scaled(10, 1)
TREE: Final = Path(__file__).resolve().parent.parent
_CALLGRIND: Final = ("valgrind", "--tool=callgrind", "--dump-before=getloadavg")


class Worker:
    """A process that reviews bodies with the code of one tree."""

    def __init__(self, tree: Path, command: Sequence[str] = ()) -> None:
        script = str(TREE / "bench" / "_review_worker.py")
        self._process = subprocess.Popen(  # noqa: S603  # ours
            [*command, sys.executable, "-P", script],  # not the script's folder
            cwd=tree,
            # The same hashes in both trees: the order of sets changes the work.
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if command else None,
        )

    def review(self, bodies: Sequence[bytes]) -> int:
        """Return the CPU time of a batch in nanoseconds."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        framed = itertools.chain.from_iterable((NUMBER.pack(len(b)), b) for b in bodies)
        process.stdin.write(b"".join((NUMBER.pack(len(bodies)), *framed)))
        process.stdin.flush()
        if not (line := process.stdout.readline()):
            raise SystemExit(f"the worker ended with code {process.wait()}")
        return int(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _batch(kind: str, number: int) -> list[bytes]:
    return [KINDS[kind](number * CALLS + i) for i in range(CALLS)]


def _compare(kind: str, baseline: Worker, current: Worker) -> tuple[list[float], float]:
    """Return the relative CPU times of all rounds, and the microseconds of one review."""
    ratios, times = [], []
    for number in range(-WARM, ROUNDS):
        # Both see two batches a round, in the order old, new, new, old.
        taken = {baseline: 0, current: 0}
        for position, worker in enumerate((baseline, current, current, baseline)):
            taken[worker] += worker.review(_batch(kind, 2 * (number + WARM) + position // 2))
        if number >= 0:
            ratios.append(taken[current] / taken[baseline])
            times.append(taken[current] / 2 / CALLS / 1000)
    return ratios, statistics.median(times)


def _median_bounds(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, and the bounds of its one-sided 95 % confidence intervals."""
    ordered, count = sorted(values), len(values)
    # The number of values below the median has the binomial distribution of `count` coins.
    rank, chance = 0, 0.0
    while (chance := chance + math.comb(count, rank) / 2**count) <= 0.05:
        rank += 1
    return ordered[max(rank - 1, 0)], statistics.median(values), ordered[-max(rank, 1)]


def _count_instructions(tree: Path) -> dict[str, int]:
    """Return the instructions of a batch of each kind, after a batch of the same kind."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "out"
        worker = Worker(tree, (*_CALLGRIND, f"--callgrind-out-file={dump}"))
        for kind in KINDS:
            for number in range(2):
                worker.review(_batch(kind, number))
        worker.close()
        # Every call dumps what was counted since the last one: outside, batch, outside, batch.
        totals = [_read_total(Path(f"{dump}.{4 * i + 4}")) for i in range(len(KINDS))]
    return dict(zip(KINDS, totals, strict=True))


def _read_total(dump: Path) -> int:
    with contextlib.suppress(ValueError):
        for line in dump.read_text(encoding="utf-8").splitlines():
            if line.startswith(("totals:", "summary:")):
                return int(line.split()[1])
    raise SystemExit(f"{dump} has no totals")


def _rows(tree: Path) -> Iterator[str]:
    baseline, current = Worker(tree), Worker(TREE)
    counts = [_count_instructions(each) for each in (tree, TREE)] if _has_valgrind() else []
    for kind in KINDS:
        ratios, microseconds = _compare(kind, baseline, current)
        lower, median, upper = _median_bounds(ratios)
        row = f"{kind:26} {microseconds:8.1f} {median:9.3f}   {lower:.3f} to {upper:.3f}"
        yield row + (f" {counts[1][kind] / counts[0][kind]:13.3f}" if counts else "")
    baseline.close()
    current.close()


def _has_valgrind() -> bool:
    return scaled(shutil.which(_CALLGRIND[0]), None) is not None


def run() -> None:
    """Print a row for each kind of pods."""
    tree = Path(os.environ.get("BASELINE", TREE)).resolve()
    print(f"{'':26} {'us':>8} {'relative':>9}   {'95 % bounds':14} {'instructions':>13}")
    for row in _rows(tree):
        print(row, flush=True)
