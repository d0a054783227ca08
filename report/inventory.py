"""An inventory as a person would draw it: devices by node, NUMA node and PCIe root; the pools.

Says what counts on a node, as the scheduler sees it, and why what does not count does not. Knows
nothing of drivers: what it shows of a device is what any driver may publish.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from dra import attributes
from dra.classes import DeviceClass
from dra.device import Device
from dra.inventory import Inventory, Memo, Pool, PoolID, device_selected
from dra.nodes import Node, NodeSelectorError
from report.tables import Branch

# By these a person tells devices apart, the more telling first; drivers agree on the words.
_TELLING: Final = ("profile", "productName", "model", "pciDevice", "type")
# The standard name, and those drivers used before there was one, in whichever domain.
_NUMA: Final = ("numaNode", "numaNodeID", "numa")
_NUMBER: Final = re.compile(r"[0-9]+$")
_MOST_AMOUNTS: Final = 2

_Scalar = str | int | bool
_Devices = list[tuple[str, Device]]


def node(inventory: Inventory, of: Node, memo: Memo | None = None) -> Branch:
    """Draw the devices that count on one node, and the pools there that do not."""
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
    for each, device in pool.devices():
        if device_selected(each, device, of):
            yield pool.id.driver, device


def _numa_nodes(devices: _Devices) -> Iterator[Branch]:
    """A branch for each NUMA node, with its PCIe roots and what is on them.

    A root is on one NUMA node; where a device does not say on which, others on its root may.
    """
    known: dict[_Scalar | None, _Scalar] = {}
    for _, device in devices:
        numa, root = _numa(device), _published(device, attributes.PCIE_ROOT)
        if numa is not None and root is not None:
            known.setdefault(root, numa)
    placed: dict[_Scalar | None, dict[_Scalar | None, _Devices]] = {}
    for driver, device in devices:
        numa, root = _numa(device), _published(device, attributes.PCIE_ROOT)
        roots = placed.setdefault(known.get(root) if numa is None else numa, {})
        roots.setdefault(root, []).append((driver, device))
    for numa in sorted(placed, key=_order):
        label = "NUMA node not known" if numa is None else f"NUMA node {numa}"
        yield Branch(label, below=tuple(_roots(placed[numa])))


def _roots(roots: Mapping[_Scalar | None, _Devices]) -> Iterator[Branch]:
    for root in sorted(roots, key=_order):
        label = "PCIe root not known" if root is None else f"{root}"
        yield Branch(label, below=tuple(_alike(roots[root])))


def _order(value: _Scalar | None) -> tuple[bool, bool, int, str]:
    """Numbers by value, then texts, then what is not known."""
    number = value if isinstance(value, int) else 0
    return (value is None, isinstance(value, str), number, f"{value}")


def _numa(device: Device) -> _Scalar | None:
    standard = _published(device, attributes.NUMA_NODE)
    if standard is not None:
        return standard
    own = (name for name in device.attributes if name.rpartition("/")[2] in _NUMA)
    return next((_published(device, name) for name in own), None)


def _published(device: Device, name: str) -> _Scalar | None:
    """The value of an attribute; of a list the first, which is the device's own."""
    found = device.attributes.get(name)
    value = attributes.value(found) if found else None
    return (value[0] if value else None) if isinstance(value, tuple) else value


def _alike(devices: _Devices) -> Iterator[Branch]:
    """One line for each run of devices that only their number tells apart."""
    lines = ((device.name, _columns(driver, device)) for driver, device in devices)
    for (stem, columns), run in groupby(lines, lambda line: (_NUMBER.sub("", line[0]), line[1])):
        names = [name for name, _ in run]
        many = f"{names[0]}..{names[-1].removeprefix(stem)} ({len(names)})"
        yield Branch(names[0] if len(names) == 1 else many, columns)


def _columns(driver: str, device: Device) -> tuple[str, ...]:
    """What a device is: driver, product, amounts, and what limits its use."""
    published = {name.rpartition("/")[2]: name for name in device.attributes}
    told = next((published[name] for name in _TELLING if name in published), "")
    limits = [f"draws from {use.counter_set}" for use in device.consumes_counters]
    limits += ["can be shared"] if device.allow_multiple_allocations else []
    limits += [f"tainted {taint.key}:{taint.effect}" for taint in device.taints]
    product = f"{_published(device, told)}" if told else ""
    return (driver, product, _amounts(device), ", ".join(limits))


def _amounts(device: Device) -> str:
    """The first amounts a device has; what it has none of is left out."""
    given = [
        f"{name.rpartition('/')[2]} {capacity.value}"
        for name, capacity in device.capacity.items()
        if capacity.value.sign()
    ]
    return ", ".join([*given[:_MOST_AMOUNTS], *(["..."] if len(given) > _MOST_AMOUNTS else [])])


def pools(inventory: Inventory, nodes: Sequence[Node], memo: Memo | None = None) -> list[list[str]]:
    """Give the table of all pools, with what keeps one from being used."""
    memo = memo or Memo()
    seen: dict[PoolID, dict[str, int]] = {}
    for each in nodes:
        for pool in _visible(inventory, each, memo):
            states = seen.setdefault(pool.id, {})
            states[_state(pool)] = states.get(_state(pool), 0) + 1
    rows = [["DRIVER", "POOL", "GENERATION", "SLICES", "DEVICES", "STATE"]]
    for pool_id in sorted(inventory.pools):
        published = inventory.published(pool_id)
        newest = max(each.generation for each in published)
        current = [each for each in published if each.generation == newest]
        older = len(published) - len(current)
        rows.append(
            [
                *pool_id,
                f"{newest}",
                f"{len(current)} of {current[0].slice_count}"
                + (f" (+{older} old)" if older else ""),
                f"{sum(len(each.devices) for each in current)}",
                "; ".join(_counted(seen.get(pool_id, {}))) or "seen from no node here",
            ]
        )
    return rows


def _visible(inventory: Inventory, of: Node, memo: Memo) -> tuple[Pool, ...]:
    try:
        return inventory.pools_for(of, memo)
    except NodeSelectorError:
        return ()


def _state(pool: Pool) -> str:
    if pool.incomplete:
        return "incomplete, nothing in it can be allocated"
    return f"invalid, {pool.invalid}" if pool.invalid else "complete"


def _counted(states: dict[str, int]) -> Iterator[str]:
    for state, number in sorted(states.items()):
        nodes = "1 node" if number == 1 else f"{number} nodes"
        yield state if len(states) == 1 else f"{state} (from {nodes})"


def classes(offered: Iterable[DeviceClass], counted: Mapping[str, str]) -> list[list[str]]:
    """Give the table of all classes; `counted` says how many devices each selects."""
    rows = [["CLASS", "EXTENDED RESOURCE", "DEVICES", "SELECTORS"]]
    for each in sorted(offered, key=lambda one: one.metadata.name):
        texts = [" ".join(s.cel.expression.split()) for s in each.spec.selectors if s.cel]
        extended = each.spec.extended_resource_name or "-"
        name, selectors = each.metadata.name, " and ".join(texts) or "any device"
        rows.append([name, extended, counted.get(name, "?"), selectors])
    return rows
