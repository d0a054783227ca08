"""Ranks the nodes on which the claims of a pod can be allocated.

Earlier alternatives come first, as in the scheduler, then preferred rules of the claims, then what
the claims prefer: nodes in use or idle nodes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from drawbridge.dra.claim import Claim
from drawbridge.dra.rules import PackingPolicy, Rules, read_claim_rules
from drawbridge.solver.answers import Solution

# An earlier alternative scores higher, as in the scheduler.
BEST_ALTERNATIVE: Final = 8
# The score of the chosen alternatives, and the number of preferred rules that hold.
SolutionRank: TypeAlias = tuple[int, int]


def rank_solution(claims: Sequence[Claim], solution: Solution) -> SolutionRank:
    """Return the rank of a solution; a larger one is better."""
    return _score_alternatives(claims, solution), solution.preferences


def preferred_nodes(claims: Iterable[Claim]) -> PackingPolicy | None:
    """Return which nodes the first claim with a preference prefers."""
    for claim in claims:
        rules = read_claim_rules(claim)
        if isinstance(rules, Rules) and rules.strategy and rules.strategy.nodes:
            return rules.strategy.nodes
    return None


def rank_use(policy: PackingPolicy | None, used: float) -> float:
    """Return the rank of a node by the part of its devices in use; a larger one is better."""
    return {None: 0.0, "packed": used, "spread": -used}[policy]


def _score_alternatives(claims: Sequence[Claim], solution: Solution) -> int:
    total = 0
    if not any(each.first_available for claim in claims for each in claim.spec.devices.requests):
        return total
    unallocated = (each for each in claims if each.status.allocation is None)
    for claim, allocation in zip(unallocated, solution.allocations, strict=True):
        chosen = {result.request for result in allocation.devices.results}
        for request in claim.spec.devices.requests:
            for index, sub in enumerate(request.first_available):
                if f"{request.name}/{sub.name}" in chosen:
                    total += BEST_ALTERNATIVE - index
    return total
