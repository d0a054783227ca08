"""Groups alike nodes: those with the same pool, product, offers and plugins.

A group is what an administrator moves at once, so it has a selector that a command can use.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.audit.objects import AuditedObjects
from drawbridge.audit.predicted import Prediction
from drawbridge.audit.servers import Plugin
from drawbridge.config.model import Configuration
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts.device_counts import count_devices
from drawbridge.facts.families import known_families
from drawbridge.facts.served_names import (
    advertised_resources,
    compile_classes,
    count_selected,
    find_dual_nodes,
)
from drawbridge.names import DEVICES_LABEL
from drawbridge.report.node_names import GROUP_LABELS, name_nodes
from drawbridge.translate.legacy.pod_view import is_device_resource

# What the steps, the controller, and feature discovery change when a plugin goes.
_CHANGING: Final = ("drawbridge.dev/", "nvidia.com/", "amd.com/", "feature.node.kubernetes.io/")
_EXPECTING: Final = ("nvidia.com/gpu.present", "amd.com/gpu", "feature.node.kubernetes.io/gpu")


class PublishedDevices(NamedTuple):
    """What drivers publish for a node: devices by class, and the drivers."""

    classes: Mapping[str, int] = {}
    drivers: frozenset[str] = frozenset()
    dual: frozenset[str] = frozenset()  # names that a plugin offers with the same devices


class Group(NamedTuple):
    """Alike nodes, and what each of them offers now and after the migration."""

    name: str
    nodes: tuple[Node, ...]
    selector: str
    units: Mapping[str, int]
    now: PublishedDevices
    after: PublishedDevices
    plugins: tuple[Plugin, ...]
    driver: str  # the driver that the nodes are expected to get
    replaced: frozenset[str]  # the names that go with the plugin
    kept: frozenset[str]  # the names of NICs that their plugin serves on
    expects: bool  # labels say that the nodes have GPUs
    lost: frozenset[str]  # names that a plugin offered, and of which it offers 0

    @property
    def leaving(self) -> frozenset[str]:
        """The names that go with the plugin, or that are gone since a move was interrupted."""
        return self.replaced or (self.lost if self.driver else frozenset())

    @property
    def has_plugin(self) -> bool:
        """Whether a plugin serves names that a driver can replace."""
        return bool(self.replaced)

    @property
    def is_broken(self) -> bool:
        """Whether a plugin offers nothing any more on the nodes, and no move is why."""
        return bool(self.lost) and not (self.units or self.now.classes or self.driver)

    def is_served(self, node: Node) -> bool:
        """Whether a node has the label of its driver, which publishes devices there."""
        return node.labels.get(DEVICES_LABEL) == self.driver in self.now.drivers


def group_nodes(
    objects: AuditedObjects,
    plugins: Mapping[str, tuple[Plugin, ...]],
    prediction: Prediction,
    configuration: Configuration,
    gates: Gates,
) -> tuple[Group, ...]:
    """Return the groups, those with devices first."""
    now = _count(objects.slices, objects.classes, objects.nodes, configuration, gates)
    after = _count(prediction.slices, prediction.classes, prediction.nodes, configuration, gates)
    alike: dict[object, list[Node]] = {}
    for node in objects.nodes:
        alone = _key(node, now[node.name], after[node.name], plugins.get(node.name, ()))
        # Of a node with a driver, it is known of a move that was interrupted.
        key = alone, prediction.drivers.get(node.name, "")
        alike.setdefault(key, []).append(node)
    names, groups = Counter[str](), []
    for nodes in sorted(alike.values(), key=lambda each: each[0].name):
        first = nodes[0]
        units = advertised_resources(first)
        group = Group(
            "",
            tuple(nodes),
            _find_selector(nodes, objects.nodes),
            units,
            now[first.name],
            after[first.name],
            plugins.get(first.name, ()),
            prediction.drivers.get(first.name, ""),
            gone := prediction.replaced.get(first.name, frozenset()),
            prediction.kept & units.keys() - gone,
            any(label in first.labels for label in _EXPECTING),
            _lost(first),
        )
        name = _name(group)
        names[name] += 1
        groups.append(group._replace(name=name if names[name] == 1 else f"{name} ({names[name]})"))
    return tuple(sorted(groups, key=lambda each: not (each.units or each.now.classes)))


def _count(
    slices: Iterable[Slice],
    offered: Iterable[DeviceClass],
    nodes: tuple[Node, ...],
    configuration: Configuration,
    gates: Gates,
) -> dict[str, PublishedDevices]:
    """Count the devices of each class on each node, by the rules of the scheduler."""
    families = known_families(configuration)
    classes, projections = compile_classes(offered, gates)
    counted = count_devices(build_inventory(slices, gates=gates), nodes, families, projections)
    by_class = count_selected(counted, classes)
    dual_nodes = find_dual_nodes(counted.nodes, classes, by_class, families)
    dual = {each.node: each.names for each in dual_nodes if not each.stopped}
    published = {node.name: PublishedDevices() for node in nodes}
    for node in counted.nodes:
        devices = {
            name: number
            for name, products in by_class.items()
            if (number := sum(n for key, n in node.products.items() if key in products))
        }
        names = frozenset(dual.get(node.node.name, ()))
        published[node.node.name] = PublishedDevices(devices, node.drivers, names)
    return published


def _key(
    node: Node, now: PublishedDevices, after: PublishedDevices, plugins: Sequence[Plugin]
) -> object:
    units = advertised_resources(node)
    expects = any(label in node.labels for label in _EXPECTING)
    if not (units or now.classes or after.classes or expects or _lost(node)):
        return "without devices"
    labels = tuple(node.labels.get(each, "") for each in GROUP_LABELS)
    return (
        labels,
        tuple(sorted(units.items())),
        _lost(node),
        tuple(sorted(now.classes.items())),
        tuple(sorted(after.classes.items())),
        frozenset(plugins),
    )


def _lost(node: Node) -> frozenset[str]:
    """Return the names of plugins that are gone: the kubelet says 0 until it starts again."""
    return frozenset(
        name
        for name, quantity in node.allocatable.items()
        if is_device_resource(name) and not quantity.sign()
    )


def _name(group: Group) -> str:
    """Return what a person calls the group: its pool, its product, or its nodes."""
    has_devices = group.units or group.now.classes or group.after.classes
    if not (has_devices or group.expects or group.lost):
        return "nodes without devices"
    return name_nodes(group.nodes)


def _find_selector(nodes: Sequence[Node], everywhere: Iterable[Node]) -> str:
    """Return a label that exactly these nodes have, the most telling one; empty without one."""
    inside = {node.name for node in nodes}
    common = dict(nodes[0].labels)
    for node in nodes[1:]:
        common = {k: v for k, v in common.items() if node.labels.get(k) == v}
    for node in everywhere:
        if node.name not in inside:
            common = {k: v for k, v in common.items() if node.labels.get(k) != v}
    common = {key: text for key, text in common.items() if not key.startswith(_CHANGING)}
    order = GROUP_LABELS
    ranked = sorted(common, key=lambda key: (order.index(key) if key in order else len(order), key))
    return f"{ranked[0]}={common[ranked[0]]}" if ranked else ""
