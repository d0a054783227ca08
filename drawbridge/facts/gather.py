"""Compute Facts from API objects and the Configuration.

A pure function. The result does not depend on the order of the objects. Each table of the facts
has a size limit; rows beyond the limit are omitted and reported as findings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools, selecting_entries
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.counted import count_noun
from drawbridge.dra.gates import DEFAULTS, Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts import codes
from drawbridge.facts.closed_classes import mark_closed_classes
from drawbridge.facts.device_counts import ClusterDevices, DriverCounts, ProductKey, count_devices
from drawbridge.facts.families import GPU, Family, find_own_numa, known_families
from drawbridge.facts.model import (
    DERIVED_FIELD,
    ClassFacts,
    Cluster,
    Driver,
    Facts,
    FactsPart,
    NetworkFacts,
    NodeOffer,
    NodeShape,
    PartitionPolicy,
    Product,
    ResourceFacts,
)
from drawbridge.facts.networks import network_table
from drawbridge.facts.offers import offer_table
from drawbridge.facts.served_names import (
    DualNode,
    class_table,
    compile_classes,
    count_selected,
    find_dual_nodes,
    name_table,
)
from drawbridge.facts.shapes import shape_table
from drawbridge.finding import Finding

# Size limit of each table in bytes of JSON. All tables together stay below 256 KiB.
MAX_TABLE_BYTES: Final = {
    "classes": 40_000,
    "names": 40_000,
    "products": 60_000,
    "drivers": 45_000,
    "shapes": 40_000,
    "offers": 20_000,
    "networks": 10_000,
}
# Per driver. A device has at most 32 attributes and capacities.
_MAX_ATTRIBUTES: Final = 200
# The feature gate of each optional field of a claim, by the path of the field in a request.
GATE_OF_FIELD: Final = {
    "exactly.adminAccess": "admin_access",
    "firstAvailable": "prioritized_list",
    "exactly.tolerations": "device_taints",
    "exactly.capacity": "consumable_capacity",
    "constraints.distinctAttribute": "consumable_capacity",
    DERIVED_FIELD: "derived_attributes",
}

R = TypeVar("R", bound=FactsPart)


class FactsInput(NamedTuple):
    """The API objects that facts are computed from."""

    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    networks: tuple[NetworkFacts, ...] = ()


class GatheredFacts(NamedTuple):
    """The computed facts, and findings about objects that could not be evaluated."""

    facts: Facts
    findings: tuple[Finding, ...] = ()
    # Not part of the facts: the controller labels these nodes.
    dual_nodes: tuple[DualNode, ...] = ()


def gather_facts(
    objects: FactsInput,
    configuration: Configuration | None = None,
    gates: Gates = DEFAULTS,
    keeps: Iterable[str] | None = None,
) -> GatheredFacts:
    """Compute the facts.

    `keeps` lists the claim fields that the API server stores, as probed. Without it, the feature
    gates decide.
    """
    configuration = configuration or Configuration()
    families = known_families(configuration)
    classes, projections = compile_classes(objects.classes, gates)
    nodes = _nodes(objects)
    inventory = build_inventory(objects.slices, gates=gates)
    cluster = count_devices(inventory, nodes, families, projections)
    counted = count_selected(cluster, classes)
    dual_nodes = find_dual_nodes(cluster.nodes, classes, counted, families)
    names = name_table(nodes, classes if gates.extended_resource else (), dual_nodes)
    offers = offer_table(nodes, cluster.nodes, counted, dual_nodes, configuration.legacy)
    networks = network_table(objects.networks)
    rows = class_table(classes, counted, _count_owned(cluster, configuration))
    rows = mark_closed_classes(rows, configuration.fleet, nodes, inventory, cluster, families)
    omitted: dict[str, int] = {}
    server = describe_cluster(gates, keeps)
    shapes = shape_table(cluster.nodes, _list_own_numa(cluster, families, server))
    facts = Facts(
        cluster=server,
        classes=_fit(rows, "classes", _class_weight, omitted),
        names=_fit(names, "names", _resource_weight, omitted),
        products=_fit(_products(cluster, counted), "products", _product_weight, omitted),
        drivers=_fit(_drivers(cluster, families, omitted), "drivers", _driver_weight, omitted),
        shapes=_fit(shapes, "shapes", _shape_weight, omitted),
        offers=_fit(offers, "offers", _offer_weight, omitted),
        networks=_fit(networks, "networks", lambda row: -networks[row], omitted),
    )
    facts = msgspec.structs.replace(facts, omitted=dict(sorted(omitted.items())))
    return GatheredFacts(facts, _findings(cluster, omitted), dual_nodes)


def _nodes(objects: FactsInput) -> tuple[Node, ...]:
    """Return the nodes by name, including nodes that only slices refer to."""
    nodes = {node.name: node for node in objects.nodes}
    for slice_ in objects.slices:
        names = [slice_.node_name, *(device.node_name for device in slice_.devices)]
        for name in filter(None, names):
            nodes.setdefault(name, Node(name))
    return tuple(nodes[name] for name in sorted(nodes))


def describe_cluster(gates: Gates, keeps: Iterable[str] | None = None) -> Cluster:
    """Return version, gates and stored claim fields; without `keeps`, the gates decide."""
    fields = Gates.__struct_fields__
    on = tuple(sorted(field for field in fields if getattr(gates, field) is True))
    kept = (field for field, gate in GATE_OF_FIELD.items() if getattr(gates, gate))
    return Cluster(gates.version, gates=on, keeps=tuple(sorted(kept if keeps is None else keeps)))


def _list_own_numa(
    cluster: ClusterDevices, families: Mapping[str, Family], server: Cluster
) -> tuple[str, ...]:
    """Return the drivers whose NUMA nodes only a derived attribute can compare."""
    if DERIVED_FIELD not in server.keeps:
        return ()
    published = ((name, counts.attributes) for name, counts in cluster.drivers.items())
    return tuple(n for n, found in published if n in families and find_own_numa(families[n], found))


def _count_owned(cluster: ClusterDevices, configuration: Configuration) -> Counter[ProductKey]:
    """Count the devices of owned drivers on owned nodes, by product."""
    pools, owned = owned_pools(configuration), Counter[ProductKey]()
    for devices in cluster.nodes if pools else ():
        entries = selecting_entries(pools, devices.node.labels)
        drivers = {str(pools[i].driver) for i in entries}
        for product, count in devices.products.items():
            if product.driver in drivers:
                owned[product] += count
    return owned


def _products(cluster: ClusterDevices, counted: Mapping[str, Counter[ProductKey]]) -> list[Product]:
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
        for key, tally in cluster.products.items()
    ]


def _drivers(
    cluster: ClusterDevices, families: Mapping[str, Family], omitted: dict[str, int]
) -> list[Driver]:
    return [
        _driver(name, published, families[name].kind if name in families else "", omitted)
        for name, published in sorted(cluster.drivers.items())
    ]


def _driver(name: str, published: DriverCounts, kind: str, omitted: dict[str, int]) -> Driver:
    attributes = dict(sorted(published.attributes.items())[:_MAX_ATTRIBUTES])
    capacities = tuple(sorted(published.capacities)[:_MAX_ATTRIBUTES])
    total = len(published.attributes) + len(published.capacities)
    if dropped := total - len(attributes) - len(capacities):
        omitted["attributes"] = omitted.get("attributes", 0) + dropped
    return Driver(
        name,
        kind=kind,
        devices=published.devices,
        nodes=published.nodes,
        dual=published.dual,
        attributes=attributes,
        capacities=capacities,
        partition_policy=_find_partition_policy(published, kind),
    )


def _find_partition_policy(published: DriverCounts, kind: str) -> PartitionPolicy:
    if kind != GPU or not published.honoring:
        return PartitionPolicy.PREFER
    honored = published.honoring == published.nodes
    return PartitionPolicy.HONOR if honored else PartitionPolicy.MIXED


def _class_weight(row: ClassFacts) -> int:
    return row.devices


def _resource_weight(row: ResourceFacts) -> int:
    return row.nodes + (1 << 30 if row.classes else 0)


def _product_weight(row: Product) -> int:
    return row.devices


def _driver_weight(row: Driver) -> int:
    return row.devices


def _shape_weight(row: NodeShape) -> int:
    return row.nodes


def _offer_weight(row: NodeOffer) -> int:
    return row.nodes


def _fit(
    rows: Iterable[R], table: str, weight: Callable[[R], int], omitted: dict[str, int]
) -> tuple[R, ...]:
    """Return the rows with the highest weight that fit into the table, sorted by content."""
    # The encoding keeps the order of the fields, so rows sort by driver or name first.
    encoded = sorted(((msgspec.json.encode(row), row) for row in rows), key=_encoding)
    kept, free = [], MAX_TABLE_BYTES[table]
    for text, row in sorted(encoded, key=lambda each: -weight(each[1])):
        if len(text) >= free:
            omitted[table] = omitted.get(table, 0) + 1
            continue
        free -= len(text) + 1
        kept.append((text, row))
    return tuple(row for _, row in sorted(kept, key=_encoding))


def _encoding(pair: tuple[bytes, object]) -> bytes:
    return pair[0]


def _findings(cluster: ClusterDevices, omitted: Mapping[str, int]) -> tuple[Finding, ...]:
    findings = [
        codes.NODE_POOLS_UNREADABLE.at(
            "", f"cannot determine the pools of {count_noun(count, 'node')}: {error}"
        )
        for error, count in sorted(Counter(cluster.unreadable).items())
    ]
    for table, count in sorted(omitted.items()):
        message = f"table {table} is full: {count_noun(count, 'row')} omitted"
        findings.append(codes.FACTS_CUT.at(table, message, object="Facts"))
    return tuple(findings)
