"""The strategies by name, for the nodes and the typical tasks of a cluster."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from drawbridge.choice.amounts import Shape
from drawbridge.choice.by_use import general
from drawbridge.choice.fragmentation import FragmentationDescent
from drawbridge.choice.levels import LEVELS, ByLevels, ChosenWeights, Near, capacities_of
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import TypicalTasks
from drawbridge.choice.usable import Usable

FIRST_FIT: Final = "first-fit"

# What other projects call a strategy of this catalog.
OTHER_NAMES: Final = {
    "CompactFirst": "packed",
    "LowLoadFirst": "spread",
    "NodeCompactGPULowLoad": "packed-nodes",
    "binpack": "packed",
}


class ChosenStrategy(NamedTuple):
    """A strategy by its name in this catalog, with its weights."""

    name: str = FIRST_FIT
    weights: ChosenWeights = ()

    @property
    def is_by_levels(self) -> bool:
        """Whether it only compares what is in use, whatever is typical and exists elsewhere."""
        return self.name in LEVELS

    @property
    def near(self) -> Near | None:
        """What makes devices near for the strategy; None if it does not ask."""
        levels = LEVELS.get(self.name)
        return None if levels is None else levels.near

    @property
    def capacities(self) -> tuple[str, ...]:
        """The capacities that the strategy compares, in order."""
        return capacities_of(self.weights)


def choose_strategy(name: str, weights: Mapping[str, int]) -> ChosenStrategy:
    """Return a strategy by one of its names; only those by levels have weights."""
    name = OTHER_NAMES.get(name, name)
    return ChosenStrategy(name, tuple(sorted(weights.items())) if name in LEVELS else ())


def make_strategy(
    chosen: ChosenStrategy, shapes: Mapping[Shape, int], typical: TypicalTasks
) -> ChoiceStrategy:
    """Return a strategy for so many nodes of each shape."""
    if chosen.name in LEVELS:
        return ByLevels(*chosen)
    if chosen.name == FragmentationDescent.name:
        return FragmentationDescent(typical)
    if chosen.name == Usable.name:
        return Usable(typical, shapes)
    largest = Shape(
        "",
        max((each.cpu for each in shapes), default=0),
        max((each.memory for each in shapes), default=0),
        max((each.devices for each in shapes), default=0),
    )
    return general(largest)[chosen.name]


def strategies(shapes: Mapping[Shape, int], typical: TypicalTasks) -> Mapping[str, ChoiceStrategy]:
    """Return all strategies for so many nodes of each shape, without weights."""
    names = (*general(Shape("", 0, 0, 0)), *LEVELS, FragmentationDescent.name, Usable.name)
    return {name: make_strategy(ChosenStrategy(name), shapes, typical) for name in names}
