"""Composes the page of a cluster from the objects that were read."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.gates import DEFAULTS, Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.facts.served_names import advertised_resources
from drawbridge.ledger.pods import FINISHED
from drawbridge.report.node_names import GROUP_LABELS, name_nodes
from drawbridge.report.page.devices import DevicesOfNodes
from drawbridge.report.page.model import (
    ClusterOnPage,
    DeviceState,
    NamespaceProgress,
    NodeGroupOnPage,
    NodeOnPage,
    PageObjects,
    PluginOnPage,
)
from drawbridge.report.page.quotas import describe_quotas
from drawbridge.report.page.waiting import find_waiting, is_waiting, namespace_of
from drawbridge.report.plugin_units import count_units, served_by_class
from drawbridge.translate.returned_requests import list_own_claims

# A browser shows so many at once; commands show all.
MAX_NODES: Final = 2_000
MAX_NAMESPACES: Final = 500
SHARED_POOLS: Final = "Devices that several nodes reach"
_WITHOUT: Final = "Nodes without devices"


def compose(
    objects: PageObjects, gates: Gates = DEFAULTS, quotas: Sequence[DeviceQuota] = ()
) -> ClusterOnPage:
    """Return the page of the cluster; `quotas` are those of the configuration."""
    inventory = build_inventory(objects.slices, gates=gates)
    devices = DevicesOfNodes(objects, inventory)
    nodes = _all_nodes(objects, devices.holding_nodes)
    described = {each.name: devices.describe_node(each) for each in nodes[:MAX_NODES]}
    groups = [*_group(nodes[:MAX_NODES], described)]
    shared = tuple(devices.describe_shared_pools())[:MAX_NODES]
    if shared:
        groups.append(NodeGroupOnPage(SHARED_POOLS, shared))
    waiting, more_waiting = find_waiting(objects)
    namespaces = _follow_migration(objects)
    states = Counter[DeviceState]()
    for each in (*described.values(), *shared):
        states.update(each.states)
    return ClusterOnPage(
        groups=tuple(groups),
        waiting=waiting,
        more_waiting=more_waiting,
        namespaces=tuple(namespaces[:MAX_NAMESPACES]),
        more_namespaces=max(0, len(namespaces) - MAX_NAMESPACES),
        more_nodes=max(0, len(nodes) - MAX_NODES),
        quotas=describe_quotas(objects, inventory, quotas),
        states={state: states[state] for state in DeviceState if states[state]},
        plugins=tuple(_sum_plugins(described.values())),
    )


def _sum_plugins(nodes: Iterable[NodeOnPage]) -> Iterator[PluginOnPage]:
    """Yield what plugins offer on all nodes, and what pods hold."""
    by_name: dict[str, list[PluginOnPage]] = defaultdict(list)
    for node in nodes:
        for plugin in node.plugins:
            by_name[plugin.name].append(plugin)
    for name, plugins in sorted(by_name.items()):
        numbers = [each.held for each in plugins if each.held is not None]
        held = sum(numbers) if len(numbers) == len(plugins) else None
        yield PluginOnPage(name, sum(each.offered for each in plugins), held)


def _all_nodes(objects: PageObjects, holding: Iterable[str]) -> list[Node]:
    """Return the nodes, also those that only slices and holders name, those with devices first."""
    read = {each.name: each for each in objects.nodes}
    published = {each.node_name for each in objects.slices if each.node_name}
    for name in sorted(published.union(holding).difference(read)):
        read[name] = Node(name)
    has_devices = published.union(holding)

    def order(node: Node) -> tuple[bool, str]:
        return not (node.name in has_devices or advertised_resources(node)), node.name

    return sorted(read.values(), key=order)


def _group(nodes: Sequence[Node], described: Mapping[str, NodeOnPage]) -> Iterator[NodeGroupOnPage]:
    """Yield groups of nodes with the same labels, drivers and plugins, those with devices first."""
    alike: dict[object, list[Node]] = defaultdict(list)
    for node in nodes:
        alike[_key(node, described[node.name])].append(node)
    names = Counter[str]()
    for key, members in alike.items():
        name = name_nodes(members) if key else _WITHOUT
        names[name] += 1
        unique = name if names[name] == 1 else f"{name} ({names[name]})"
        yield NodeGroupOnPage(unique, tuple(described[each.name] for each in members))


def _key(node: Node, described: NodeOnPage) -> object:
    drivers = frozenset(
        (device.driver, device.product)
        for numa in described.numa_nodes
        for root in numa.roots
        for device in root.devices
    )
    plugins = tuple(each.name for each in described.plugins)
    if not (drivers or plugins or described.others):
        return None
    return tuple(node.labels.get(each, "") for each in GROUP_LABELS), drivers, plugins


# --- the migration -------------------------------------------------------------------------------


def _follow_migration(objects: PageObjects) -> list[NamespaceProgress]:
    """Count the pods that ask for devices in each namespace, by who serves them."""
    served = frozenset(
        each.spec.extended_resource_name
        for each in objects.classes
        if each.spec.extended_resource_name
    )
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in objects.pods:
        if get_value(pod, ("status", "phase")) not in FINISHED:
            column = "waiting" if is_waiting(pod) else _find_server(pod, served)
            counted[namespace_of(pod)][column] += 1
    names = {*counted, *(name for name, mode in objects.modes.items() if mode != "off")}
    return [
        NamespaceProgress(name, objects.modes.get(name, "unknown"), **counted[name])
        for name in sorted(names)
    ]


def _find_server(pod: Value, served: frozenset[str]) -> str:
    if list_own_claims(pod):
        return "translated"
    units = frozenset(count_units(pod))
    left = units - served_by_class(pod)
    if not get_value(pod, ("spec", "nodeName")):
        left -= served
    if left:
        return "on_plugins"
    if units:
        return "by_class"
    return "own_claims" if as_list(get_value(pod, ("spec", "resourceClaims"))) else "on_plugins"
