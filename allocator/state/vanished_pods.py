"""Devices of pods that vanished while their containers may run: they stay unpromised for a time.

A kubelet confirms the end of a pod by a phase of its status, after the containers have ended and
the devices are unprepared. A pod that is deleted with force vanishes without it: its claims are
released, while its containers can still use the devices. Nothing in the API says when they end, so
their devices are kept for the termination grace period of the pod, which a kubelet gives to the
containers of such a pod as well, and for a configured time that unpreparing takes. A pod whose end
is seen later ends this early, and so does the deletion of the node.

What is kept belongs to an allocation of a claim, because the devices of a claim that others use too
are released with the last of them, and its next allocation can be on another node. Without a
confirmed end, a pod that was never seen counts as well: this process may have started after it
vanished. So does one that is seen without a node, unless an allocator released the claim: else the
claims of such a pod go if it ends, which is not seen yet.

A claim that is reserved for a group outlasts its pods. Those of them that vanish are noted until it
is released.

It stays charged to the quotas of its namespace: who deletes its pods with force has no more devices
than who does not.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from allocator.state.reports import ClaimFinding, Report
from allocator.state.seen_pods import SeenPods, describe_release, release_of
from allocator.state.wheel import Wheel
from drawbridge.agreement.allocator_codes import DEVICES_MAY_BE_IN_USE
from drawbridge.dra.allocation import AllocatedDevices, Allocation
from drawbridge.dra.claim import Claim
from drawbridge.dra.counted import count_noun
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import named_nodes
from drawbridge.fair_cache import FairCache
from drawbridge.index import Index
from drawbridge.ledger.holdings import DeviceID, Hold, device_of
from drawbridge.ledger.ledger import ClaimRecord, Ledger, ReleasedClaim, name_of, uid_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.quota_use import Capacities
from drawbridge.ledger.reduced_claim import reduce_claim
from drawbridge.solver.reasons import Reason

# Beyond it, the namespace with most loses its oldest: only shares that take nothing can be so many.
MAX_CLAIMS: Final = 16384
# A claim with more devices counts as several.
_DEVICES_OF_ONE: Final = 8
# So many take about 20 ms; what is left is looked at the next time, and kept until then.
_MAX_AT_ONCE: Final = 1024


class KeptClaim(NamedTuple):
    """An allocation of a claim whose pods vanished. Its devices are kept once it is released.

    `node` is that of its pools or its allocation, and outlasts the slices; empty if none says it.
    What is `ours`, by its mark or by its node, is kept on a node that is given back as well, since
    it can be ours again soon.
    `until` is None until the clock is read after the last change. What is `charged` is that of
    `holds`.
    """

    name: str
    node: str
    pods: frozenset[str]
    grace_seconds: int
    ours: bool = False
    holds: tuple[Hold, ...] = ()
    until: float | None = None
    charged: ReleasedClaim | None = None


class FormerClaim(NamedTuple):
    """A claim before a change: its record in the ledger, and what its whole devices had."""

    record: ClaimRecord
    capacities: Capacities


class VanishedPods:
    """The claims of pods that vanished while their containers may run."""

    def __init__(  # noqa: PLR0913, PLR0917  # its parts
        self,
        ledger: Ledger,
        pods: SeenPods,
        serves: Callable[[DeviceID, str, bool], bool],
        find_node: Callable[[PoolID], str | None],
        seconds: float | None,
        reports: deque[Report],
    ) -> None:
        """Create without claims.

        `serves` tells whether a device can be allocated at all, by the node of its allocation and
        whether that is ours.
        The devices are kept for so many `seconds` after the grace period; None keeps nothing.
        """
        self._ledger = ledger
        self._pods = pods
        self._serves = serves
        self._find_node = find_node
        self._seconds = seconds
        # By UID those that others still have; with its version, a released one.
        self.claims: Final[dict[str, KeptClaim]] = {}
        # Claims of vanished pods, of which one with many devices counts as several.
        self._sizes: FairCache[None] = FairCache(MAX_CLAIMS)
        self._of_pods: Index[str, str] = Index()
        self._at: Index[PoolID | str, str] = Index()  # by pool, and by what can be the node
        self._ends: Wheel[str] = Wheel()
        self._changed: dict[str, None] = {}  # those to look at when the clock is read
        self._left: set[str] = set()  # the claims of groups of which a pod was seen that is gone
        self._reports = reports
        self._ended: set[PoolID] = set()

    def follow_claim(self, before: Claim, after: Claim | None, former: FormerClaim) -> None:
        """Follow the change of an allocated claim, of which the ledger knew this."""
        record = former.record
        if self._seconds is None:
            return
        is_released = after is None or after.status.allocation is None
        left = set() if after is None or is_released else {e.uid for e in after.status.reserved_for}
        uid = uid_of(before)
        consumers = self._find_consumers(before, is_released=is_released) - left
        if is_released:
            self._left.discard(uid)
        running = {each: self._pods.find_unconfirmed(each, before) for each in consumers}
        graces = {each: grace for each, grace in running.items() if grace is not None}
        kept = self.claims.get(uid)
        if not graces and (kept is None or not is_released):
            return
        changed, served = self._extend(before, record, graces)
        if not is_released:
            self._put(uid, changed)
            return
        if kept is not None:
            self._release(uid)
        if served:
            released = _release(before, {each.device_id for each in served}, former.capacities)
            changed = changed._replace(holds=tuple(served), charged=released)
            self._put(f"{uid}@{record.version}", changed)
            finding = DEVICES_MAY_BE_IN_USE.at("", self._describe((changed,)))
            self._reports.append(ClaimFinding(finding, after or before))

    def _find_consumers(self, claim: Claim, *, is_released: bool) -> set[str]:
        """Return for which pods a claim is reserved, which is now `is_released` or not.

        The pods of a group are those that name its claim. If none of them was seen, the release
        counts as a pod that was never seen, until a pod shows that an allocator released it.
        """
        consumers = claim.status.reserved_for
        pods = {each.uid for each in consumers if each.is_pod}
        if is_released and any(each.is_pod_group for each in consumers):
            users = {uid for _, uid in self._pods.users_of(name_of(claim))}
            is_known = users or uid_of(claim) in self._left
            pods |= users if is_known else {release_of(claim)}
        return pods

    def _extend(
        self, claim: Claim, record: ClaimRecord, graces: Mapping[str, int]
    ) -> tuple[KeptClaim, list[Hold]]:
        """Return what is kept of a claim beside what was, for pods by grace period, and its holds.

        Only devices that can be allocated are held.
        """
        kept = self.claims.get(uid_of(claim))
        pods = frozenset(graces) | (kept.pods if kept else frozenset())
        grace = max((*graces.values(), kept.grace_seconds if kept else 0))
        published = filter(None, (self._find_node(hold.pool) for hold in record.holds))
        node = next(published, None) or (kept and kept.node) or _node_of(claim)
        ours = record.ours or bool(kept and kept.ours)
        served = [hold for hold in record.holds if self._serves(hold.device_id, node, ours)]
        # A tenant can change the mark of a claim, but not who has owned its node.
        return KeptClaim(name_of(claim), node, pods, grace, ours or bool(served)), served

    def follow_user(self, pod: str, claim: Claim, record: ClaimRecord | None) -> None:
        """Follow the deletion of a pod that names a claim: that of a group stays reserved."""
        is_of_group = any(each.is_pod_group for each in claim.status.reserved_for)
        if self._seconds is None or record is None or not (record.holds and is_of_group):
            return
        self._left.add(uid_of(claim))
        grace = self._pods.find_unconfirmed(pod)
        if grace is not None:
            self._put(uid_of(claim), self._extend(claim, record, {pod: grace})[0])

    def follow_pod(self, uid: str) -> None:
        """Keep nothing for a pod whose end is confirmed now."""
        if uid in self._of_pods and self._pods.find_unconfirmed(uid) is None:
            for claim in tuple(self._of_pods.get(uid)):
                self._leave_out(claim, uid)

    def follow_release(self, uid: str) -> None:
        """Keep nothing of what was released before the pod was seen for which that was done."""
        shown = self._pods.get(uid).release
        if self._pods.find_unconfirmed(uid) is not None:
            return
        for user in (uid, shown):
            for claim in tuple(self._of_pods.get(user)):
                version = claim.partition("@")[2]
                if describe_release(self.claims[claim].name, version) == shown:
                    self._leave_out(claim, user)

    def _leave_out(self, claim: str, user: str) -> None:
        kept = self.claims[claim]
        if pods := kept.pods - {user}:
            self.claims[claim] = kept._replace(pods=pods)
            self._of_pods.move(claim, (user,), ())
        else:
            self._release(claim)

    def note_change(self, *places: PoolID | str) -> None:
        """Look again at what is kept of pools or on nodes, by name, when the clock is read."""
        for place in places:
            self._changed.update(dict.fromkeys(self._at.get(place)))

    def observe_time(self, now: float) -> None:
        """Start the time of the claims that are new, and release those whose time is over.

        A call looks at a limited number of them.
        """
        for uid in tuple(islice(self._changed, _MAX_AT_ONCE)):
            del self._changed[uid]
            kept = self.claims[uid]
            if kept.until is None:
                until = now + kept.grace_seconds + (self._seconds or 0.0)
                self.claims[uid] = kept._replace(until=until)
                self._ends.set("end", uid, until)
            # With its node, what it ran is gone.
            if not all(self._serves(hold.device_id, kept.node, kept.ours) for hold in kept.holds):
                self._release(uid)
        for uid in self._ends.take("end", now, _MAX_AT_ONCE):
            self._release(uid)

    def take_ended(self) -> Collection[PoolID]:
        """Return the pools of which something is not kept any more since the last call."""
        ended, self._ended = self._ended, set()
        return ended

    def find_reason(self) -> Reason | None:
        """Return the reason for a pod that waits; None if nothing is kept."""
        kept = tuple(each for each in self.claims.values() if each.holds)
        if not kept:
            return None
        text, nodes = self._describe(kept), len(self._list_nodes(kept))
        return make_reason(DEVICES_MAY_BE_IN_USE, "devices", text, nodes=nodes)

    def _list_nodes(self, several: Sequence[KeptClaim]) -> list[str]:
        pools = {(hold.pool, kept.node) for kept in several for hold in kept.holds}
        return sorted({self._find_node(pool) or node or pool.name for pool, node in pools})

    def _describe(self, several: Sequence[KeptClaim]) -> str:
        devices = len({hold.device_id for kept in several for hold in kept.holds})
        nodes = self._list_nodes(several)
        longest = max(kept.grace_seconds for kept in several) + (self._seconds or 0)
        return (
            f"{count_noun(devices, 'device')} on {count_noun(len(nodes), 'node')}"
            f" {'stays' if devices == 1 else 'stay'} unpromised for at most {longest:g} s: pods"
            f" vanished before it was confirmed that their containers have ended"
        )

    def take_over(self, earlier: "VanishedPods") -> None:
        """Keep what another state kept, because the decisions are built anew."""
        self._left |= earlier._left & self._ledger.claims.keys()  # noqa: SLF001  # of this class
        for uid, kept in earlier.claims.items() if self._seconds is not None else ():
            self._put(uid, kept)

    def _put(self, uid: str, kept: KeptClaim) -> None:
        before = self.claims.get(uid)
        self.claims[uid] = kept
        self._move(uid, before, kept)
        self._changed[uid] = None
        self._ends.set("end", uid, kept.until)
        self._ledger.keep(_key_of(uid), kept.holds, kept.charged)
        cost = max(1, len(kept.holds) // _DEVICES_OF_ONE)
        for key in self._sizes.put(_fair_key(uid, kept), None, cost=cost):
            self._release(key.partition("/")[2])

    def _release(self, uid: str) -> None:
        kept = self.claims.pop(uid)
        self._move(uid, kept, None)
        self._changed.pop(uid, None)
        self._ends.set("end", uid, None)
        self._sizes.pop(_fair_key(uid, kept))
        self._ended.update(hold.pool for hold in kept.holds)
        self._ledger.keep(_key_of(uid), ())

    def _move(self, uid: str, before: KeptClaim | None, after: KeptClaim | None) -> None:
        pods = (each.pods if each else () for each in (before, after))
        self._of_pods.move(uid, *pods)
        self._at.move(uid, *(_places_of(each) if each else () for each in (before, after)))


def _places_of(kept: KeptClaim) -> set[PoolID | str]:
    pools = {hold.pool for hold in kept.holds}
    return {kept.node, *pools, *(pool.name for pool in pools)}


def _fair_key(uid: str, kept: KeptClaim) -> str:
    return f"{kept.name.partition('/')[0]}/{uid}"


def _release(claim: Claim, kept: Collection[DeviceID], capacities: Capacities) -> ReleasedClaim:
    """Return what is charged for the devices of a claim that are kept."""
    reduced = reduce_claim(claim)
    allocated = reduced.status.allocation
    results = [
        each for each in (allocated.devices.results if allocated else ()) if device_of(each) in kept
    ]
    allocation = Allocation(AllocatedDevices(tuple(results)))
    namespace = name_of(claim).partition("/")[0]
    return ReleasedClaim(namespace, reduced.spec, allocation, capacities)


def _node_of(claim: Claim) -> str:
    """Return the only node that an allocation names; empty if there is none."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation else None
    names = (named_nodes(selector) if selector else None) or ()
    return next(iter(names)) if len(names) == 1 else ""


def _key_of(claim_uid: str) -> str:
    return f"used by vanished pods of {claim_uid}"
