"""The registry of surprises: what each is called, and when it comes over a cluster."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from e2e.clusters.drawn import DrawnCluster

Apply = Callable[["DrawnCluster"], None]


class Stage(enum.IntEnum):
    """When a surprise comes: pods see the nodes as they were when the pods started."""

    NODES = 0  # before there are pods
    PODS = 1
    LATER = 2  # to nodes with pods, or to the whole cluster


class Surprise(NamedTuple):
    """A surprise: its number in the list, what it is, and what makes it.

    `rig` tells that a control plane with simulated kubelets shows it as it is.
    """

    number: int
    text: str
    stage: Stage
    apply: Apply
    rig: bool


SURPRISES: dict[int, Surprise] = {}


def surprise(
    number: int, text: str, stage: Stage = Stage.PODS, *, rig: bool = True
) -> Callable[[Apply], Apply]:
    """Register a surprise."""

    def register(apply: Apply) -> Apply:
        assert number not in SURPRISES
        SURPRISES[number] = Surprise(number, text, stage, apply, rig)
        return apply

    return register
