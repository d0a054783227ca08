"""Climbs for a time: `python -m tests.climbing --minutes 60`, or `--only judged`.

Prints each peak. Ends with 1 if an input held a loop for longer than `--most` seconds of the
processor at once.
"""

import argparse
import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from drawbridge.brief import Brief
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.stack import call_with_stack
from tests.climbing import inputs, loops
from tests.climbing.climb import GOALS, Climb, Found, Measure

# An alarm rings after 20 ms; what is not interrupted before and behind it is bounded by bytes.
MOST_SECONDS: Final = 0.15
LOOPS: Final[Mapping[str, tuple[Callable[[Brief], Measure], Mapping[str, Sequence[int]]]]] = {
    "scheduled": (loops.Scheduled, inputs.SCHEDULED),
    "judged": (loops.Judged, inputs.JUDGED),
    "reviewed": (loops.Reviewed, inputs.REVIEWED),
    "published": (loops.Published, inputs.PUBLISHED),
}
# Facts are computed in a thread, beside the loop of the controller.
THREADS: Final = frozenset({"published"})


def climbs(
    names: Sequence[str], brief: Brief, random_: random.Random, is_over: Callable[[], bool]
) -> Iterator[tuple[str, str, Iterator[Found]]]:
    """Yield a search for each loop and goal."""
    for name, goal in itertools.product(names, GOALS):
        make, choices = LOOPS[name]
        climb = Climb(choices, make(brief), GOALS[goal], random_, is_over)
        yield name, goal, climb.steps(small(choices))


def small(choices: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return a small input without what it can do without."""
    alone = {"count", "members", "pods"}
    return {
        name: values[0 if 0 in values or name in alone else len(values) // 2]
        for name, values in choices.items()
    }


def main() -> int:
    """Return 1 if an input held a loop for too long."""
    parser = argparse.ArgumentParser(prog="python -m tests.climbing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to search")
    parser.add_argument("--seed", type=int, default=0, help="which choices")
    parser.add_argument("--only", choices=LOOPS, help="one loop")
    parser.add_argument("--most", type=float, default=MOST_SECONDS, help="seconds at once")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    end = time.monotonic() + options.minutes * 60
    names = [options.only] if options.only else list(LOOPS)
    drawn = random.Random(options.seed)
    searches = list(climbs(names, CutAlarm(), drawn, lambda: time.monotonic() >= end))
    worst: dict[str, Found] = {}
    for name, goal, peaks in itertools.cycle(searches):
        peak = next(peaks)
        worst[name] = max(peak, worst.get(name, peak), key=lambda one: one.cost.held)
        print(f"{name}, {goal}: {describe(peak)}", flush=True)  # noqa: T201  # a command
        if time.monotonic() >= end:
            break
    for name, peak in worst.items():
        print(f"longest, {name}: {describe(peak)}")  # noqa: T201  # a command
    of_loops = [peak.cost.held for name, peak in worst.items() if name not in THREADS]
    return int(max(of_loops, default=0.0) > options.most)


def describe(peak: Found) -> str:
    """Return a line about an input and its cost."""
    cost = peak.cost
    return (
        f"{cost.held * 1e3:.0f} ms at once, {cost.on_loop:.2f} s on the loop, {cost.copies:.1f} s"
        f" in copies, {cost.size:,} bytes, {cost.all_per_byte * 1e6:.2f} us for each: {peak.input}"
    )


if __name__ == "__main__":
    raise SystemExit(call_with_stack(main))
