"""Draws an inventory: devices by node, NUMA node and PCIe root, and tables of pools and classes.

Shows the devices that the scheduler sees on a node, and the reason why a pool is not usable.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from drawbridge.dra import attributes
from drawbridge.dra.counted import count_noun
from drawbridge.dra.device import Device
from drawbridge.dra.generations import current_parts
from drawbridge.dra.inventory import Inventory, Pool, PoolCache, PoolID, is_device_for_node
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.report.tables import Branch

# The attributes that name the product, best first. Drivers use the same names for them.
_PRODUCT_ATTRIBUTES: Final = ("profile", "productName", "model", "pciDevice", "type")
# The attribute names of drivers without the standard NUMA attribute, in any domain.
_NUMA_ATTRIBUTES: Final = ("numaNode", "numaNodeID", "numa")
_NUMBER: Final = re.compile(r"[0-9]+$")
_MAX_AMOUNTS: Final = 2

_Scalar = str | int | bool
_Devices = list[tuple[str, Device]]
# The devices with their drivers, by NUMA node and PCIe root; both have a name.
DevicePlaces = list[tuple[str, list[tuple[str, _Devices]]]]


def draw_node(inventory: Inventory, of: Node, memo: PoolCache | None = None) -> Branch:
    """Draw the devices of one node, and the pools of it that are not usable."""
    try:
        pools = inventory.pools_for(of, memo)
        devices = [each for pool in pools for each in _devices(pool, of)]
    except NodeSelectorError as error:
        return Branch(f"node {of.name}", below=(Branch(f"no device can be allocated: {error}"),))
    unusable = tuple(
        Branch(f"pool {pool.id.name} of {pool.id.driver}: {_state(pool)}")
        for pool in pools
        if not pool.usable
    )
    drawn = (*_numa_nodes(devices), *unusable)
    return Branch(f"node {of.name}", below=drawn or (Branch("no devices"),))


def _devices(pool: Pool, of: Node) -> Iterator[tuple[str, Device]]:
    for member, device in pool.devices():
        if is_device_for_node(member, device, of):
            yield pool.id.driver, device


def _numa_nodes(devices: _Devices) -> Iterator[Branch]:
    """Draw a branch per NUMA node with its PCIe roots and their devices."""
    for numa, roots in find_places(devices):
        below = (Branch(name, below=tuple(_device_lines(inside))) for name, inside in roots)
        yield Branch(numa, below=tuple(below))


def find_places(devices: _Devices) -> DevicePlaces:
    """Return devices by NUMA node and PCIe root.

    A PCIe root is on one NUMA node. A device without a NUMA attribute is placed on the NUMA node of
    another device on its root.
    """
    numa_of_root: dict[_Scalar | None, _Scalar] = {}
    placed = [(each, _numa(each[1]), _attribute(each[1], attributes.PCIE_ROOT)) for each in devices]
    for _, numa, root in placed:
        if numa is not None and root is not None:
            numa_of_root.setdefault(root, numa)
    roots_of_numa: dict[_Scalar | None, dict[_Scalar | None, _Devices]] = {}
    for device, numa, root in placed:
        roots = roots_of_numa.setdefault(numa_of_root.get(root) if numa is None else numa, {})
        roots.setdefault(root, []).append(device)
    return [
        (
            "NUMA node unknown" if numa is None else f"NUMA node {numa}",
            [
                ("PCIe root unknown" if root is None else f"{root}", roots_of_numa[numa][root])
                for root in sorted(roots_of_numa[numa], key=_order)
            ],
        )
        for numa in sorted(roots_of_numa, key=_order)
    ]


def _order(value: _Scalar | None) -> tuple[bool, bool, int, str]:
    """Sort numbers by value, then texts, then unknown values."""
    number = value if isinstance(value, int) else 0
    return (value is None, isinstance(value, str), number, f"{value}")


def _numa(device: Device) -> _Scalar | None:
    standard = _attribute(device, attributes.NUMA_NODE)
    if standard is not None:
        return standard
    others = (name for name in device.attributes if name.rpartition("/")[2] in _NUMA_ATTRIBUTES)
    return next((_attribute(device, name) for name in others), None)


def _attribute(device: Device, name: str) -> _Scalar | None:
    """Return the value of an attribute; of a list the first value, which is the device's own."""
    attribute = device.attributes.get(name)
    value = attributes.attribute_value(attribute) if attribute else None
    return (value[0] if value else None) if isinstance(value, tuple) else value


def _device_lines(devices: _Devices) -> Iterator[Branch]:
    """Draw one line for adjacent devices that differ in the number of their name only."""
    lines = ((device.name, _columns(driver, device)) for driver, device in devices)
    for (stem, columns), run in groupby(lines, lambda line: (_NUMBER.sub("", line[0]), line[1])):
        names = [name for name, _ in run]
        numbered = f"{names[0]}..{names[-1].removeprefix(stem)} ({len(names)})"
        yield Branch(names[0] if len(names) == 1 else numbered, columns)


def _columns(driver: str, device: Device) -> tuple[str, ...]:
    """Return the columns of a device: driver, product, capacity and restrictions."""
    limits = [f"uses counters of {use.counter_set}" for use in device.consumes_counters]
    limits += ["shareable"] if device.allow_multiple_allocations else []
    limits += [f"tainted {taint.key}:{taint.effect}" for taint in device.taints]
    return (driver, find_product(device), describe_capacity(device), ", ".join(limits))


def find_product(device: Device) -> str:
    """Return what its driver calls the product of a device; empty if it does not say."""
    names = {name.rpartition("/")[2]: name for name in device.attributes}
    product = next((names[name] for name in _PRODUCT_ATTRIBUTES if name in names), "")
    return f"{_attribute(device, product)}" if product else ""


def describe_capacity(device: Device) -> str:
    """Return the first nonzero capacities of a device."""
    amounts = [
        f"{name.rpartition('/')[2]} {capacity.value}"
        for name, capacity in device.capacity.items()
        if capacity.value.sign()
    ]
    return ", ".join([*amounts[:_MAX_AMOUNTS], *(["..."] if len(amounts) > _MAX_AMOUNTS else [])])


def pool_table(
    inventory: Inventory, nodes: Sequence[Node], memo: PoolCache | None = None
) -> list[list[str]]:
    """Return the table of all pools with their state."""
    memo = memo or PoolCache()
    states_of_pool: dict[PoolID, dict[str, int]] = {}
    for node in nodes:
        for pool in _visible_pools(inventory, node, memo):
            states = states_of_pool.setdefault(pool.id, {})
            states[_state(pool)] = states.get(_state(pool), 0) + 1
    rows = [["DRIVER", "POOL", "GENERATION", "SLICES", "DEVICES", "STATE"]]
    for pool_id in sorted(inventory.pools):
        published = inventory.published_slices(pool_id)
        parts = list(current_parts(published))
        older = len(published) - sum(map(len, parts))
        rows += [
            [
                *pool_id,
                f"{part[0].generation}",
                f"{len(part)} of {part[0].slice_count}" + (f" (+{older} old)" if older else ""),
                f"{sum(len(each.devices) for each in part)}",
                "; ".join(_state_texts(states_of_pool.get(pool_id, {})))
                or "not visible on any node",
            ]
            for part in parts
        ]
    return rows


def _visible_pools(inventory: Inventory, of: Node, memo: PoolCache) -> tuple[Pool, ...]:
    try:
        return inventory.pools_for(of, memo)
    except NodeSelectorError:
        return ()


def _state(pool: Pool) -> str:
    if pool.incomplete:
        return "incomplete, its devices cannot be allocated"
    return f"invalid, {pool.invalid}" if pool.invalid else "complete"


def _state_texts(states: dict[str, int]) -> Iterator[str]:
    for state, number in sorted(states.items()):
        yield state if len(states) == 1 else f"{state} (on {count_noun(number, 'node')})"
