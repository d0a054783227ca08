"""The strategies by name, for the nodes and the typical tasks of a cluster."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from drawbridge.choice.amounts import Shape
from drawbridge.choice.by_use import general
from drawbridge.choice.fragmentation import FragmentationDescent
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import TypicalTasks
from drawbridge.choice.usable import Usable

# The names in the Configuration, with those of other projects.
StrategyName: TypeAlias = Literal[
    "first-fit", "packed", "spread", "packed-nodes", "best-fit", "fgd", "usable",
    "CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad", "binpack",
]  # fmt: skip
FIRST_FIT: Final = "first-fit"

# What other projects call a strategy of this catalog.
OTHER_NAMES: Final = {
    "CompactFirst": "packed",
    "LowLoadFirst": "spread",
    "NodeCompactGPULowLoad": "packed-nodes",
    "binpack": "packed",
}


def make_strategy(name: str, shapes: Mapping[Shape, int], typical: TypicalTasks) -> ChoiceStrategy:
    """Return a strategy by its name for so many nodes of each shape."""
    if name == FragmentationDescent.name:
        return FragmentationDescent(typical)
    if name == Usable.name:
        return Usable(typical, shapes)
    largest = Shape(
        "",
        max((each.cpu for each in shapes), default=0),
        max((each.memory for each in shapes), default=0),
        max((each.devices for each in shapes), default=0),
    )
    return general(largest)[name]


def strategies(shapes: Mapping[Shape, int], typical: TypicalTasks) -> Mapping[str, ChoiceStrategy]:
    """Return all strategies for so many nodes of each shape."""
    names = (*general(Shape("", 0, 0, 0)), FragmentationDescent.name, Usable.name)
    return {name: make_strategy(name, shapes, typical) for name in names}
