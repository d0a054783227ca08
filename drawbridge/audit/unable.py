"""Which nodes cannot move now, because no driver would come or a drain would not end."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drawbridge.audit.objects import namespace_of, owners_of, text_at
from drawbridge.documents.values import Value
from drawbridge.dra.counted import list_some
from drawbridge.dra.gates import VERSIONS, is_older
from drawbridge.dra.nodes import Node

_MAX_NAMES: Final = 10
# The API that drivers publish with is on by default from here.
_FIRST_VERSION: Final = VERSIONS[0]
# What autoscalers and clouds set on a node that they take away.
_GOING: Final = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.cloudprovider.kubernetes.io/shutdown",
)
_ENDS: Final = ("metadata", "deletionTimestamp")
_LABELS: Final = {
    ("type", "virtual-kubelet"): "is a virtual kubelet, where no driver runs",
    ("eks.amazonaws.com/compute-type", "fargate"): "is no machine, so no driver runs there",
    ("kubernetes.io/os", "windows"): "runs Windows, for which there is no driver",
}


def find_without_driver(nodes: Iterable[Node]) -> Mapping[str, str]:
    """Return the nodes where no driver can run now, and why."""
    return {node.name: why for node in nodes if (why := _why_without_driver(node))}


def _why_without_driver(node: Node) -> str:
    for (key, value), why in _LABELS.items():
        if node.labels.get(key) == value:
            return why
    if is_older(node.kubelet, _FIRST_VERSION):
        return f"has kubelet {node.kubelet}, and drivers need v{_FIRST_VERSION}"
    if any(each.key in _GOING for each in node.taints):
        return "is being removed by its autoscaler or cloud"
    return "" if node.ready else "is not ready"


def find_unending(pods: Iterable[Value]) -> Mapping[str, str]:
    """Return the nodes with a pod that is ending and that a drain waits for, with the pod."""
    unending: dict[str, str] = {}
    for pod in pods:
        node, ends = (text_at(pod, *e) for e in (("spec", "nodeName"), _ENDS))
        if node and ends and not _is_left(pod):
            name = f"{namespace_of(pod)}/{text_at(pod, 'metadata', 'name')}"
            unending[node] = f"has pod {name}, which is ending, and a drain would wait for it"
    return unending


def _is_left(pod: Value) -> bool:
    return any(each.get("kind") in ("DaemonSet", "Node") for each in owners_of(pod))


def note_unable(reasons: Mapping[str, str], plugged: Iterable[str]) -> Iterator[str]:
    """Yield one note for each reason why nodes with plugins do not move."""
    by_reason: dict[str, list[str]] = {}
    for name in plugged:
        if name in reasons:
            by_reason.setdefault(reasons[name], []).append(name)
    for why, names in by_reason.items():
        named = list_some(sorted(names), _MAX_NAMES, "node")
        yield f"Not moved: {named}. Reason: the node {why}. When that has changed, audit again."
