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


def strategies(shapes: Mapping[Shape, int], typical: TypicalTasks) -> Mapping[str, ChoiceStrategy]:
    """Return all strategies for so many nodes of each shape."""
    largest = Shape(
        "",
        max((each.cpu for each in shapes), default=0),
        max((each.memory for each in shapes), default=0),
        max((each.devices for each in shapes), default=0),
    )
    looking_ahead = (FragmentationDescent(typical), Usable(typical, shapes))
    return {**general(largest), **{each.name: each for each in looking_ahead}}
