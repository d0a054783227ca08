"""Finds the pods that must go from a node so that the claims of another pod can be allocated there.

As kube-scheduler does: all candidates are removed, then as many as possible are kept in the order
of the request. A claim is released only when all its consumers are removed or gone.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.protocol import PotentialVictim, PreemptionNode
from allocator.reserved_pods import ReservedPods
from allocator.shortlist import FittingNode, NodeSearch, find_nodes, never
from allocator.state import AllocatorState
from ledger.holdings import Hold, decode_allocation, read_holds
from ledger.ledger import DeviceID, uid_of
from ledger.victims import NodeVictims, RunningPod, choose_victims, importance, remove_fewest

# A node has tens of devices; a request with more pods is no reason for more work.
MAX_PODS_PER_NODE: Final = 256


class DeviceVictims(msgspec.Struct, frozen=True):
    """The pods that must go from a node for its devices, by UID, and what the preemptor gets.

    `claims` are released then, and `free` are devices that nobody holds now.
    """

    node: str
    pods: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    free: tuple[Hold, ...] = ()
    violations: int = 0
    # Whether other pods must go for other reasons.
    required: bool = False


class VictimSearch:
    """The search for one pod.

    `free` are claims, and keys of kept devices, that count as released already.
    `promised` are claims whose devices another pod gets.
    """

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        state: AllocatorState,
        reserved: ReservedPods,
        *,
        search: NodeSearch,
        free: Collection[str],
        promised: Collection[str],
        ids: Callable[[], str],
    ) -> None:
        self._state = state
        self._reserved = reserved
        self._search = search
        self._free = frozenset(free)
        self._unusable = frozenset(promised).union(map(uid_of, search.claims))
        self._ids = ids

    def choose(
        self, nodes: Sequence[PreemptionNode], out_of_time: Callable[[], bool] = never
    ) -> DeviceVictims | None:
        """Return the node with the fewest and least important victims; None if none helps."""
        by_name = {each.node: each for each in nodes}
        pods = {pod.uid for each in nodes for pod in self._candidates(each)}
        search = replace(self._search, only=frozenset(by_name), limit=0, out_of_time=out_of_time)
        found: dict[str, tuple[NodeVictims, tuple[str, ...]]] = {}
        for fitting in self._find(search, self._released_without(pods)):
            if found and out_of_time():
                break
            found[fitting.name] = self._reprieve(by_name[fitting.name])
        best = choose_victims(victims for victims, _ in found.values())
        if best is None:
            return None
        return self._describe(best, found[best.node][1])

    def _candidates(self, node: PreemptionNode) -> tuple[PotentialVictim, ...]:
        priority = self._search.pod.priority
        pods = (node.pods or ())[:MAX_PODS_PER_NODE]
        return tuple(each for each in pods if each.priority < priority)

    def _reprieve(self, node: PreemptionNode) -> tuple[NodeVictims, tuple[str, ...]]:
        """Return all victims of a node, and those that must go for its devices."""
        pods = self._candidates(node)
        # A pod that must go anyway is the first to give its devices.
        order = (*(p for p in pods if not p.required), *(p for p in pods if p.required))

        def fits_without(removed: Collection[PotentialVictim]) -> bool:
            only = replace(self._search, only=frozenset({node.node}), limit=1)
            return bool(self._find(only, self._released_without({p.uid for p in removed})))

        for_devices = remove_fewest(pods, order, fits_without)
        gone = [pod for pod in pods if pod.required or pod in for_devices]
        running = sorted((_running(node.node, pod) for pod in gone), key=importance)
        violations = sum(pod.violates for pod in gone)
        victims = NodeVictims(node.node, tuple(running), violations)
        return victims, tuple(pod.uid for pod in for_devices)

    def _describe(self, best: NodeVictims, pods: tuple[str, ...]) -> DeviceVictims:
        released = self._released_without(pods)
        only = replace(self._search, only=frozenset({best.node}), limit=1)
        (fitting,) = self._find(only, released)
        used = [
            (hold, released.intersection(self._holders(hold)))
            for allocation in (fitting.solution.allocations if fitting.solution else ())
            for hold in read_holds(decode_allocation(allocation))
        ]
        of_victims = released - self._free
        claims = of_victims.union(*(holders for _, holders in used))
        ledger = self._state.ledger
        return DeviceVictims(
            node=best.node,
            pods=pods,
            claims=tuple(sorted(uid for uid in claims if uid in ledger.claims)),
            free=tuple(hold for hold, _ in used if claims.isdisjoint(self._holders(hold))),
            violations=best.violations,
            required=len(best.pods) > len(pods),
        )

    def _holders(self, hold: Hold) -> Collection[str]:
        return self._state.ledger.holders(DeviceID(hold.pool, hold.device)).keys()

    def _find(self, search: NodeSearch, released: Collection[str]) -> list[FittingNode]:
        view = self._state.ledger.view_without(released)
        found = find_nodes(search, self._state, view, self._ids)
        return [] if found.error else found.fitting

    def _released_without(self, removed: Collection[str]) -> frozenset[str]:
        """Return the claims that are released when these pods are gone, and what is free."""
        claims = {uid for pod in removed for uid in self._claims_of(pod)} - self._unusable
        return self._free.union(uid for uid in claims if self._is_released(uid, removed))

    def _claims_of(self, pod_uid: str) -> Iterable[str]:
        yield from self._state.pods.claims_reserved_for(pod_uid)
        reservation = self._reserved.find(pod_uid)
        if reservation is not None:
            yield from (each.uid for each in reservation.claims)

    def _is_released(self, claim_uid: str, removed: Collection[str]) -> bool:
        pods = self._state.pods
        users = (*pods.consumers(claim_uid), *self._reserved.users_of(claim_uid))
        return all(each in removed or pods.is_leaving(each) for each in users)


def _running(node: str, pod: PotentialVictim) -> RunningPod:
    return RunningPod("", pod.uid, node, pod.priority, pod.start_time)
