"""Tells that a pod with claims is for one node, and that this node still has the device plugin."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.report.codes import NODE_NOT_MOVED

_TERMS: Final = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def find_tied(pod: Value) -> str:
    """Return the node that a waiting pod of a DaemonSet is for, also while it is cordoned."""
    for term in as_list(get_value(pod, _TERMS)):
        for field_term in map(as_mapping, as_list(as_mapping(term).get("matchFields"))):
            values = as_list(field_term.get("values"))
            if field_term.get("key") == "metadata.name" and len(values) == 1:
                return f"{values[0]}"
    return ""


def report_tied(
    pod: Value, names: Iterable[str], nodes: Mapping[str, Value], about: str
) -> Iterator[Finding]:
    """Report a translated pod that waits for a node whose plugin serves what it asked for."""
    node = find_tied(pod)
    offered = as_mapping(get_value(nodes.get(node), ("status", "allocatable")))
    served = [each for each in dict.fromkeys(names) if f"{offered.get(each, 0)}" != "0"]
    if served:
        message = f"is for node {node}, where a device plugin serves {', '.join(served)}"
        yield NODE_NOT_MOVED.at("", message, object=about)
