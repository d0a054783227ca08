"""Plays seeds: `python -m tests.world --seeds 100`, `--minutes 60`, or `--seed 7 --story`."""

import argparse
import logging
import time
from collections import Counter

from tests.world.world import LENGTH, Outcome, play, shrink, write_script


def main() -> int:
    """Return 1 if a seed breaks an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed only")
    parser.add_argument("--first", type=int, default=0, help="the first of several seeds")
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="play seeds for so long instead")
    parser.add_argument("--events", type=int, default=LENGTH, help="events of each run")
    parser.add_argument("--story", action="store_true", help="print what happened")
    parser.add_argument("--no-shrink", action="store_true", help="keep all events")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    counted: Counter[str] = Counter()
    seed, played = options.first if options.seed is None else options.seed, 0
    while not _is_over(options, played, time.monotonic() - began):
        outcome = play(seed, write_script(seed, options.events))
        played += 1
        counted.update(outcome.counted)
        if outcome.violation or options.story:
            # Shrinking can take minutes.
            result = outcome.violation or "all is well"
            print(f"seed {seed}: {result}", flush=True)  # noqa: T201  # a command
            shrunk = shrink(outcome) if outcome.violation and not options.no_shrink else outcome
            _print(shrunk)
        if outcome.violation:
            return 1
        seed += 1
    seconds = time.monotonic() - began
    print(f"{played} seeds in {seconds:.1f} s of {options.events} events, 0 violations")  # noqa: T201  # a command
    for name, count in sorted(counted.items()):
        print(f"{count:8} {name}")  # noqa: T201  # a command
    return 0


def _is_over(options: argparse.Namespace, played: int, seconds: float) -> bool:
    if options.seed is not None:
        return played > 0
    if options.minutes is not None:
        return bool(seconds >= options.minutes * 60)
    return bool(played >= options.seeds)


def _print(outcome: Outcome) -> None:
    ending = outcome.violation or "all is well"
    story = "\n".join(outcome.story)
    print(f"{story}\nseed {outcome.seed}, {len(outcome.script)} events: {ending}")  # noqa: T201  # a command


if __name__ == "__main__":
    raise SystemExit(main())
