"""Plays seeds: `python -m tests.world --seeds 100`, `--minutes 60`, or `--seed 7 --story`."""

import argparse
import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from statistics import median

import yaml

from allocator.state.record_states import TRANSITIONS
from tests.world.events import EVENTS
from tests.world.script import LENGTH, write_script
from tests.world.shrinking import shrink
from tests.world.world import Outcome, play

# Each process plays so many seeds before it tells about them.
CHUNK = 8


def main() -> int:
    """Return 1 if a seed breaks an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed only")
    parser.add_argument("--first", type=int, default=0, help="the first of several seeds")
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="play seeds for so long instead")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes play")
    parser.add_argument("--events", type=int, default=LENGTH, help="events of each script")
    parser.add_argument("--story", action="store_true", help="print what happened")
    parser.add_argument("--no-shrink", action="store_true", help="keep all events")
    parser.add_argument("--go-on", action="store_true", help="play on after a seed that breaks")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began, played, broken = time.monotonic(), [], False
    for outcome in _play_all(options, began):
        played.append(outcome)
        if outcome.violation or options.seed is not None:
            broken |= bool(outcome.violation)
            _print(outcome, options)
    _summarize(played, time.monotonic() - began)
    return int(broken)


def _play_all(options: argparse.Namespace, began: float) -> Iterator[Outcome]:
    """Yield the outcomes until one is broken and is to end it, or all are played."""
    if options.seed is not None:
        yield play(options.seed, write_script(options.seed, options.events))
        return
    playing: deque[Future[list[Outcome]]] = deque()
    with ProcessPoolExecutor(options.jobs) as pool:
        for first, last in _choose_chunks(options, began):
            playing.append(pool.submit(_play_some, first, last, options.events))
            # A process that has played its chunk goes on with the next one.
            if len(playing) < 2 * options.jobs:
                continue
            outcomes = playing.popleft().result()
            yield from outcomes
            if any(outcome.violation for outcome in outcomes) and not options.go_on:
                pool.shutdown(cancel_futures=True)
                return
        for each in playing:
            yield from each.result()


def _choose_chunks(options: argparse.Namespace, began: float) -> Iterator[tuple[int, int]]:
    """Yield the first seed of each chunk and the one behind it, as long as the time lasts."""
    if options.minutes is None:
        behind = options.first + options.seeds
        for first in range(options.first, behind, CHUNK):
            yield first, min(first + CHUNK, behind)
        return
    for first in itertools.count(options.first, CHUNK):
        if time.monotonic() > began + options.minutes * 60:
            return
        yield first, first + CHUNK


def _play_some(first: int, last: int, events: int) -> list[Outcome]:
    """Play seeds in a process, and leave the stories out that nobody reads."""
    logging.disable(logging.CRITICAL)
    outcomes = []
    for seed in range(first, last):
        outcome = play(seed, write_script(seed, events))
        outcome.script, outcome.story = (), []
        outcomes.append(outcome)
    return outcomes


def _print(outcome: Outcome, options: argparse.Namespace) -> None:
    result = outcome.violation or "all is well"
    # Shrinking can take minutes.
    print(f"seed {outcome.seed}: {result}", flush=True)  # noqa: T201  # a command
    if options.go_on:
        return
    # Of several seeds, who played them has left the stories out.
    is_told = options.seed is not None
    told = outcome if is_told else play(outcome.seed, write_script(outcome.seed, options.events))
    if told.violation and not options.no_shrink:
        told = shrink(told)
    if options.story or told.violation:
        story = "\n".join(told.story)
        print(f"{story}\nseed {told.seed}, {len(told.script)} events: {result}")  # noqa: T201  # a command


def _summarize(played: list[Outcome], seconds: float) -> None:
    """Print how much was played, and what it contained."""
    counted: Counter[str] = Counter()
    for outcome in played:
        counted.update(outcome.counted)
    broken = sum(bool(outcome.violation) for outcome in played)
    events = median(outcome.events for outcome in played)
    faults = median(outcome.faults for outcome in played)
    print(  # noqa: T201  # a command
        f"{len(played)} seeds in {seconds:.1f} s, {len(played) / seconds:.2f} a second, with"
        f" {events:g} events and {faults:g} faults in the median: {broken} broken"
    )
    moves = list_moves()
    for name in sorted({*counted, *moves, *EVENTS}):
        # What no seed has shows as well.
        print(f"{counted[name]:8} {name}")  # noqa: T201  # a command
    for name in sorted(moves - counted.keys() - read_rare_moves().keys()):
        print(f"no seed reaches: {name}")  # noqa: T201  # a command


def list_moves() -> set[str]:
    """Return the moves of a pod's record, as they are counted."""
    starts = ((event, each) for event, moves in TRANSITIONS.items() for each in moves)
    return {f"pod that is {each} {event}" for event, each in starts}


def read_rare_moves() -> dict[str, str]:
    """Return the moves that hundreds of seeds do not reach, and why."""
    rows = yaml.safe_load((Path(__file__).parent / "rare_moves.yaml").read_text(encoding="utf-8"))
    return {f"pod that is {row['move']}": row["why"] for row in rows}


if __name__ == "__main__":
    raise SystemExit(main())
