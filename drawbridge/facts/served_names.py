"""Determine the devices that each class selects and the servers of each extended resource.

If several classes have the same extended resource name, the newest class takes precedence, then
the first by name, as in Kubernetes. Selectors are evaluated once per distinct projection of the
attributes that they read.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.cel import CompileError, EvaluationError, Program
from drawbridge.cel.dra import Selectors, device_variables, find_reads
from drawbridge.cel.dra.reads import Reads
from drawbridge.dra.claim import CapacityRequests
from drawbridge.dra.classes import DeviceClass, compose_implicit_name
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.dra.device import Device
from drawbridge.dra.families import Family, allocates_by
from drawbridge.dra.gates import Gates, kubelet_serves_names
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import to_int64
from drawbridge.facts import codes
from drawbridge.facts.device_counts import (
    ClusterDevices,
    DeviceProjections,
    NodeDevices,
    ProductKey,
    is_single,
)
from drawbridge.facts.model import ClassFacts, ResourceFacts
from drawbridge.facts.recent_pools import AwayDriver
from drawbridge.finding import Finding, Severity

_NATIVE = "kubernetes.io"
_MAX_VERSIONS: Final = 3
_USE_CLAIMS: Final = (
    "Upgrade the kubelets of these nodes. Until then, request devices of the class by claims."
)


class CompiledClass:
    """A DeviceClass with compiled selectors. It selects nothing if a selector does not compile."""

    def __init__(self, offered: DeviceClass, selectors: Selectors) -> None:
        self.name = offered.metadata.name
        self.extended = offered.spec.extended_resource_name or ""
        self.share = offered.spec.share
        self.created = offered.metadata.creation_timestamp or ""
        self._lists = selectors.lists
        self.programs: list[Program] | None = []
        try:
            for selector in offered.spec.selectors:
                if selector.cel:
                    self.programs.append(selectors.stored.compile(selector.cel.expression))
        except CompileError:
            self.programs = None

    def selects(self, driver: str, device: Device) -> bool:
        """Tell whether the class selects a device. Evaluation errors count as false."""
        if self.programs is None:
            return False
        device_view = device_variables(driver, device, list_attributes=self._lists)
        try:
            return all(program.evaluate(device_view).value is True for program in self.programs)
        except EvaluationError:
            return False


class ClassProjections(DeviceProjections):
    """The attributes that any of the classes reads."""

    def __init__(self, offered: Iterable[CompiledClass], selectors: Selectors) -> None:
        self._lists = selectors.lists
        self._reads: list[Reads] = [
            find_reads(program)
            for offered_class in offered
            for program in offered_class.programs or ()
        ]

    def project(self, driver: str, device: Device) -> Hashable:
        """Return the projection of a device on these attributes."""
        device_view = device_variables(driver, device, list_attributes=self._lists)
        return (driver, *(each.projection(device_view) for each in self._reads))


def compile_classes(
    classes: Iterable[DeviceClass], gates: Gates
) -> tuple[list[CompiledClass], ClassProjections]:
    """Return the compiled classes, sorted by name, and the projections on what they read."""
    selectors = Selectors.of_gates(gates)
    compiled = {each.metadata.name: CompiledClass(each, selectors) for each in classes}
    ordered = [compiled[name] for name in sorted(compiled)]
    return ordered, ClassProjections(ordered, selectors)


def count_selected(
    cluster: ClusterDevices, classes: Iterable[CompiledClass]
) -> dict[str, Counter[ProductKey]]:
    """Return the number of selected devices of each product, by class."""
    counted: dict[str, Counter[ProductKey]] = {}
    for device_class in classes:
        selected = counted[device_class.name] = Counter()
        for key, tally in cluster.products.items():
            for device, count in tally.samples.values():
                if device_class.selects(key.driver, device):
                    selected[key] += count
    return counted


def class_table(
    classes: Iterable[CompiledClass],
    counted: Mapping[str, Counter[ProductKey]],
    owned: Counter[ProductKey],
    decided: frozenset[str],
) -> list[ClassFacts]:
    """Return the table of classes. `owned` counts the devices of owned pools by product.

    Of drivers that are not `decided`, it is not known that none is owned.
    """
    rows = []
    for device_class in classes:
        devices = counted[device_class.name]
        drivers = {key.driver for key in devices}
        none = None if decided.isdisjoint(drivers) else 0
        rows.append(
            ClassFacts(
                device_class.name,
                extended=device_class.extended,
                share=_write_share(device_class.share),
                drivers=tuple(sorted(drivers)),
                devices=devices.total(),
                owned=(devices & owned).total() or none,
            )
        )
    return rows


def find_ignoring(nodes: Iterable[Node], gates: Gates) -> frozenset[str]:
    """Return the nodes whose kubelet gives pods nothing for a name that a class serves."""
    if not gates.extended_resource:
        return frozenset()
    return frozenset(e.name for e in nodes if not kubelet_serves_names(e.kubelet, gates))


def mark_ignored_names(
    rows: Iterable[ClassFacts],
    nodes: Iterable[NodeDevices],
    counted: Mapping[str, Counter[ProductKey]],
    ignoring: frozenset[str],
) -> tuple[list[ClassFacts], list[Finding]]:
    """Mark the classes with devices on `ignoring` nodes, and report them.

    Nothing tells on which nodes the devices of a class without any will be. Its name is left, so
    that an autoscaler that knows no devices of new nodes can add the first one.
    """
    marked, findings = [], []
    listed = [each for each in nodes if each.node.name in ignoring]
    for row in rows:
        keys = counted[row.name].keys()
        at_risk = [each.node for each in listed if not keys.isdisjoint(each.products)]
        marked.append(replace(row, name_ignored=bool(at_risk)))
        if at_risk and (name := row.extended or compose_implicit_name(row.name)):
            findings.append(_report_ignored(row, name, at_risk))
    return marked, findings


def _report_ignored(row: ClassFacts, name: str, nodes: Sequence[Node]) -> Finding:
    """Report it; an info if nobody gave the class a name, so that few pods request it."""
    versions = list_some(sorted({each.kubelet for each in nodes}), _MAX_VERSIONS, "version")
    count = count_noun(len(nodes), "node")
    message = (
        f"DeviceClass {row.name} serves {name}, but the kubelets of {count} with its devices "
        f"({versions}) ignore that: a pod that requests {name} runs there without a device, and "
        "pods with claims do not"
    )
    about = f"DeviceClass/{row.name}"
    if row.extended:
        return codes.CLASS_NAME_IGNORED.at("", message, object=about)
    finding = codes.CLASS_NAME_IGNORED.at("", message, object=about, remedy=_USE_CLAIMS)
    return replace(finding, severity=Severity.INFO)


def _write_share(share: CapacityRequests | None) -> Mapping[str, str]:
    return {name: str(amount) for name, amount in sorted(share.requests.items())} if share else {}


class DualNode(NamedTuple):
    """A node where a device plugin and a DRA driver offer the same devices.

    `stopped` if the kubelet says that the plugin is gone, and keeps its devices for some minutes.
    """

    node: str
    names: tuple[str, ...]
    devices: int
    stopped: bool = False


def classes_by_resource(classes: Iterable[CompiledClass]) -> dict[str, list[CompiledClass]]:
    """Group classes by the extended resource that they serve."""
    by_resource: dict[str, list[CompiledClass]] = {}
    for device_class in classes:
        if device_class.extended:
            by_resource.setdefault(device_class.extended, []).append(device_class)
    return by_resource


def name_table(
    nodes: Iterable[Node],
    classes: Iterable[CompiledClass],
    dual_nodes: Iterable[DualNode],
) -> list[ResourceFacts]:
    """Return the table of extended resources."""
    by_class = classes_by_resource(classes)
    plugins: dict[str, list[int]] = {}
    listed = list(nodes)
    for node in listed:
        for name, count in advertised_resources(node).items():
            plugins.setdefault(name, []).append(count)
    dual = Counter(name for each in dual_nodes for name in each.names)
    table = []
    for name in sorted(by_class.keys() | plugins.keys()):
        counts = plugins.get(name, [])
        table.append(
            ResourceFacts(
                name,
                classes=_by_precedence(by_class.get(name, [])),
                nodes=len(counts),
                devices=sum(counts),
                most=max(counts, default=0),
                dual=dual[name],
                single=is_single(len(counts), len(listed)),
            )
        )
    return table


def _by_precedence(classes: list[CompiledClass]) -> tuple[str, ...]:
    """Return the class names by precedence: newest first, then by name."""
    by_name = sorted(classes, key=lambda each: each.name)
    return tuple(each.name for each in sorted(by_name, key=lambda e: e.created, reverse=True))


def advertised_resources(node: Node) -> dict[str, int]:
    """Return the extended resources that device plugins advertise on a node."""
    return {
        name: to_int64(quantity.value())
        for name, quantity in node.allocatable.items()
        if "/" in name and not _native(name.partition("/")[0]) and quantity.sign() > 0
    }


def registered_resources(node: Node) -> set[str]:
    """Return the extended resources of plugins that serve on a node or can return there."""
    return named_resources(node) & {*advertised_resources(node), *node.stopped}


def named_resources(node: Node) -> set[str]:
    """Return the extended resources of plugins that serve on a node or did so before."""
    return {name for name in node.named if "/" in name and not _native(name.partition("/")[0])}


def _native(domain: str) -> bool:
    return domain == _NATIVE or domain.endswith(f".{_NATIVE}")


def find_dual_nodes(
    nodes: Iterable[NodeDevices],
    classes: Iterable[CompiledClass],
    counted: Mapping[str, Counter[ProductKey]],
    families: Mapping[str, Family],
) -> tuple[DualNode, ...]:
    """Return the nodes where a device plugin and a DRA driver offer the same devices."""
    by_name = classes_by_resource(classes)
    dual_nodes = []
    for node in nodes:
        shared = {
            name: _products_of_plugin(
                node, name, [counted[c.name] for c in by_name.get(name, ())], families
            )
            for name in registered_resources(node.node)
        }
        names = tuple(sorted(name for name, keys in shared.items() if keys))
        if names:
            keys = frozenset[ProductKey]().union(*shared.values())
            devices = sum(node.products[key] for key in _whole_devices(keys, families))
            stopped = set(names) <= set(node.node.stopped)
            dual_nodes.append(DualNode(node.node.name, names, devices, stopped))
    return tuple(dual_nodes)


def find_gone(
    nodes: Iterable[NodeDevices],
    classes: Iterable[CompiledClass],
    counted: Mapping[str, Counter[ProductKey]],
    families: Mapping[str, Family],
    away: Collection[AwayDriver],
) -> frozenset[tuple[str, str]]:
    """Return the drivers that do not only restart, or that a plugin replaces, with their nodes."""
    by_name = classes_by_resource(classes)
    gone = {each[:2] for each in away if not each.restarts}
    restarting = {each[:2] for each in away} - gone
    of_nodes = {node for _, node in restarting}
    for node in nodes:
        for name in advertised_resources(node.node) if node.node.name in of_nodes else ():
            selections = [counted[each.name] for each in by_name.get(name, ())]
            keys = _products_of_plugin(node, name, selections, families)
            gone.update(restarting & {(key.driver, node.node.name) for key in keys})
    return frozenset(gone)


def leave_out(
    nodes: Iterable[NodeDevices], gone: Collection[tuple[str, str]]
) -> Iterator[NodeDevices]:
    """Yield the nodes without the devices of these drivers."""
    of_nodes = {node for _, node in gone}
    for node in nodes:
        if (name := node.node.name) not in of_nodes:
            yield node
            continue
        kept = {key: n for key, n in node.products.items() if (key.driver, name) not in gone}
        yield node._replace(products=kept, drivers=frozenset(key.driver for key in kept))


def _products_of_plugin(
    node_devices: NodeDevices,
    name: str,
    selections: Iterable[Mapping[ProductKey, int]],
    families: Mapping[str, Family],
) -> frozenset[ProductKey]:
    """Return the products on a node that a device plugin also offers as resource `name`."""
    drivers = {
        driver
        for driver in node_devices.drivers
        if driver in families and allocates_by(families[driver], name)
    }
    return frozenset(
        key
        for key in node_devices.products
        if key.driver in drivers or any(key in each for each in selections)
    )


def _whole_devices(
    keys: frozenset[ProductKey], by_driver: Mapping[str, Family]
) -> frozenset[ProductKey]:
    """Return the whole devices if there are any: partitions belong to the same hardware."""
    families = {key: by_driver.get(key.driver) for key in keys}
    whole = frozenset(
        key for key, family in families.items() if family is None or key.type in family.whole_types
    )
    return whole or keys
