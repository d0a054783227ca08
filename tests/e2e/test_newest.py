"""Where the allocator of a coming Kubernetes differs from the pinned one, the seed is named."""

from typing import Any, cast

from e2e.differential.theirs import Oracle
from e2e.oracle.newest import find_differences


class Answering:
    """An allocator that gives these answers one after the other."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)

    def answer(self, _: object) -> dict[str, Any]:
        """Return the next answer, of one node."""
        return {"node": self._answers.pop(0)}


def test_seeds_with_other_answers_are_named_unless_the_clock_decides() -> None:
    none, given = {"verdict": "none"}, {"verdict": "allocated", "allocations": []}
    late, long = {"verdict": "timeout"}, {"verdict": "none", "steps": 1_000_000}
    pinned = cast("Oracle", Answering(none, given, none, none))
    newest = cast("Oracle", Answering(none, none, late, long | {"verdict": "allocated"}))
    assert [seed for seed, _ in find_differences(range(4), pinned, newest)] == [1]
