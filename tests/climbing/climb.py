"""Climbs from an input to its neighbours, as long as one of them costs more."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

Input = Mapping[str, int]
# From an input that costs least among those near it, the search starts elsewhere.
TRIES_OF_A_PEAK: Final = 40
# A measurement above the best one is repeated, because other processes can cause it.
REPEATED: Final = 2
# The part of the fields that are drawn for another start, and of steps that change two fields.
_DRAWN, _DOUBLE = 0.4, 0.3


class Cost(NamedTuple):
    """What an input costs: the seconds that the loop was held at once and in all, and of copies."""

    size: int
    held: float
    on_loop: float
    copies: float = 0.0

    @property
    def held_per_byte(self) -> float:
        """The longest time on the loop for each byte, of an input that is not tiny."""
        return self.held / max(self.size, LEAST_SIZE)

    @property
    def all_per_byte(self) -> float:
        """The time of the loop and of copies for each byte."""
        return (self.on_loop + self.copies) / max(self.size, LEAST_SIZE)


# A smaller input costs what any call costs.
LEAST_SIZE: Final = 4096
GOALS: Final[Mapping[str, Callable[[Cost], float]]] = {
    "held": lambda cost: cost.held,
    "held for each byte": lambda cost: cost.held_per_byte,
    "in all for each byte": lambda cost: cost.all_per_byte,
}


class Found(msgspec.Struct, frozen=True):
    """An input, and what it costs."""

    input: dict[str, int]
    cost: Cost


Measure = Callable[[Input], Cost]


class Climb:
    """Searches inputs whose fields have values of these choices, in order."""

    def __init__(
        self,
        choices: Mapping[str, Sequence[int]],
        measure: Measure,
        goal: Callable[[Cost], float],
        random_: random.Random,
        is_over: Callable[[], bool],
    ) -> None:
        self._choices, self._measure = choices, measure
        self._goal, self._random, self._is_over = goal, random_, is_over

    def steps(self, first: Input) -> Iterator[Found]:
        """Yield each peak that is reached from an input, and then from drawn ones, without end."""
        start = dict(first)
        while True:
            yield self._climb(start)
            start = {
                name: self._random.choice(values) if self._random.random() < _DRAWN else first[name]
                for name, values in self._choices.items()
            }

    def _climb(self, start: dict[str, int]) -> Found:
        best = Found(start, self._measure(start))
        failed = 0
        while failed < TRIES_OF_A_PEAK and not self._is_over():
            near = self._neighbour(best.input)
            cost = self._measure(near)
            for _ in range(REPEATED):
                if self._goal(cost) <= self._goal(best.cost):
                    break
                cost = min(cost, self._measure(near), key=self._goal)
            if self._goal(cost) > self._goal(best.cost):
                best, failed = Found(near, cost), 0
            else:
                failed += 1
        return best

    def _neighbour(self, at: Mapping[str, int]) -> dict[str, int]:
        """Change one field by one choice, or sometimes two fields to any."""
        changed = dict(at)
        if self._random.random() < _DOUBLE:
            for name in self._random.sample(sorted(self._choices), 2):
                changed[name] = self._random.choice(self._choices[name])
            return changed
        name = self._random.choice(sorted(self._choices))
        values = self._choices[name]
        place = values.index(at[name]) + self._random.choice((-1, 1))
        changed[name] = values[max(0, min(place, len(values) - 1))]
        return changed
