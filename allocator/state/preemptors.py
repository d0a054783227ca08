"""The pods that preempt, and the devices that are kept for them.

A pod for which an administrator evicts others by a plan is one of them: its hold only lasts longer.

What a preemptor gets is held in the ledger under a key of its own, so that no other pod is told
about it: what is free from the decision on, the rest as soon as its victims release it. `settle`
does that before each decision: between the end of a claim and the next decision, no pod can get its
devices. What else the victims release is not kept. A partition of a GPU can take the place of
another one, and both together would need more than the GPU has: what is free of its counters is
kept until all are. Of a device with shares, what each victim releases is kept at once.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from allocator.decisions.shortlist import NodeSearch, is_open
from allocator.state.cluster_state import AllocatorState
from allocator.state.kept_counters import keep_counters
from allocator.state.kept_shares import find_kept, find_missing
from allocator.state.record_states import RecordEvent
from allocator.state.records import DeviceVictims, Preemptor
from drawbridge.dra.counters import ConsumedCounters, CounterKey, consumed_counters
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import DeviceID, Hold
from drawbridge.ledger.node_holds import NodeHold
from drawbridge.ledger.pool_use import (
    DeviceSums,
    changed_pools,
    replace_uses,
    updated_use,
    with_devices_held,
)
from drawbridge.solver.world import View

# How long the evictions may take until victims are seen to terminate.
EVICTION_SECONDS: Final = 10.0
# How long devices are kept once all are released.
KEEP_SECONDS: Final = 30.0
MAX_PREEMPTORS: Final = 4096


class Preemptors:
    """The pods that preempt, until they are reserved."""

    def __init__(self, state: AllocatorState) -> None:
        self._state = state
        self._records = state.records
        self._settled: View | None = None
        self._checked = 0  # the last change of a node that is taken into account
        self._to_retry: list[str] = []
        self._to_ask: list[str] = []

    def __len__(self) -> int:
        return len(self._records.with_part("kept"))

    def _all(self) -> list[Preemptor]:
        return [each.kept for each in self._records.having("kept") if each.kept]

    # --- beginning and end ---

    def begin(
        self,
        search: NodeSearch,
        devices: DeviceVictims,
        now: float,
        planned: tuple[NodeHold, float] | None = None,
    ) -> None:
        """Keep the devices of a decision for a pod, or those of a plan until a time."""
        usual = now + (EVICTION_SECONDS if devices.claims else KEEP_SECONDS)
        hold, until = planned or (None, usual)
        self._records.change(search.pod.uid, RecordEvent.NOT_KEPT, kept=None)
        for other in self._lower_that_lose_devices(devices, search.pod.priority):
            self._end_and_retry(other)
        self._put(
            Preemptor(
                pod=search.pod,
                claims=search.lacking,
                node=devices.node,
                victims=frozenset(devices.pods),
                pending=frozenset(devices.claims),
                holds=devices.holds,
                until=until,
                planned=hold,
                allocations=devices.allocations,
            )
        )
        self._settled = None

    def end_holds(self, asked: Mapping[str, NodeHold]) -> None:
        """End the holds of plans that are not asked for any more; `asked` has those by node."""
        for pod in self._all():
            if pod.planned is not None and asked.get(pod.node) != pod.planned:
                self._end_and_retry(pod)

    def end_kept(self, pods: Collection[Preemptor]) -> None:
        """End what is kept for pods, because one with a higher priority gets it."""
        for pod in pods:
            self._end_and_retry(pod)

    def wait_no_more_for(self, claims: Collection[str]) -> None:
        """Let pods preempt again that wait for claims which are not released.

        A gang decides for all its members, and what its victims release by then counts as free.
        """
        ending = (pod for pod in self._all() if not pod.pending.isdisjoint(claims))
        self._to_retry += self._end_waits(ending)

    def observe_joined(self) -> None:
        """Let pods ask for victims again that wait for claims which pods use that nobody evicts.

        They pause between these attempts: others can begin to use a claim each time. A plan evicts
        nobody else, so that what it holds stays held.
        """
        joined = self._state.pods.take_joined()
        waiting = [pod for pod in self._all() if pod.planned is None] if joined else []
        pending = frozenset[str]().union(*(pod.pending for pod in waiting))
        used = {claim for claim, user in joined if claim in pending and not self.is_victim(user)}
        ending = (pod for pod in waiting if not pod.pending.isdisjoint(used))
        self._to_ask += self._end_waits(ending)

    def _end_waits(self, pods: Iterable[Preemptor]) -> list[str]:
        """Keep nothing for pods, and for the members of their groups; return all of them."""
        ended = {pod.uid: self._records.get(pod.uid).group for pod in pods}
        groups = set(filter(None, ended.values()))
        of_groups = self._records.having("kept") if groups else ()
        uids = {**ended, **{each.uid: each.group for each in of_groups if each.group in groups}}
        for uid in uids:
            self._records.change(uid, RecordEvent.NOT_KEPT, kept=None)
        return list(uids)

    def take_to_ask(self) -> tuple[str, ...]:
        """Return the pods that wait no longer since the last call, and ask again for victims."""
        taken, self._to_ask = tuple(self._to_ask), []
        return taken

    def take_to_retry(self) -> tuple[str, ...]:
        """Return the pods that wait no longer since the last call, and can preempt again."""
        taken, self._to_retry = tuple(self._to_retry), []
        return taken

    # --- following the claims ---

    def settle(self, now: float) -> None:
        """Keep the devices of claims that were released since the last call.

        A member of a group for which all are released is tried again: the group can need more by
        now, and preempts again then. As in DefaultPreemption, so does a pod that can no longer use
        its node.
        """
        self._leave_closed_nodes()
        if self._settled is (view := self._state.ledger.view()):
            return
        changed, released = {*changed_pools(self._settled or View({}), view)}, dict[str, str]()
        for pod in self._all():
            left = frozenset(filter(self._is_held, pod.pending))
            if left != pod.pending:
                until = max(pod.until, now + KEEP_SECONDS)
                self._put(msgspec.structs.replace(pod, pending=left, until=until))
                released[self._records.get(pod.uid).group] = pod.uid
            elif any(hold.pool in changed and hold not in pod.held for hold in pod.holds):
                self._put(pod)  # others can have released counters
        self._settled = self._state.ledger.view()
        for pod in self._all() if released else ():
            if pod.pending:
                released.pop(self._records.get(pod.uid).group, None)
        self._to_retry += [uid for group, uid in released.items() if group]

    def _leave_closed_nodes(self) -> None:
        changes = self._state.changes
        changed, self._checked = changes.changed_since(self._checked), changes.last
        if changed is not None and not changed:
            return
        for pod in self._all():
            is_changed = changed is None or pod.node in changed
            if is_changed and not is_open(pod.node, pod.pod, self._state):
                self._end_and_retry(pod)

    def expire(self, now: float) -> None:
        """Forget the pods whose victims do not end, or that do not use their devices."""
        releasing = self._state.pods.releasing
        for pod in filter(None, map(self.find, self._records.times.take("kept", now))):
            if any(uid in releasing for uid in pod.pending):
                kept = msgspec.structs.replace(pod, until=now + KEEP_SECONDS)
                self._records.change(pod.uid, RecordEvent.KEPT_LONGER, kept=kept)
            else:
                self._end_and_retry(pod)

    # --- questions ---

    def find(self, pod_uid: str) -> Preemptor | None:
        """Return a pod that preempts."""
        return self._records.get(pod_uid).kept

    def find_for_same_claim(self, search: NodeSearch) -> Preemptor | None:
        """Return another pod that preempts for a claim which both share."""
        claims = search.lacking
        others = (each for each in self._all() if each.uid != search.pod.uid)
        return next((each for each in others if not each.claims.isdisjoint(claims)), None)

    def lower_than(self, priority: int) -> Iterator[Preemptor]:
        """Yield the pods with a lower priority."""
        return (each for each in self._all() if each.priority < priority)

    def lowest_priority(self) -> float:
        """Return the lowest priority of a pod for which devices are kept by now; or infinity."""
        return min((each.priority for each in self._all() if each.held), default=math.inf)

    def is_victim(self, pod_uid: str) -> bool:
        """Whether a pod must go for one that preempts."""
        return any(pod_uid in each.victims for each in self._all())

    def hardware_of(self, devices: Iterable[DeviceID]) -> set[tuple[PoolID, str, str]]:
        """Return devices and the counter sets that they consume."""
        hardware = set()
        for device in devices:
            hardware.add((device.pool, "device", device.name))
            pool = self._state.planner.find_pool(device.pool)
            published = pool.devices.get(device.name) if pool else None
            sets = (each.counter_set for each in (published.consumes_counters if published else ()))
            hardware.update((device.pool, "counters", name) for name in sets)
        return hardware

    # --- parts ---

    def _lower_that_lose_devices(self, devices: DeviceVictims, priority: int) -> list[Preemptor]:
        taken = self.hardware_of(hold.device_id for hold in devices.holds)
        return [
            preemptor
            for preemptor in self.lower_than(priority)
            if not taken.isdisjoint(self.hardware_of(hold.device_id for hold in preemptor.holds))
        ]

    def _end_and_retry(self, preemptor: Preemptor) -> None:
        """Keep nothing for a pod any more, and let it preempt again."""
        self._records.change(preemptor.uid, RecordEvent.NOT_KEPT, kept=None)
        self._to_retry.append(preemptor.uid)

    def _put(self, preemptor: Preemptor) -> None:
        ledger = self._state.ledger
        pending = [hold for uid in sorted(preemptor.pending) for hold in ledger.holds_of(uid)]
        view, held = ledger.view_without((preemptor.key,)), list[Hold]()
        for hold in find_kept(preemptor.holds, pending, self._expected_by_others(preemptor)):
            device, use = hold.device_id, view.use(hold.pool)
            consumed, left = self._find_counters(preemptor.node, device, view)
            if all(left.get(key, 0) >= amount for key, amount in consumed.items()):
                held.append(hold)
                use = with_devices_held(use, {device.name})
            else:
                part = keep_counters(preemptor.uid, device, consumed, left)
                held += [part] if part.marked_draw else []
                held += self._close_shared(device, pending)
                use = updated_use(use, {part.device: DeviceSums((part,))})
            view = replace_uses(view, {device.pool: use})
        kept = msgspec.structs.replace(preemptor, held=tuple(held))
        if kept == self.find(preemptor.uid):
            return
        namespace = preemptor.pod.namespace
        self._records.change(preemptor.uid, RecordEvent.KEPT, namespace=namespace, kept=kept)

    def _find_counters(
        self, node: str, device: DeviceID, view: View
    ) -> tuple[ConsumedCounters, Mapping[CounterKey, int]]:
        """Return the counters that a device consumes, and what a view leaves of them."""
        pool = self._state.planner.find_pool(device.pool)
        published = pool.devices.get(device.name) if pool else None
        if published is None or view.use(device.pool).holds(device.name):
            return {}, {}
        consumed = consumed_counters(published)
        left = self._state.planner.counters_left(node, device.pool, view) if consumed else {}
        return consumed, left

    def _close_shared(self, device: DeviceID, pending: Iterable[Hold]) -> list[Hold]:
        """Return what keeps others from more shares of devices that another one takes the place of.

        The counters of such a device are consumed until its last share is released.
        """
        hardware = self.hardware_of([device])
        shared = {hold.device_id for hold in pending if hold.shared}
        closed = [each for each in shared if not hardware.isdisjoint(self.hardware_of([each]))]
        return [Hold(each.pool, each.name) for each in sorted(closed)]

    def _expected_by_others(self, preemptor: Preemptor) -> Iterator[Hold]:
        """Yield what others that wait for the same claims do not have yet."""
        for other in self._all():
            if other.uid != preemptor.uid and not other.pending.isdisjoint(preemptor.pending):
                yield from find_missing(other.holds, other.held)

    def _is_held(self, claim_uid: str) -> bool:
        ledger = self._state.ledger
        record = ledger.claims.get(claim_uid)
        return claim_uid in ledger.reservations or (
            record is not None and record.allocation is not None
        )
