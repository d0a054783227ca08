"""Objects and configuration to Facts: a pure function, however the objects are ordered.

Puts the tables together and keeps each within its share of the room. Knows nothing of where
objects come from.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from config.model import Configuration
from dra.classes import DeviceClass
from dra.finding import Finding
from dra.gates import DEFAULTS, Gates
from dra.inventory import build_inventory
from dra.nodes import Node
from dra.slices import Slice
from facts import codes
from facts.device_counts import ClusterDevices, DriverCounts, ProductKey, count_devices
from facts.families import Family, known_families
from facts.model import (
    ClassFacts,
    Cluster,
    Driver,
    Facts,
    FactsPart,
    NodeShape,
    Product,
    ResourceFacts,
)
from facts.served_names import (
    DualNode,
    class_table,
    compile_classes,
    count_selected,
    find_dual_nodes,
    name_table,
)
from facts.shapes import shape_table

# Bytes of each table, as JSON; together with the rest they stay below 256 KiB.
ROOM: Final = {
    "classes": 40_000,
    "names": 40_000,
    "products": 70_000,
    "drivers": 50_000,
    "shapes": 40_000,
}
# Of one driver; a device has at most 32 of both, so more are of no common driver.
_MOST_ATTRIBUTES: Final = 200
# Which gate keeps a field of a claim, by where the field is.
KEPT_BY: Final = {
    "exactly.adminAccess": "admin_access",
    "firstAvailable": "prioritized_list",
    "exactly.tolerations": "device_taints",
    "exactly.capacity": "consumable_capacity",
    "constraints.distinctAttribute": "consumable_capacity",
    "exactly.derivedAttributes": "derived_attributes",
}

R = TypeVar("R", bound=FactsPart)


class FactsInput(NamedTuple):
    """What facts are made of."""

    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    nodes: tuple[Node, ...] = ()


class GatheredFacts(NamedTuple):
    """The facts, and what could not be told."""

    facts: Facts
    findings: tuple[Finding, ...] = ()
    # Nodes are no part of the facts; who labels them needs their names.
    dual_nodes: tuple[DualNode, ...] = ()


def gather_facts(
    objects: FactsInput,
    configuration: Configuration | None = None,
    gates: Gates = DEFAULTS,
    keeps: Iterable[str] | None = None,
) -> GatheredFacts:
    """Count everything; `keeps` is what was probed of the API server, instead of by its gates."""
    known = known_families(configuration or Configuration())
    classes, looks = compile_classes(objects.classes, gates)
    nodes = _nodes(objects)
    sight = count_devices(build_inventory(objects.slices, gates=gates), nodes, known, looks)
    counted = count_selected(sight, classes)
    doubled = find_dual_nodes(sight.nodes, classes, counted, known)
    names = name_table(nodes, classes, doubled)
    omitted: dict[str, int] = {}
    facts = Facts(
        cluster=_cluster(gates, keeps),
        classes=_fitted(class_table(classes, counted), "classes", _of_class, omitted),
        names=_fitted(names, "names", _of_name, omitted),
        products=_fitted(_products(sight, counted), "products", _of_product, omitted),
        drivers=_fitted(_drivers(sight, known, omitted), "drivers", _of_driver, omitted),
        shapes=_fitted(shape_table(sight.nodes), "shapes", _of_shape, omitted),
    )
    facts = msgspec.structs.replace(facts, omitted=dict(sorted(omitted.items())))
    return GatheredFacts(facts, _findings(sight, omitted), doubled)


def _nodes(objects: FactsInput) -> tuple[Node, ...]:
    """The nodes by name; a slice may be for one that is not among the objects."""
    nodes = {node.name: node for node in objects.nodes}
    for each in objects.slices:
        names = [each.node_name, *(device.node_name for device in each.devices)]
        for name in filter(None, names):
            nodes.setdefault(name, Node(name))
    return tuple(nodes[name] for name in sorted(nodes))


def _cluster(gates: Gates, keeps: Iterable[str] | None) -> Cluster:
    fields = Gates.__struct_fields__
    on = tuple(sorted(field for field in fields if getattr(gates, field) is True))
    kept = (field for field, gate in KEPT_BY.items() if getattr(gates, gate))
    return Cluster(gates.version, gates=on, keeps=tuple(sorted(kept if keeps is None else keeps)))


def _products(sight: ClusterDevices, counted: Mapping[str, Counter[ProductKey]]) -> list[Product]:
    return [
        Product(
            key.driver,
            type=key.type,
            name=key.name,
            profile=key.profile,
            architecture=key.architecture,
            shared=key.shared,
            capacity=dict(key.capacity),
            classes=tuple(sorted(name for name, found in counted.items() if key in found)),
            devices=tally.devices,
            nodes=tally.nodes,
            most=tally.most,
        )
        for key, tally in sight.products.items()
    ]


def _drivers(
    sight: ClusterDevices, known: Mapping[str, Family], omitted: dict[str, int]
) -> list[Driver]:
    return [
        _driver(name, each, known[name].kind if name in known else "", omitted)
        for name, each in sorted(sight.drivers.items())
    ]


def _driver(name: str, published: DriverCounts, kind: str, omitted: dict[str, int]) -> Driver:
    attributes = dict(sorted(published.attributes.items())[:_MOST_ATTRIBUTES])
    capacities = tuple(sorted(published.capacities)[:_MOST_ATTRIBUTES])
    left = len(published.attributes) + len(published.capacities)
    if left := left - len(attributes) - len(capacities):
        omitted["attributes"] = omitted.get("attributes", 0) + left
    return Driver(
        name,
        kind=kind,
        devices=published.devices,
        nodes=published.nodes,
        dual=published.dual,
        attributes=attributes,
        capacities=capacities,
    )


def _of_class(row: ClassFacts) -> int:
    return row.devices


def _of_name(row: ResourceFacts) -> int:
    return row.nodes + (1 << 30 if row.classes else 0)


def _of_product(row: Product) -> int:
    return row.devices


def _of_driver(row: Driver) -> int:
    return row.devices


def _of_shape(row: NodeShape) -> int:
    return row.nodes


def _fitted(
    rows: Iterable[R], table: str, weight: Callable[[R], int], omitted: dict[str, int]
) -> tuple[R, ...]:
    """Take the weightiest rows that find room, and sort what was taken by what it says."""
    # In the order of its fields, so that a table is sorted by what its rows are called.
    encoded = sorted(((msgspec.json.encode(row), row) for row in rows), key=_said)
    taken, room = [], ROOM[table]
    for text, row in sorted(encoded, key=lambda each: -weight(each[1])):
        if len(text) >= room:
            omitted[table] = omitted.get(table, 0) + 1
            continue
        room -= len(text) + 1
        taken.append((text, row))
    return tuple(row for _, row in sorted(taken, key=_said))


def _said(each: tuple[bytes, object]) -> bytes:
    return each[0]


def _findings(sight: ClusterDevices, omitted: Mapping[str, int]) -> tuple[Finding, ...]:
    found = [
        codes.NODES_UNREADABLE.at("", f"on {count} nodes {error}")
        for error, count in sorted(Counter(sight.unreadable).items())
    ]
    for table, count in sorted(omitted.items()):
        message = f"{table} has no room for {count} more rows"
        found.append(codes.FACTS_CUT.at(table, message, object="Facts"))
    return tuple(found)
