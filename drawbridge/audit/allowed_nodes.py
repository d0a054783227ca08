"""On which nodes new pods may run, by node selectors, affinity, taints and what is cordoned.

The filter is that of `drawbridge simulate`. Alike pods are filtered once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.nodes import Node
from drawbridge.ledger.node_fit import ClusterNodes, selected_nodes
from drawbridge.ledger.pods import Pod, pod_reader


class AllowedNodes:
    """Counts, for each pod, the nodes of each group where such a pod may start."""

    def __init__(self, nodes: Iterable[Node], groups: Mapping[str, str]) -> None:
        self._cluster = ClusterNodes(nodes=tuple(nodes))
        self._groups = groups
        self._reader = pod_reader()
        self._known: dict[bytes, Mapping[str, int]] = {}

    def count(self, pod: Value, names: Iterable[str]) -> Mapping[str, int]:
        """Return the number of nodes by group. `names` are the legacy names that the pod asks for.

        Their taints are tolerated: the API server or the translation adds that to the pod. A pod
        whose rules cannot be read is not held back.
        """
        rules = self._rules(pod, names)
        key = msgspec.json.encode(rules, order="sorted")
        if key not in self._known:
            read = self._reader.read({"metadata": {"name": "pod"}, "spec": rules})
            nodes = self._cluster.nodes
            chosen = selected_nodes(read, self._cluster)[0] if isinstance(read, Pod) else nodes
            self._known[key] = dict(Counter(self._groups.get(each.name, "") for each in chosen))
        return self._known[key]

    def _rules(self, pod: Value, names: Iterable[str]) -> dict[str, Value]:
        added: list[Value] = [{"key": name, "operator": "Exists"} for name in names]
        return {
            "nodeSelector": get_value(pod, ("spec", "nodeSelector")) or {},
            "affinity": {"nodeAffinity": get_value(pod, ("spec", "affinity", "nodeAffinity"))},
            "tolerations": [*as_list(get_value(pod, ("spec", "tolerations"))), *added],
        }
