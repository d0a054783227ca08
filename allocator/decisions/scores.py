"""Scores the nodes that fit a pod: the rank of the solution first, then what its claims prefer.

Of equal nodes, those that the strategy put first are better. Equal nodes have equal scores. The
best one has 100, and others at most half of it: kube-scheduler adds how much CPU is free, and would
otherwise select a node where less is in use, while devices are reserved on the best one.
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
_MAX_OF_OTHERS: Final = 50


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
    step = _MAX_OF_OTHERS / max(len(levels) - 1, 1)
    score = {rank: round(step * number) for number, rank in enumerate(levels[:-1])}
    ordered = sorted(fitting, key=lambda each: ranks[each.name], reverse=True)
    return [
        NodeScore(node=fit.name, score=score.get(ranks[fit.name], MAX_SCORE)) for fit in ordered
    ]


def _rank_use(node: str, policy: PackingPolicy | None, state: AllocatorState) -> float:
    used = state.planner.part_in_use(node, state.ledger.view()) if policy else 0.0
    return rank_use(policy, used)
