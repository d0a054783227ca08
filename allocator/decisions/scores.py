"""Scores the nodes that fit a pod: the rank of the solution first, then what its claims prefer.

Of equal nodes, those that the strategy put first are better. The scores only order the nodes: equal
nodes have equal scores, and the best one has 100.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from allocator.decisions.shortlist import FittingNode
from allocator.scheduler.protocol import NodeScore
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.claim import Claim
from drawbridge.dra.rules import PackingPolicy
from drawbridge.ledger.ranking import preferred_nodes, rank_use

MAX_SCORE: Final = 100


def score_nodes(
    fitting: Sequence[FittingNode],
    claims: Sequence[Claim],
    places: Mapping[str, int],
    state: AllocatorState,
) -> list[NodeScore]:
    """Return the nodes with scores, the best first; of equal nodes the first one found.

    `places` are those of nodes in the order of the strategy; others come behind them.
    """
    policy = preferred_nodes(claims)
    ranks = {
        each.name: (
            each.rank,
            _rank_use(each.name, policy, state),
            -places.get(each.name, len(places)),
        )
        for each in fitting
    }
    levels = sorted(set(ranks.values()))
    step = MAX_SCORE / max(len(levels) - 1, 1)
    worse = {rank: number for number, rank in enumerate(reversed(levels))}
    ordered = sorted(fitting, key=lambda each: worse[ranks[each.name]])
    return [
        NodeScore(node=fit.name, score=max(0, round(MAX_SCORE - step * worse[ranks[fit.name]])))
        for fit in ordered
    ]


def _rank_use(node: str, policy: PackingPolicy | None, state: AllocatorState) -> float:
    used = state.planner.part_in_use(node, state.ledger.view()) if policy else 0.0
    return rank_use(policy, used)
