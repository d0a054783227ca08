"""Solves for all nodes of a cluster: only the nodes whose pools changed since the last call."""

from collections.abc import Callable, Mapping, Sequence

from drawbridge.dra.claim import Claim
from drawbridge.dra.layered_map import LayeredMap
from drawbridge.dra.nodes import Node
from drawbridge.solver.answer_cache import AllNodesResults, DemandResults, demand_key
from drawbridge.solver.answers import Solution, SolverResult
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from drawbridge.solver.world import View, World


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
    key, uses = demand_key(claims), view.pools
    if not isinstance(uses, LayeredMap):
        return solve(world, view, claims, nodes.values(), ids=ids, memo=memo, steps=steps)
    last = _last_results(memo.demands.get(key), world, steps)
    changed = sorted(last.nodes_to_solve(world.inventory, uses, nodes)) if last else list(nodes)
    requested = [nodes[name] for name in changed if name in nodes]
    found = solve(world, view, claims, requested, ids=ids, memo=memo, steps=steps)
    demand: DemandResults | None = memo.demands.get(key)
    if demand is None:
        # An error in the claims, which names them.
        return found
    shares, errors = _not_reusable(found, demand)
    if last is not None:
        shares |= last.with_shares.difference(changed)
        found = _unchanged(last, changed, nodes, ids) | found
    demand.of_all_nodes = AllNodesResults(world.inventory, uses, steps, found, shares, errors)
    return dict(found)


def _last_results(known: DemandResults | None, world: World, steps: int) -> AllNodesResults | None:
    if known is None or known.of_all_nodes is None or not known.is_current(world):
        return None
    return known.of_all_nodes if known.of_all_nodes.steps == steps else None


def _not_reusable(
    found: Mapping[str, SolverResult], demand: DemandResults
) -> tuple[set[str], set[str]]:
    """Return the nodes whose results have share IDs, and those whose results name the claims."""
    shares, errors = set(), set()
    for name, result in found.items():
        cached = demand.results.get(name)
        if cached is not None and cached.has_shares and isinstance(result, Solution):
            shares.add(name)
        elif cached is None or cached.result is not result:
            errors.add(name)
    return shares, errors


def _unchanged(
    last: AllNodesResults,
    changed: Sequence[str],
    nodes: Mapping[str, Node],
    ids: Callable[[], str],
) -> dict[str, SolverResult]:
    """Return the last results without those of deleted nodes, with new share IDs.

    The results of changed nodes stay, so that the order of the nodes does.
    """
    results = dict(last.results)
    for name in changed:
        if name not in nodes:
            results.pop(name, None)
    for name in last.with_shares.difference(changed):
        result = results[name]
        if isinstance(result, Solution):
            results[name] = result.with_new_share_ids(ids)
    return results
