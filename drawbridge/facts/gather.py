"""Compute Facts from API objects and the Configuration.

A pure function. The result does not depend on the order of the objects. Each table of the facts
has a size limit; rows beyond the limit are omitted and reported as findings.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter, neg
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools, selecting_entries
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.counted import count_noun
from drawbridge.dra.families import GPU, Family, find_own_numa
from drawbridge.dra.gates import DEFAULTS, Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts import codes
from drawbridge.facts.closed_classes import mark_closed_classes
from drawbridge.facts.device_counts import (
    ClusterDevices,
    DriverCounts,
    ProductKey,
    count_devices,
    is_single,
    nearly_all,
)
from drawbridge.facts.families import known_families
from drawbridge.facts.model import (
    DERIVED_FIELD,
    GATE_OF_FIELD,
    ClassFacts,
    Cluster,
    Driver,
    Facts,
    FactsPart,
    NetworkFacts,
    NodeOffer,
    PartitionPolicy,
    Product,
    ResourceFacts,
)
from drawbridge.facts.networks import network_table
from drawbridge.facts.offers import offer_table
from drawbridge.facts.recent_pools import AwayDriver
from drawbridge.facts.served_names import (
    DualNode,
    advertised_resources,
    class_table,
    compile_classes,
    count_selected,
    find_dual_nodes,
    find_gone,
    find_ignoring,
    leave_out,
    mark_ignored_names,
    name_table,
)
from drawbridge.facts.shapes import shape_table
from drawbridge.facts.withheld import drivers_by_resource, find_withheld_drivers
from drawbridge.finding import Finding
from drawbridge.names import DUAL_LABEL

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
_MAX_ATTRIBUTES_OF_A_NODE: Final = 32
_first: Final = itemgetter(0)

R = TypeVar("R", bound=FactsPart)
# What is large stays when a table is full. What several nodes have comes before what one node says,
# and of that the first of each node before the second of any: no node displaces what others have.
Weight: TypeAlias = tuple[int, ...]


class FactsInput(NamedTuple):
    """The API objects that facts are computed from."""

    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    networks: tuple[NetworkFacts, ...] = ()
    away: tuple[AwayDriver, ...] = ()  # whose slices are those of an earlier time
    left_out: int = 0  # the slices that exist and are not given


class GatheredFacts(NamedTuple):
    """The computed facts, and findings about objects that could not be evaluated."""

    facts: Facts
    findings: tuple[Finding, ...] = ()
    # Not part of the facts: the controller labels these nodes.
    dual_nodes: tuple[DualNode, ...] = ()
    # The drivers with slices of a node whose devices plugins can have allocated, by node.
    publishing: Mapping[str, frozenset[str]] = {}


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
    server = describe_cluster(gates, keeps)
    gates = server.feature_gates
    families = known_families(configuration)
    classes, projections = compile_classes(objects.classes, gates)
    nodes = _nodes(objects)
    inventory = build_inventory(objects.slices, gates=gates)
    cluster = count_devices(inventory, nodes, families, projections)
    counted = count_selected(cluster, classes)
    gone = find_gone(cluster.nodes, classes, counted, families, objects.away)
    offering = tuple(leave_out(cluster.nodes, gone))
    dual_nodes = find_dual_nodes(offering, classes, counted, families)
    names = name_table(nodes, classes if gates.extended_resource else (), dual_nodes)
    offers = offer_table(nodes, offering, counted, dual_nodes, configuration.legacy)
    networks = network_table(objects.networks)
    rows = class_table(classes, counted, *_count_owned(cluster, objects.nodes, configuration))
    published = inventory, cluster, objects.left_out
    rows = mark_closed_classes(rows, configuration.fleet, nodes, *published, families)
    rows, ignored = mark_ignored_names(rows, cluster.nodes, counted, find_ignoring(nodes, gates))
    rows = _mark_single(rows, offers)
    omitted: dict[str, int] = {}
    drivers = _drivers(cluster, families, omitted, drivers_by_resource(rows))
    shapes = shape_table(cluster.nodes, _list_own_numa(drivers, families, server))
    facts = Facts(
        cluster=server,
        classes=_fit([(each, (each.devices,)) for each in rows], "classes", omitted),
        names=_fit(_weigh_names(names, nodes), "names", omitted),
        products=_fit(_products(cluster, counted), "products", omitted),
        drivers=_fit(_weigh_drivers(drivers, cluster), "drivers", omitted),
        shapes=_fit([(each, (each.nodes,)) for each in shapes], "shapes", omitted),
        offers=_fit([(each, (each.nodes,)) for each in offers], "offers", omitted),
        networks=_fit([(each, (-at,)) for each, at in networks.items()], "networks", omitted),
    )
    facts = replace(facts, omitted=dict(sorted(omitted.items())))
    replacing = {driver for driver, family in families.items() if family.plugin_names}
    replacing.update(driver for row in rows if row.extended for driver in row.drivers)
    # Also those of pools that are not complete: their drivers publish them again.
    named = {(each.driver, node) for each in objects.slices for node in _named_nodes(each)}
    named.update((driver, each.node.name) for each in offering for driver in each.drivers)
    publishing = _drivers_by_node(each for each in named - gone if each[0] in replacing)
    findings = (*_findings(cluster, omitted), *ignored)
    return GatheredFacts(facts, findings, dual_nodes, publishing)


def _drivers_by_node(named: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    by_node: dict[str, frozenset[str]] = {}
    for driver, node in named:
        by_node[node] = by_node.get(node, frozenset()) | {driver}
    return by_node


def _nodes(objects: FactsInput) -> tuple[Node, ...]:
    """Return the nodes by name, including nodes that only slices refer to."""
    nodes = {node.name: node for node in objects.nodes}
    for slice_ in objects.slices:
        for name in _named_nodes(slice_):
            nodes.setdefault(name, Node(name))
    return tuple(nodes[name] for name in sorted(nodes))


def _named_nodes(slice_: Slice) -> Iterator[str]:
    names = (slice_.node_name, *(device.node_name for device in slice_.devices))
    return filter(None, names)


def describe_cluster(gates: Gates, keeps: Iterable[str] | None = None) -> Cluster:
    """Return version, gates and stored claim fields; without `keeps`, the gates decide.

    Slices with compatibility groups count, for whoever computes facts: all have the same hash.
    """
    gates = gates.with_groups()
    fields = Gates.__struct_fields__
    on = tuple(sorted(field for field in fields if getattr(gates, field) is True))
    kept = (field for field, gate in GATE_OF_FIELD.items() if getattr(gates, gate))
    return Cluster(gates.version, gates=on, keeps=tuple(sorted(kept if keeps is None else keeps)))


def versioned_fields() -> frozenset[str]:
    """Return the claim fields that some version of Kubernetes, or a gate, drops."""
    return frozenset(GATE_OF_FIELD)


def _list_own_numa(
    drivers: Iterable[Driver], families: Mapping[str, Family], server: Cluster
) -> tuple[str, ...]:
    """Return the drivers whose NUMA nodes only a derived attribute can compare."""
    if DERIVED_FIELD not in server.keeps:
        return ()
    return tuple(
        each.name
        for each in drivers
        if each.name in families and find_own_numa(families[each.name], each.common_attributes)
    )


def _count_owned(
    cluster: ClusterDevices, nodes: Iterable[Node], configuration: Configuration
) -> tuple[Counter[ProductKey], frozenset[str]]:
    """Count the devices of owned drivers on owned nodes, by product.

    And return the drivers of which it is certain, by the labels of all nodes with devices.
    """
    pools, owned = owned_pools(configuration), Counter[ProductKey]()
    unknown = {each.node.name for each in cluster.nodes if each.products}
    unknown -= {each.name for each in nodes}
    for devices in cluster.nodes if pools else ():
        entries = selecting_entries(pools, devices.node.labels)
        drivers = {str(pools[i].driver) for i in entries}
        for product, count in devices.products.items():
            if product.driver in drivers:
                owned[product] += count
    return owned, frozenset(() if unknown else (str(each.driver) for each in pools))


def _mark_single(rows: Iterable[ClassFacts], offers: Iterable[NodeOffer]) -> list[ClassFacts]:
    """Mark the classes whose devices are on one of many nodes."""
    nodes: Counter[str] = Counter()
    total = 0
    for offer in offers:
        nodes.update(dict.fromkeys(offer.classes, offer.nodes))
        total += offer.nodes if offer.classes else 0
    return [replace(each, single=is_single(nodes[each.name], total)) for each in rows]


def _products(
    cluster: ClusterDevices, counted: Mapping[str, Counter[ProductKey]]
) -> list[tuple[Product, Weight]]:
    return [
        (
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
                single=is_single(tally.nodes, cluster.drivers[key.driver].nodes),
            ),
            (tally.nodes, -tally.place, tally.devices),
        )
        for key, tally in cluster.products.items()
    ]


def _drivers(
    cluster: ClusterDevices,
    families: Mapping[str, Family],
    omitted: dict[str, int],
    extended: Mapping[str, frozenset[str]],
) -> list[Driver]:
    kinds = {each: families[each].kind for each in cluster.drivers if each in families}
    nodes = Counter(
        kind for each in cluster.nodes for kind in {kinds.get(name, "") for name in each.drivers}
    )
    labelled = [each for each in cluster.nodes if DUAL_LABEL in each.node.labels]
    dual = Counter(
        driver
        for each in labelled
        for driver in each.drivers
        & find_withheld_drivers(each.node, families, extended, publishing=each.drivers)
    )
    rows = []
    for name, published in sorted(cluster.drivers.items()):
        kind = kinds.get(name, "")
        single = bool(kind) and is_single(published.nodes, nodes[kind])
        row = _driver(name, published, kind, omitted)
        rows.append(replace(row, dual=dual[name], single=single))
    return rows


def _driver(name: str, published: DriverCounts, kind: str, omitted: dict[str, int]) -> Driver:
    types = {each: _find_type(counts) for each, counts in published.attributes.items()}
    by_nodes = {each: published.attributes[each][of_type] for each, of_type in types.items()}
    attributes = {each: types[each] for each in _select_common(by_nodes, published.nodes)}
    capacities = _select_common(published.capacities, published.nodes)
    total = len(published.attributes) + len(published.capacities)
    if dropped := total - len(attributes) - len(capacities):
        omitted["attributes"] = omitted.get("attributes", 0) + dropped
    return Driver(
        name,
        kind=kind,
        devices=published.devices,
        nodes=published.nodes,
        attributes=attributes,
        partial=tuple(
            each for each in attributes if not nearly_all(by_nodes[each], published.nodes)
        ),
        capacities=capacities,
        partition_policy=_find_partition_policy(published, kind),
    )


def _find_type(counts: Counter[str]) -> str:
    """Return the type that most nodes publish."""
    return min(counts, key=lambda each: (-counts[each], each))


def _select_common(nodes: Mapping[str, int], total: int) -> tuple[str, ...]:
    """Return the names that most nodes publish, and a few that one of many does, sorted."""
    names = sorted(nodes, key=lambda each: (-nodes[each], each))
    common = [each for each in names if not is_single(nodes[each], total)]
    single = names[len(common) :][:_MAX_ATTRIBUTES_OF_A_NODE]
    return tuple(sorted((*common, *single)[:_MAX_ATTRIBUTES]))


def _find_partition_policy(published: DriverCounts, kind: str) -> PartitionPolicy:
    others = published.nodes - published.honoring
    if kind != GPU or not published.honoring or nearly_all(others, published.nodes):
        return PartitionPolicy.PREFER
    is_honored = nearly_all(published.honoring, published.nodes)
    return PartitionPolicy.HONOR if is_honored else PartitionPolicy.MIXED


def _weigh_names(
    rows: Iterable[ResourceFacts], nodes: Iterable[Node]
) -> Iterator[tuple[ResourceFacts, Weight]]:
    places: dict[str, int] = {}
    for node in nodes:
        for place, name in enumerate(sorted(advertised_resources(node))):
            places[name] = min(places.get(name, place), place)
    for row in rows:
        yield row, (bool(row.classes), row.nodes, -places.get(row.name, 0))


def _weigh_drivers(
    rows: Iterable[Driver], cluster: ClusterDevices
) -> Iterator[tuple[Driver, Weight]]:
    for row in rows:
        yield row, (row.nodes, -cluster.drivers[row.name].place, row.devices)


def _fit(rows: Iterable[tuple[R, Weight]], table: str, omitted: dict[str, int]) -> tuple[R, ...]:
    """Return the rows with the highest weight that fit into the table, sorted by content."""
    # The encoding keeps the order of the fields, so rows sort by driver or name first.
    encoded = sorted(((msgspec.json.encode(row), weight, row) for row, weight in rows), key=_first)
    kept, free = [], MAX_TABLE_BYTES[table]
    for text, _, row in sorted(encoded, key=lambda each: tuple(map(neg, each[1]))):
        if len(text) >= free:
            omitted[table] = omitted.get(table, 0) + 1
            continue
        free -= len(text) + 1
        kept.append((text, row))
    return tuple(row for _, row in sorted(kept, key=_first))


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
