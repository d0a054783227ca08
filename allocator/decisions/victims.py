"""Finds the pods to evict from a node so that the claims of another pod can be allocated.

As kube-scheduler does: all candidates are removed, then as many as possible are kept, of equal
priority first those whose eviction loses most work. A claim is released only when all its consumers
are removed or gone.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.gone_claims import GoneClaims
from allocator.decisions.shortlist import FittingNode, NodeSearch, find_nodes, never
from allocator.scheduler.protocol import PotentialVictim, PreemptionNode
from allocator.state.records import DeviceVictims
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.victims import (
    NodeVictims,
    choose_victims,
    importance,
    search_fewest,
)
from drawbridge.solver.reasons import Reason
from drawbridge.solver.world import View

# A node has tens of devices; a request with more pods is no reason for more work.
MAX_PODS_PER_NODE: Final = 256


class _Reprieve(msgspec.Struct, frozen=True):
    """How far the search on a node is: the answers so far, and what they depend on."""

    change: int
    pods: tuple[PotentialVictim, ...]
    free: frozenset[str]
    unusable: frozenset[str]
    taken: tuple[Hold, ...]
    answers: tuple[bool, ...] = ()

    def has_same_question(self, other: "_Reprieve") -> bool:
        """Return whether the answers of the other one hold here, if the node has not changed."""
        return replace(self, change=0, answers=()) == replace(other, change=0, answers=())


# By pod and node.
Reprieves: TypeAlias = BoundedCache[tuple[str, str], _Reprieve]
MAX_REPRIEVES: Final = 4096
_Steps: TypeAlias = Generator[list[PotentialVictim], bool, list[PotentialVictim]]


class VictimSearch:
    """The search for one pod.

    `free` are claims, and keys of kept devices, that count as released already, and so do those
    whose pods are `gone`.
    Other pods get the `promised` claims, and beside these what is `taken`.
    `reprieves` are the searches that ended because of the time: they continue there.
    """

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        basis: Basis,
        reprieves: Reprieves,
        *,
        search: NodeSearch,
        gone: GoneClaims,
        free: Collection[str],
        promised: Collection[str],
        taken: Iterable[Hold],
    ) -> None:
        self._state, self._reserved, self._lost_work = basis.state, basis.reserved, basis.lost_work
        self._users = basis.reserved.users()
        self._search = search
        self._gone, self._free, self._promised = gone, frozenset(free), frozenset(promised)
        self._begun: set[str] = set()  # the nodes whose gone claims are in `_free`
        self._unusable = self._promised.union(map(uid_of, search.claims))
        self._taken: dict[PoolID, list[Hold]] = {}
        for hold in taken:
            self._taken.setdefault(hold.pool, []).append(hold)
        self._reprieves = reprieves
        # The quotas that the pod would exceed with what victims release.
        self.exceeding: list[Reason] = []

    def choose(self, nodes: Sequence[PreemptionNode]) -> DeviceVictims | None:
        """Return the node with the fewest and least important victims; None if none helps.

        When the search is out of time, only the nodes count that were examined to the end. The
        parts that are examined together grow from one node, because the end of a slow search is
        far. A search that was interrupted comes first.
        """
        begun = sorted(nodes, key=lambda each: self._reprieves.get(self._key(each.node)) is None)
        pods = {each.node: self.candidates(each) for each in begun}
        removed_pods: dict[str, list[PotentialVictim]] = {}
        left, size = list(pods), 1
        while left and not self._search.out_of_time():
            part, left = left[:size], left[size:]
            self.begin(part)
            steps = self._steps({node: pods[node] for node in part})
            removed_pods |= self._reprieve(steps, pods)
            size *= 2
        victims = {
            node: self._node_victims(node, pods[node], removed)
            for node, removed in removed_pods.items()
        }
        best = choose_victims(victims.values())
        return None if best is None else self._describe(best, removed_pods[best.node])

    def begin(self, nodes: Iterable[str]) -> None:
        """Count claims whose pods are gone from these nodes as released from now on."""
        for node in set(nodes).difference(self._begun):
            self._begun.add(node)
            if gone := self._gone.find(node) - self._promised:
                self._free |= gone

    def _steps(self, pods: Mapping[str, Sequence[PotentialVictim]]) -> dict[str, _Steps]:
        """Return the search for victims on each node on which all pods together are enough."""
        removed = {pod.uid for of_node in pods.values() for pod in of_node}
        steps = {}
        for node in self._fitting(pods.keys(), self.released_without(removed)):
            # A pod that must be evicted in any case is the first to release its devices.
            required = [pod for pod in pods[node] if pod.required]
            others = [pod for pod in pods[node] if not pod.required]
            kept_first = self._lost_work.kept_first(others, node)
            steps[node] = search_fewest(pods[node], (*kept_first, *required))
        return steps

    def _reprieve(
        self,
        steps: dict[str, _Steps],
        pods: Mapping[str, tuple[PotentialVictim, ...]],
    ) -> dict[str, list[PotentialVictim]]:
        """Run the searches of all nodes together, because equal nodes share their answers.

        What is removed from one node changes no other one: all owned pools are local to a node.
        """
        removed_pods: dict[str, list[PotentialVictim]] = {}
        earlier = {node: self._earlier(node, pods[node]) for node in steps}
        told: dict[str, tuple[bool, ...]] = dict.fromkeys(steps, ())
        while told:
            asked: dict[str, list[PotentialVictim]] = {}
            for node, answers in told.items():
                try:
                    asked[node] = steps[node].send(answers[-1]) if answers else next(steps[node])
                except StopIteration as end:
                    removed_pods[node] = end.value
                    self._reprieves.pop(self._key(node))
            searched = {
                node: earlier[node].answers[len(told[node])]
                for node in asked
                if len(told[node]) < len(earlier[node].answers)
            }
            fitting = self._ask({node: asked[node] for node in asked.keys() - searched.keys()})
            if fitting is None:
                break
            told = {node: (*told[node], searched.get(node, node in fitting)) for node in asked}
        for node, answers in told.items():
            if node not in removed_pods and answers:
                self._reprieves.put(self._key(node), replace(earlier[node], answers=answers))
        return removed_pods

    def _ask(self, removed: Mapping[str, Collection[PotentialVictim]]) -> Collection[str] | None:
        """Return the nodes on which the pod fits without these pods; None if time was too short."""
        if not removed:
            return ()
        uids = {pod.uid for pods in removed.values() for pod in pods}
        fitting = self._fitting(removed.keys(), self.released_without(uids))
        return None if self._search.out_of_time() else fitting.keys()

    def _key(self, node: str) -> tuple[str, str]:
        return self._search.pod.uid, node

    def _earlier(self, node: str, pods: tuple[PotentialVictim, ...]) -> _Reprieve:
        """Return how far an earlier search on a node was, if nothing has changed there since."""
        state = self._state
        pools = state.planner.pools_for(node)
        local = {uid for pool in pools for uid in state.ledger.claims_in(pool)}
        taken = tuple(self._taken_in(pools))
        now = _Reprieve(state.epoch(), pods, self._free & local, self._unusable & local, taken)
        before = self._reprieves.get(self._key(node))
        changed = state.changes.changed_since(before.change) if before else None
        if before is None or changed is None or node in changed:
            return now
        return replace(now, answers=before.answers) if now.has_same_question(before) else now

    def candidates(self, node: PreemptionNode) -> tuple[PotentialVictim, ...]:
        """Return the pods of a node that can be evicted; none if another one must be, too."""
        priority = self._search.pod.priority
        pods = (node.pods or ())[:MAX_PODS_PER_NODE]
        if any(each.required and each.priority >= priority for each in pods):
            return ()
        # Another eviction does not end a pod that was deleted.
        lingers = self._state.pods.is_lingering
        return tuple(each for each in pods if each.priority < priority and not lingers(each.uid))

    def _node_victims(
        self,
        node: str,
        pods: Iterable[PotentialVictim],
        for_devices: Collection[PotentialVictim],
    ) -> NodeVictims:
        """Return all victims of a node, also those that are evicted for other reasons."""
        gone = [pod for pod in pods if pod.required or pod in for_devices]
        victims = sorted((self._lost_work.running(pod, node) for pod in gone), key=importance)
        return NodeVictims(node, tuple(victims), sum(pod.violates for pod in gone))

    def _describe(
        self, best: NodeVictims, for_devices: Iterable[PotentialVictim]
    ) -> DeviceVictims | None:
        """Return what the pod gets; None if earlier answers about the node do not hold any more."""
        pods = tuple(pod.uid for pod in for_devices)
        released = self.released_without(pods)
        fitting = self._fitting((best.node,), released, in_time=False).get(best.node)
        if fitting is None:
            return None
        holds = fitting.holds
        return DeviceVictims(
            node=best.node,
            allocations=fitting.by_claim(self._search.unallocated),
            pods=pods,
            claims=tuple(sorted(self.waits_for(released, holds))),
            holds=holds,
            violations=best.violations,
            required=len(best.pods) > len(pods),
        )

    def waits_for(self, released: frozenset[str], holds: Iterable[Hold]) -> set[str]:
        """Return which of the claims must be released before the pod has what it gets then."""
        claims = {uid for hold in holds for uid in self._holders(hold) if uid in released}
        return {uid for uid in claims | (released - self._free) if uid in self._state.ledger.claims}

    def view(self, nodes: Iterable[str], released: frozenset[str]) -> View:
        """Return what is used of some nodes when claims are released, and others have theirs."""
        ledger, pools_for = self._state.ledger, self._state.planner.pools_for
        pools = dict.fromkeys(pool for node in nodes for pool in pools_for(node))
        local = frozenset[str]().union(*map(ledger.claims_in, pools))
        return ledger.view_without(released & local, self._taken_in(pools))

    def _taken_in(self, pools: Iterable[PoolID]) -> Iterator[Hold]:
        return (hold for pool in pools for hold in self._taken.get(pool, ()))

    def _holders(self, hold: Hold) -> Collection[str]:
        return self._state.ledger.holders(hold.device_id).keys()

    def _fitting(
        self, nodes: Iterable[str], released: frozenset[str], *, in_time: bool = True
    ) -> Mapping[str, FittingNode]:
        """Return the nodes on which the pod fits when claims are released.

        Nodes are missing when the search is out of time, unless it need not end `in_time`.
        """
        search = replace(self._search, only=frozenset(nodes), limit=0)
        search = search if in_time else replace(search, out_of_time=never)
        shortlist = find_nodes(search, self._state, self.view(search.only or (), released))
        self.exceeding = self.exceeding or shortlist.exceeding
        return {each.name: each for each in shortlist.fitting}

    def released_without(self, removed: Collection[str]) -> frozenset[str]:
        """Return the claims that are released when these pods are gone, and what is free."""
        claims = {uid for pod in removed for uid in self._claims_of(pod)} - self._unusable
        # Devices that are being released are already kept for a pod: an eviction changes nothing.
        claims.difference_update(self._state.pods.releasing)
        return self._free.union(uid for uid in claims if self._is_released(uid, removed))

    def _claims_of(self, pod_uid: str) -> Iterable[str]:
        yield from self._state.pods.claims_reserved_for(pod_uid)
        reservation = self._reserved.find(pod_uid)
        if reservation is not None:
            yield from (each.uid for each in reservation.claims)

    def _is_released(self, claim_uid: str, removed: Collection[str]) -> bool:
        pods = self._state.pods
        users = (*pods.consumers(claim_uid), *self._users.get(claim_uid, ()))
        return all(
            pods.is_leaving(each) or (each in removed and self._can_be_beside(each, claim_uid))
            for each in users
        )

    def _can_be_beside(self, pod_uid: str, claim_uid: str) -> bool:
        """Whether a pod may be on the node of the devices of a claim.

        A claim can be reserved for a pod of another node, and nobody is evicted there for this one.
        """
        reservation = self._reserved.find(pod_uid)
        node = self._state.pods.get(pod_uid).node or (reservation.node if reservation else "")
        record = self._state.ledger.claims.get(claim_uid)
        pools = {hold.pool for hold in record.holds} if node and record else ()
        return all(self._state.node_of(pool) in {node, None} for pool in pools)
