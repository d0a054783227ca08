"""What the nodes see: devices by product, each counted once, and what their drivers publish.

One walk over nodes, pools and devices, which everything else is counted from. Pools that are not
usable are passed over, as the scheduler passes over them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra.attributes import NUMA_NODE, PCIE_ROOT, attribute_value, find_attribute, split_name
from dra.device import Attribute, Capacity, Device
from dra.inventory import Inventory, PoolCache, PoolID, is_device_for_node
from dra.names import DUAL_LABEL
from dra.nodes import Node, NodeSelectorError
from dra.quantity import Quantity
from facts.families import Family
from facts.model import Amount

# Of capacities only the first few names: what is counted per product must stay small.
MOST_CAPACITIES = 16


class ProductKey(NamedTuple):
    """What makes devices alike."""

    driver: str
    type: str
    name: str
    profile: str
    architecture: str
    shared: bool
    capacity: tuple[tuple[str, Amount], ...]


class DeviceLocation(NamedTuple):
    """Where a whole GPU or a NIC that is asked for stands; None where nothing is published."""

    kind: str
    driver: str
    root: str | None
    numa: str | None


@dataclass
class ProductCounts:
    """How many there are: each device once, each node that sees one once."""

    devices: int = 0
    nodes: int = 0
    most: int = 0
    # One device for every way the classes may look at it.
    samples: dict[object, tuple[Device, int]] = field(default_factory=dict)


@dataclass
class DriverCounts:
    """What a driver publishes."""

    devices: int = 0
    nodes: int = 0
    dual: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    capacities: set[str] = field(default_factory=set)


class NodeDevices(NamedTuple):
    """A node's devices by product, and the places of those that go together."""

    node: Node
    products: Mapping[ProductKey, int]
    places: tuple[DeviceLocation, ...]
    drivers: frozenset[str]


@dataclass
class ClusterDevices:
    """What was seen."""

    products: dict[ProductKey, ProductCounts] = field(default_factory=dict)
    drivers: dict[str, DriverCounts] = field(default_factory=dict)
    nodes: list[NodeDevices] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # nodes whose pools cannot be told


def count_devices(
    inventory: Inventory,
    nodes: tuple[Node, ...],
    known: Mapping[str, Family],
    projections: "DeviceProjections",
) -> ClusterDevices:
    """Walk over what every node sees."""
    sight, memo = ClusterDevices(), PoolCache()
    keys: dict[tuple[PoolID, str], ProductKey] = {}
    for node in nodes:
        try:
            devices = list(_devices(inventory, node, memo))
        except NodeSelectorError as error:
            sight.unreadable.append(f"{error}")
            continue
        counted: Counter[ProductKey] = Counter()
        places = []
        for pool, device in devices:
            at = (pool, device.name)
            family = known.get(pool.driver)
            if at not in keys:
                keys[at] = product_key(pool.driver, device, family)
                _count(sight, pool.driver, device, keys[at], projections)
            counted[keys[at]] += 1
            if family and (place := device_location(pool.driver, device, family)):
                places.append(place)
        _told(sight, node, counted, tuple(places))
    return sight


class DeviceProjections:
    """What classes look at; devices with equal projections are the same to all of them."""

    def project(self, driver: str, device: Device) -> object:
        """The projection of a device."""
        raise NotImplementedError


def _devices(inventory: Inventory, node: Node, memo: PoolCache) -> Iterator[tuple[PoolID, Device]]:
    for pool in inventory.pools_for(node, memo):
        for each, device in pool.devices():
            if is_device_for_node(each, device, node):
                yield pool.id, device


def _count(
    sight: ClusterDevices,
    driver: str,
    device: Device,
    key: ProductKey,
    projections: DeviceProjections,
) -> None:
    tally = sight.products.setdefault(key, ProductCounts())
    tally.devices += 1
    projection = projections.project(driver, device)
    sample, count = tally.samples.get(projection, (device, 0))
    tally.samples[projection] = (sample, count + 1)
    published = sight.drivers.setdefault(driver, DriverCounts())
    published.devices += 1
    for name, attribute in device.attributes.items():
        full = "/".join(split_name(name, driver))
        if full not in published.attributes:
            published.attributes[full] = attribute_type(attribute)
    published.capacities.update("/".join(split_name(name, driver)) for name in device.capacity)


def _told(
    sight: ClusterDevices,
    node: Node,
    counted: Mapping[ProductKey, int],
    places: tuple[DeviceLocation, ...],
) -> None:
    for key, count in counted.items():
        tally = sight.products[key]
        tally.nodes += 1
        tally.most = max(tally.most, count)
    drivers = frozenset(key.driver for key in counted)
    for driver in drivers:
        sight.drivers[driver].nodes += 1
        sight.drivers[driver].dual += DUAL_LABEL in node.labels
    sight.nodes.append(NodeDevices(node, counted, places, drivers))


def product_key(driver: str, device: Device, family: Family | None) -> ProductKey:
    """Say what a device is alike in with others."""
    words = family or Family("", driver, (), type="type", name="productName", profile="profile")
    kind = attribute_text(device, driver, words.type)
    if words.required_attribute:
        kind = (
            words.required_attribute
            if attribute_text(device, driver, words.required_attribute) == "true"
            else ""
        )
    return ProductKey(
        driver,
        kind,
        attribute_text(device, driver, words.name),
        attribute_text(device, driver, words.profile),
        attribute_text(device, driver, words.architecture),
        device.allow_multiple_allocations,
        _capacity(device),
    )


def device_location(driver: str, device: Device, family: Family) -> DeviceLocation | None:
    """Say where a device stands if it is one that is asked for together with others."""
    if family.whole_types and attribute_text(device, driver, family.type) not in family.whole_types:
        return None
    if (
        family.required_attribute
        and attribute_text(device, driver, family.required_attribute) != "true"
    ):
        return None
    root, numa = (_standard(device, driver, name) for name in (PCIE_ROOT, NUMA_NODE))
    return DeviceLocation(family.kind, driver, root, numa)


def _standard(device: Device, driver: str, name: str) -> str | None:
    attribute = find_attribute(device, driver, name)
    held = attribute_value(attribute) if attribute else None
    # Of a list the first is the device's own, the others are near.
    first = held[0] if isinstance(held, tuple) and held else held
    return None if first is None or first == () else f"{first}"


def attribute_text(device: Device, driver: str, name: str) -> str:
    """Give an attribute as text; nothing where it is not published."""
    if not name:
        return ""
    full = name if "/" in name else f"{driver}/{name}"
    attribute = find_attribute(device, driver, full)
    held = attribute_value(attribute) if attribute else None
    if isinstance(held, bool):
        return "true" if held else "false"
    return "" if held is None or isinstance(held, tuple) else f"{held}"


def attribute_type(attribute: Attribute) -> str:
    """Name the type of an attribute as its field in the API does."""
    names = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
    for name, member in zip(names, Attribute.__struct_fields__, strict=True):
        if getattr(attribute, member) is not None:
            return name
    return ""


def _capacity(device: Device) -> tuple[tuple[str, Amount], ...]:
    named = sorted(device.capacity.items())[:MOST_CAPACITIES]
    return tuple((name, _amount(capacity)) for name, capacity in named)


def _amount(capacity: Capacity) -> Amount:
    policy = capacity.request_policy
    if policy is None:
        return Amount(capacity.value.canonical())
    allowed = policy.valid_range
    values = sorted(policy.valid_values)
    return Amount(
        capacity.value.canonical(),
        default=_said(policy.default),
        least=_said(allowed.min if allowed else (values[0] if values else None)),
        most=_said(allowed.max if allowed else (values[-1] if values else None)),
        step=_said(allowed.step if allowed else None),
    )


def _said(quantity: Quantity | None) -> str:
    return "" if quantity is None else quantity.canonical()
