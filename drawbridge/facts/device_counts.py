"""Count the devices of a cluster by product, driver and node.

Iterates once over nodes, pools and devices. All tables of the facts are derived from the result.
Skips pools that are not usable, as the scheduler does.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drawbridge.dra.attributes import (
    NUMA_NODE,
    PCIE_ROOT,
    attribute_value,
    find_attribute,
    split_name,
)
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.families import Family
from drawbridge.dra.inventory import Inventory, PoolCache, PoolID, is_device_for_node
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.dra.quantity import Quantity
from drawbridge.facts.model import Amount

# Capacities per product. Further capacities are ignored to bound the size of a product.
MAX_CAPACITIES = 16
# Of so many nodes, what one says can be true of half of them.
_FEW_NODES = 2
# Behind every place that a node can give.
MAX_PLACE = 1 << 30
# Koordinator allocates only GPUs of one partition on nodes with this label.
_PARTITION_POLICY = "node.koordinator.sh/gpu-partition-policy"
_HONOR = "Honor"


class ProductKey(NamedTuple):
    """The properties that two devices of the same product have in common."""

    driver: str
    type: str
    name: str
    profile: str
    architecture: str
    shared: bool
    capacity: tuple[tuple[str, Amount], ...]


class DeviceLocation(NamedTuple):
    """PCIe root and NUMA node of a GPU or NIC; None if the driver does not publish them.

    `own_numa` is the NUMA node by the driver's own attribute.
    """

    kind: str
    driver: str
    root: str | None
    numa: str | None
    own_numa: str | None = None


@dataclass
class ProductCounts:
    """The number of devices of a product, and of nodes that can use at least one of them."""

    devices: int = 0
    nodes: int = 0
    most: int = 0  # devices on one node
    place: int = MAX_PLACE  # among the products of a node, the one with most devices first
    # One device, and the number of devices, for each distinct projection.
    samples: dict[object, tuple[Device, int]] = field(default_factory=dict)


@dataclass
class DriverCounts:
    """Devices, nodes, attributes and capacities of one driver."""

    devices: int = 0
    nodes: int = 0
    honoring: int = 0  # nodes on which Koordinator honors GPU partitions
    place: int = MAX_PLACE  # among the drivers of a node, the one with most devices first
    # The nodes that publish an attribute, by full name and type, and a capacity.
    attributes: dict[str, Counter[str]] = field(default_factory=dict)
    capacities: Counter[str] = field(default_factory=Counter)


class NodeDevices(NamedTuple):
    """The devices that a node can use, by product, and the locations of its GPUs and NICs."""

    node: Node
    products: Mapping[ProductKey, int]
    locations: tuple[DeviceLocation, ...]
    drivers: frozenset[str]


@dataclass
class ClusterDevices:
    """The counts of the whole cluster."""

    products: dict[ProductKey, ProductCounts] = field(default_factory=dict)
    drivers: dict[str, DriverCounts] = field(default_factory=dict)
    nodes: list[NodeDevices] = field(default_factory=list)
    # One error for each node whose pools cannot be determined.
    unreadable: list[str] = field(default_factory=list)
    # The number of devices of each slice that some node can use, by name of the slice.
    used_devices: Counter[str] = field(default_factory=Counter)


def count_devices(
    inventory: Inventory,
    nodes: tuple[Node, ...],
    families: Mapping[str, Family],
    projections: "DeviceProjections",
) -> ClusterDevices:
    """Count the devices that each node can use."""
    cluster, pool_cache = ClusterDevices(), PoolCache()
    keys: dict[tuple[PoolID, str], ProductKey] = {}
    published = _PublishedNames()
    for node in nodes:
        try:
            devices = list(_devices(inventory, node, pool_cache))
        except NodeSelectorError as error:
            cluster.unreadable.append(f"{error}")
            continue
        counted: Counter[ProductKey] = Counter()
        locations = []
        for pool, slice_name, device in devices:
            at = (pool, device.name)
            family = families.get(pool.driver)
            if at not in keys:
                keys[at] = product_key(pool.driver, device, family)
                cluster.used_devices[slice_name] += 1
                _count_device(cluster, pool.driver, device, keys[at], projections)
            counted[keys[at]] += 1
            published.add(pool.driver, device)
            if family and (location := device_location(pool.driver, device, family)):
                locations.append(location)
        _count_node(cluster, node, counted, tuple(locations))
        published.count(cluster.drivers)
    return cluster


def nearly_all(count: int, total: int) -> bool:
    """Whether a number of nodes is most of them, and lacks one node or a tenth at most.

    So no single node decides what holds for all others.
    """
    return 2 * count > total and total - count <= max(1, total // 10)


def is_single(count: int, total: int) -> bool:
    """Whether one node alone says something, of more than two that could say it."""
    return count == 1 and total > _FEW_NODES


class _PublishedNames:
    """Which attributes and capacities the devices of one node have, by driver."""

    def __init__(self) -> None:
        self._attributes: dict[str, dict[str, str]] = {}  # with the type of the first device
        self._capacities: dict[str, set[str]] = {}

    def add(self, driver: str, device: Device) -> None:
        """Add a device of the node."""
        types = self._attributes.setdefault(driver, {})
        for name, attribute in device.attributes.items():
            if name not in types:
                types[name] = attribute_type(attribute)
        self._capacities.setdefault(driver, set()).update(device.capacity)

    def count(self, drivers: Mapping[str, DriverCounts]) -> None:
        """Count the node for what it has, and begin with the next one."""
        for driver, types in self._attributes.items():
            counts = drivers[driver].attributes
            full = {"/".join(split_name(name, driver)): type_ for name, type_ in types.items()}
            for name, type_ in full.items():
                counts.setdefault(name, Counter())[type_] += 1
        for driver, capacities in self._capacities.items():
            names = {"/".join(split_name(name, driver)) for name in capacities}
            drivers[driver].capacities.update(names)
        self._attributes.clear()
        self._capacities.clear()


class DeviceProjections:
    """The attributes that DeviceClasses read.

    All classes treat devices with equal projections alike.
    """

    def project(self, driver: str, device: Device) -> object:
        """Return the projection of a device."""
        raise NotImplementedError


def _devices(
    inventory: Inventory, node: Node, pool_cache: PoolCache
) -> Iterator[tuple[PoolID, str, Device]]:
    for pool in inventory.pools_for(node, pool_cache):
        for member, device in pool.devices():
            if is_device_for_node(member, device, node):
                yield pool.id, member.name, device


def _count_device(
    cluster: ClusterDevices,
    driver: str,
    device: Device,
    key: ProductKey,
    projections: DeviceProjections,
) -> None:
    counts = cluster.products.setdefault(key, ProductCounts())
    counts.devices += 1
    projection = projections.project(driver, device)
    sample, count = counts.samples.get(projection, (device, 0))
    counts.samples[projection] = (sample, count + 1)
    cluster.drivers.setdefault(driver, DriverCounts()).devices += 1


def _count_node(
    cluster: ClusterDevices,
    node: Node,
    counted: Mapping[ProductKey, int],
    locations: tuple[DeviceLocation, ...],
) -> None:
    drivers: Counter[str] = Counter()
    for place, (key, count) in enumerate(sorted(counted.items(), key=_most_devices)):
        counts = cluster.products[key]
        counts.nodes += 1
        counts.most = max(counts.most, count)
        counts.place = min(counts.place, place)
        drivers[key.driver] += count
    for place, (driver, _) in enumerate(sorted(drivers.items(), key=_most_devices)):
        of_driver = cluster.drivers[driver]
        of_driver.nodes += 1
        of_driver.place = min(of_driver.place, place)
        of_driver.honoring += node.labels.get(_PARTITION_POLICY) == _HONOR
    cluster.nodes.append(NodeDevices(node, counted, locations, frozenset(drivers)))


def _most_devices(counted: tuple[str | ProductKey, int]) -> tuple[int, str]:
    key, count = counted
    return -count, f"{key}"  # amounts have no order


def product_key(driver: str, device: Device, family: Family | None) -> ProductKey:
    """Return the product key of a device."""
    attributes = family or Family(
        "", driver, (), type="type", name="productName", profile="profile"
    )
    kind = attribute_text(device, driver, attributes.type)
    if attributes.required_attribute:
        kind = (
            attributes.required_attribute
            if attribute_text(device, driver, attributes.required_attribute) == "true"
            else ""
        )
    return ProductKey(
        driver,
        kind,
        attribute_text(device, driver, attributes.name),
        attribute_text(device, driver, attributes.profile),
        attribute_text(device, driver, attributes.architecture),
        device.allow_multiple_allocations,
        _capacity(device),
    )


def device_location(driver: str, device: Device, family: Family) -> DeviceLocation | None:
    """Return the location of a whole GPU or an RDMA NIC; None for other devices."""
    if family.whole_types and attribute_text(device, driver, family.type) not in family.whole_types:
        return None
    if (
        family.required_attribute
        and attribute_text(device, driver, family.required_attribute) != "true"
    ):
        return None
    root, numa = (_standard(device, driver, name) for name in (PCIE_ROOT, NUMA_NODE))
    own = attribute_text(device, driver, family.numa) if numa is None else ""
    # Negative numbers stand for no NUMA node.
    return DeviceLocation(family.kind, driver, root, numa, own if own.isdecimal() else None)


def _standard(device: Device, driver: str, name: str) -> str | None:
    attribute = find_attribute(device, driver, name)
    value = attribute_value(attribute) if attribute else None
    # The first entry of a list belongs to the device itself.
    first = value[0] if isinstance(value, tuple) and value else value
    return None if first is None or first == () else f"{first}"


def attribute_text(device: Device, driver: str, name: str) -> str:
    """Return an attribute as a string; empty if the device does not publish it."""
    if not name:
        return ""
    full = name if "/" in name else f"{driver}/{name}"
    attribute = find_attribute(device, driver, full)
    value = attribute_value(attribute) if attribute else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, tuple) else f"{value}"


def attribute_type(attribute: Attribute) -> str:
    """Return the type of an attribute, named as in the API."""
    names = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
    for name, member in zip(names, Attribute.__struct_fields__, strict=True):
        if getattr(attribute, member) is not None:
            return name
    return ""


def _capacity(device: Device) -> tuple[tuple[str, Amount], ...]:
    named = sorted(device.capacity.items())[:MAX_CAPACITIES]
    return tuple((name, _amount(capacity)) for name, capacity in named)


def _amount(capacity: Capacity) -> Amount:
    policy = capacity.request_policy
    if policy is None:
        return Amount(capacity.value.canonical())
    allowed = policy.valid_range
    values = sorted(policy.valid_values)
    return Amount(
        capacity.value.canonical(),
        default=_canonical(policy.default),
        least=_canonical(allowed.min if allowed else (values[0] if values else None)),
        most=_canonical(allowed.max if allowed else (values[-1] if values else None)),
        step=_canonical(allowed.step if allowed else None),
    )


def _canonical(quantity: Quantity | None) -> str:
    return "" if quantity is None else quantity.canonical()
