"""Labels nodes where a device plugin and ResourceSlices offer the same devices.

The label keeps translated pods off these nodes. `facts` finds the nodes. A container keeps a device
of a plugin after the plugin is removed, so the label stays until the last pod that may hold such a
device is gone. A node whose plugin is gone gets the label as well while such pods run, before a
driver publishes the devices. A kubelet that restarts says nothing of plugins, and a driver that
restarts or publishes again has no complete pool, so that either is believed to be gone only after a
while, unless the plugin was seen to stop. This reconciler changes only its own label.
"""

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from controller.kept_writes import merge_kept
from controller.new_findings import NewFindings
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
from controller.watched_objects import PartialObject
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.agreement.operation_codes import DUAL_NODES_HELD
from drawbridge.api_error import ApiError
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.facts.families import known_families
from drawbridge.facts.served_names import DualNode
from drawbridge.facts.withheld import drivers_by_resource, find_drivers
from drawbridge.finding import Finding
from drawbridge.ledger.plugin_holders import find_held_names, find_held_on
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.names import DUAL_LABEL as LABEL
from drawbridge.translate.context import TranslationContext

NAME: Final = "dual"
# Who is away for longer does not restart. A kubelet keeps what a plugin offered for as long.
ABSENCE_SECONDS: Final = 300.0
# Of a run: the label of a node that becomes dual meanwhile waits for the next run.
MAX_LISTS: Final = 100
# The drivers that publish devices which plugins can have allocated, by node.
Publishing: TypeAlias = Mapping[str, frozenset[str]]
DriverOnNode: TypeAlias = tuple[str, str]  # the node, then the driver


def label_changes(
    nodes: Iterable[WatchedObject[PartialObject]], dual_nodes: Iterable[DualNode]
) -> dict[str, str | None]:
    """Return the required label value by node, without the nodes that already have it."""
    dual_names = {each.node for each in dual_nodes}
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
        nodes: ObjectCache[PartialObject],
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
        changes = label_changes(nodes, dual_nodes)
        missing = {name: "true" for name, value in changes.items() if value}
        leaving = changes.keys() - missing.keys()
        stopped = {each.node for each in dual_nodes if each.stopped}
        unlabelled = [each for each in nodes if LABEL not in (each.value.metadata.labels or {})]
        others = [each for each in unlabelled if each.name not in changes]
        unknown = self._without_plugin.find(others, self._publishing(), context)
        gone, stops = map(self._without_plugin.list_drivers, (_Plugin.GONE, _Plugin.STOPS))
        stops.update(_find_stopped(dual_nodes, context))
        # A node can get its label when the kubelet has forgotten the plugin that stopped.
        self._absences.follow({node for node, _ in gone} | leaving | stopped, stops)
        # By node, the drivers without a plugin; None if it has the label.
        labelled = sorted(leaving | stopped - missing.keys())
        work: dict[str, frozenset[str] | None] = {**dict.fromkeys(labelled), **unknown}
        self._held = {name: each for name, each in self._held.items() if name in work}

        async def label() -> None:
            await self._labels.process_each(missing, lambda item: self._label_dual(item[0]))

        async def list_pods() -> None:
            await self._list_each(work, context)

        try:
            # Pods of other nodes decide nothing about a node that is dual.
            parts = {"label": label, "list": list_pods}
            await self._parts.process_each(parts, lambda part: part[1]())
        finally:
            description = describe_dual_nodes(dual_nodes)
            findings = [*self._held.values(), *([description] if description else ())]
            findings.sort(key=lambda each: each.message)
            self._new_findings.report(dict.fromkeys(findings, self._reference))

    async def _label_dual(self, name: str) -> None:
        cached = self._nodes.get(name)
        # The labels of other nodes were written before, and took time.
        if cached and label_changes([cached], self._dual_nodes() or ()).get(name):
            await self._write_label(cached, "true")

    async def _list_each(
        self, work: Mapping[str, frozenset[str] | None], context: TranslationContext
    ) -> None:
        """List the pods of a bounded number of nodes, and write the labels that they decide."""

        async def process(item: tuple[str, frozenset[str] | None]) -> None:
            name, drivers = item
            # What was done before took time.
            cached = self._nodes.get(name)
            if cached is None:
                return
            if drivers is not None:
                held = await self._find_outlived(cached, drivers, context)
                is_due = held is not None
            else:
                held = await self._find_blocker(cached, context)
                # Its slices can be back by now: other nodes were written before it.
                is_due = held is None and not self._is_dual(name)
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

    def _is_dual(self, name: str) -> bool:
        return any(each.node == name for each in self._dual_nodes() or ())

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
        context: TranslationContext,
    ) -> Finding | None:
        """Return a finding if pods hold devices of a plugin that is gone; else note that."""
        # Without its plugin, no further pod gets devices of it.
        value: Unstructured = msgspec.json.decode(node.raw)
        held = describe_outlived_plugin(
            node.name, value, await self._list_holders(node.name, value), context
        )
        if held is None:
            self._without_plugin.note_free(node.name, drivers)
        return held

    async def _find_blocker(
        self, node: WatchedObject[PartialObject], context: TranslationContext
    ) -> Finding | None:
        """Return a finding if the label has to stay on a node that is no longer dual."""
        name, value = node.name, msgspec.json.decode(node.raw)
        publishing = self._publishing().get(name, frozenset())
        # The time runs while pods hold devices.
        absent = self._absences.find(name, _read_plugins(value, context), publishing)
        pods = await self._list_holders(name, value)
        held = describe_held_node(name, value, pods, publishing, context)
        return held or (_describe_absence(name, min(absent)) if absent else None)

    async def _list_holders(self, node: str, value: Unstructured) -> list[Unstructured]:
        """Return the pods of a node that may hold devices of any plugin."""
        pods = self._stores.pods.iterate(fields=f"spec.nodeName={node}")
        return [each async for each in pods if find_holders((each,), value, bool)]


class _Plugin(enum.IntEnum):
    """What a node says of the device plugin of a driver's devices; nothing if there was none.

    A kubelet keeps the name of one that is gone. Of several plugins, the highest counts.
    """

    GONE = 1
    STOPS = 2  # or restarts: the kubelet keeps its capacity for some minutes
    SERVES = 3


class NodesWithoutPlugin:
    """The nodes whose plugin is gone, which pods may outlive.

    Each is decoded once a change, and its pods are listed until none has devices of the plugin.
    """

    def __init__(self) -> None:
        self._states: dict[str, tuple[str, Mapping[str, _Plugin]]] = {}
        self._free: set[DriverOnNode] = set()
        self._served: object = None  # what decides which drivers' devices resource names count

    def find(
        self,
        nodes: Iterable[WatchedObject[PartialObject]],
        publishing: Publishing,
        context: TranslationContext,
    ) -> dict[str, frozenset[str]]:
        """Return the nodes whose pods are not known, with the drivers of which none serves.

        All are known if no driver publishes.
        """
        classes = context.facts.classes if context.facts else ()
        named = context.configuration.targets, context.configuration.legacy
        served = *named, drivers_by_resource(classes)
        if served != self._served:
            # What a node says, and what its pods hold, can mean something else now.
            self._served, self._states, self._free = served, {}, set()
        states: dict[str, tuple[str, Mapping[str, _Plugin]]] = {}
        unknown: dict[str, frozenset[str]] = {}
        for node in nodes if publishing else ():
            state = self._states.get(node.name)
            if state is None or state[0] != node.version:
                state = node.version, _read_plugins(msgspec.json.decode(node.raw), context)
            states[node.name] = state
            serving, gone = (
                {driver for driver, said in state[1].items() if said is plugin}
                for plugin in (_Plugin.SERVES, _Plugin.GONE)
            )
            self._free.difference_update((node.name, driver) for driver in serving)
            asked = gone.union(publishing.get(node.name, ())) - serving
            if left := frozenset(each for each in asked if (node.name, each) not in self._free):
                unknown[node.name] = left
        self._states = states
        self._free = {each for each in self._free if each[0] in states}
        return unknown

    def list_drivers(self, plugin: _Plugin) -> set[DriverOnNode]:
        """Return the drivers and nodes that say this of their plugin."""
        return {
            (node, driver)
            for node, (_, plugins) in self._states.items()
            for driver, said in plugins.items()
            if said is plugin
        }

    def note_free(self, node: str, drivers: Iterable[str]) -> None:
        """Note that no pod of a node has devices of the plugins of these drivers' devices."""
        self._free.update((node, driver) for driver in drivers)


class Absences:
    """Since when nodes that lose their label lack a plugin or its driver, by the own clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[DriverOnNode, tuple[_Plugin, float]] = {}
        self._stopped: set[DriverOnNode] = set()

    def follow(self, nodes: Collection[str], stopped: Iterable[DriverOnNode]) -> None:
        """Forget all nodes but those that can lose the label, and plugins that stop."""
        self._since = {at: each for at, each in self._since.items() if at[0] in nodes}
        self._stopped = {*stopped, *(each for each in self._stopped if each[0] in nodes)}

    def find(
        self, node: str, plugins: Mapping[str, _Plugin], publishing: Collection[str]
    ) -> list[_Plugin]:
        """Return what the node says of plugins of which one, or its driver, can come back.

        The first call begins the time after which they are gone for good.
        """
        return [
            plugin
            for driver, plugin in plugins.items()
            if not self._is_over((node, driver), plugin, publishes=driver in publishing)
        ]

    def _is_over(self, at: DriverOnNode, plugin: _Plugin, *, publishes: bool) -> bool:
        now, is_served = self._now(), plugin is _Plugin.SERVES
        if is_served:
            self._stopped.discard(at)
        elif plugin is _Plugin.STOPS:
            self._stopped.add(at)
        before, since = self._since.get(at, (plugin, now))
        if before is not plugin or (is_served and publishes):
            since = now
        self._since[at] = plugin, since
        return at in self._stopped or now - since >= ABSENCE_SECONDS


def _find_stopped(
    dual_nodes: Iterable[DualNode], context: TranslationContext
) -> Iterator[DriverOnNode]:
    for node in dual_nodes:
        for name in node.names if node.stopped else ():
            yield from ((node.node, driver) for driver in _find_drivers(name, context))


def _read_plugins(node: Unstructured, context: TranslationContext) -> dict[str, _Plugin]:
    """Return what a node says of the plugin of the devices of each driver that may have one."""
    status = _status(node)
    allocatable, capacity = status.get("allocatable") or {}, status.get("capacity") or {}
    plugins: dict[str, _Plugin] = {}
    for name in capacity | allocatable:
        said = _Plugin.STOPS if _is_available(capacity, name) else _Plugin.GONE
        if _is_available(allocatable, name):
            said = _Plugin.SERVES
        for driver in _find_drivers(name, context):
            plugins[driver] = max(said, plugins.get(driver, said))
    return plugins


def describe_held_node(
    name: str,
    node: Unstructured,
    pods: Iterable[Unstructured],
    publishing: Collection[str],
    context: TranslationContext,
) -> Finding | None:
    """Return a finding if pods of a node that is no longer dual may hold devices of a plugin.

    Names that no plugin of the node serves any more count as well. The configuration or a class
    can have given them a meaning when the node got its label, and nobody knows that later. Those of
    a plugin that serves count if a driver publishes its devices, or if none publishes any.
    """
    status, plugins = _status(node), _read_plugins(node, context)
    allocatable, capacity = status.get("allocatable") or {}, status.get("capacity") or {}

    def counts(name: str) -> bool:
        drivers = _find_drivers(name, context)
        is_published = bool(drivers.intersection(publishing) if publishing else drivers)
        return is_published or not _is_available(allocatable, name)

    def says(name: str, plugin: _Plugin) -> bool:
        return any(plugins.get(driver) is plugin for driver in _find_drivers(name, context))

    if holders := find_holders(pods, node, counts):
        serves = any(says(each, _Plugin.SERVES) for names in holders for each in names)
        return _describe_holders(name, holders, plugin_serves=serves)
    returning = [each for each in sorted(capacity) if says(each, _Plugin.STOPS)]
    if returning:
        # A plugin that restarts keeps its capacity for some minutes.
        message = (
            f"node {name} still has {', '.join(returning)} in its capacity, so the device "
            "plugin may restart; translated pods keep off the node"
        )
        return DUAL_NODES_HELD.at("status.capacity", message)
    return None


def _describe_absence(node: str, plugin: _Plugin) -> Finding:
    away, returns = "kubelet", "the device plugin may register again"
    if plugin is _Plugin.SERVES:
        away, returns = "driver", "its ResourceSlices may be complete again soon"
    return DUAL_NODES_HELD.at(
        "status.capacity",
        f"the {away} of node {node} may have restarted, and {returns}; translated pods keep off "
        "the node",
    )


def describe_outlived_plugin(
    name: str, node: Unstructured, pods: Iterable[Unstructured], context: TranslationContext
) -> Finding | None:
    """Return a finding if pods of a node without a plugin hold devices that a plugin gave them."""
    plugins = _read_plugins(node, context)
    holders = find_holders(
        pods,
        node,
        lambda name: any(
            plugins.get(driver) is not _Plugin.SERVES for driver in _find_drivers(name, context)
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


def _is_available(amounts: Mapping[str, Any], name: str) -> bool:
    return f"{amounts.get(name, 0)}" != "0"


def _status(value: Unstructured) -> Mapping[str, Any]:
    return value.get("status") or {}


def _find_drivers(name: str, context: TranslationContext) -> frozenset[str]:
    """Return the drivers whose devices a resource may count.

    If a class maps the name and selects no device yet, the name stands for its driver.
    """
    if "/" not in name:
        return frozenset()
    classes = context.facts.classes if context.facts else ()
    extended = drivers_by_resource(each for each in classes if each.extended == name)
    drivers = find_drivers(name, known_families(context.configuration), extended)
    return drivers or frozenset(extended)
