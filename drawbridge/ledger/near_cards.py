"""The groups of near cards of a node, from the attributes that their driver publishes.

For links, these are the partitions of a fabric, such as NVLink, and the PCIe root. Drivers name the
NUMA node differently. Kubernetes has a standard name since 1.36.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from drawbridge.choice.catalog import ChosenStrategy
from drawbridge.choice.levels import Near
from drawbridge.choice.nearness import Groups
from drawbridge.dra.attributes import NUMA_NODE, PCIE_ROOT, split_name
from drawbridge.dra.rules import NEAR_WEIGHT
from drawbridge.ledger.cards import Card
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.constraints import typed_values
from drawbridge.solver.orders import find_partitions

_NUMA_NAMES: Final = ("numaNode", "numaNodeID", "numa")
# Also of other drivers of network devices.
_DRANET_NUMA: Final = "dra.net/numaNode"


def find_groups(cards: Sequence[Card], near: Near) -> Groups:
    """Return the groups of cards for each attribute that some of them publish."""
    levels = [_numa_names(cards[0].pool.driver)] if cards else []
    if near == "links" and cards:
        partitions = sorted({name for each in cards for name in _partitions(each.devices[0])})
        levels = [*((name,) for name in partitions), (PCIE_ROOT,), *levels]
    groups = (_number([_group(card.devices[0], names) for card in cards]) for names in levels)
    return tuple(each for each in groups if max(each) >= 0)


def find_unpublished(cards: Sequence[Card], chosen: ChosenStrategy) -> tuple[str, ...]:
    """Return what a strategy compares and no card publishes: all names of groups, or capacities."""
    if not cards:
        return ()
    driver = cards[0].pool.driver
    published = {
        split_name(name, driver) for card in cards for name in card.devices[0].device.capacity
    }
    missing = [each for each in chosen.capacities if split_name(each, driver) not in published]
    if chosen.near and dict(chosen.weights).get(NEAR_WEIGHT, 1) and not _has_groups(cards, chosen):
        links = (PCIE_ROOT,) if chosen.near == "links" else ()
        missing += [*links, *_numa_names(driver)]
    return tuple(missing)


def _has_groups(cards: Sequence[Card], chosen: ChosenStrategy) -> bool:
    return chosen.near is not None and bool(find_groups(cards, chosen.near))


def _numa_names(driver: str) -> tuple[str, ...]:
    return (NUMA_NODE, _DRANET_NUMA, *(f"{driver}/{each}" for each in _NUMA_NAMES))


def _partitions(device: Candidate) -> Iterable[str]:
    """Return the attributes of partitions with several devices, by full name."""
    return (f"{name}{size}" for name, size in find_partitions(device) if size > 1)


def _group(device: Candidate, names: Iterable[str]) -> Hashable:
    """Return the value of the first attribute that a device publishes; None without one."""
    for name in names:
        attribute = device.find_attribute(name)
        if attribute is not None:
            return name, typed_values(attribute)
    return None


def _number(values: Iterable[Hashable]) -> tuple[int, ...]:
    """Number the groups in order, so that nodes with equal groups are equal; -1 for none."""
    numbers: dict[Hashable, int] = {}
    return tuple(-1 if each is None else numbers.setdefault(each, len(numbers)) for each in values)
