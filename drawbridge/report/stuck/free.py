"""Counts the devices that new pods could get: what makes it wrong that pods wait."""

from collections import Counter
from collections.abc import Iterable

from drawbridge.dra.device import Device
from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import EXCLUDING
from drawbridge.report.stuck.objects import HangingClaim


def count_free(slices: Iterable[Slice], claims: Iterable[HangingClaim]) -> dict[str, int]:
    """Return the number of devices by driver that no claim holds, and that no taint keeps.

    A device does not count while a held one consumes from a counter set that it needs.
    """
    held: dict[tuple[str, str], set[str]] = {}
    for claim in claims:
        for result in claim.results:
            held.setdefault((result.driver, result.pool), set()).add(result.device)
    pools: dict[tuple[str, str], list[Slice]] = {}
    for each in slices:
        pools.setdefault((each.driver, each.pool), []).append(each)
    free = Counter[str]({driver: 0 for driver, _ in pools})
    for (driver, pool), published in pools.items():
        for part in current_parts(published):
            devices = [device for each in part for device in each.devices]
            if is_complete(part):
                free[driver] += _count(devices, held.get((driver, pool), frozenset()))
    return dict(free)


def _count(devices: Iterable[Device], held: Iterable[str]) -> int:
    names = {*held}
    devices = [*devices]
    blocked = {name for each in devices if each.name in names for name in _counter_sets(each)}
    return sum(
        each.name not in names
        and not blocked & _counter_sets(each)
        and not any(taint.effect in EXCLUDING for taint in each.taints)
        for each in devices
    )


def _counter_sets(device: Device) -> set[str]:
    return {each.counter_set for each in device.consumes_counters}
