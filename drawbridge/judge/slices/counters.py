"""Checks counters: unknown and negative ones, and devices that consume more than the total."""

from collections.abc import Iterator, Mapping

from drawbridge.dra.counters import unknown_counters
from drawbridge.dra.device import Counter, CounterSet, CounterUse, Device
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes
from drawbridge.judge.slices.pools import Pools


def check_counters(pools: Pools) -> Iterator[Finding]:
    """Report counters that prevent the allocation of devices or of a whole pool."""
    for members in pools.values():
        sets = {each.name: each for member in members for each in member.shared_counters}
        for member in members:
            yield from _check_totals(member)
            for i, device in enumerate(member.devices):
                if not device.consumes_counters:
                    continue
                about, path = f"{KIND}/{member.name}", f"spec.devices[{i}].consumesCounters"
                yield from _check_references(device, sets, about, path)
                for j, use in enumerate(device.consumes_counters):
                    published = sets.get(use.counter_set)
                    if published is not None:
                        at = f"{path}[{j}].counters"
                        yield from _check_amounts(device, use, published.counters, about, at)


def _check_totals(member: Slice) -> Iterator[Finding]:
    for i, counter_set in enumerate(member.shared_counters):
        for name, counter in counter_set.counters.items():
            if counter.value.sign() < 0:
                message = (
                    f"counter {name} of {counter_set.name} is {counter.value}: no device of the "
                    "pool that consumes any counter can be allocated"
                )
                path = f"spec.sharedCounters[{i}].counters[{name}].value"
                yield codes.COUNTER_NEGATIVE.at(path, message, object=f"{KIND}/{member.name}")


def _check_references(
    device: Device, sets: Mapping[str, CounterSet], about: str, path: str
) -> Iterator[Finding]:
    for i, counter in unknown_counters(device, sets):
        name = device.consumes_counters[i].counter_set
        if counter:
            at = f"{path}[{i}].counters[{counter}]"
            message = (
                f"device {device.name} consumes counter {counter}, which counter set {name} "
                "does not have"
            )
        else:
            at = f"{path}[{i}].counterSet"
            message = (
                f"device {device.name} consumes counter set {name}, which its pool does not have"
            )
        yield codes.COUNTER_UNKNOWN.at(at, message, object=about)


def _check_amounts(
    device: Device, use: CounterUse, totals: Mapping[str, Counter], about: str, path: str
) -> Iterator[Finding]:
    for name, counter in use.counters.items():
        total = totals.get(name)
        at = f"{path}[{name}].value"
        if counter.value.sign() < 0:
            message = (
                f"device {device.name} consumes {counter.value} of {name}, which gives other "
                "devices more than the total"
            )
            yield codes.COUNTER_NEGATIVE.at(at, message, object=about)
        elif total is not None and total.value.sign() >= 0 and counter.value > total.value:
            message = (
                f"device {device.name} consumes {counter.value} of {name}, but counter set "
                f"{use.counter_set} has {total.value}"
            )
            yield codes.COUNTER_EXCEEDED.at(at, message, object=about)
