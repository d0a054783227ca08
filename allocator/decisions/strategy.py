"""The strategies of the configuration and of pods for the decisions of the allocator.

A search finds the first nodes that fit, and with them what a pod asks for. The strategy orders all
nodes by that, and the best ones are examined. When the pod is reserved, its devices on the node are
those of the strategy, if they suit the claims.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from operator import neg
from typing import Final, NamedTuple

from msgspec.structs import replace

from allocator.decisions.shortlist import (
    FittingNode,
    NodeSearch,
    Shortlist,
    find_nodes,
    fit_solution,
    open_nodes,
)
from allocator.state.cluster_state import AllocatorState
from drawbridge.choice.catalog import ChosenStrategy
from drawbridge.ledger.chosen_strategies import StrategyNames
from drawbridge.ledger.holdings import device_of
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_choice import DecidedPod, NodeChoice
from drawbridge.ledger.other_cards import find_near
from drawbridge.solver.answers import Solution
from drawbridge.solver.memo import OutOfTimeError
from drawbridge.solver.node_view import PooledDevice
from drawbridge.solver.world import View

# So many nodes are examined in the order of the strategy.
MAX_EXAMINED: Final = 20
# So many nodes, and so many states of nodes, are looked at in one decision: some 10 ms. With many
# devices on a node it is more, and ends with the time of the decision.
_LOOKS: Final = 64
# So many nodes are compared with what the pod says of nodes; some 2 ms.
_MAX_RANKED: Final = 1024
# So many claims are read at the start to learn what is typical.
_MAX_LEARNED: Final = 1024
_MAX_TO_LEARN: Final = 2 * _MAX_LEARNED

_FIRST_FIT: Final = ChosenStrategy()


class OrderedNodes(NamedTuple):
    """The nodes that were found, and their places in the order of the strategy."""

    shortlist: Shortlist
    places: Mapping[str, int]


class ConfiguredStrategy:
    """Orders nodes and devices; with first-fit they stay as they were found."""

    def __init__(self, state: AllocatorState, names: StrategyNames) -> None:
        self._state = state
        self._choice = NodeChoice(state.planner, names, looks=_LOOKS)
        self._names = names
        # What was allocated before is learned namespace by namespace, and then what comes.
        state.take_newly_allocated()
        exist = _in_turns(state.allocated_claims("")) if names.order else ()
        self._to_learn = [*islice(exist, _MAX_LEARNED)]

    @property
    def orders(self) -> bool:
        """Whether nodes are in another order than they were found."""
        return self._names.order or self._choice.is_used

    def catch_up(self, out_of_time: Callable[[], bool] | None = None) -> bool:
        """Learn from allocated claims and look at nodes that changed, a few of each.

        Return whether others are left. Decisions wait for neither. Only what used devices teaches:
        whoever only asks changes no decision about others.
        """
        self._to_learn = [*self._state.take_newly_allocated(), *self._to_learn][:_MAX_TO_LEARN]
        for uid in self._to_learn[-_LOOKS:]:
            self._learn_claim(uid)
        del self._to_learn[-_LOOKS:]
        view, amounts = self._state.ledger.view(), self._state.amounts
        is_behind = self._choice.catch_up(view, amounts, out_of_time)
        return is_behind or bool(self._to_learn)

    def _learn_claim(self, uid: str) -> None:
        """Learn from the pod of a claim that is allocated, by all claims that it has by now."""
        pods = self._state.pods.consumers(uid)
        claims = self._state.claims_of(pods[0]) if pods else ()
        allocations = tuple(each.status.allocation for each in claims if each.status.allocation)
        records = [self._state.ledger.claims.get(uid_of(each)) for each in claims]
        pools = {hold.pool for each in records if each for hold in each.holds}
        nodes = {self._state.node_of(each) for each in pools}
        node = nodes.pop() if len(nodes) == 1 else None
        if node:
            requested = self._state.pods.get(pods[0]).amounts
            namespace, strategy = claims[0].metadata.namespace, self._names.of(claims)
            near = find_near(claims, allocations)
            self._choice.learn(
                DecidedPod(pods[0], strategy, namespace, requested, node, allocations, near)
            )

    def find_ordered(
        self, search: NodeSearch, run: Callable[[NodeSearch, float], Shortlist], now: float
    ) -> OrderedNodes:
        """Return nodes for a pod, with their places in the order; `run` searches for any.

        One node says what the pod asks for. Others than the best ones are only searched for if
        these are too few.
        """
        few = search.limit > 1 and not search.first and self._names.of(search.claims) != _FIRST_FIT
        shortlist = run(replace(search, limit=1, stays=True) if few else search, now)
        places = self.examine(search, shortlist, now)
        missing = search.limit - len(shortlist.fitting)
        if few and shortlist.fitting and missing > 0 and not shortlist.complete:
            fitting = frozenset(each.name for each in shortlist.fitting)
            others = run(replace(search, limit=missing, without=fitting), now)
            others.fitting[:0] = shortlist.fitting
            return OrderedNodes(others, places)
        return OrderedNodes(shortlist, places)

    def examine(self, search: NodeSearch, shortlist: Shortlist, now: float) -> Mapping[str, int]:
        """Add the best nodes to a shortlist; return the places of nodes in the order."""
        fit = next((each for each in shortlist.fitting if each.solution is not None), None)
        # A pod that has a promise, or a part in a gang, stays on its node.
        if search.first or fit is None or fit.solution is None:
            return {}
        view = self._state.ledger.view()
        best = self._best_open(search, self._decided(search, fit.name, fit.solution), view)
        others = frozenset(best) - {each.name for each in shortlist.fitting} - {*search.without}
        if others:
            only = replace(search, only=others, limit=0, first="", start=0)
            free = self._state.preferred_view(now) or view
            # A node that was found before is enough.
            with self._state.planner.searching_aside():
                shortlist.fitting += find_nodes(only, self._state, free).fitting
        return {name: place for place, name in enumerate(best)}

    def _best_open(self, search: NodeSearch, pod: DecidedPod, view: View) -> list[str]:
        """Return the best nodes that the scheduler can select for a pod."""
        amounts, out_of_time = self._state.amounts, search.out_of_time
        ranked = self._choice.rank(pod, view, amounts, _MAX_RANKED, out_of_time)
        names = (each.name for each in ranked)
        best: list[str] = []
        while len(best) < MAX_EXAMINED and (batch := [*islice(names, MAX_EXAMINED)]):
            best += open_nodes(batch, search, self._state)
            if search.out_of_time():
                break
        return best[:MAX_EXAMINED]

    def best_first(self, search: NodeSearch, shortlist: Shortlist, now: float) -> list[FittingNode]:
        """Return the nodes of a shortlist and the best ones of all, in their order."""
        places = self.examine(search, shortlist, now)
        return sorted(
            shortlist.fitting,
            key=lambda fit: (*map(neg, fit.rank), places.get(fit.name, len(places))),
        )

    def with_devices(self, search: NodeSearch, fit: FittingNode, now: float) -> FittingNode:
        """Return a node with the devices of the strategy, if they suit the claims.

        None of them has a penalty.
        """
        if fit.solution is None:
            return fit
        view = self._state.ledger.view()
        pod = self._decided(search, fit.name, fit.solution)
        first = self._choice.devices_on(pod, view, self._state.amounts)
        if not first or _takes_only(fit.solution, first):
            return fit
        try:
            solved = self._state.planner.solve_nodes(
                self._state.preferred_view(now) or view,
                search.unallocated,
                [fit.name],
                ids=self._state.ids,
                first=first,
                checks_size=True,
            )
        except OutOfTimeError:
            return fit
        solution = solved.get(fit.name)
        if not isinstance(solution, Solution):
            return fit
        chosen = fit_solution(fit.name, solution, search, self._state)
        return chosen if isinstance(chosen, FittingNode) and chosen.rank >= fit.rank else fit

    def _decided(self, search: NodeSearch, node: str, solution: Solution) -> DecidedPod:
        pod = search.pod
        requested = self._state.pods.get(pod.uid).amounts
        strategy = self._names.of(search.claims)
        allocations = solution.allocations
        near = find_near(search.claims, allocations)
        return DecidedPod(pod.uid, strategy, pod.namespace, requested, node, allocations, near)


def _takes_only(solution: Solution, devices: Collection[PooledDevice]) -> bool:
    """Whether a solution takes no others than these devices."""
    return all(
        device_of(each) in devices
        for allocation in solution.allocations
        for each in allocation.devices.results
    )


def _in_turns(claims: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the UIDs of claims, by `namespace/name`; their namespaces take turns."""
    by_namespace: dict[str, list[str]] = {}
    for name, uid in claims:
        by_namespace.setdefault(name.partition("/")[0], []).append(uid)
    return filter(None, chain.from_iterable(zip_longest(*by_namespace.values())))
