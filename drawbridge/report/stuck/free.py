"""Counts the devices that new pods could get: what makes it wrong that pods wait."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from drawbridge.dra.device import Device
from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import EXCLUDING
from drawbridge.report.stuck.objects import HangingClaim
from drawbridge.report.turns import take_turns


def count_free(slices: Iterable[Slice], claims: Iterable[HangingClaim]) -> dict[str, int]:
    """Return the number of devices by driver that no claim holds, and that no taint keeps.

    A device does not count while a held one consumes from a counter set that it needs. Drivers are
    in the order of the nodes that have them. Those of one node each follow, in turns of the nodes:
    no node hides the drivers of others by names that it invents.
    """
    held: dict[tuple[str, str], set[str]] = {}
    for claim in claims:
        for result in claim.results:
            if result.admin_access:
                continue
            held.setdefault((result.driver, result.pool), set()).add(result.device)
    pools: dict[tuple[str, str], list[Slice]] = {}
    nodes: dict[str, set[str | None]] = {}
    for published in slices:
        nodes.setdefault(published.driver, set()).add(published.node_name)
        pools.setdefault((published.driver, published.pool), []).append(published)
    free = Counter[str]()
    for (driver, pool), several in pools.items():
        for part in current_parts(several):
            devices = [device for each in part for device in each.devices]
            if is_complete(part):
                free[driver] += _count(devices, held.get((driver, pool), frozenset()))
    return {driver: free[driver] for driver in _order_drivers(nodes)}


def _order_drivers(nodes: Mapping[str, set[str | None]]) -> Iterator[str]:
    """Yield the drivers; one that publishes for any node comes first."""
    many = [driver for driver, named in nodes.items() if len(named) > 1 or None in named]
    yield from sorted(many, key=lambda each: (None not in nodes[each], -len(nodes[each]), each))
    by_node: dict[str | None, list[str]] = {}
    for driver in sorted(nodes.keys() - {*many}):
        (node,) = nodes[driver]
        by_node.setdefault(node, []).append(driver)
    yield from take_turns(by_node.values())


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
