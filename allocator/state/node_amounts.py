"""What pods have on each node: CPU, memory and resources of device plugins.

Pods without claims are included. The cache of pods keeps only this of a pod, as the requests of the
pod as a whole. kube-scheduler decides whether a pod fits; strategies compare what nodes have left.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

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
from drawbridge.ledger.plugin_holders import (
    find_accepted_names,
    find_held_names,
    select_holdable,
)
from drawbridge.ledger.pods import ContainerResources, Pod

# Pods with the same requests share one object.
_MAX_KINDS: Final = 4096
# What is shared stays when its pods are gone, so it is small.
_MAX_SHARED_NAMES: Final = 8


def summarized_requests(pod: Pod) -> ContainerResources:
    """Return CPU and memory that a pod requests, and holds if it has a node.

    Of resources of device plugins that it holds, only the names are kept, each with the amount 1.
    """
    amounts = held_amounts(pod) if pod.spec.node_name else requested_amounts(pod)
    held = tuple(sorted(find_held_names(pod)))
    make = _as_shared_resources if len(held) <= _MAX_SHARED_NAMES else _as_resources
    return make(amounts.get(CPU, 0), amounts.get(MEMORY, 0), held)


def _as_resources(cpu: int, memory: int, held: tuple[str, ...]) -> ContainerResources:
    requests = {
        **dict.fromkeys(held, Quantity.of(1)),
        CPU: Quantity(cpu, -3, Format.DECIMAL_SI, decimal=False),
        MEMORY: Quantity.of(memory, Format.BINARY_SI),
    }
    return ContainerResources(requests)


_as_shared_resources = lru_cache(_MAX_KINDS)(_as_resources)


class PodsOnNodes:
    """What running pods request and hold of nodes, and what nodes have left."""

    def __init__(self, nodes: Callable[[], Mapping[str, Node]]) -> None:
        self._nodes = nodes
        # The sum of each amount; of a resource that a device plugin gave, the number of pods.
        self._totals: dict[str, Counter[str]] = {}
        # The number of pods by such resources that their nodes had when they were accepted.
        self._accepted: dict[str, Counter[str]] = {}
        # How many of the pods that hold such resources were created at each time.
        self._created: dict[str, Counter[str]] = {}
        self._changed: set[str] = set()

    def apply(self, before: Pod | None, after: Pod | None) -> Collection[str]:
        """Apply the change of a pod; return the nodes where other names are held than before."""
        had, has = _on_node(before), _on_node(after)
        if had == has:
            return ()
        names = {each.node: self.names_on(each.node) for each in (had, has) if each.node}
        for part, sign in ((had, -1), (has, 1)):
            _add(self._totals, part.node, part.amounts, sign)
            _add(self._accepted, part.node, part.accepted, sign)
            _add(self._created, part.node, part.created, sign)
        self._changed.update(names.keys() & self._nodes().keys())
        return [node for node, held in names.items() if self.names_on(node) != held]

    def note_change(self, node: str) -> None:
        """Note that a node itself has changed; one that is gone is none of those that have."""
        if node in self._nodes():
            self._changed.add(node)
        else:
            self._changed.discard(node)

    def left(self, node: str) -> Amounts:
        """Return what a node has left of the amounts that it reports."""
        of_node = self._nodes().get(node)
        total = allocatable_amounts(of_node) if of_node is not None else {}
        requested = self._totals.get(node, Counter())
        return {
            name: total[name] - requested.get(name, 0) for name in (CPU, MEMORY) if name in total
        }

    def names_on(self, node: str) -> Collection[str]:
        """Return the resources of device plugins that pods can hold on a node."""
        of_node = self._nodes().get(node)
        names, oldest = self._totals.get(node, {}).keys() - {CPU, MEMORY}, self._created.get(node)
        if not oldest or of_node is None:
            return names
        return select_holdable(names, self._accepted.get(node, ()), min(oldest), of_node)

    def take_changed(self) -> frozenset[str]:
        """Return the nodes that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return frozenset(changed)


def _add(sums: dict[str, Counter[str]], node: str, amounts: Mapping[str, int], sign: int) -> None:
    """Add amounts to the sums of a node, or subtract them; sums of 0 are not kept."""
    total = sums.setdefault(node, Counter())
    for name, amount in amounts.items():
        total[name] += sign * amount
        if not total[name]:
            del total[name]
    if not total:
        del sums[node]


class _OnNode(NamedTuple):
    """What one pod adds to the sums of its node."""

    node: str = ""
    amounts: Mapping[str, int] = {}
    accepted: Mapping[str, int] = {}
    created: Mapping[str, int] = {}


def _on_node(pod: Pod | None) -> _OnNode:
    if pod is None or not pod.is_running:
        return _OnNode()
    amounts = requested_amounts(pod)
    own = {name: amounts[name] for name in (CPU, MEMORY) if amounts.get(name)}
    names = find_held_names(pod)
    created = {pod.metadata.creation_timestamp or "": 1} if names else {}
    accepted = dict.fromkeys(find_accepted_names(pod), 1)
    return _OnNode(pod.spec.node_name, own | dict.fromkeys(names, 1), accepted, created)
