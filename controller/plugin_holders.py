"""Which names of device plugins the pods of each node may hold, as the watch of pods tells.

A list of the pods of a node decides about it, by all that `drawbridge.ledger.plugin_holders` reads.
This tells which nodes need one, so it counts each pod that such a list can count.
"""

from collections.abc import Callable
from typing import Final

from controller.protocols import WatchedObject
from drawbridge.report.stuck.objects import FINISHED, HangingPod
from drawbridge.report.stuck.pods import plugin_names

# Stands for names that the cache does not keep.
ANY: Final = ""


class PluginHolders:
    """The names by node. `is_fresh` tells whether the cache follows the API server."""

    def __init__(self, is_fresh: Callable[[], bool]) -> None:
        self._is_fresh = is_fresh
        # By node, then by namespace and name of the pod.
        self._names: dict[str, dict[tuple[str, str], frozenset[str]]] = {}

    @property
    def fresh(self) -> bool:
        """Whether the names are those of all pods as they are now."""
        return self._is_fresh()

    def pod_changed(
        self, before: WatchedObject[HangingPod] | None, after: WatchedObject[HangingPod] | None
    ) -> None:
        """Note what a pod may hold."""
        if before is not None and (of_node := self._names.get(before.value.spec.node_name)):
            of_node.pop((before.namespace, before.name), None)
            if not of_node:
                del self._names[before.value.spec.node_name]
        if after is not None and (names := _find_held_names(after.value)):
            of_node = self._names.setdefault(after.value.spec.node_name, {})
            of_node[after.namespace, after.name] = names

    def find(self, node: str) -> frozenset[str]:
        """Return the names that pods of a node may hold."""
        of_node = self._names.get(node)
        return frozenset[str]().union(*of_node.values()) if of_node else frozenset()


def _find_held_names(pod: HangingPod) -> frozenset[str]:
    """Return the names that a pod may hold; its claim has those that its status names."""
    if not pod.spec.node_name or pod.status.phase in FINISHED:
        return frozenset()
    extended = pod.status.extended_resource_claim_status
    mappings = extended.request_mappings or () if extended is not None else ()
    names = frozenset(plugin_names(pod)).difference(each.resource_name for each in mappings)
    return names | {ANY} if pod.spec.parts_left_out else names
