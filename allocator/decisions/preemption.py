"""Decides which pods are evicted for a pod with a higher priority, and what the pod then waits for.

A pod waits if devices for it are free or being released already. Otherwise it gets victims, as few
as possible, and what they release is kept for it. A pod with a higher priority takes over what is
kept for others, or promised to pods that were woken.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.gone_claims import GoneClaims
from allocator.decisions.node_searches import answer_key
from allocator.decisions.planned_holds import PlannedHolds
from allocator.decisions.shortlist import (
    FittingNode,
    NodeSearch,
    Shortlist,
    candidate_names,
    find_nodes,
)
from allocator.decisions.victims import (
    MAX_REPRIEVES,
    Reprieves,
    VictimSearch,
)
from allocator.scheduler.protocol import PreemptReply, PreemptRequest, shorten_message
from allocator.state.expected import expected_by_others
from allocator.state.preemptors import MAX_PREEMPTORS
from allocator.state.records import (
    DeviceVictims,
    PodReservation,
    Preemptor,
    Record,
    key_of,
)
from allocator.state.releases import waits_for
from drawbridge.agreement import allocator_codes as codes
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.counted import count_noun
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.node_holds import NodeHold
from drawbridge.solver.reasons import Reason, say_with_subject, summarize_reasons

# Requests that got nothing of lower priorities.
MAX_IN_VAIN: Final = 4096
_BUSY: Final = f"{MAX_PREEMPTORS} pods preempt already; the pod is tried again"
FREE: Final = "devices are released at this moment; the pod is tried again"
_TOO_SLOW: Final = "no victims were found in time; use simpler claims, or fewer pods per node"


class _InVain(NamedTuple):
    """A state of devices and quotas in which a pod could take nothing over.

    No node from `left` on was examined, in the order of names; all were if it is empty.
    """

    epoch: int
    revision: int
    left: str

    def is_left(self, node: str) -> bool:
        """Whether a node may not have been examined."""
        return bool(self.left) and node >= self.left


class DevicePreemption:
    """Preemption for devices."""

    def __init__(self, basis: Basis, planned_holds: PlannedHolds) -> None:
        self._basis, self._state, self._reserved = basis, basis.state, basis.reserved
        self._planned_holds = planned_holds
        self._preemptors, self._releases = basis.preemptors, basis.releases
        self._attempts = itertools.count()
        # Victims that were spared, by node, in searches that are not finished.
        self._reprieves: Reprieves = BoundedCache(MAX_REPRIEVES)
        # By what is asked, and the priority.
        self._in_vain: BoundedCache[tuple[bytes, int], _InVain] = BoundedCache(MAX_IN_VAIN)
        self._lowest = (-1, math.inf)  # a state, and what `lowest_priority` is there

    def settle(self, now: float) -> None:
        """Keep what is kept for pods in step with the cluster, before anything is decided."""
        self._planned_holds.settle(now)
        self._preemptors.settle(now)

    def expire(self, now: float) -> None:
        """Let pods preempt again that wait for what does not happen in time."""
        self.observe_time(now)
        self._releases.settle()
        self.settle(now)
        self._preemptors.expire(now)

    def observe_time(self, now: float) -> None:
        """Begin and end the times of pods that terminate or vanished, whoever leads.

        And let nobody wait for claims that others use in place of the pods that were evicted.
        """
        self._state.vanished.observe_time(now)
        self._preemptors.observe_joined()
        if kept := self._state.pods.observe_time(now):
            self._preemptors.wait_no_more_for(kept)
            self._releases.unpair(kept)

    # --- a pod that asks for nodes ---

    def find_kept(self, search: NodeSearch) -> FittingNode | None:
        """Return the node on which devices are kept for a pod, if they are enough now."""
        kept = self._preemptors.find(search.pod.uid)
        if kept is None:
            return None
        view = self._state.ledger.view_without((kept.key,))
        only = replace(search, only=frozenset({kept.node}), limit=1)
        fitting = find_nodes(only, self._state, view).fitting
        return fitting[0] if fitting else None

    def lowest_priority(self) -> float:
        """Return the lowest priority of a pod that only counts on devices; infinity for none."""
        epoch = self._state.epoch()
        if self._lowest[0] != epoch:
            kept = self._preemptors.lowest_priority()
            self._lowest = epoch, min(kept, self._reserved.lowest_promised())
        return self._lowest[1]

    def may_take_over(self, record: Record) -> bool:
        """Whether a pod alone that fits nowhere can get what others count on, in this state."""
        request = record.request
        if record.group or request is None or request.pod.priority <= self.lowest_priority():
            return False
        in_vain = self._in_vain.get((record.key, request.pod.priority))
        return in_vain is None or bool(in_vain.left) or in_vain.epoch != self._state.epoch()

    def take_over(self, search: NodeSearch) -> tuple[FittingNode | None, bool]:
        """Return a node on which pods with a lower priority give up what they only count on.

        And whether all nodes were examined otherwise. The next search goes on with those that are
        left, and with those that have changed.
        """
        key = answer_key(search, self._state), search.pod.priority
        epoch, revision = self._state.epoch(), self._state.ledger.quotas.revision
        before = self._in_vain.get(key)
        if before is not None and before.revision != revision:
            before = None
        taken, left = self._take_over(search, before)
        if taken is None and not search.without:
            self._in_vain.put(key, _InVain(epoch, revision, left))
        return taken, not left

    def _take_over(
        self, search: NodeSearch, before: _InVain | None
    ) -> tuple[FittingNode | None, str]:
        """Return a node, and the first one that was not examined otherwise; empty for none."""
        priority = search.pod.priority
        lower = tuple(self._preemptors.lower_than(priority))
        promised = tuple(self._reserved.promised_below(priority))
        named = {*(each.node for each in lower), *(each.node for each in promised)}
        only = replace(search, only=self._without_vain(named, before), limit=1)
        shortlist = self._find_without(only, lower, promised) if only.only else Shortlist()
        for fit in shortlist.fitting:
            # The others keep what they have, if it is not needed, and are evicted for once.
            on_node = [one for one in lower if one.node == fit.name]
            of_node = [one for one in promised if one.node == fit.name]
            used = {hold.device_id for hold in fit.holds}
            needed = [one for one in on_node if any(h.device_id in used for h in one.holds)]
            woken = [one for one in of_node if not used.isdisjoint(self._promised_to(one))]
            there = replace(only, only=frozenset({fit.name}))
            fitting = self._find_without(there, needed, woken).fitting
            self._preemptors.end_kept(needed if fitting else on_node)
            for one in woken if fitting else of_node:
                self._reserved.end_promise(one.uid, search.pod.namespace)
            return fitting[0] if fitting else fit, ""
        if shortlist.has_ended:
            return None, ""
        return None, min(candidate_names(only, self._state)[shortlist.examined :], default="")

    def _without_vain(self, nodes: Iterable[str], before: _InVain | None) -> frozenset[str]:
        """Return the nodes, without those that were examined and have not changed since."""
        changed = self._state.changes.changed_since(before.epoch) if before else None
        if before is None or changed is None:
            return frozenset(nodes)
        return frozenset(each for each in nodes if each in changed or before.is_left(each))

    def _find_without(
        self,
        search: NodeSearch,
        preemptors: Iterable[Preemptor],
        promised: Collection[PodReservation],
    ) -> Shortlist:
        """Return the nodes that fit if these pods give up what they count on."""
        given_up = self._reserved.promised_claims(each.uid for each in promised)
        given_up.update(each.key for each in preemptors)
        view = self._state.ledger.view_without(given_up)
        return find_nodes(search, self._state, view)

    def _promised_to(self, pod: PodReservation) -> set[DeviceID]:
        reserved = map(self._state.ledger.reservations.get, _claims_of((pod,)))
        return {hold.device_id for each in reserved if each for hold in each.holds}

    def wait(self, search: NodeSearch, now: float) -> Reason | None:
        """Return what a pod that fits nowhere waits for, if devices are being released for it."""
        pod = search.pod
        own = self._preemptors.find(pod.uid)
        if own is not None and own.planned is not None:
            return is_held_for(own, own.planned)
        if own is None or not own.pending:
            own = self._preemptors.find_for_same_claim(search)
        if own is not None:
            return waits_for(len(own.holds), own.node)
        paired = self._releases.pair(search)
        if paired is None:
            return None
        lower = self._preemptors.lower_than(pod.priority)
        is_nominated = paired.node == self._state.pods.get(pod.uid).nominated_node
        if is_nominated or any(not each.pending.isdisjoint(paired.claims) for each in lower):
            # What others were evicted for is kept for this pod now, also if an earlier leader has
            # selected them.
            devices = DeviceVictims(
                node=paired.node,
                allocations=paired.allocations,
                claims=tuple(sorted(paired.claims)),
                holds=paired.holds,
            )
            self._preemptors.begin(search, devices, now)
        return waits_for(len(paired.holds), paired.node)

    # --- a pod that asks for victims ---

    def choose(
        self,
        request: PreemptRequest,
        search: NodeSearch,
        now: float,
    ) -> PreemptReply:
        """Return the node and the victims of a pod that fits nowhere, or why there are none."""
        priority, reason = search.pod.priority, self.wait(search, now)
        if reason is not None:
            return PreemptReply(waiting=True, message=say_with_subject(reason))
        if len(self._preemptors) >= MAX_PREEMPTORS:
            return PreemptReply(message=_BUSY)
        promises = tuple(self._reserved.promised_below(priority))
        free = self._reserved.promised_claims(each.uid for each in promises)
        # Another node is the first one each time, because a slow search reaches only a few.
        nodes = request.nodes or ()
        first = next(self._attempts) % max(len(nodes), 1)
        ordered = (*nodes[first:], *nodes[:first])
        victim_search = self.make_search(request, search, (search.pod.uid,), free)
        victims = victim_search.choose(ordered)
        if victims is None:
            return _refuse(priority, victim_search.exceeding, unfinished=search.out_of_time())
        # What is promised of the counters that the devices need is given up as well.
        hardware = self._preemptors.hardware_of
        taken = hardware(hold.device_id for hold in victims.holds)
        for promise in promises:
            if not taken.isdisjoint(hardware(self._promised_to(promise))):
                self._reserved.end_promise(promise.uid, search.pod.namespace)
        self._preemptors.begin(search, victims, now)
        if not victims.pods and not victims.required:
            return PreemptReply(waiting=True, message=FREE)
        return PreemptReply(node=victims.node, victims=victims.pods, violations=victims.violations)

    def make_search(
        self,
        request: PreemptRequest,
        search: NodeSearch,
        own: Collection[str],
        more: Collection[str] = (),
    ) -> VictimSearch:
        """Return the search for victims of the `own` pods; `more` claims count as released.

        What others wait for counts as released too, and they have what they get of it.
        """
        priority = search.pod.priority
        others = expected_by_others(self._state, own, priority)
        lower = (each.key for each in self._preemptors.lower_than(priority))
        keys = (*others.keys, *lower, *map(key_of, own))
        free = {*self._state.pods.releasing, *others.claims, *keys, *more} - others.promised
        return VictimSearch(
            self._basis,
            self._reprieves,
            search=search,
            gone=GoneClaims(self._state, request),
            free=free,
            promised=others.promised,
            taken=others.holds,
        )


def is_held_for(preemptor: Preemptor, planned: NodeHold) -> Reason:
    """Return the reason of a pod for which an administrator holds devices."""
    text = f"devices on a node are held for the pod until {planned.end}"
    if preemptor.pending:
        text += f"; {count_noun(len(preemptor.pending), 'claim')} of pods to evict still have some"
    return make_reason(codes.DEVICES_HELD, "devices", text, nodes=1, about=preemptor.node)


def _refuse(priority: int, exceeding: Sequence[Reason], *, unfinished: bool) -> PreemptReply:
    text = f"the devices of pods with a priority below {priority} are not enough"
    if exceeding:
        text = shorten_message(summarize_reasons(exceeding, say_with_subject))
    return PreemptReply(unfinished=unfinished, message=_TOO_SLOW if unfinished else text)


def _claims_of(reservations: Iterable[PodReservation]) -> set[str]:
    return {claim.uid for each in reservations for claim in each.claims if claim.allocation}
