"""Counts what claims have of each device quota, reserved and allocated, as claims change.

The ledger charges every claim whose devices change. A decision costs as many comparisons as quotas
select its namespace; no claims are looked at.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.allocation import Allocation, AllocationResult
from drawbridge.dra.capacity import Amounts
from drawbridge.dra.claim import ClaimSpec
from drawbridge.dra.device_quotas import (
    DEVICES,
    Charge,
    ChoiceCharges,
    DeviceQuota,
    FindCapacity,
    QuotaExcess,
    QuotaKey,
    add_charges,
    charge_choices,
    charge_of_allocation,
    find_impossible,
    least_charge,
    limited_amounts,
    most_charge,
    without_choices,
)
from drawbridge.dra.inventory import PoolID, PublishedPool
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.holdings import DeviceID, device_of

# What whole devices had when they were allocated.
Capacities: TypeAlias = Mapping[DeviceID, Amounts]
_ZERO: Final = Quantity.of(0)
_NOTHING: Final[Charge] = {}
# The specs of which it is kept what their alternatives are charged, and all amounts of these.
MAX_SPECS: Final = 4096
MAX_AMOUNTS: Final = 65_536


class QuotaLine(NamedTuple):
    """What is used of one total, by one namespace or, without one, by all that are selected."""

    quota: str
    namespace: str
    key: QuotaKey
    limit: Quantity
    used: Quantity
    # What of it pods had that vanished while their containers may run.
    vanished: Quantity = _ZERO

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than the limit, which was lowered after that."""
        return self.limit < self.used

    @property
    def left(self) -> Quantity:
        """What can still be allocated."""
        return self.limit - self.used if self.used < self.limit else _ZERO


class _Sums:
    """What each namespace has, and what those that a quota selects have together."""

    def __init__(self, quotas: Iterable[DeviceQuota]) -> None:
        self.own: Final[dict[str, dict[QuotaKey, Quantity]]] = {}
        # By quota; None if each namespace has its own limits.
        self._together: Final[list[dict[QuotaKey, Quantity] | None]] = [
            {} if each.together else None for each in quotas
        ]

    def add(self, namespace: str, more: Charge, selecting: Iterable[int]) -> None:
        """Add to what a namespace has, and to what it has with others."""
        own = self.own.setdefault(namespace, {})
        together = (self._together[at] for at in selecting)
        for total in (own, *(sums for sums in together if sums is not None)):
            for key, quantity in more.items():
                _change(total, key, quantity)
        if not own:
            del self.own[namespace]

    def move(self, namespace: str, before: Iterable[int], after: Collection[int]) -> None:
        """Count a namespace for other quotas than before."""
        for at in {*before} ^ {*after}:
            if (together := self._together[at]) is not None:
                sign = 1 if at in after else -1
                for key, quantity in self.own.get(namespace, {}).items():
                    _change(together, key, quantity * sign)

    def counted(self, at: int, namespace: str) -> Charge:
        """Return what counts for a quota in a namespace that it selects."""
        together = self._together[at]
        return self.own.get(namespace, _NOTHING) if together is None else together


class QuotaUse:
    """What is used of quotas; `find_capacity` returns what whole devices publish.

    With `awaits_labels`, a namespace whose labels are unknown has no room if labels select quotas.
    """

    def __init__(
        self,
        quotas: Sequence[DeviceQuota] = (),
        find_capacity: FindCapacity = lambda _result: None,
        *,
        awaits_labels: bool = False,
    ) -> None:
        self.quotas = tuple(quotas)
        self._awaits_labels = awaits_labels and any(each.by_labels for each in self.quotas)
        self._limited = limited_amounts(self.quotas)
        self._choices: BoundedCache[bytes, ChoiceCharges] = BoundedCache(MAX_SPECS, MAX_AMOUNTS)
        self.find_capacity = find_capacity
        self._charges: dict[str, tuple[str, Charge]] = {}
        self._capacities: dict[str, Capacities] = {}  # by claim
        self._used, self._vanished = _Sums(self.quotas), _Sums(self.quotas)
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selecting: dict[str, tuple[int, ...]] = {}
        # Grows when something is given back, or a limit applies to other namespaces.
        self.revision = 0
        self.selections = 0  # how often a limit began to apply to other namespaces

    def __bool__(self) -> bool:
        return bool(self.quotas)

    def without_claims(self) -> "QuotaUse":
        """Return the same quotas of the same namespaces, without any charge.

        What devices had when they were allocated stays known.
        """
        empty = QuotaUse(self.quotas, self.find_capacity, awaits_labels=self._awaits_labels)
        for namespace, labels in self._labels.items():
            empty.set_labels(namespace, labels)
        empty._capacities |= self._capacities  # of this class
        return empty

    # --- namespaces ---

    def set_labels(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        """Follow the labels of a namespace; None when it is deleted. Its claims stay charged."""
        before, lacked = self._find_selecting(namespace), self._lacks_labels(namespace)
        if labels is None:
            self._labels.pop(namespace, None)
        else:
            self._labels[namespace] = labels
        after = self._select(namespace)
        if lacked or before != after:
            # A pod that waited for the labels can have room now.
            self.revision += 1
            self.selections += 1
        if before == after:
            return
        self._used.move(namespace, before, after)
        self._vanished.move(namespace, before, after)
        self._keep_selecting(namespace, after)

    def selecting(self, namespace: str) -> tuple[DeviceQuota, ...]:
        """Return the quotas that apply to a namespace."""
        return tuple(self.quotas[at] for at in self._find_selecting(namespace))

    def limits(self, namespace: str) -> bool:
        """Whether anything limits a namespace: quotas, or that it is not clear which ones."""
        return bool(self._find_selecting(namespace)) or self._lacks_labels(namespace)

    def _lacks_labels(self, namespace: str) -> bool:
        return self._awaits_labels and namespace not in self._labels

    def _find_selecting(self, namespace: str) -> tuple[int, ...]:
        selecting = self._selecting.get(namespace)
        return self._select(namespace) if selecting is None else selecting

    def _select(self, namespace: str) -> tuple[int, ...]:
        labels = self._labels.get(namespace, {})
        return tuple(at for at, quota in enumerate(self.quotas) if quota.selects(namespace, labels))

    def _keep_selecting(self, namespace: str, selecting: tuple[int, ...]) -> None:
        """Remember the quotas of a namespace for as long as something is counted for it."""
        if namespace in self._used.own:
            self._selecting[namespace] = selecting
        else:
            self._selecting.pop(namespace, None)

    # --- charges ---

    def charge(self, uid: str, namespace: str, charge: Charge, *, vanished: bool = False) -> None:
        """Replace what a claim is charged, or what is kept because its pods have `vanished`."""
        _, before = self._charges.pop(uid, (namespace, _NOTHING))
        self._capacities.pop(uid, None)
        if charge:
            self._charges[uid] = (namespace, charge)
        if before == charge:
            return
        selecting = self._find_selecting(namespace)
        keys = before.keys() | charge.keys()
        more = {key: charge.get(key, _ZERO) - before.get(key, _ZERO) for key in keys}
        self._used.add(namespace, more, selecting)
        if vanished:
            self._vanished.add(namespace, more, selecting)
        self.revision += sum(each.sign() < 0 for each in more.values())
        self._keep_selecting(namespace, selecting)

    def charge_allocation(
        self,
        uid: str,
        namespace: str,
        spec: ClaimSpec,
        allocation: Allocation | None,
        *,
        vanished: Capacities | None = None,
    ) -> None:
        """Charge a claim what it has, or had when its pods `vanished`.

        A whole device counts with what it publishes, but at most with what it had when it was
        allocated, or when it was first known: its driver cannot take room from others later. While
        it is not published, it counts as then.
        """
        if not self.quotas:
            return
        had = self._capacities.get(uid) or vanished or {}
        has: dict[DeviceID, Amounts] = {}

        def find_capacity(result: AllocationResult) -> Amounts | None:
            device = device_of(result)
            published = self.find_capacity(result)
            first = had.get(device, published)
            if first is None:
                return None
            has[device] = first
            return first if published is None else _least_of(first, published)

        charge = self.read_charge(spec, allocation, find_capacity)
        self.charge(uid, namespace, charge, vanished=vanished is not None)
        if has:
            self._capacities[uid] = has

    def read_charge(
        self, spec: ClaimSpec, allocation: Allocation | None, find: FindCapacity | None = None
    ) -> Charge:
        """Return what a claim with an allocation is charged."""
        if allocation is None or not self.quotas:
            return _NOTHING
        return charge_of_allocation(spec, allocation, self._limited, find or self.find_capacity)

    def least_charge(self, spec: ClaimSpec) -> Charge:
        """Return what every allocation of a claim is charged at least."""
        return least_charge(self._charge_choices(spec)) if self.quotas else _NOTHING

    def without_choices(
        self, spec: ClaimSpec, has_room: Callable[[Charge], bool], *, only_first: bool
    ) -> tuple[ClaimSpec, Charge] | None:
        """Return a spec with the alternatives that have room; None if a request has none.

        And what a claim is charged at least with the largest of these.
        """
        charges = self._charge_choices(spec)
        narrowed = without_choices(spec, charges, has_room, only_first=only_first)
        return None if narrowed is None else (narrowed[0], most_charge(narrowed[1]))

    def _charge_choices(self, spec: ClaimSpec) -> ChoiceCharges:
        charges = self._choices.get(spec.digest)
        if charges is None:
            charges = charge_choices(spec, self._limited)
            amounts = sum(1 + len(each) for of_request in charges for each in of_request)
            self._choices.put(spec.digest, charges, cost=amounts)
        return charges

    def charge_of(self, uid: str) -> Charge:
        """Return what a claim is charged."""
        return self._charges.get(uid, ("", _NOTHING))[1]

    def capacities_of(self, uid: str) -> Capacities:
        """Return what the whole devices of a claim had when they were allocated."""
        return self._capacities.get(uid, {})

    def take_capacities(self, uid: str, capacities: Capacities) -> None:
        """Let the whole devices of a charged claim have had this."""
        if self.quotas:
            self._capacities[uid] = {**self.capacities_of(uid), **capacities}

    @property
    def counts_capacity(self) -> bool:
        """Whether a limit is about something else than numbers of devices."""
        return any(amount != DEVICES for each in self._limited.values() for amount in each)

    # --- questions ---

    def find_excess(
        self,
        namespace: str,
        charges: Mapping[str, Charge],
        *,
        also: Iterable[Charge] = (),
        before: Charge = _NOTHING,
    ) -> QuotaExcess | None:
        """Return which limit is exceeded if claims of one pod, by UID, are charged this.

        `also` is what the pod has besides, and `before` what other pods get before it.
        """
        needed, selecting = add_charges(charges.values()), self._find_selecting(namespace)
        if needed and self._lacks_labels(namespace):
            text = f"the labels of namespace {namespace}, which select quotas, are not known yet"
            return QuotaExcess(text, never_fits=False)
        if not selecting:
            return None
        quotas = [self.quotas[at] for at in selecting]
        if impossible := find_impossible(quotas, namespace, add_charges((needed, *also))):
            return impossible
        counted = add_charges(map(self.charge_of, charges))
        for line in self._lines(namespace, selecting):
            more = needed.get(line.key, _ZERO)
            used, ahead = line.used - counted.get(line.key, _ZERO), before.get(line.key, _ZERO)
            if more.sign() > 0 and line.limit < used + ahead + more:
                text = _describe(line._replace(used=used), namespace, ahead, more)
                return QuotaExcess(text, never_fits=False)
        return None

    def add_to(self, total: dict[QuotaKey, Quantity], charges: Mapping[str, Charge]) -> None:
        """Add to a total what claims, by UID, are charged more than now."""
        for uid, charge in charges.items():
            now = self.charge_of(uid)
            for key in charge.keys() | now.keys():
                _change(total, key, charge.get(key, _ZERO) - now.get(key, _ZERO))

    def lines(self, namespace: str) -> tuple[QuotaLine, ...]:
        """Return what a namespace has of its totals."""
        return tuple(self._lines(namespace, self._find_selecting(namespace)))

    def list_lines(self) -> Iterator[QuotaLine]:
        """Yield what namespaces have together, and what each one with devices has."""
        yield from self.together()
        for namespace in sorted(self._used.own):
            yield from (each for each in self.lines(namespace) if each.namespace)

    def together(self) -> Iterator[QuotaLine]:
        """Yield what selected namespaces have together."""
        yield from self._lines("", (at for at, each in enumerate(self.quotas) if each.together))

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces whose claims have something that is limited."""
        return self._used.own.keys()

    def _lines(self, namespace: str, selecting: Iterable[int]) -> Iterator[QuotaLine]:
        for at in selecting:
            quota, whose = self.quotas[at], "" if self.quotas[at].together else namespace
            used, vanished = (e.counted(at, namespace) for e in (self._used, self._vanished))
            for key, limit in quota.total.items():
                both = used.get(key, _ZERO), vanished.get(key, _ZERO)
                yield QuotaLine(quota.name, whose, key, limit, *both)


def published_capacity(find_pool: Callable[[PoolID], PublishedPool | None]) -> FindCapacity:
    """Return the function that finds what the devices of pools publish."""

    def find(result: AllocationResult) -> Amounts | None:
        pool = find_pool(PoolID(result.driver, result.pool))
        device = pool.devices.get(result.device) if pool is not None else None
        return None if device is None else {k: each.value for k, each in device.capacity.items()}

    return find


def _least_of(first: Amounts, published: Amounts) -> Amounts:
    return {name: min(each, published.get(name, _ZERO)) for name, each in first.items()}


def _describe(line: QuotaLine, namespace: str, ahead: Quantity, needed: Quantity) -> str:
    whose = f"namespace {namespace} uses" if line.namespace else "the selected namespaces use"
    vanished = (
        f"of these {line.vanished} until containers of vanished pods have ended, "
        if line.vanished.sign() > 0
        else ""
    )
    before = f"pods before it get {ahead}, " if ahead.sign() > 0 else ""
    return (
        f"quota {line.quota}: {whose} {line.used} of {line.key.describe(line.limit)}, {vanished}"
        f"{before}and the pod needs {needed}"
    )


def _change(total: dict[QuotaKey, Quantity], key: QuotaKey, more: Quantity) -> None:
    after = total.get(key, _ZERO) + more
    if after.sign():
        total[key] = after
    else:
        total.pop(key, None)
