"""Solves for all nodes of a cluster: only the nodes whose pools changed since the last call."""

from collections.abc import Callable, Mapping, Sequence

from dra.claim import Claim
from dra.layered_map import LayeredMap
from dra.nodes import Node
from solver.answer_cache import AllNodesResults, DemandResults, demand_key
from solver.answers import SolverResult
from solver.memo import Memo
from solver.solve import solve
from solver.world import View, World


def solve_all(  # noqa: PLR0913  # the arguments of `solve`
    world: World,
    view: View,
    claims: Sequence[Claim],
    nodes: Mapping[str, Node],
    *,
    ids: Callable[[], str],
    memo: Memo,
    steps: int,
) -> dict[str, SolverResult]:
    """Decide for all nodes as `solve` does; the cost depends on what changed since the last call.

    The caller tells the memo of each changed and each deleted node.
    """
    memo.bind(world)
    key = demand_key(claims)
    known: DemandResults | None = memo.demands.get(key)
    last = known.of_all_nodes if known is not None and known.is_current(world) else None
    names = _nodes_to_solve(known, last, world, view, steps)
    requested = nodes.values() if names is None else [nodes[n] for n in names if n in nodes]
    found = solve(world, view, claims, requested, ids=ids, memo=memo, steps=steps)
    demand: DemandResults | None = memo.demands.get(key)
    if demand is None or not isinstance(view.pools, LayeredMap):
        return found
    not_reusable = frozenset(name for name in found if not _is_reusable(name, found, demand))
    if last is not None and names is not None:
        not_reusable |= last.not_reusable - names
        found = last.results | found
        for name in names:
            if name not in nodes:
                found.pop(name, None)
    demand.changed_nodes.clear()
    demand.of_all_nodes = AllNodesResults(world.inventory, view.pools, steps, found, not_reusable)
    return dict(found)


def _nodes_to_solve(
    known: DemandResults | None,
    last: AllNodesResults | None,
    world: World,
    view: View,
    steps: int,
) -> set[str] | None:
    """Return the nodes whose results are not those of the last call; None for all nodes."""
    if known is None or last is None or last.steps != steps:
        return None
    if not isinstance(view.pools, LayeredMap):
        return None
    names = last.nodes_to_solve(world.inventory, view.pools)
    return None if names is None else names | known.changed_nodes


def _is_reusable(name: str, found: Mapping[str, SolverResult], demand: DemandResults) -> bool:
    """Return whether a later call can return the same result.

    A solution with shares has new share IDs, and an error has the name of the claim.
    """
    cached = demand.results.get(name)
    return cached is not None and cached.result is found[name] and not cached.has_shares
