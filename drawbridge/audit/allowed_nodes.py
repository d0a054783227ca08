"""On which nodes new pods may run, by node selectors, affinity, taints and local volumes.

The filter is that of `drawbridge simulate`. Alike pods are filtered once.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import UNSCHEDULABLE
from drawbridge.ledger.node_fit import ClusterNodes, selected_nodes
from drawbridge.ledger.pods import Pod, pod_reader

# The nodes that the volume of a PersistentVolumeClaim is tied to, by namespace and name.
Volumes = Mapping[tuple[str, str], frozenset[str]]


class AllowedNodes:
    """Finds, for each pod, the nodes where such a pod may start once they are not cordoned."""

    def __init__(self, nodes: Iterable[Node], volumes: Volumes | None = None) -> None:
        self._cluster = ClusterNodes(nodes=tuple(map(_opened, nodes)))
        self._volumes = volumes or {}
        self._reader = pod_reader()
        self._known: dict[bytes, frozenset[str]] = {}

    def find(self, pod: Value, names: Iterable[str]) -> frozenset[str]:
        """Return the names of the nodes. `names` are the legacy names that the pod asks for.

        Their taints are tolerated: the API server or the translation adds that to the pod. A pod
        whose rules cannot be read is not held back.
        """
        rules = self._rules(pod, names)
        key = msgspec.json.encode(rules, order="sorted")
        if key not in self._known:
            read = self._reader.read({"metadata": {"name": "pod"}, "spec": rules})
            nodes = self._cluster.nodes
            chosen = selected_nodes(read, self._cluster)[0] if isinstance(read, Pod) else nodes
            self._known[key] = frozenset(each.name for each in chosen)
        return self._narrow(self._known[key], pod) if self._volumes else self._known[key]

    def _narrow(self, nodes: frozenset[str], pod: Value) -> frozenset[str]:
        """Return the nodes that the volumes of a pod can be mounted on."""
        namespace = f"{get_value(pod, ('metadata', 'namespace')) or 'default'}"
        for volume in as_list(get_value(pod, ("spec", "volumes"))):
            claim = get_value(volume, ("persistentVolumeClaim", "claimName"))
            nodes &= self._volumes.get((namespace, f"{claim}"), nodes)
        return nodes

    def _rules(self, pod: Value, names: Iterable[str]) -> dict[str, Value]:
        added: list[Value] = [{"key": name, "operator": "Exists"} for name in names]
        return {
            "nodeSelector": get_value(pod, ("spec", "nodeSelector")) or {},
            "affinity": {"nodeAffinity": get_value(pod, ("spec", "affinity", "nodeAffinity"))},
            "tolerations": [*as_list(get_value(pod, ("spec", "tolerations"))), *added],
        }


def _opened(node: Node) -> Node:
    """Return a node as it is when nobody has cordoned it."""
    taints = tuple(each for each in node.taints if each.key != UNSCHEDULABLE.key)
    return replace(node, unschedulable=False, taints=taints)
