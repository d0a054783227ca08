"""Labels nodes where a device plugin and ResourceSlices offer the same devices.

The label keeps translated pods off these nodes. `facts` finds the nodes. A container keeps a device
of a plugin after the plugin is removed, so the label stays until the last pod that may hold such a
device is gone. A node whose plugin is gone gets the label as well while such pods run, before a
driver publishes the devices. A kubelet that restarts says nothing of plugins, and a driver that
restarts or publishes again has no complete pool, so that either is believed to be gone only after a
while, unless the plugin was seen to stop. This reconciler changes only its own label.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from controller.kept_writes import merge_kept
from controller.new_findings import NewFindings
from controller.node_plugins import (
    Absences,
    DriversByName,
    NodesWithoutPlugin,
    PluginState,
    Publishing,
    find_stopped,
    is_available,
    read_plugins,
)
from controller.protocols import (
    Gauge,
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    Unstructured,
    WatchedObject,
)
from controller.reconcile import FailedLast
from controller.watched_objects import PartialObject, WatchedNode
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.agreement.operation_codes import DUAL_NODES_HELD
from drawbridge.api_error import ApiError
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.facts.served_names import DualNode
from drawbridge.finding import Finding
from drawbridge.ledger.plugin_holders import find_held_names, find_held_on
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.names import DUAL_LABEL as LABEL
from drawbridge.translate.context import TranslationContext

NAME: Final = "dual"
# Of a run: the label of a node that becomes dual meanwhile waits for the next run.
MAX_LISTS: Final = 100


def label_changes(
    nodes: Iterable[WatchedObject[PartialObject]], dual_names: Collection[str]
) -> dict[str, str | None]:
    """Return the required label value by node, without the nodes that already have it."""
    changes: dict[str, str | None] = {}
    for node in nodes:
        current = (node.value.metadata.labels or {}).get(LABEL)
        required = "true" if node.name in dual_names else None
        if current != required:
            changes[node.name] = required
    return changes


class DualNodeStores(NamedTuple):
    """The stores that the reconciler uses: it writes nodes and lists pods."""

    nodes: ObjectStore
    pods: ObjectStore


class DualNodeReconciler:
    """Keeps the label correct and reports the nodes when they change."""

    name = NAME

    def __init__(  # noqa: PLR0913  # its caches, stores and inputs
        self,
        nodes: ObjectCache[WatchedNode],
        stores: DualNodeStores,
        *,
        dual_nodes: Callable[[], tuple[DualNode, ...] | None],
        publishing: Callable[[], Publishing],
        context: Callable[[], TranslationContext | None],
        reporter: Reporter,
        reference: ObjectReference,
        now: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._stores = stores
        self._dual_nodes = dual_nodes
        # The dual nodes, and their names: each label depends on these.
        self._dual_names: tuple[object, frozenset[str]] = (None, frozenset())
        self._publishing = publishing
        self._without_plugin = NodesWithoutPlugin()
        self._absences = Absences(now)
        self._context = context
        self._reporter = reporter
        self._reference = reference
        # By node: one that was not processed in a run has what was last found.
        self._held: dict[str, Finding] = {}
        self._new_findings = NewFindings(reporter, "LabelNodes")
        self._parts, self._labels, self._lists = FailedLast(), FailedLast(now), FailedLast(now)
        self.listener: Callable[[], None] = lambda: None  # of pods that were never listed

    async def reconcile(self) -> None:
        """Update the labels; do nothing until facts were gathered once."""
        dual_nodes, context = self._dual_nodes(), self._context()
        if dual_nodes is None or context is None:
            return
        nodes = [*self._nodes.all()]
        served = [each for each in dual_nodes if not each.stopped]
        self._reporter.set_gauge(Gauge.DUAL_NODES, len(served))
        idle_devices = sum(each.devices for each in served)
        self._reporter.set_gauge(Gauge.DUAL_NODE_IDLE_DEVICES, idle_devices)
        changes = label_changes(nodes, self._names_of(dual_nodes))
        by_name = DriversByName(context)
        missing = {name: "true" for name, value in changes.items() if value}
        leaving = changes.keys() - missing.keys()
        stopped = {each.node for each in dual_nodes if each.stopped}
        unlabelled = [each for each in nodes if LABEL not in (each.value.metadata.labels or {})]
        others = [each for each in unlabelled if each.name not in changes]
        unknown = self._without_plugin.find(others, self._publishing(), by_name)
        gone, stops = map(self._without_plugin.list_drivers, (PluginState.GONE, PluginState.STOPS))
        stops.update(find_stopped(dual_nodes, by_name))
        # A node can get its label when the kubelet has forgotten the plugin that stopped.
        self._absences.follow({node for node, _ in gone} | leaving | stopped, stops)
        # By node, the drivers without a plugin; None if it has the label.
        labelled = sorted(leaving | stopped - missing.keys())
        work: dict[str, frozenset[str] | None] = {**dict.fromkeys(labelled), **unknown}
        self._held = {name: each for name, each in self._held.items() if name in work}

        async def label() -> None:
            await self._labels.process_each(missing, lambda name, _: self._label_dual(name))

        async def list_pods() -> None:
            await self._list_each(work, by_name)

        try:
            # Pods of other nodes decide nothing about a node that is dual.
            parts = {"label": label, "list": list_pods}
            await self._parts.process_each(parts, lambda _, part: part())
        finally:
            description = describe_dual_nodes(dual_nodes)
            findings = [*self._held.values(), *([description] if description else ())]
            findings.sort(key=lambda each: each.message)
            self._new_findings.report(dict.fromkeys(findings, self._reference))

    async def _label_dual(self, name: str) -> None:
        cached = self._nodes.get(name)
        # The labels of other nodes were written before, and took time.
        if cached and label_changes([cached], self._names_of(self._dual_nodes())).get(name):
            await self._write_label(cached, "true")

    async def _list_each(
        self, work: Mapping[str, frozenset[str] | None], by_name: DriversByName
    ) -> None:
        """List the pods of a bounded number of nodes, and write the labels that they decide."""

        async def process(name: str, drivers: frozenset[str] | None) -> None:
            # What was done before took time.
            cached = self._nodes.get(name)
            if cached is None:
                return
            if drivers is not None:
                held = await self._find_outlived(cached, drivers, by_name)
                is_due = held is not None
            else:
                held = await self._find_blocker(cached, by_name)
                # Its slices can be back by now: other nodes were written before it.
                is_due = held is None and name not in self._names_of(self._dual_nodes())
            self._held.pop(name, None)
            if held:
                self._held[name] = held
            label = None if drivers is None else "true"
            if is_due and (cached.value.metadata.labels or {}).get(LABEL) != label:
                await self._write_label(cached, label)

        try:
            await self._lists.process_each(work, process, MAX_LISTS)
        finally:
            if work.keys() - self._lists.results.keys():
                self.listener()

    def _names_of(self, dual_nodes: tuple[DualNode, ...] | None) -> frozenset[str]:
        if self._dual_names[0] is not dual_nodes:
            self._dual_names = dual_nodes, frozenset(each.node for each in dual_nodes or ())
        return self._dual_names[1]

    async def _write_label(self, node: WatchedObject[PartialObject], value: str | None) -> None:
        """Label a node as it was decided about: a later leader can have done it otherwise."""
        metadata = {"resourceVersion": node.version, "labels": {LABEL: value}}
        try:
            await merge_kept(self._stores.nodes, node.name, {"metadata": metadata})
        except ApiError as error:
            if error.code != 404:  # the node was deleted
                raise
            return
        self._reporter.count(NAME, "labelled" if value else "unlabelled")

    async def _find_outlived(
        self,
        node: WatchedObject[PartialObject],
        drivers: frozenset[str],
        by_name: DriversByName,
    ) -> Finding | None:
        """Return a finding if pods hold devices of a plugin that is gone; else note that."""
        # Without its plugin, no further pod gets devices of it.
        value: Unstructured = msgspec.json.decode(node.raw)
        held = describe_outlived_plugin(
            node.name, value, await self._list_holders(node.name, value), by_name
        )
        if held is None:
            self._without_plugin.note_free(node.name, drivers)
        return held

    async def _find_blocker(
        self, node: WatchedObject[WatchedNode], by_name: DriversByName
    ) -> Finding | None:
        """Return a finding if the label has to stay on a node that is no longer dual."""
        name, value = node.name, msgspec.json.decode(node.raw)
        publishing = self._publishing().get(name, frozenset())
        # The time runs while pods hold devices.
        absent = self._absences.find(name, _read_plugins(value, by_name), publishing)
        pods = await self._list_holders(name, value)
        held = describe_held_node(name, value, pods, publishing, by_name)
        return held or (_describe_absence(name, min(absent)) if absent else None)

    async def _list_holders(self, node: str, value: Unstructured) -> list[Unstructured]:
        """Return the pods of a node that may hold devices of any plugin."""
        pods = self._stores.pods.iterate(fields=f"spec.nodeName={node}")
        return [each async for each in pods if find_holders((each,), value, bool)]


def describe_held_node(
    name: str,
    node: Unstructured,
    pods: Iterable[Unstructured],
    publishing: Collection[str],
    by_name: DriversByName,
) -> Finding | None:
    """Return a finding if pods of a node that is no longer dual may hold devices of a plugin.

    Names that no plugin of the node serves any more count as well. The configuration or a class
    can have given them a meaning when the node got its label, and nobody knows that later. Those of
    a plugin that serves count if a driver publishes its devices, or if none publishes any.
    """
    status, plugins = _status(node), _read_plugins(node, by_name)
    allocatable, capacity = status.get("allocatable") or {}, status.get("capacity") or {}

    def counts(name: str) -> bool:
        drivers = by_name.find(name)
        is_published = bool(drivers.intersection(publishing) if publishing else drivers)
        return is_published or not is_available(allocatable, name)

    def says(name: str, plugin: PluginState) -> bool:
        return any(plugins.get(driver) is plugin for driver in by_name.find(name))

    if holders := find_holders(pods, node, counts):
        serves = any(says(each, PluginState.SERVES) for names in holders for each in names)
        return _describe_holders(name, holders, plugin_serves=serves)
    returning = [each for each in sorted(capacity) if says(each, PluginState.STOPS)]
    if returning:
        # A plugin that restarts keeps its capacity for some minutes.
        message = (
            f"node {name} still has {', '.join(returning)} in its capacity, so the device "
            "plugin may restart; translated pods keep off the node"
        )
        return DUAL_NODES_HELD.at("status.capacity", message)
    return None


def _describe_absence(node: str, plugin: PluginState) -> Finding:
    away, returns = "kubelet", "the device plugin may register again"
    if plugin is PluginState.SERVES:
        away, returns = "driver", "its ResourceSlices may be complete again soon"
    return DUAL_NODES_HELD.at(
        "status.capacity",
        f"the {away} of node {node} may have restarted, and {returns}; translated pods keep off "
        "the node",
    )


def describe_outlived_plugin(
    name: str, node: Unstructured, pods: Iterable[Unstructured], by_name: DriversByName
) -> Finding | None:
    """Return a finding if pods of a node without a plugin hold devices that a plugin gave them."""
    plugins = _read_plugins(node, by_name)
    holders = find_holders(
        pods,
        node,
        lambda name: any(
            plugins.get(driver) is not PluginState.SERVES for driver in by_name.find(name)
        ),
    )
    return _describe_holders(name, holders, plugin_serves=False) if holders else None


def find_holders(
    pods: Iterable[Unstructured], of_node: Unstructured, counts: Callable[[str], bool]
) -> list[frozenset[str]]:
    """Return the names that count for which each pod of a node may hold devices of a plugin."""
    node, reader, holders = node_reader().read(of_node), pod_reader(), []
    for value in pods:
        pod, held = reader.read(value), frozenset[str]()
        if isinstance(pod, Pod):
            held = find_held_on(node, pod) if isinstance(node, Node) else find_held_names(pod)
        if names := frozenset(filter(counts, held)):
            holders.append(names)
    return holders


def _describe_holders(node: str, holders: list[frozenset[str]], *, plugin_serves: bool) -> Finding:
    # The slices of a kubelet that restarts come back, and the plugin may be gone by then.
    gone = (
        "the ResourceSlices of node {} are" if plugin_serves else "the device plugin on node {} is"
    )
    held = ", ".join(sorted(frozenset[str]().union(*holders)))
    holding = "1 pod" if len(holders) == 1 else f"{len(holders)} pods"
    return DUAL_NODES_HELD.at(
        "status.allocatable",
        f"{gone.format(node)} gone, but {holding} may still hold devices that the device plugin "
        f"allocated for {held}; translated pods keep off the node",
    )


def _status(value: Unstructured) -> Mapping[str, Any]:
    return value.get("status") or {}


def _read_plugins(node: Unstructured, by_name: DriversByName) -> dict[str, PluginState]:
    status = _status(node)
    return read_plugins(status.get("capacity") or {}, status.get("allocatable") or {}, by_name)
