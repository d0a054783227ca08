"""Devices that are being released, and the pods that wait for them.

A pod that ends or is deleted holds its devices for some milliseconds, or as long as it terminates.
Each such device counts for one pod that was told to wait, so that the next pod is not told the
same, and nothing is preempted for the first one. It asks for victims if others got the devices.
"""

import itertools
import math
from collections.abc import Collection
from typing import Final, NamedTuple

from msgspec.structs import replace

from allocator.decisions.shortlist import NodeSearch, find_nodes, usable_nodes
from allocator.state.cluster_state import AllocatorState
from allocator.state.expected import expected_by_others
from allocator.state.record_states import RecordEvent
from allocator.state.records import Paired, VictimQuestion
from drawbridge.agreement import allocator_codes as codes
from drawbridge.index import Index
from drawbridge.ledger.holdings import DeviceID, device_of
from drawbridge.ledger.ledger import ClaimRecord
from drawbridge.ledger.node_fit import make_reason
from drawbridge.solver.answers import Solution
from drawbridge.solver.reasons import Reason

# Nodes that are searched together: thousands of claims can be released at once.
NODES_PER_SEARCH: Final = 16


class _Releasing(NamedTuple):
    """A claim that is being released, as the ledger has it."""

    record: ClaimRecord | None
    devices: frozenset[DeviceID]
    nodes: frozenset[str | None]


class Releases:
    """The pods that wait for devices of claims that are being released."""

    def __init__(self, state: AllocatorState) -> None:
        self._state = state
        self._records = state.records
        # The claims that are being released, and those of each node; None for other devices.
        self._known: dict[str, _Releasing] = {}
        self._claims_on: Index[str | None, str] = Index()
        self._settled = -1  # the version of the pods then

    def settle(self) -> None:
        """Let nobody wait for claims that are not being released any more."""
        if self._settled == self._state.pods.version:
            return
        self._settled, releasing = self._state.pods.version, self._state.pods.releasing
        for pod, paired in self._all():
            left = paired.claims & releasing
            if left != paired.claims:
                self._unpair(pod, left)

    def unpair(
        self, claims: frozenset[str], below: float = math.inf, but: Collection[str] = ()
    ) -> None:
        """Let nobody with a lower priority than `below` wait for these claims, `but` some pods."""
        for pod, paired in self._all():
            if paired.priority < below and not (paired.claims.isdisjoint(claims) or pod in but):
                self._unpair(pod)

    def _unpair(self, uid: str, left: frozenset[str] = frozenset()) -> None:
        record = self._records.get(uid)
        if record.paired and left:
            paired = record.paired._replace(claims=left)
            self._records.change(uid, RecordEvent.UNPAIRED, paired=paired)
            return
        # It was not asked whether others can go, as long as it could expect devices without.
        victims = (record.victims or VictimQuestion())._replace(asks=True)
        asks = {"victims": victims} if record.waiting else {}
        self._records.change(uid, RecordEvent.UNPAIRED, paired=None, **asks)

    def _all(self) -> list[tuple[str, Paired]]:
        return [(each.uid, each.paired) for each in self._records.having("paired") if each.paired]

    def pair(self, search: NodeSearch) -> Paired | None:
        """Find devices that are being released for a pod.

        No other pod with at least its priority waits for them, unless it is for the same claim.
        Those on its nominated node come first. What the pod waited for before counts no more.
        """
        self._update()
        self.settle()
        sharing = self._find_sharing(search)
        same = self._find_for_same_claim(search)
        paired = same or self._find_pair(search, sharing)
        event = RecordEvent.UNPAIRED if paired is None else RecordEvent.PAIRED
        self._records.change(search.pod.uid, event, paired=paired)
        if paired is not None and same is None:
            # They can wait for the rest, or for others.
            with_it = {uid for uid, each in sharing.items() if each.holds == paired.holds}
            self.unpair(paired.claims, paired.priority, with_it)
        return paired

    def _find_sharing(self, search: NodeSearch) -> dict[str, Paired]:
        """Return the other pods that wait for a claim of the pod; all get the devices once."""
        claims = search.lacking
        others = (each for each in self._all() if each[0] != search.pod.uid)
        return {uid: paired for uid, paired in others if not paired.own.isdisjoint(claims)}

    def _find_for_same_claim(self, search: NodeSearch) -> Paired | None:
        """Return what a pod waits for that waited before for a claim which both share."""
        pod, claims = search.pod, search.lacking
        before = itertools.takewhile(lambda each: each[0] != pod.uid, self._all())
        for _, paired in before:
            there = replace(search, only=frozenset({paired.node}))
            if not paired.own.isdisjoint(claims) and usable_nodes(there, self._state):
                return paired._replace(priority=pod.priority, own=claims)
        return None

    def _find_pair(self, search: NodeSearch, sharing: Collection[str]) -> Paired | None:
        pod_uid, priority = search.pod.uid, search.pod.priority
        if not self._known:
            return None
        others = expected_by_others(self._state, (pod_uid, *sharing), priority)
        unpaired = self._known.keys() - others.promised
        nominated = self._state.pods.get(pod_uid).nominated_node
        nodes = (
            node
            for node in dict.fromkeys((nominated, *self._claims_on))
            if node is not None and not unpaired.isdisjoint(self._claims_on.get(node))
        )
        while some := tuple(itertools.islice(nodes, NODES_PER_SEARCH)):
            on_them = set().union(*(self._claims_on.get(node) for node in (*some, None)))
            releasing = unpaired & on_them
            taken = (h for h in others.holds if self._state.node_of(h.pool) in {*some, None})
            view = self._state.ledger.view_without(releasing | others.keys, taken)
            only = replace(search, limit=1, only=frozenset(some), first=nominated)
            for fit in find_nodes(only, self._state, view).fitting[:1]:
                if fit.solution is None:
                    return None  # the pod needs no devices
                claims = self._claims_in_use(fit.solution, releasing)
                own = fit.by_claim(search.unallocated)
                return Paired(priority, claims, fit.holds, search.lacking, fit.name, own)
        return None

    def _update(self) -> None:
        """Follow the claims that are being released; only the changed ones cost much."""
        records, releasing = self._state.ledger.claims, self._state.pods.releasing
        for uid in self._known.keys() - releasing:
            self._remove(uid)
        for uid in releasing:
            record, releasing_claim = records.get(uid), self._known.get(uid)
            if releasing_claim is None or releasing_claim.record is not record:
                if releasing_claim is not None:
                    self._remove(uid)
                self._known[uid] = added = self._read(record)
                self._claims_on.move(uid, (), added.nodes)

    def _read(self, record: ClaimRecord | None) -> "_Releasing":
        holds = record.holds if record else ()
        devices = frozenset(hold.device_id for hold in holds)
        return _Releasing(record, devices, frozenset(self._state.node_of(d.pool) for d in devices))

    def _remove(self, uid: str) -> None:
        self._claims_on.move(uid, self._known.pop(uid).nodes, ())

    def _claims_in_use(self, solution: Solution, releasing: Collection[str]) -> frozenset[str]:
        """Return the claims whose devices a solution uses.

        If it uses none of them, it needs their counters: all claims on the node count.
        """
        results = (each.devices.results for each in solution.allocations)
        used = set(map(device_of, itertools.chain.from_iterable(results)))
        holders = frozenset(
            uid for device in used for uid in self._state.ledger.holders(device) if uid in releasing
        )
        return holders or frozenset(
            uid for uid in releasing if solution.node in self._known[uid].nodes
        )


def waits_for(devices: int, node: str) -> Reason:
    """Return the reason of a pod that waits for devices on a node."""
    count = "1 device that is" if devices == 1 else f"{devices} devices that are"
    text = f"waits for {count} being released on a node"
    return make_reason(codes.DEVICES_BEING_RELEASED, "devices", text, nodes=1, about=node)
