"""Plays generated histories, and names the transitions of pods in the allocator that none reaches.

A transition that nothing reaches is a mistake of the table, or code that nobody needs.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from allocator.state.record_states import TRANSITIONS, RecordEvent, RecordState
from tests.allocator.histories import History

# The rarest one is reached after a third of them.
_HISTORIES: Final = 400


def main() -> int:
    """Print what is not reached, and what is reached and must not be; 1 if there is any."""
    reached: Counter[tuple[RecordState, RecordEvent]] = Counter()
    unexpected = 0
    for seed in range(_HISTORIES):
        history = History(seed)
        history.play()
        records = history.state.records
        reached.update((state, event) for state, event, _ in records.moves)
        unexpected += records.unexpected
    problems = [f"no history reaches: a pod that is {each}" for each in _find_unreached(reached)]
    if unexpected:
        problems.append(
            f"{unexpected} moves are not in the table; see tests/allocator/histories.py"
        )
    for problem in problems:
        print(f"allocator/state/record_states.py: {problem}")
    return bool(problems)


def _find_unreached(reached: Counter[tuple[RecordState, RecordEvent]]) -> Iterator[str]:
    for event, moves in TRANSITIONS.items():
        for state in moves:
            if not reached[state, event]:
                yield f"{state} {event}"


if __name__ == "__main__":
    sys.exit(main())
