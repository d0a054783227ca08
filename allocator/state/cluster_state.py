"""The cluster as the allocator knows it: devices, claims and pods, from changes of the caches.

Only owned pools count. Ownership depends on the slices of a pool and on its node, so it is decided
again when either changes. The state reads no clock: penalties have the caller's time.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from allocator.state.change_log import ChangeLog
from allocator.state.conflicts import Conflicts
from allocator.state.node_amounts import PodsOnNodes
from allocator.state.pod_table import PodTable
from allocator.state.reports import MAX_REPORTS, Report
from allocator.state.seen_pods import SeenPods
from allocator.state.vanished_pods import FormerClaim, VanishedPods
from drawbridge.agreement.device_fence import without_fence
from drawbridge.agreement.owned_pools import LocalPool, find_local_pool
from drawbridge.agreement.published_slices import PublishedSlices
from drawbridge.dra.claim import Claim
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.inventory import (
    PoolID,
    PublishedPool,
    read_published_pool,
)
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule
from drawbridge.index import Index
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import Ledger, name_of, uid_of
from drawbridge.ledger.node_holds import NodeHold, read_node_hold
from drawbridge.ledger.planner import Planner, PlannerObject
from drawbridge.ledger.pods import FINISHED, Pod
from drawbridge.ledger.pool_use import changed_pools, replace_uses, with_devices_held
from drawbridge.ledger.quota_use import published_capacity
from drawbridge.resource_version import parse_version
from drawbridge.solver.world import PoolUse, View

WatchedObject: TypeAlias = Slice | DeviceClass | Node | DeviceTaintRule | Claim | Pod
FindNode: TypeAlias = Callable[[str], Node | None]
# The resources of device plugins that pods hold on a node.
FindHeld: TypeAlias = Callable[[str], Collection[str]]
# Whether the allocator owns a pool of which this is local to its node.
OwnsPool: TypeAlias = Callable[[PoolID, LocalPool | None, FindNode, FindHeld], bool]
# Whether pools of a driver that are local to a node are owned, published or not.
OwnsDriver: TypeAlias = Callable[[str, Node], bool]
MAX_PENALTIES: Final = 1024
# So many claims that were allocated lately are remembered until somebody takes them.
MAX_NEWLY_ALLOCATED: Final = 1024
# The taint by which an administrator says that a node is shut down.
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
# Of a pool that is not owned, and is read again at each change of a claim that has its devices.
MAX_SLICES: Final = 16


class AllocatorState:
    """Devices in the planner, claims in the ledger, and the pods that use claims."""

    def __init__(
        self,
        planner: Planner,
        ledger: Ledger,
        owns_pool: OwnsPool,
        vanished_seconds: float | None = None,
        owns_driver: OwnsDriver = lambda _driver, _node: True,
    ) -> None:
        """Create a state without objects.

        The devices of pods that vanish are kept for so many seconds after their grace period.
        """
        # Returns a new share ID at each call; a process replaces it by one that no other returns.
        self.ids: Callable[[], str] = map("share-{}".format, count()).__next__
        self.planner = planner
        self.ledger = ledger
        self.records = PodTable(ledger)
        self.claims: Final[dict[str, Claim]] = {}  # by UID, as last seen
        self.pods = SeenPods(self.records.times, self.claims)
        # What is to be told to persons, until the process does so.
        self.reports: deque[Report] = deque(maxlen=MAX_REPORTS)
        self.vanished = VanishedPods(
            ledger, self.pods, self._can_be_used, self.node_of, vanished_seconds, self.reports
        )
        self.conflicts = Conflicts(ledger, self.pods, self.find_pool)
        self.amounts = PodsOnNodes(lambda: planner.nodes)
        self.changes = ChangeLog()
        self._view, self._elsewhere = ledger.view(), (0, 0)
        ledger.quotas.find_capacity = published_capacity(self.find_pool)
        self._owns_pool, self._owns_driver = owns_pool, owns_driver
        self._published = PublishedSlices()
        # The pool of others that was read last, from its slices.
        self._last_read: tuple[tuple[PoolID, tuple[Slice, ...]], PublishedPool | None] | None = None
        self.unfenced: Mapping[PoolID, str] = {}  # the nodes of pools that lack only their fence
        self._owned: dict[PoolID, str] = {}  # with its node
        self._owned_on: Index[str, PoolID] = Index()
        self.nodes_with_pools: Final[list[str]] = []  # those that have owned pools, sorted
        self._uids: Index[str, str] = Index()  # of each name, also until a deletion is told
        self._allocated: list[tuple[str, str]] = []  # sorted names, with the UIDs
        # Claims that were allocated since somebody asked.
        self._newly_allocated: deque[str] = deque(maxlen=MAX_NEWLY_ALLOCATED)
        self.node_holds: dict[str, NodeHold] = {}  # that administrators ask for, by node
        self._freed = False  # whether a claim was released, or a pod beside devices has ended
        self._penalties: dict[DeviceID, float] = {}
        self._penalised_uses: dict[PoolID, tuple[PoolUse, frozenset[str], PoolUse]] = {}
        self._apply_kind: Mapping[type, Callable[[Any, Any], None]] = {
            Slice: self._apply_slice,
            Claim: self._apply_claim,
            Pod: self._apply_pod,
            Node: self._apply_node,
            DeviceClass: self._apply_class,
            DeviceTaintRule: self._apply_rule,
        }

    # --- changes of the caches ---

    def apply(self, before: WatchedObject | None, after: WatchedObject | None) -> None:
        """Apply the change of one object: None before it was added, None after it was deleted."""
        changed = after if after is not None else before
        if changed is not None:
            self._apply_kind[type(changed)](before, after)

    def observe_claim(self, claim: Claim, *, told: bool = False) -> bool:
        """Apply a claim of the API server, or `told` by a scheduler; False if it is outdated."""
        uid = uid_of(claim)
        former, before = self._find_former(uid), self.claims.get(uid)
        if before == claim and not told:
            self.ledger.confirm(claim)
            return False
        if not self.ledger.observe(claim, told=told):
            if claim.reduced and self.ledger.replace_spec(claim):
                self.claims[uid] = claim  # a response had the whole claim before
            return False
        self.claims[uid] = claim
        self._uids.move(uid, (), (name_of(claim),))
        self._follow_claim(uid, before, claim, former)
        return True

    def _apply_claim(self, before: Claim | None, after: Claim | None) -> None:
        if before is not None and (after is None or uid_of(before) != uid_of(after)):
            uid = uid_of(before)
            former = self._find_former(uid)
            self.ledger.observe_deletion(uid, before.metadata.resource_version)
            self._uids.move(uid, (name_of(before),), ())
            self._follow_claim(uid, self.claims.pop(uid, None), None, former)
        if after is not None:
            self.observe_claim(after)
            was_reduced = before is not None and before.reduced
            if was_reduced and self.ledger.replace_spec(after):
                self.claims[uid_of(after)] = after  # its namespace has room again
            if was_reduced and not after.reduced:
                self._try_again(uid for _, uid in self.pods.users_of(name_of(after)))

    def forget_unlisted(self, version: str, uids: Collection[str]) -> None:
        """Remove the claims that a list does not have.

        The cache tells of the deletion of what it had. A claim that was created and deleted while
        no watch was open is known from responses only.
        """
        listed_to = parse_version(version)
        gone = tuple(
            self.claims[uid]
            for uid, record in self.ledger.claims.items()
            if uid not in uids and record.version <= listed_to
        )
        for claim in gone:
            self._apply_claim(claim, None)

    def _find_former(self, uid: str) -> FormerClaim | None:
        record = self.ledger.claims.get(uid)
        return record and FormerClaim(record, self.ledger.quotas.capacities_of(uid))

    def _follow_claim(
        self, uid: str, before: Claim | None, after: Claim | None, former: FormerClaim | None
    ) -> None:
        """Follow the change of a claim, of which the ledger knew this before."""
        self.conflicts.note_change(uid)
        if before is not None and former is not None and former.record.holds:
            self.vanished.follow_claim(before, after, former)
        self.pods.follow_claim(uid, before)
        was_allocated = before is not None and before.status.allocation is not None
        if before is not None and was_allocated:
            del self._allocated[bisect_left(self._allocated, (name_of(before), uid_of(before)))]
        if after is not None and after.status.allocation is not None:
            insort(self._allocated, (name_of(after), uid_of(after)))
            if not was_allocated:
                self._newly_allocated.append(uid_of(after))
        elif was_allocated:
            self._freed = True

    def _apply_node(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        if node is not None:
            self._follow_hold(node.name, after.hold if after else "")
        if node is not None and self._change_planner(Node, node.name, after):
            self.changes.add(node.name)
            self.amounts.note_change(node.name)
            self.decide_owners_on(node.name)
            self.vanished.note_change(node.name, *self._published.naming(node.name))

    def _follow_hold(self, node: str, text: str) -> None:
        hold = read_node_hold(text) if text else ""
        if isinstance(hold, NodeHold):
            self.node_holds[node] = hold
        else:
            self.node_holds.pop(node, None)

    def _apply_class(self, before: DeviceClass | None, after: DeviceClass | None) -> None:
        changed = after or before
        if changed and self._change_planner(DeviceClass, changed.metadata.name, after):
            self.changes.add(None)

    def _apply_rule(self, before: DeviceTaintRule | None, after: DeviceTaintRule | None) -> None:
        changed = after or before
        # A rule can become one of the fence, and be none any more.
        obeyed = next(iter(without_fence((after,))), None) if after else None
        if changed and self._change_planner(DeviceTaintRule, changed.name, obeyed):
            self.changes.add(None)

    def _apply_pod(self, before: Pod | None, after: Pod | None) -> None:
        gone = None if before and after and before.metadata.uid == after.metadata.uid else before
        uid = gone.metadata.uid if gone else ""
        left = self.claims_of(uid) if gone else ()
        self.pods.apply(before, after)
        if before and after and not gone and _selection(before) != _selection(after):
            self._try_again((after.metadata.uid,))  # its namespace has room again, for example
        for node in self.amounts.apply(before, after):
            self.decide_owners_on(node)
        # A cache that is behind can tell of the end of a pod first.
        ended = after if after and _has_ended(after) else None
        for each in filter(None, (gone, ended)):
            self.vanished.follow_pod(each.metadata.uid)
        if after and after.release and (before is None or before.release != after.release):
            self.vanished.follow_release(after.metadata.uid)
        for claim in left:
            self.vanished.follow_user(uid, claim, self.ledger.claims.get(uid_of(claim)))
        if before is not None and not before.spec.resource_claims and not _has_ended(before):
            self._freed |= bool(gone or ended) and before.spec.node_name in self._owned_on

    def _try_again(self, pods: Iterable[str]) -> None:
        """Have the scheduler ask again about those that it can schedule: nothing else tells it."""
        for uid in pods:
            if not self.pods.get(uid).node:
                self.records.times.set("retry", uid, 0.0)

    def take_reports(self) -> tuple[Report, ...]:
        """Return what is to be told since the last call."""
        taken = tuple(self.reports)
        self.reports.clear()
        return taken

    def take_freed(self) -> bool:
        """Whether devices, or the CPU beside them, became free since the last call."""
        freed, self._freed = self._freed, False
        return freed

    def take_users_beside(self) -> Iterable[str]:
        """Yield who uses pools of which less is kept for vanished pods since the last call.

        Evicting them did not free what was kept beside them.
        """
        ended = self.vanished.take_ended()
        self._freed |= bool(ended)
        for pool in ended:
            for uid in self.ledger.claims_in(pool):
                yield from self.pods.consumers(uid)

    def _change_planner(
        self, kind: type[PlannerObject], name: str, after: PlannerObject | None
    ) -> bool:
        return self.planner.remove(kind, name) if after is None else self.planner.update(after)

    def _apply_slice(self, before: Slice | None, after: Slice | None) -> None:
        changed = self._published.apply(before, after)
        for removed in changed.removed:
            if self.planner.remove(Slice, removed.name):
                self.changes.add(removed.node_name)
        for pool, has_more in changed.pools.items():
            self._decide_owner(pool)
            if has_more:
                self.conflicts.note_pool(pool)
            self._charge_again(pool)

    def _charge_again(self, pool: PoolID) -> None:
        if self.ledger.quotas.counts_capacity:
            self.ledger.charge_again(pool)

    def take_over(self, earlier: "AllocatorState") -> None:
        """Keep what another state knows beside the caches, because the decisions are built anew.

        Responses and schedulers have told of claims before the watch does. It may never tell: a
        list does not have what was deleted meanwhile, whose devices can still be in use.
        """
        self.pods.take_over(earlier.pods)
        for uid, record in earlier.ledger.claims.items():
            if record.version > self.ledger.observed_to:
                self.observe_claim(earlier.claims[uid], told=not record.is_confirmed)
        self.ledger.take_capacities(earlier.ledger)
        self.vanished.take_over(earlier.vanished)
        self._penalties |= earlier._penalties  # noqa: SLF001  # of this class
        self.reports.extend(earlier.reports)

    # --- ownership ---

    def decide_owners(self, owns_pool: OwnsPool) -> None:
        """Decide the ownership of all pools again, after a change of what decides it."""
        self._owns_pool = owns_pool
        self.decide_owners_of(tuple(self._published.pools))

    def decide_owners_of(self, pools: Iterable[PoolID]) -> None:
        """Decide the ownership of these pools again."""
        for pool in pools:
            self._decide_owner(pool)

    def decide_owners_on(self, node: str) -> None:
        """Decide the ownership of the pools that name a node again."""
        self.decide_owners_of(tuple(self._published.naming(node)))

    def find_owned(self, pool: PoolID) -> LocalPool | None:
        """Return a pool if it is ours by what is known now; the planner can be behind that."""
        local = find_local_pool(pool, self._published.of_pool(pool).values())
        is_ours = self._owns_pool(pool, local, self.planner.nodes.get, self.amounts.names_on)
        return local if is_ours else None

    def _decide_owner(self, pool: PoolID) -> None:
        """Give the slices of an owned pool to the planner, and take those of others back."""
        owned = self.find_owned(pool)
        self._use_slices(pool, owned.slices if owned else ())
        before, node = self._owned.get(pool), owned.node if owned else None
        if node == before:
            return
        if before is not None:
            self._owned_on.move(pool, (before,), ())
            if before not in self._owned_on:
                self.changes.add_listed(before)
                del self.nodes_with_pools[bisect_left(self.nodes_with_pools, before)]
            del self._owned[pool]
        if node is not None:
            if node not in self._owned_on:
                self.changes.add_listed(node)
                insort(self.nodes_with_pools, node)
            self._owned_on.move(pool, (), (node,))
            self._owned[pool] = node
            # Of large pools of others, it is not known what their devices publish.
            self._charge_again(pool)

    def _use_slices(self, pool: PoolID, members: Collection[Slice]) -> None:
        """Give these slices of a pool to the planner, and take back those that it has besides."""
        names = frozenset([each.name for each in members])
        for name, other in self._published.of_pool(pool).items():
            if name not in names and self.planner.remove(Slice, name):
                self.changes.add(other.node_name)
        for resource_slice in members:
            if self.planner.update(resource_slice):
                self.changes.add(resource_slice.node_name)

    def find_pool(self, pool: PoolID) -> PublishedPool | None:
        """Return a pool as it is published, owned or not.

        None while it is incomplete, and for a pool of others that is larger than a node's.
        """
        if pool in self._owned:
            return self.planner.find_pool(pool)
        slices = tuple(self._published.of_pool(pool).values())
        if len(slices) > MAX_SLICES:
            return None
        # A claim has many devices of a pool, and the claims of a pool are charged together.
        asked, last = (pool, slices), self._last_read
        if last is None or last[0] != asked:
            last = self._last_read = (asked, read_published_pool(pool, slices))
        return last[1]

    def node_of(self, pool: PoolID) -> str | None:
        """Return the node of an owned pool."""
        return self._owned.get(pool)

    def _can_be_used(self, device: DeviceID, allocated_on: str, ours: bool) -> bool:  # noqa: FBT001  # as the ledger has it
        """Whether a device is `ours` or of an owned pool, and its node is not shut down for good.

        A driver can withdraw the whole pool for a moment, also before this process starts, and a
        pool is not used while the fence of its node settles. Then the node of the allocation
        counts, or that with the name of the pool.
        """
        is_owned = device.pool in self._owned
        node = self._owned.get(device.pool) or allocated_on or device.pool.name
        local = self.planner.nodes.get(node)
        if local is None or any(taint.key == OUT_OF_SERVICE for taint in local.taints):
            return False
        return ours or is_owned or self._owns_driver(device.pool.driver, local)

    # --- claims ---

    def with_reservation(self, claim: Claim) -> Claim:
        """Return a claim with its allocation, written or reserved."""
        active = self.ledger.reservations.get(uid_of(claim))
        if claim.status.allocation is not None or active is None:
            return claim
        status = replace(claim.status, allocation=active.reservation.allocation)
        return replace(claim, status=status)

    def allocated_claims(self, after: str) -> Iterator[tuple[str, str]]:
        """Yield the `namespace/name` and the UID of the allocated claims behind a name, by name.

        The cost depends only on how many are consumed.
        """
        first = bisect_right(self._allocated, after, key=lambda each: each[0])
        return (self._allocated[at] for at in range(first, len(self._allocated)))

    def take_newly_allocated(self) -> tuple[str, ...]:
        """Return the UIDs of the claims that were allocated since the last call, the last ones."""
        taken = tuple(self._newly_allocated)
        self._newly_allocated.clear()
        return taken

    def claims_of(self, pod_uid: str) -> tuple[Claim, ...]:
        """Return the claims that a pod names or that are reserved for it."""
        names = self.pods.get(pod_uid).claim_names
        named = (uid for name in names for uid in [*self._uids.get(name)][-1:])
        uids = dict.fromkeys((*named, *self.pods.claims_reserved_for(pod_uid)))
        return tuple(self.claims[uid] for uid in uids if uid in self.claims)

    # --- penalties ---

    def penalise(self, device: DeviceID, until: float) -> None:
        """Leave a device out until a time while other devices are free, as after a failure."""
        if device not in self._penalties and len(self._penalties) >= MAX_PENALTIES:
            del self._penalties[min(self._penalties, key=self._penalties.__getitem__)]
        self._penalties[device] = until

    def preferred_view(self, now: float) -> View | None:
        """Return the use of devices as if those with a penalty were held; None without any."""
        expired = [device for device, until in self._penalties.items() if until <= now]
        for device in expired:
            del self._penalties[device]
        if not self._penalties:
            self._penalised_uses.clear()
            return None
        view = self.ledger.view()
        penalised: dict[PoolID, set[str]] = {}
        for device in self._penalties:
            penalised.setdefault(device.pool, set()).add(device.name)
        uses = {
            pool: self._penalised_use(pool, view.use(pool), frozenset(names))
            for pool, names in penalised.items()
        }
        return replace_uses(view, uses)

    def _penalised_use(self, pool: PoolID, use: PoolUse, names: frozenset[str]) -> PoolUse:
        """Return the same object for the same use, because views are compared by identity."""
        cached = self._penalised_uses.get(pool)
        if cached is None or cached[0] is not use or cached[1] != names:
            cached = (use, names, with_devices_held(use, names))
            self._penalised_uses[pool] = cached
        return cached[2]

    def epoch(self) -> int:
        """Return the number of the last change of devices, their use, its end or quotas."""
        view = self.ledger.view()
        if view is not self._view:
            for pool in changed_pools(self._view, view):
                if pool in self._owned:
                    self.changes.add(self._owned[pool], of_use=True)
            self._view = view
        elsewhere = self.ledger.quotas.revision, self.records.waits
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            self.changes.add_elsewhere()
        return self.changes.last


def _selection(pod: Pod) -> tuple[object, ...]:
    """Return what selects nodes for a pod."""
    return pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in FINISHED
