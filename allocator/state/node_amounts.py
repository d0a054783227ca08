"""CPU and memory that pods request on each node, those without claims included.

The cache of pods keeps only these two amounts of a pod, as the requests of the pod as a whole.
kube-scheduler decides whether a pod fits; strategies compare what nodes have left.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Format, Quantity
from drawbridge.ledger.node_resources import (
    CPU,
    MEMORY,
    Amounts,
    allocatable_amounts,
    held_amounts,
    requested_amounts,
)
from drawbridge.ledger.plugin_holders import find_held_names
from drawbridge.ledger.pods import ContainerResources, Pod

# Pods with the same requests share one object.
_MAX_KINDS: Final = 4096
_Requests: TypeAlias = tuple[int, int]


def summarized_requests(pod: Pod) -> ContainerResources:
    """Return CPU and memory that a pod requests, and holds if it has a node.

    Of resources of device plugins that it holds, only the names are kept, each with the amount 1.
    """
    amounts = held_amounts(pod) if pod.spec.node_name else requested_amounts(pod)
    held = tuple(sorted(find_held_names(pod)))
    return _as_resources(amounts.get(CPU, 0), amounts.get(MEMORY, 0), held)


@lru_cache(_MAX_KINDS)
def _as_resources(cpu: int, memory: int, held: tuple[str, ...]) -> ContainerResources:
    requests = {
        **dict.fromkeys(held, Quantity.of(1)),
        CPU: Quantity(cpu, -3, Format.DECIMAL_SI, decimal=False),
        MEMORY: Quantity.of(memory, Format.BINARY_SI),
    }
    return ContainerResources(requests)


class RequestedOnNodes:
    """What running pods request of nodes, and what nodes have left."""

    def __init__(self, nodes: Callable[[], Mapping[str, Node]]) -> None:
        self._nodes = nodes
        self._requested: dict[str, _Requests] = {}
        self._changed: set[str] = set()

    def apply(self, before: Pod | None, after: Pod | None) -> None:
        """Apply the change of a pod."""
        had, has = _on_node(before), _on_node(after)
        if had == has:
            return
        for (node, cpu, memory), sign in ((had, -1), (has, 1)):
            if node:
                total = self._requested.get(node, (0, 0))
                self._requested[node] = (total[0] + sign * cpu, total[1] + sign * memory)
                self._changed.add(node)
                if self._requested[node] == (0, 0):
                    del self._requested[node]

    def note_change(self, node: str) -> None:
        """Note that a node itself has changed."""
        self._changed.add(node)

    def left(self, node: str) -> Amounts:
        """Return what a node has left of the amounts that it reports."""
        of_node = self._nodes().get(node)
        total = allocatable_amounts(of_node) if of_node is not None else {}
        requested = self._requested.get(node, (0, 0))
        return {
            name: total[name] - amount
            for name, amount in zip((CPU, MEMORY), requested, strict=True)
            if name in total
        }

    def take_changed(self) -> frozenset[str]:
        """Return the nodes that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return frozenset(changed)


def _on_node(pod: Pod | None) -> tuple[str, int, int]:
    if pod is None or not pod.is_running:
        return ("", 0, 0)
    amounts = requested_amounts(pod)
    return (pod.spec.node_name, amounts.get(CPU, 0), amounts.get(MEMORY, 0))
