"""Finds the pods to evict so that enough members of a group fit.

It is one question for all members: nobody is evicted unless enough of them fit then, and none of
the victims could stay. What a node gives changes no other node, so that each is asked by itself:

1. Nodes are used as they are. Others are used without the pods of a lower priority, those with the
   least important ones first, until enough members fit.
2. As many of these pods as possible are kept, in the scheduler's order.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from allocator.decisions.shortlist import MAX_WORK_PER_NODE
from allocator.decisions.victims import VictimSearch
from allocator.scheduler.protocol import PotentialVictim, PreemptionNode
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.claim import Claim
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import (
    Ask,
    Counts,
    GangPlacement,
    MemberKind,
    add_up,
    largest_counts,
    place_gang,
)
from drawbridge.solver.memo import Postpone
from drawbridge.solver.world import View


class GroupVictims(msgspec.Struct, frozen=True):
    """The pods to evict by node, the claims that they release there, and where members fit then."""

    pods: Mapping[str, tuple[PotentialVictim, ...]]
    claims: Mapping[str, frozenset[str]]
    placement: GangPlacement


def ask_in(
    state: AllocatorState,
    view: View,
    ids: Callable[[], str],
    out_of_time: Callable[[], bool],
    postpone: Postpone | None = None,
) -> Ask:
    """Return the question to the solver in one state of the devices."""

    def ask(nodes: Sequence[str], claims: Sequence[Claim]) -> Mapping[str, Solution]:
        answers = state.planner.solve_nodes(
            view,
            claims,
            nodes,
            ids=ids,
            max_work=MAX_WORK_PER_NODE,
            out_of_time=out_of_time,
            postpone=postpone,
        )
        return {name: each for name, each in answers.items() if isinstance(each, Solution)}

    return ask


class GroupVictimSearch:
    """The search for one group, of which `needed` members must fit; raises OutOfTimeError."""

    def __init__(  # noqa: PLR0913  # all but four by name
        self,
        state: AllocatorState,
        search: VictimSearch,
        kinds: Sequence[MemberKind],
        needed: int,
        *,
        ids: Callable[[], str],
        out_of_time: Callable[[], bool],
    ) -> None:
        self._state = state
        self._search = search
        self._kinds = kinds
        self._needed = needed
        self._wanted = tuple(kind.count for kind in kinds)
        self._ids, self._out_of_time = ids, out_of_time

    def choose(self, nodes: Iterable[PreemptionNode]) -> GroupVictims | int:
        """Return the victims, or how many members fit without any of the pods, if too few do."""
        pods = {each.node: self._search.candidates(each) for each in nodes}
        every = {pod.uid for of_node in pods.values() for pod in of_node}
        usable = dict.fromkeys(name for kind in self._kinds for name in kind.nodes)
        fitting = self._fitting(usable, ())
        emptied = self._fitting([name for name in usable if pods.get(name)], every)
        if (most := self._count(fitting | emptied)) < self._needed:
            return most
        removed: dict[str, list[PotentialVictim]] = {}
        for name in sorted(emptied, key=lambda each: _importance(pods[each])):
            if self._is_enough(fitting):
                break
            if emptied[name] != fitting.get(name):
                fitting[name], removed[name] = emptied[name], list(pods[name])
        self._keep_most(removed, fitting)
        return self._describe(removed)

    def _keep_most(
        self, removed: dict[str, list[PotentialVictim]], fitting: dict[str, list[Counts]]
    ) -> None:
        """Keep the pods without which enough members fit as well."""
        order = sorted(
            ((name, pod) for name, of_node in removed.items() for pod in of_node),
            # A pod that must be evicted in any case is the first to release its devices.
            key=lambda each: (each[1].required, not each[1].violates, -each[1].priority),
        )
        for name, pod in order:
            others = [each for each in removed[name] if each != pod]
            uids = {each.uid for node, some in removed.items() for each in some if node != name}
            here = self._fitting([name], uids.union(each.uid for each in others))
            without = {node: each for node, each in fitting.items() if node != name} | here
            if self._is_enough(without):
                removed[name] = others
                fitting.clear()
                fitting.update(without)

    def _describe(self, removed: Mapping[str, Sequence[PotentialVictim]]) -> GroupVictims:
        pods = {name: tuple(some) for name, some in removed.items() if some}
        released = self._search.released_without({p.uid for some in pods.values() for p in some})
        before = self._search.released_without(())
        ask = self._ask(self._state.ledger.view_without(released))
        claims = {name: (released - before) & self._claims_on(name) for name in pods}
        return GroupVictims(pods, claims, place_gang(self._kinds, ask))

    def _claims_on(self, node: str) -> frozenset[str]:
        pools = self._state.planner.pools_for(node)
        return frozenset().union(*map(self._state.ledger.claims_in, pools))

    def _fitting(self, nodes: Iterable[str], removed: Collection[str]) -> dict[str, list[Counts]]:
        """Return how many members fit on each node without some pods."""
        view = self._state.ledger.view_without(self._search.released_without(removed))
        return largest_counts(list(nodes), self._kinds, self._ask(view))

    def _ask(self, view: View) -> Ask:
        return ask_in(self._state, view, self._ids, self._out_of_time)

    def _is_enough(self, fitting: Mapping[str, list[Counts]]) -> bool:
        return self._count(fitting) >= self._needed

    def _count(self, fitting: Mapping[str, list[Counts]]) -> int:
        counts, _ = add_up(fitting, self._wanted)
        return sum(counts)


def _importance(pods: Sequence[PotentialVictim]) -> tuple[int, int, int]:
    """Return a key that is smaller for less important victims."""
    return (
        sum(pod.violates for pod in pods),
        max((pod.priority for pod in pods), default=0),
        len(pods),
    )
