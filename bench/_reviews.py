"""Measures the CPU of reviews in process, by kinds of pods: decode, decide, encode.

The rate is relative to an echo handler, which reads the uid and responds with a prepared patch.
`BASELINE=PATH python -m bench webhook.reviews` starts a process in the tree at PATH as well. Both
review the same bodies in alternating pairs. Each row shows the median of this tree's CPU time
relative to the baseline, and the 95 % bounds of that median. Without BASELINE, this tree is
compared with itself: the rows show the noise of the machine. With valgrind on the PATH, the last
column compares the instructions of one batch, which other processes do not affect.
"""

import asyncio
import contextlib
import itertools
import math
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bench._bodies import KINDS, TRANSLATED
from bench._cluster import make_admission
from bench._process import BASELINE, ROOT, Worker
from bench._review_worker import COUNTED, ECHO, NUMBER, context
from bench._scale import scaled
from webhook.admission.replies import await_reply

ROUNDS: Final = scaled(200, 2)
CALLS: Final = scaled(50, 5)
WARM: Final = scaled(10, 1)
_CALLGRIND: Final = ("valgrind", "--tool=callgrind", "--dump-before=getloadavg")


class _Reviewer(Worker):
    """A process that reviews bodies with the code of one tree."""

    def __init__(self, tree: Path, words: Sequence[str] = (), command: Sequence[str] = ()) -> None:
        super().__init__(tree, "_review_worker.py", words, command)

    def review(self, bodies: Sequence[bytes]) -> int:
        """Return the CPU time of a batch in nanoseconds."""
        framed = itertools.chain.from_iterable((NUMBER.pack(len(b)), b) for b in bodies)
        return int(self.ask(b"".join((NUMBER.pack(len(bodies)), *framed))))


def _batch(kind: str, number: int) -> list[bytes]:
    return [KINDS[kind](number * CALLS + i) for i in range(CALLS)]


async def _check() -> None:
    """Review a pod of each kind, and check whether it is translated."""
    handler = make_admission(context()).handler
    for name, make in KINDS.items():
        reply = await await_reply(handler.review_pod(make(0), 4.0))
        response = msgspec.json.decode(reply.body)["response"]
        if ("patch" in response) != (name in TRANSLATED):
            raise SystemExit(f"{name}: a wrong response: {response}")


class _Compared(NamedTuple):
    """The microseconds of one review, and in each round the echo's and ours to the baseline's."""

    microseconds: float
    of_echo: list[float]
    of_baseline: list[float]


def _compare(kind: str, echo: _Reviewer, baseline: _Reviewer, current: _Reviewer) -> _Compared:
    of_echo, of_baseline, times = [], [], []
    for number in range(-WARM, ROUNDS):
        # Both see two batches a round, in the order old, new, new, old.
        taken = {baseline: 0, current: 0}
        for position, worker in enumerate((baseline, current, current, baseline)):
            taken[worker] += worker.review(_batch(kind, 2 * (number + WARM) + position // 2))
        least = echo.review(_batch(kind, 0))
        if number >= 0:
            of_baseline.append(taken[current] / taken[baseline])
            of_echo.append(2 * least / taken[current])
            times.append(taken[current] / 2 / CALLS / 1000)
    return _Compared(statistics.median(times), of_echo, of_baseline)


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
        command = (*_CALLGRIND, f"--callgrind-out-file={dump}")
        worker = _Reviewer(tree, [COUNTED], command)
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
    echo, baseline, current = _Reviewer(ROOT, [ECHO]), _Reviewer(tree), _Reviewer(ROOT)
    counts = [_count_instructions(each) for each in (tree, ROOT)] if _has_valgrind() else []
    for kind in KINDS:
        compared = _compare(kind, echo, baseline, current)
        lower, median, upper = _median_bounds(compared.of_baseline)
        row = f"{kind:26} {compared.microseconds:8.1f} {statistics.median(compared.of_echo):11.2f}"
        row += f" {median:9.3f}   {lower:.3f} to {upper:.3f}"
        yield row + (f" {counts[1][kind] / counts[0][kind]:13.3f}" if counts else "")
    for worker in (echo, baseline, current):
        worker.close()


def _has_valgrind() -> bool:
    return scaled(shutil.which(_CALLGRIND[0]), None) is not None


def run() -> None:
    """Print a row for each kind of pods."""
    asyncio.run(_check())
    head = f"{'us':>8} {'of the echo':>11} {'relative':>9}   {'95 % bounds':14}"
    print(f"{'':26} {head} {'instructions':>13}")
    for row in _rows(BASELINE or ROOT):
        print(row, flush=True)
