"""What the nodes see: devices by product, each counted once, and what their drivers publish.

One walk over nodes, pools and devices, which everything else is counted from. Pools that are not
usable are passed over, as the scheduler passes over them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra.attributes import NUMA_NODE, PCIE_ROOT, lookup, split, value
from dra.device import Attribute, Capacity, Device
from dra.inventory import Inventory, Memo, PoolID, device_selected
from dra.names import DUAL_LABEL
from dra.nodes import Node, NodeSelectorError
from dra.quantity import Quantity
from facts.families import Family
from facts.model import Amount

# Of capacities only the first few names: what is counted per product must stay small.
MOST_CAPACITIES = 16


class Key(NamedTuple):
    """What makes devices alike."""

    driver: str
    type: str
    name: str
    profile: str
    architecture: str
    shared: bool
    capacity: tuple[tuple[str, Amount], ...]


class Place(NamedTuple):
    """Where a whole GPU or a NIC that is asked for stands; None where nothing is published."""

    kind: str
    driver: str
    root: str | None
    numa: str | None


@dataclass
class Tally:
    """How many there are: each device once, each node that sees one once."""

    devices: int = 0
    nodes: int = 0
    most: int = 0
    # One device for every way the classes may look at it.
    samples: dict[object, tuple[Device, int]] = field(default_factory=dict)


@dataclass
class Published:
    """What a driver publishes."""

    devices: int = 0
    nodes: int = 0
    dual: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    capacities: set[str] = field(default_factory=set)


class Sighting(NamedTuple):
    """A node's devices by product, and the places of those that go together."""

    node: Node
    products: Mapping[Key, int]
    places: tuple[Place, ...]
    drivers: frozenset[str]


@dataclass
class Sight:
    """What was seen."""

    products: dict[Key, Tally] = field(default_factory=dict)
    drivers: dict[str, Published] = field(default_factory=dict)
    nodes: list[Sighting] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)  # nodes whose pools cannot be told


def look(
    inventory: Inventory,
    nodes: tuple[Node, ...],
    known: Mapping[str, Family],
    projections: "Projections",
) -> Sight:
    """Walk over what every node sees."""
    sight, memo = Sight(), Memo()
    keys: dict[tuple[PoolID, str], Key] = {}
    for node in nodes:
        try:
            devices = list(_devices(inventory, node, memo))
        except NodeSelectorError as error:
            sight.blind.append(f"{error}")
            continue
        counted: Counter[Key] = Counter()
        places = []
        for pool, device in devices:
            at = (pool, device.name)
            family = known.get(pool.driver)
            if at not in keys:
                keys[at] = key_of(pool.driver, device, family)
                _count(sight, pool.driver, device, keys[at], projections)
            counted[keys[at]] += 1
            if family and (place := place_of(pool.driver, device, family)):
                places.append(place)
        _told(sight, node, counted, tuple(places))
    return sight


class Projections:
    """What classes look at; devices with equal projections are the same to all of them."""

    def of(self, driver: str, device: Device) -> object:
        """The projection of a device."""
        raise NotImplementedError


def _devices(inventory: Inventory, node: Node, memo: Memo) -> Iterator[tuple[PoolID, Device]]:
    for pool in inventory.pools_for(node, memo):
        for each, device in pool.devices():
            if device_selected(each, device, node):
                yield pool.id, device


def _count(sight: Sight, driver: str, device: Device, key: Key, projections: Projections) -> None:
    tally = sight.products.setdefault(key, Tally())
    tally.devices += 1
    projection = projections.of(driver, device)
    sample, count = tally.samples.get(projection, (device, 0))
    tally.samples[projection] = (sample, count + 1)
    published = sight.drivers.setdefault(driver, Published())
    published.devices += 1
    for name, attribute in device.attributes.items():
        full = "/".join(split(name, driver))
        if full not in published.attributes:
            published.attributes[full] = type_of(attribute)
    published.capacities.update("/".join(split(name, driver)) for name in device.capacity)


def _told(sight: Sight, node: Node, counted: Mapping[Key, int], places: tuple[Place, ...]) -> None:
    for key, count in counted.items():
        tally = sight.products[key]
        tally.nodes += 1
        tally.most = max(tally.most, count)
    drivers = frozenset(key.driver for key in counted)
    for driver in drivers:
        sight.drivers[driver].nodes += 1
        sight.drivers[driver].dual += DUAL_LABEL in node.labels
    sight.nodes.append(Sighting(node, counted, places, drivers))


def key_of(driver: str, device: Device, family: Family | None) -> Key:
    """Say what a device is alike in with others."""
    words = family or Family("", driver, (), type="type", name="productName", profile="profile")
    kind = text_of(device, driver, words.type)
    if words.asked:
        kind = words.asked if text_of(device, driver, words.asked) == "true" else ""
    return Key(
        driver,
        kind,
        text_of(device, driver, words.name),
        text_of(device, driver, words.profile),
        text_of(device, driver, words.architecture),
        device.allow_multiple_allocations,
        _capacity(device),
    )


def place_of(driver: str, device: Device, family: Family) -> Place | None:
    """Say where a device stands if it is one that is asked for together with others."""
    if family.whole and text_of(device, driver, family.type) not in family.whole:
        return None
    if family.asked and text_of(device, driver, family.asked) != "true":
        return None
    root, numa = (_standard(device, driver, name) for name in (PCIE_ROOT, NUMA_NODE))
    return Place(family.kind, driver, root, numa)


def _standard(device: Device, driver: str, name: str) -> str | None:
    attribute = lookup(device, driver, name)
    held = value(attribute) if attribute else None
    # Of a list the first is the device's own, the others are near.
    first = held[0] if isinstance(held, tuple) and held else held
    return None if first is None or first == () else f"{first}"


def text_of(device: Device, driver: str, name: str) -> str:
    """Give an attribute as text; nothing where it is not published."""
    if not name:
        return ""
    full = name if "/" in name else f"{driver}/{name}"
    attribute = lookup(device, driver, full)
    held = value(attribute) if attribute else None
    if isinstance(held, bool):
        return "true" if held else "false"
    return "" if held is None or isinstance(held, tuple) else f"{held}"


def type_of(attribute: Attribute) -> str:
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
