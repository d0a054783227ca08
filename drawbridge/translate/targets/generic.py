"""Custom drivers: the configuration maps properties to their attributes and capacities."""

from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.facts.model import of_several
from drawbridge.translate.legacy.asks import (
    Ask,
    Bytes,
    DeviceShare,
    Distinctness,
    Isolation,
    Kind,
)
from drawbridge.translate.targets import codes, nics
from drawbridge.translate.targets.plan import (
    DevicePlan,
    DriverTarget,
    RequestedAmount,
    Sharing,
    make_finding,
)
from drawbridge.translate.targets.vocabulary import (
    NO_REPLICA,
    OTHER_DRIVER,
    DriverVocabulary,
    NotExpressibleError,
    format_bytes,
    make_vocabulary,
    qualify,
)

# Keys of the configuration, and the vocabulary fields that hold their values.
_ATTRIBUTES: Final = {
    "product": "product",
    "uuid": "uuid",
    "architecture": "architecture",
    "compute": "compute",
    "driver-version": "driver_version",
    "cuda-version": "cuda_version",
    "profile": "profile",
    "parent": "parent",
    "kernel-driver": "kernel",
    "resource": "resource_full",
}
_MAX_QUANTITY: Final = (1 << 63) - 1
_CAPACITIES: Final = ("memory", "cores", "shares")


def vocabulary(
    domain: str,
    attributes: Mapping[str, str] = {},
    capacities: Mapping[str, str] = {},
    amounts: Mapping[str, str] = {},
) -> DriverVocabulary:
    """Return what the driver publishes, as configured; names without a domain are its own."""
    names = {
        field: attributes[word] for word, field in _ATTRIBUTES.items() if word in attributes
    } | {word: capacities[word] for word in _CAPACITIES if word in capacities}
    return make_vocabulary(domain, names, amounts=qualify(amounts, domain))


def plan_device(ask: Ask, target: DriverTarget) -> DevicePlan:
    """Plan the request of one device."""
    if ask.passthrough:
        raise NotExpressibleError(f"{target.driver} is not known to support passthrough")
    if ask.partition and not target.vocabulary.profile:
        raise NotExpressibleError(f"{target.driver} publishes no attribute for the profile")
    if ask.kind is Kind.NIC and not (ask.share and ask.share.amounts):
        return DevicePlan(
            class_=target.require_class(target.class_),
            ask_selectors=ask.selectors,
            distinct=target.vocabulary.parent if ask.distinct is Distinctness.PARENT else "",
            losses=nics.report_shared(ask, target),
        )
    is_share = ask.share is not None
    if is_share and target.sharing == Sharing.NONE:
        raise NotExpressibleError(f"{target.driver} does not share its devices")
    is_shareable = target.sharing != Sharing.NONE and not ask.partition
    if is_shareable and ask.count != 1 and not target.vocabulary.uuid:
        raise NotExpressibleError(
            f"{target.driver} publishes no attribute that identifies a device"
        )
    base = DevicePlan(
        class_=target.require_class(target.class_),
        ask_selectors=ask.selectors,
        percent_of=target.products(),
        distinct=target.vocabulary.uuid if is_shareable else "",
        parent=target.vocabulary.parent,
    )
    return _shared(ask, base, target) if is_share else base


def _shared(ask: Ask, base: DevicePlan, target: DriverTarget) -> DevicePlan:
    target.require_field("exactly.capacity")
    share, names = ask.share, target.vocabulary
    if share is not None and share.amounts:
        return msgspec.structs.replace(base, amounts=_named_amounts(share, target))
    if share is None or ask.partition or share.isolation is Isolation.MIG:
        raise NotExpressibleError(
            f"{target.driver} does not share partitions of its devices",
            f"Request whole partitions by their names. {OTHER_DRIVER}",
        )
    if share.replica:
        raise NotExpressibleError(
            f"{target.driver} shares devices by amount, but a replica specifies none", NO_REPLICA
        )
    amounts: dict[str, RequestedAmount] = {}
    losses = []
    if isinstance(share.memory, Bytes):
        amounts[_published_name(names.memory, "memory", target)] = format_bytes(share.memory.value)
    elif share.memory is not None:
        amounts[_published_name(names.memory, "memory", target)] = share.memory
    if names.cores:
        # The driver takes all of a capacity that the request does not name.
        amounts[_published_name(names.cores, "cores", target)] = share.cores or "0"
    elif share.cores is not None:
        message = (
            f"{share.cores.value} percent of cores requested, but {target.driver} does not limit "
            "cores"
        )
        losses.append(make_finding(codes.CORES_NOT_LIMITED, ask, message))
    return msgspec.structs.replace(base, amounts=amounts, losses=tuple(losses))


def _named_amounts(share: DeviceShare, target: DriverTarget) -> dict[str, RequestedAmount]:
    """Return what a share takes of each capacity: nothing of those that the pod does not name."""
    requested = dict(share.amounts)
    for name, value in share.amounts:
        if value > _MAX_QUANTITY:
            raise NotExpressibleError(f"{name} is {value}, which is more than a quantity can be")
    return {
        _published_name(capacity, name, target): format_bytes(requested.get(name, 0))
        for name, capacity in target.vocabulary.amounts.items()
    }


def _published_name(name: str, capacity: str, target: DriverTarget) -> str:
    """Return the name of a capacity exactly as the driver publishes it, as claims require."""
    if not name:
        raise NotExpressibleError(f"{target.driver} publishes no {capacity}")
    published = {key for each in of_several(target.products()) for key in each.capacity}
    return name if name in published else name.removeprefix(f"{target.driver}/")
