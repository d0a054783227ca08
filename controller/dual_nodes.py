"""Labels nodes where a device plugin and ResourceSlices offer the same devices.

The label keeps translated pods off these nodes. `facts` finds the nodes. A container keeps a device
of a plugin after the plugin is removed, so the label stays until the last pod that may hold such a
device is gone. This reconciler changes only its own label.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from controller.protocols import (
    Gauge,
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    Unstructured,
    WatchedObject,
)
from controller.reconcile import process_each
from controller.watched_objects import PartialObject
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.agreement.operation_codes import DUAL_NODES_HELD
from drawbridge.api_error import ApiError
from drawbridge.dra.families import serves_name
from drawbridge.facts.families import known_families
from drawbridge.facts.served_names import DualNode
from drawbridge.finding import Finding
from drawbridge.names import DUAL_LABEL as LABEL
from drawbridge.translate.pods import TranslationContext

NAME: Final = "dual"


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
        context: Callable[[], TranslationContext | None],
        reporter: Reporter,
        reference: ObjectReference,
    ) -> None:
        self._nodes = nodes
        self._stores = stores
        self._dual_nodes = dual_nodes
        self._context = context
        self._reporter = reporter
        self._reference = reference
        self._reported: frozenset[Finding] = frozenset()

    async def reconcile(self) -> None:
        """Update the labels; do nothing until facts were gathered once."""
        dual_nodes, context = self._dual_nodes(), self._context()
        if dual_nodes is None or context is None:
            return
        description = describe_dual_nodes(dual_nodes)
        findings = {description} if description else set()
        self._reporter.set_gauge(Gauge.DUAL_NODES, len(dual_nodes))
        idle_devices = sum(each.devices for each in dual_nodes)
        self._reporter.set_gauge(Gauge.DUAL_NODE_IDLE_DEVICES, idle_devices)

        async def change_label(change: tuple[str, str | None]) -> None:
            name, value = change
            blocker = await self._find_blocker(name, context) if value is None else None
            if blocker is not None:
                findings.add(blocker)
            else:
                await self._write_label(name, value)

        try:
            changes = label_changes(self._nodes.all(), dual_nodes)
            await process_each(sorted(changes.items()), change_label)
        finally:
            self._report(findings)

    def _report(self, findings: set[Finding]) -> None:
        for finding in sorted(findings - self._reported, key=lambda each: each.message):
            self._reporter.report(finding, self._reference, "LabelNodes")
        self._reported = frozenset(findings)

    async def _write_label(self, name: str, value: str | None) -> None:
        try:
            await self._stores.nodes.merge(name, {"metadata": {"labels": {LABEL: value}}})
        except ApiError as error:
            if error.code != 404:  # the node was deleted
                raise
            return
        self._reporter.count(NAME, "labelled" if value else "unlabelled")

    async def _find_blocker(self, node: str, context: TranslationContext) -> Finding | None:
        """Return a finding if the label has to stay on a node that is no longer dual."""
        cached = self._nodes.get(node)
        value = msgspec.json.decode(cached.raw) if cached else {}
        pods = await self._stores.pods.list(fields=f"spec.nodeName={node}")
        return describe_held_node(node, value, pods, context)


def describe_held_node(
    name: str, node: Unstructured, pods: Iterable[Unstructured], context: TranslationContext
) -> Finding | None:
    """Return a finding if pods of a node that is no longer dual may hold devices of a plugin."""
    status = _status(node)
    served = _device_names(status.get("allocatable"), context)
    holders = [names for pod in pods if (names := _plugin_names(pod, context))]
    if holders:
        return _describe_holders(name, holders, plugin_serves=bool(served))
    if served:
        return None  # without slices, no translated pod can get devices of the node
    if returning := _device_names(status.get("capacity"), context):
        # A plugin that restarts keeps its capacity for some minutes.
        message = (
            f"node {name} still has {', '.join(returning)} in its capacity, so the device "
            "plugin may restart; translated pods keep off the node"
        )
        return DUAL_NODES_HELD.at("status.capacity", message)
    return None


def _describe_holders(node: str, holders: list[set[str]], *, plugin_serves: bool) -> Finding:
    # The slices of a kubelet that restarts come back, and the plugin may be gone by then.
    gone = (
        "the ResourceSlices of node {} are" if plugin_serves else "the device plugin on node {} is"
    )
    held = ", ".join(sorted(set[str]().union(*holders)))
    pods_hold = "1 pod still holds" if len(holders) == 1 else f"{len(holders)} pods still hold"
    return DUAL_NODES_HELD.at(
        "status.allocatable",
        f"{gone.format(node)} gone, but {pods_hold} devices that the device plugin allocated for "
        f"{held}; translated pods keep off the node",
    )


def _device_names(amounts: Mapping[str, Any] | None, context: TranslationContext) -> list[str]:
    """Return the names of DRA devices with an amount other than 0."""
    return sorted(
        name
        for name, amount in (amounts or {}).items()
        if f"{amount}" != "0" and _is_served(name, context)
    )


def _status(value: Unstructured) -> Mapping[str, Any]:
    return value.get("status") or {}


def _plugin_names(pod: Unstructured, context: TranslationContext) -> set[str]:
    """Return the names for which a pod may hold devices of a plugin."""
    status = _status(pod)
    if status.get("phase") in ("Succeeded", "Failed"):
        return set()
    claim_status = status.get("extendedResourceClaimStatus") or {}
    # For these names the scheduler created a claim, so no plugin allocated a device.
    claimed = {each.get("resourceName") for each in claim_status.get("requestMappings") or ()}
    return {
        name for name in _requested_names(pod) if name not in claimed and _is_served(name, context)
    }


def _requested_names(pod: Unstructured) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        yield from resources.get("limits") or {}
        yield from resources.get("requests") or {}


def _is_served(name: str, context: TranslationContext) -> bool:
    """Whether the resource may count devices that ResourceSlices publish."""
    if "/" not in name:
        return False
    families = known_families(context.configuration).values()
    classes = context.facts.classes if context.facts else ()
    return any(serves_name(each, name) for each in families) or any(
        c.extended == name for c in classes
    )
