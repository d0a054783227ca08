"""Observes which claims hold devices and for whom, in every replica.

Only the leader writes books, but a replica that becomes the leader knows what happened before.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Any, Final, Protocol

from controller.device_users import format_owner, name_root_owner
from controller.plugin_usage import PluginNames, read_plugin_use
from controller.protocols import ObjectCache, Unstructured, WatchedObject
from controller.steps import STEP, iterate_in_steps
from controller.watched_objects import WatchedPod
from drawbridge.agreement.published_slices import PublishedSlices
from drawbridge.agreement.scope import read_metadata
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.device import Device
from drawbridge.dra.inventory import PoolID, find_published_device
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.report.stuck.objects import HangingPod
from drawbridge.usage.accounts import UNKNOWN, Account, UsedAmount
from drawbridge.usage.claims import ClaimHolding, measure_part, to_fraction
from drawbridge.usage.meter import DELAY, HeldClaim, Meter, correct_sums, sum_claims

# Pods that were scheduled before their claim was seen, and pods that were looked up.
MAX_POD_OWNERS: Final = 20_000
# Devices of claims whose capacities are kept while no slice has them.
MAX_DEVICES: Final = 20_000
# So many pods wait at least before those to which nothing is charged are forgotten.
MOST_WAITING: Final = 1_000
CHECK_SECONDS: Final = 5.0
# So many former meters are kept, and for so many seconds: a book has what they observed by then.
_MOST_FORMER: Final = 2
_FORMER_SECONDS: Final = 900
# After so many seconds without a change or bookmark, a list ends what is observed; after less, they
# are a gap only. An API server that lets each watch fail at once would else leave nothing.
_SHORT_BREAK: Final = 10
_POD: Final = "Pod"
# Begins an owner that is not known yet; namespace and UID of the pod follow. A tenant can write the
# UID of any pod in an owner reference, so it counts in the namespace of the claim only.
_WAITING: Final = "(pod) "

SliceReading = Slice | tuple[Finding, ...]
PodKey = tuple[str, str]  # namespace and name


class ObservedClaims(ObjectCache[ClaimHolding], Protocol):
    """The cache of all claims; `listed` is the number of the last list that it accepted."""

    listed: int

    @property
    def version(self) -> str:
        """The version up to which the cache has everything."""

    @property
    def fresh(self) -> bool:
        """Whether the cache follows the API server."""

    def age(self) -> float:
        """Return the seconds since the last response of the API server."""


class UsageObserver:
    """The meter of this replica, the owners of pods, and the devices of claims.

    The caller passes the changes of the caches.
    """

    def __init__(
        self,
        claims: ObservedClaims,
        pods: ObjectCache[WatchedPod],
        device_pods: ObjectCache[HangingPod],
        now: Callable[[], float],
        is_synced: Callable[[], bool],
    ) -> None:
        self.meter = Meter()
        # The meters that have ended, and which the book may not have yet, the oldest first.
        self.former: list[Meter] = []
        self._answered = 0  # the last change or bookmark of which a check has found claims to tell
        self._version = ""  # up to which claims were followed then
        self._listed = 0  # the last list of claims
        # Its listener gets the changes of nodes.
        self.plugins = PluginNames()
        # The pods whose owner is not known, by the owner that their claims are charged to.
        self.waiting: dict[str, PodKey] = {}
        self._most_waiting = MOST_WAITING
        self._claims, self._pods = claims, pods
        self._device_pods = device_pods
        self._now, self._is_synced = now, is_synced
        # By namespace and UID of the pod.
        self._owners: BoundedCache[tuple[str, str], str] = BoundedCache(MAX_POD_OWNERS)
        self._published = PublishedSlices()
        self._capacities: BoundedCache[tuple[str, str, str], Mapping[str, Fraction]] = BoundedCache(
            MAX_DEVICES
        )
        # What changes while the sums are made; nothing is noted at other times.
        self._begins = False
        self._changed: set[PodKey] = set()
        self._changed_pods: set[PodKey] = set()
        self._checking = asyncio.Lock()
        # The owners that were found after their claims were charged, by what these are charged to.
        # Charging each claim again would take long.
        self._names: dict[str, str] = {}

    @property
    def is_observing(self) -> bool:
        """Whether the meter has begun, and follows what happens."""
        return self.meter.start is not None

    async def run(self) -> None:
        """Observe until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Begin to observe when the caches follow the API server, and stop when they do not.

        What happened in between is not observed, as if this process had not run. What was observed
        before stays until a book has it.
        """
        async with self._checking:
            now = self.now()
            self.former = [each for each in self.former if now - each.end < _FORMER_SECONDS]
            follows = self._is_synced() and self._claims.fresh
            # A list tells nothing of what came and went since the change or bookmark before it.
            is_listed_again = self._claims.listed != self._listed
            was_silent = is_listed_again and now - self._answered > _SHORT_BREAK
            self._listed = self._claims.listed
            if self.is_observing and (was_silent or not follows):
                self._end_meter()
            elif is_listed_again:
                self.meter.miss(self.told_until, now)
            if follows and not self.is_observing:
                self._begins = True
                try:
                    await self._begin()
                finally:
                    self._begins = False
                    self._changed.clear()
                    self._changed_pods.clear()
            # Other responses, such as a list to compare with, tell of no change.
            if follows and self._claims.version != self._version:
                self._version = self._claims.version
                self._answered = now - math.ceil(self._claims.age())
            if len(self.waiting) > self._most_waiting:
                self._forget_waiting()

    def _end_meter(self) -> None:
        former, self.meter = self.meter, Meter()
        former.end = self.told_until
        if former.start is not None and former.start < former.end:
            self.former = [*self.former, former][-_MOST_FORMER:]

    def choose_meter(self, through: int | None, until: int) -> tuple[Meter, int]:
        """Return the meter that continues a book that ends at `through`, and until when it does."""
        if through is not None:
            self.former = [each for each in self.former if each.end > through]
        meter = self.former[0] if self.former else self.meter
        return meter, min(until, meter.end)

    def _forget_waiting(self) -> None:
        """Forget the waiting pods to which nothing is charged any more.

        Only a leader looks pods up; in other replicas they come and go.
        """
        meters = (*self.former, self.meter)
        periods = [observed for meter in meters if (observed := meter.observed()) is not None]
        charged = {account.owner for period in periods for account in period.accounts()}
        self.waiting = {owner: key for owner, key in self.waiting.items() if owner in charged}
        self._most_waiting = max(MOST_WAITING, 2 * len(self.waiting))

    async def _begin(self) -> None:
        held: dict[str, HeldClaim] = {}
        uids: dict[PodKey, str] = {}
        async for claim in iterate_in_steps(self._claims.all()):
            held[claim.uid] = self._held_by(claim.value)
            uids[claim.namespace, claim.name] = claim.uid
        pods: dict[PodKey, str] = {}
        async for pod in iterate_in_steps(self._device_pods.all()):
            if pod.value.spec.node_name:
                held[_key_of(pod)] = self._read_pod(pod.value)
                pods[pod.namespace, pod.name] = _key_of(pod)
        # Exact sums of many claims take long.
        sums = await asyncio.to_thread(sum_claims, tuple(held.values()))
        while self._changed or self._changed_pods:
            self._correct(held, sums, self._changed, uids, self._find_claim)
            self._correct(held, sums, self._changed_pods, pods, self._find_pod)
            if self._changed or self._changed_pods:
                await asyncio.sleep(0)
        self.meter.begin(held, self.now(), sums)

    def _correct(
        self,
        held: dict[str, HeldClaim],
        sums: dict[Account, UsedAmount],
        changed: set[PodKey],
        uids: dict[PodKey, str],
        find: Callable[[PodKey], tuple[str, HeldClaim] | None],
    ) -> None:
        """Take some of what changed meanwhile into the sums."""
        keys = [changed.pop() for _ in range(min(STEP, len(changed)))]
        before = [held.pop(uids.pop(key)) for key in keys if key in uids]
        after = []
        for key in keys:
            if (current := find(key)) is not None:
                uids[key], held[current[0]] = current
                after.append(current[1])
        correct_sums(sums, before, after)

    def _find_claim(self, key: PodKey) -> tuple[str, HeldClaim] | None:
        current = self._claims.get(key[1], key[0])
        return None if current is None else (current.uid, self._held_by(current.value))

    def _find_pod(self, key: PodKey) -> tuple[str, HeldClaim] | None:
        current = self._device_pods.get(key[1], key[0])
        return None if current is None else (_key_of(current), self._read_pod(current.value))

    @property
    def told_until(self) -> int:
        """Until when a check has found that the caches tell of all changes of claims."""
        return self._answered - DELAY

    def now(self) -> int:
        """Return the time of the API server in whole seconds."""
        return int(self._now())

    # --- changes -------------------------------------------------------------------------------

    def claim_changed(
        self, before: WatchedObject[ClaimHolding] | None, after: WatchedObject[ClaimHolding] | None
    ) -> None:
        """Note what a claim holds now."""
        now = self.now()
        self._note(self._changed, before, after)
        if before is not None and (after is None or after.uid != before.uid):
            self.meter.change(before.uid, None, now)
        if after is not None:
            self.meter.change(after.uid, self._held_by(after.value), now)

    def _note(self, changed: set[PodKey], *versions: WatchedObject[Any] | None) -> None:
        if self._begins:
            changed.update((each.namespace, each.name) for each in versions if each is not None)

    def device_pod_changed(
        self,
        before: WatchedObject[HangingPod] | None,
        after: WatchedObject[HangingPod] | None,
    ) -> None:
        """Note what a pod holds of device plugins now."""
        now = self.now()
        self._note(self._changed_pods, before, after)
        if before is not None and (after is None or after.uid != before.uid):
            self.meter.change(_key_of(before), None, now)
        if after is not None:
            self.meter.change(_key_of(after), self._read_pod(after.value), now)

    def pod_changed(
        self, before: WatchedObject[WatchedPod] | None, after: WatchedObject[WatchedPod] | None
    ) -> None:
        """Remember the owner of a pod that leaves the cache of pending pods."""
        if before is not None and (after is None or after.uid != before.uid):
            self._owners.put((before.namespace, before.uid), _root_owner(before.value))

    def slice_changed(
        self, before: WatchedObject[SliceReading] | None, after: WatchedObject[SliceReading] | None
    ) -> None:
        """Note which slices a pool has."""
        slices = (each.value if each is not None else None for each in (before, after))
        read = [each if isinstance(each, Slice) else None for each in slices]
        self._published.apply(*read)

    def _read_pod(self, pod: HangingPod) -> HeldClaim:
        return read_plugin_use(pod, self.plugins.served)

    # --- claims --------------------------------------------------------------------------------

    def _held_by(self, use: ClaimHolding) -> HeldClaim:
        owner = self.find_owner(use) if use.parts else ""
        charges = (
            (Account(use.namespace, part.class_name, owner), measure_part(part, self.find_capacity))
            for part in use.parts
        )
        return HeldClaim(tuple(charges), use.allocated, use.created)

    def holdings(self) -> Iterator[ClaimHolding]:
        """Return the claims that hold devices."""
        return (each.value for each in self._claims.all() if each.value.parts)

    def find_owner(self, use: ClaimHolding) -> str:
        """Return the root owner of the pod that a claim was made for, else the claim itself."""
        owner = use.owner
        if owner is None:
            return f"ResourceClaim/{use.name}"
        if owner.kind != _POD:
            return format_owner(owner.kind, owner.name)
        owner_name = self._owners.get((use.namespace, owner.uid))
        if owner_name is not None:
            return owner_name
        pending = self._pods.get(owner.name, use.namespace)
        if pending is not None and pending.uid == owner.uid:
            return _root_owner(pending.value)
        waiting = _name_waiting(use.namespace, owner.uid)
        if waiting in self._names:
            return self._names[waiting]
        self.waiting[waiting] = use.namespace, owner.name
        return waiting

    def find_device(self, driver: str, pool: str, name: str) -> tuple[Slice, Device] | None:
        """Return a device and its slice, as its own node publishes it."""
        pool_id = PoolID(driver, pool)
        return find_published_device(pool_id, self._published.of_pool(pool_id).values(), name)

    def find_capacity(self, driver: str, pool: str, name: str) -> Mapping[str, Fraction] | None:
        """Return the capacities of a device; None if no slice has described it.

        A device that no slice has now, such as while its driver restarts, is what it was.
        """
        key, published = (driver, pool, name), self.find_device(driver, pool, name)
        if published is not None:
            capacity = published[1].capacity.items()
            self._capacities.put(key, {name: to_fraction(each.value) for name, each in capacity})
        return self._capacities.get(key)

    # --- owners --------------------------------------------------------------------------------

    def waiting_in(self, namespace: str) -> AbstractSet[str]:
        """Return the waiting pods of a namespace."""
        return {owner for owner, key in self.waiting.items() if key[0] == namespace}

    async def add_pods(
        self, namespace: str, wanted: AbstractSet[str], pods: AsyncIterator[Unstructured]
    ) -> None:
        """Take the owners of pods that waited before all pods of their namespace were listed.

        Pods that do not exist any more have an unknown owner.
        """
        names: dict[str, str] = dict.fromkeys(wanted, UNKNOWN)
        async for pod in pods:
            uid = f"{pod['metadata']['uid']}"
            waiting = _name_waiting(namespace, uid)
            if waiting in wanted:
                names[waiting] = name_root_owner(read_metadata(pod))
                self._owners.put((namespace, uid), names[waiting])
        self._names |= names
        for owner in names:
            self.waiting.pop(owner, None)

    def names(self) -> Mapping[str, str]:
        """Return the owners that were found later, as they are now."""
        return dict(self._names)

    def forget_names(self, owners: Iterable[str]) -> None:
        """Forget owners found later, to which nothing is charged any more."""
        for owner in owners:
            self._names.pop(owner, None)


def _key_of(pod: WatchedObject[HangingPod]) -> str:
    """Return the key of a pod among the claims, which have their UIDs."""
    return f"pod/{pod.uid}"


def _name_waiting(namespace: str, uid: str) -> str:
    return f"{_WAITING}{namespace}/{uid}"


def name_owner(owner: str, names: Mapping[str, str]) -> str:
    """Return the owner that an account is charged to, with those that were found later."""
    return names.get(owner, UNKNOWN) if owner.startswith(_WAITING) else owner


def _root_owner(pod: WatchedPod) -> str:
    return name_root_owner(pod.metadata.scope_fields)
