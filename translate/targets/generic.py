"""A driver of one's own: what it calls things stands in the configuration."""

from collections.abc import Mapping
from typing import Final

from translate.legacy.asks import Ask, Bytes, Distinctness, Isolation, Kind
from translate.targets import codes, nics
from translate.targets.plan import DevicePlan, DriverTarget, RequestedAmount, Sharing, make_finding
from translate.targets.vocabulary import (
    DriverVocabulary,
    NotExpressibleError,
    format_bytes,
    make_vocabulary,
)

# Words of the configuration, and the fields that hold them here.
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
_CAPACITIES: Final = ("memory", "cores", "shares")


def vocabulary(
    domain: str, attributes: Mapping[str, str] = {}, capacities: Mapping[str, str] = {}
) -> DriverVocabulary:
    """What the configuration says that the driver publishes; bare names are its own."""
    said = {
        field: attributes[word] for word, field in _ATTRIBUTES.items() if word in attributes
    } | {word: capacities[word] for word in _CAPACITIES if word in capacities}
    full = {field: name if "/" in name else f"{domain}/{name}" for field, name in said.items()}
    return make_vocabulary(full)


def plan_device(ask: Ask, aim: DriverTarget) -> DevicePlan:
    """Say how one device is asked for."""
    if ask.passthrough:
        raise NotExpressibleError(f"{aim.driver} is not known to pass devices through")
    if ask.partition and not aim.words.profile:
        raise NotExpressibleError(f"{aim.driver} publishes nothing that tells the profile")
    if ask.kind is Kind.NIC:
        return DevicePlan(
            class_=aim.offers(aim.class_),
            wanted=ask.selectors,
            distinct=aim.words.parent if ask.distinct is Distinctness.PARENT else "",
            losses=nics.report_shared(ask, aim),
        )
    shared = ask.share is not None
    if shared and aim.sharing == Sharing.NONE:
        raise NotExpressibleError(f"{aim.driver} does not share its devices")
    several = aim.sharing != Sharing.NONE and not ask.partition
    if several and ask.count != 1 and not aim.words.uuid:
        raise NotExpressibleError(
            f"{aim.driver} publishes nothing that tells one device from another"
        )
    base = DevicePlan(
        class_=aim.offers(aim.class_),
        wanted=ask.selectors,
        percent_of=aim.products(),
        distinct=aim.words.uuid if several else "",
        parent=aim.words.parent,
    )
    return _shared(ask, base, aim) if shared else base


def _shared(ask: Ask, base: DevicePlan, aim: DriverTarget) -> DevicePlan:
    aim.keeps("exactly.capacity")
    share, names = ask.share, aim.words
    if share is None or share.replica or share.isolation is Isolation.MIG:
        raise NotExpressibleError(f"{aim.driver} shares by amounts, and there is none")
    amounts: dict[str, RequestedAmount] = {}
    losses = []
    if isinstance(share.memory, Bytes):
        amounts[_own(names.memory, "memory", aim)] = format_bytes(share.memory.value)
    elif share.memory is not None:
        amounts[_own(names.memory, "memory", aim)] = share.memory
    if names.cores:
        # What is not named is taken as a whole.
        amounts[_own(names.cores, "cores", aim)] = share.cores or "0"
    elif share.cores is not None:
        message = f"{share.cores.value} percent of cores on {aim.driver}"
        losses.append(make_finding(codes.CORES_LOST, ask, message))
    return DevicePlan(
        class_=base.class_,
        wanted=base.wanted,
        percent_of=base.percent_of,
        distinct=base.distinct,
        parent=base.parent,
        amounts=amounts,
        losses=tuple(losses),
    )


def _own(name: str, word: str, aim: DriverTarget) -> str:
    """Write a capacity as the driver does: a claim names it exactly as it is published."""
    if not name:
        raise NotExpressibleError(f"{aim.driver} publishes no {word}")
    published = {capacity for each in aim.products() for capacity in each.capacity}
    return name if name in published else name.removeprefix(f"{aim.driver}/")
