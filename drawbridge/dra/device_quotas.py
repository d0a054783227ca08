"""Device quotas: limits of the Configuration on what the claims of namespaces have.

A claim is charged what it is allocated. The ResourceQuotas of the API server count what a claim can
get at most, when it is created (`drawbridge.dra.quota`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from drawbridge.dra.allocation import Allocation, AllocationResult
from drawbridge.dra.capacity import Amounts
from drawbridge.dra.claim import EXACT_COUNT, Choice, ClaimSpec, request_choices
from drawbridge.dra.quantity import INT64_MAX, Quantity

# The amount that counts devices; every other one is the name of a capacity.
DEVICES: Final = "devices"
_ZERO, _ONE, _MOST = Quantity.of(0), Quantity.of(1), Quantity.of(INT64_MAX)


class QuotaKey(NamedTuple):
    """What a limit is about: devices of a DeviceClass, or a capacity of them."""

    device_class: str
    amount: str

    def describe(self, quantity: Quantity) -> str:
        """Return a quantity with what it is about."""
        devices = "device" if quantity == _ONE else "devices"
        what = devices if self.amount == DEVICES else f"{self.amount} of devices"
        return f"{quantity} {what} of class {self.device_class}"


Charge: TypeAlias = Mapping[QuotaKey, Quantity]
# What each alternative of each request of a claim is charged.
ChoiceCharges: TypeAlias = Sequence[Sequence[Charge]]
# The published capacity of the device of a result; None if it is not published.
FindCapacity: TypeAlias = Callable[[AllocationResult], Amounts | None]


class DeviceQuota(msgspec.Struct, frozen=True):
    """The limits of the namespaces that `selects` accepts, by their names and labels.

    `single` limits one pod. `total` limits each namespace, or all of them `together`. Without
    `by_labels`, the labels do not matter.
    """

    name: str
    selects: Callable[[str, Mapping[str, str]], bool]
    single: Charge = {}
    total: Charge = {}
    together: bool = False
    by_labels: bool = False


class QuotaExcess(NamedTuple):
    """A limit that a pod would exceed, now or always (`never_fits`)."""

    message: str
    never_fits: bool


def limited_amounts(quotas: Iterable[DeviceQuota]) -> Mapping[str, tuple[str, ...]]:
    """Return the amounts that quotas limit, by class."""
    limited: dict[str, dict[str, None]] = {}
    for quota in quotas:
        for key in (*quota.single, *quota.total):
            limited.setdefault(key.device_class, {})[key.amount] = None
    return {name: tuple(amounts) for name, amounts in limited.items()}


def charge_of_allocation(
    spec: ClaimSpec,
    allocation: Allocation,
    limited: Mapping[str, Sequence[str]],
    find_capacity: FindCapacity,
) -> Charge:
    """Return what an allocation has of the limited amounts; devices with admin access are free.

    A share has the capacity that it consumes, a whole device all that it publishes.
    """
    classes = {
        choice.name: choice.requested.device_class_name
        for request in spec.devices.requests
        for choice in request_choices(request)
    }
    total: dict[QuotaKey, Quantity] = {}
    for result in allocation.devices.results:
        name = classes.get(result.request, "")
        if result.admin_access or name not in limited:
            continue
        has: Amounts | None = result.consumed_capacity if result.share_id is not None else None
        for amount in limited[name]:
            if amount == DEVICES:
                quantity = _ONE
            else:
                if has is None:
                    has = find_capacity(result) or {}
                quantity = _find_amount(has, amount)
            _add(total, QuotaKey(name, amount), quantity)
    return total


def charge_choices(spec: ClaimSpec, limited: Mapping[str, Sequence[str]]) -> ChoiceCharges:
    """Return what the alternatives of each request have of the limited amounts.

    This searches all capacities that a claim names, up to thousands.
    """
    return tuple(
        tuple(_charge_choice(each, limited) for each in request_choices(request))
        for request in spec.devices.requests
    )


def least_charge(charges: ChoiceCharges) -> Charge:
    """Return what every allocation of a claim has at least of the limited amounts."""
    return add_charges(map(_least, charges))


def most_charge(charges: ChoiceCharges) -> Charge:
    """Return the least that a claim has with the largest of its alternatives, for each amount."""
    return add_charges(map(_most, charges))


def without_choices(
    spec: ClaimSpec,
    charges: ChoiceCharges,
    has_room: Callable[[Charge], bool],
    *,
    only_first: bool = False,
) -> tuple[ClaimSpec, ChoiceCharges] | None:
    """Return a spec with the alternatives that have room, whichever of them are taken together.

    Those of later requests get what earlier ones leave; None if that is too little. With
    `only_first`, each request keeps its first alternative that has room, and leaves more.
    """
    requests, left = list(spec.devices.requests), list(charges)
    for at, request in enumerate(requests):
        if not request.first_available:
            continue
        others = add_charges((*map(_most, left[:at]), *map(_least, left[at + 1 :])))
        both = zip(request.first_available, left[at], strict=True)
        kept = [each for each in both if has_room(add_charges((others, each[1])))]
        if not kept:
            return None
        subs, left[at] = zip(*(kept[:1] if only_first else kept), strict=True)
        if len(subs) < len(request.first_available):
            requests[at] = replace(request, first_available=subs)
    if all(map(is_, requests, spec.devices.requests)):
        return spec, charges
    return replace(spec, devices=replace(spec.devices, requests=tuple(requests))), left


def add_charges(charges: Iterable[Charge]) -> Charge:
    """Return the sum of charges."""
    total: dict[QuotaKey, Quantity] = {}
    for charge in charges:
        for key, quantity in charge.items():
            _add(total, key, quantity)
    return total


def find_impossible(
    quotas: Iterable[DeviceQuota], namespace: str, needed: Charge
) -> QuotaExcess | None:
    """Return the first limit of a namespace's quotas that a pod exceeds by itself."""
    pod = f"a pod of namespace {namespace}"
    for quota in quotas:
        whose = "the selected namespaces together" if quota.together else namespace
        for who, limits in ((pod, quota.single), (whose, quota.total)):
            for key, most in limits.items():
                if most < needed.get(key, _ZERO):
                    allowed = f"quota {quota.name} allows {who} {key.describe(most)}"
                    text = f"{allowed}, and the pod asks for {needed[key]}"
                    return QuotaExcess(text, never_fits=True)
    return None


def _least(choices: Sequence[Charge]) -> Charge:
    """Return the least of the alternatives of a request, for each amount."""
    keys = choices[0] if choices else {}
    return {key: min(each.get(key, _ZERO) for each in choices) for key in keys}


def _most(choices: Iterable[Charge]) -> Charge:
    """Return the most of the alternatives of a request, for each amount."""
    total: dict[QuotaKey, Quantity] = {}
    for choice in choices:
        for key, quantity in choice.items():
            total[key] = max(total.get(key, _ZERO), quantity)
    return total


def _charge_choice(choice: Choice, limited: Mapping[str, Sequence[str]]) -> Charge:
    wanted = choice.requested
    amounts = limited.get(wanted.device_class_name, ())
    if choice.admin_access or not amounts:
        return {}
    # A request for all devices gets at least one.
    count = wanted.count if wanted.allocation_mode == EXACT_COUNT else 1
    asked = wanted.capacity.requests if wanted.capacity is not None else {}
    charge = {}
    for amount in amounts:
        of_device = _ONE if amount == DEVICES else _find_amount(asked, amount)
        charge[QuotaKey(wanted.device_class_name, amount)] = of_device * count
    return charge


def _find_amount(amounts: Amounts, name: str) -> Quantity:
    """Return an amount by its name, where the domain of the driver may be left out.

    It is at most that of an int64: drivers and tenants can write 1,000 digits.
    """
    key = name if name in amounts else find_capacity_name(name, amounts)
    return _ZERO if key is None else min(amounts[key], _MOST)


def find_capacity_name(name: str, published: Iterable[str]) -> str | None:
    """Return the published capacity that a limit is about, with or without the driver's domain."""
    domain, _, own = name.rpartition("/")
    for key in published:
        other, _, last = key.rpartition("/")
        if last == own and (not (domain and other) or domain == other):
            return key
    return None


def _add(total: dict[QuotaKey, Quantity], key: QuotaKey, quantity: Quantity) -> None:
    if quantity.sign() > 0:
        total[key] = total[key] + quantity if key in total else quantity
