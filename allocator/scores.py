"""Scores the nodes that fit a pod: earlier alternatives first, then the strategy.

The scores only order the nodes: equal nodes have equal scores, and the best one has 100.
"""

import enum
from collections.abc import Sequence
from typing import Final

from allocator.protocol import NodeScore
from allocator.shortlist import FittingNode
from allocator.state import AllocatorState

MAX_SCORE: Final = 100


class NodeStrategy(enum.StrEnum):
    """Which of the nodes with equal alternatives is better."""

    NONE = "none"
    PACK = "pack"  # the node with the larger part of its devices in use
    SPREAD = "spread"  # the node with the smaller part


def score_nodes(
    fitting: Sequence[FittingNode], strategy: NodeStrategy, state: AllocatorState
) -> list[NodeScore]:
    """Return the nodes with scores, the best first; of equal nodes the first one found."""
    ranks = {
        each.name: (each.alternatives, _preference(each.name, strategy, state)) for each in fitting
    }
    levels = sorted(set(ranks.values()))
    step = MAX_SCORE / max(len(levels) - 1, 1)
    worse = {rank: number for number, rank in enumerate(reversed(levels))}
    ordered = sorted(fitting, key=lambda each: worse[ranks[each.name]])
    return [
        NodeScore(node=each.name, score=max(0, round(MAX_SCORE - step * worse[ranks[each.name]])))
        for each in ordered
    ]


def _preference(node: str, strategy: NodeStrategy, state: AllocatorState) -> float:
    if strategy is NodeStrategy.NONE:
        return 0.0
    used = _used_part(node, state)
    return used if strategy is NodeStrategy.PACK else -used


def _used_part(node: str, state: AllocatorState) -> float:
    """Return the part of the devices of a node that claims hold."""
    view = state.ledger.view()
    held = total = 0
    for pool in state.planner.pools_for(node):
        use = view.use(pool)
        held += len(use.dedicated | use.shares.keys())
        total += state.device_count(pool)
    return held / total if total else 0.0
