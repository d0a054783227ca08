"""CPU, memory and other counted resources: what pods request, and what nodes have left.

Counts as the plugin NodeResourcesFit of kube-scheduler does: requests against allocatable, in whole
units of each resource (thousandths of a CPU, bytes, pieces), limits and use do not count. A name
that a DeviceClass serves on a node is not counted there, because devices are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Format, Quantity, to_int64
from drawbridge.ledger import codes
from drawbridge.ledger.extended_resources import is_extended
from drawbridge.ledger.pods import (
    SIDECAR,
    ContainerResources,
    ContainerStatus,
    Pod,
    PodContainer,
    PodStatus,
)
from drawbridge.solver.reasons import Reason

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
# Every kubelet reports these; a node without one is from a file that leaves it out.
_ALWAYS_REPORTED: Final = (CPU, MEMORY, STORAGE, PODS)
_HUGE_PAGES: Final = "hugepages-"
_OTHER_COUNTED: Final = (_HUGE_PAGES, "attachable-volumes-")
# A pod can request these as a whole, instead of its containers.
_OF_POD: Final = (CPU, MEMORY)
_MI: Final = 1 << 20

# Amounts by resource name, in the units of the scheduler. Requests never have an amount of zero.
Amounts: TypeAlias = Mapping[str, int]
# The same in billionths, so that sums are rounded once.
_Exact: TypeAlias = dict[str, int]


def requested_amounts(pod: Pod) -> Amounts:
    """Return what a pod requests of a node before it runs, with 1 of `pods`."""
    return _in_units(_total(pod, is_running=False))


def held_amounts(pod: Pod) -> Amounts:
    """Return what a running pod requests of its node.

    While the pod is resized in place, that is the larger of what it asks for and what it has.
    """
    return _in_units(_total(pod, is_running=True))


def amounts_of(resources: ContainerResources) -> Amounts:
    """Return the requests of one container, or of a pod as a whole."""
    return {name: _units(name, each.nanos()) for name, each in resources.requests.items()}


def allocatable_amounts(node: Node) -> Amounts:
    """Return what a node has for pods.

    If a resource is missing that kubelets always report, nothing is known about it, and every pod
    fits. An extended resource of zero is left from a plugin that is gone: a class can serve it.
    """
    return {
        name: _units(name, amount.nanos())
        for name, amount in node.allocatable.items()
        if (name == PODS or _is_counted(name)) and (amount.sign() or not is_extended(name))
    }


class NodeResources:
    """What nodes have left of each resource. A pod that starts or ends costs a few additions."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._left = {each.name: dict(allocatable_amounts(each)) for each in nodes}
        self._changed: set[str] = set()

    def add(self, node: str, amounts: Amounts) -> None:
        """Count a pod on a node; unknown nodes are ignored."""
        left = self._left.get(node)
        if left is None:
            return
        self._changed.add(node)
        for name, amount in amounts.items():
            if name in left:
                left[name] -= amount

    def remove(self, node: str, amounts: Amounts) -> None:
        """Stop counting a pod on a node."""
        self.add(node, {name: -amount for name, amount in amounts.items()})

    def left(self, node: str) -> Amounts:
        """Return what a node has left; less than nothing if pods request more than it has."""
        return self._left.get(node, {})

    def take_changed(self) -> frozenset[str]:
        """Return the nodes on which pods were added or removed since the last call."""
        changed, self._changed = self._changed, set()
        return frozenset(changed)

    def lacking(self, node: str, requested: Amounts) -> tuple[str, ...]:
        """Return the resources of which a node has too little left.

        Extended resources that the node does not have are not among them: whether a plugin or a
        class serves them is another question.
        """
        left = self._left.get(node)
        if left is None:
            return ()
        short: tuple[str, ...] = ()
        for name, amount in requested.items():
            have = left.get(name)
            if have is None:
                if not name.startswith(_OTHER_COUNTED):
                    continue
                have = 0
            if amount > have:
                short = (*short, name)
        return short

    def counts(self, node: str, requested: Amounts) -> bool:
        """Tell whether a node has less left after a pod was added."""
        return not requested.keys().isdisjoint(self._left.get(node, {}))

    def fitting(
        self, requested: Amounts, nodes: Sequence[Node]
    ) -> tuple[list[Node], tuple[Reason, ...]]:
        """Return the nodes that have enough left, and reasons for the others."""
        fitting: list[Node] = []
        lacking: dict[tuple[str, ...], list[str]] = {}
        for node in nodes:
            names = self.lacking(node.name, requested)
            if names:
                lacking.setdefault(names, []).append(node.name)
            else:
                fitting.append(node)
        return fitting, tuple(self._reasons(requested, lacking, len(nodes)))

    def _reasons(
        self, requested: Amounts, lacking: Mapping[tuple[str, ...], Sequence[str]], before: int
    ) -> Iterator[Reason]:
        for names, nodes in lacking.items():
            yield Reason(
                codes.INSUFFICIENT_RESOURCES.name,
                "resources",
                before,
                before - len(nodes),
                len(nodes),
                self._nearest(requested, names, nodes),
                self._describe(requested, names, nodes),
            )

    def _nearest(self, requested: Amounts, names: Sequence[str], nodes: Sequence[str]) -> str:
        """Return the node that has the largest part of what it lacks most."""

        def part(node: str) -> float:
            left = self._left[node]
            return min(left.get(name, 0) / requested[name] for name in names)

        return max(nodes, key=part)

    def _describe(self, requested: Amounts, names: Sequence[str], nodes: Sequence[str]) -> str:
        parts = []
        for name in names:
            most = max(0, *(self._left[node].get(name, 0) for node in nodes))
            asked, have = format_amount(name, requested[name]), format_amount(name, most)
            at_most = "at most " if len(nodes) > 1 else ""
            parts.append(f"{asked} of {name} requested, {at_most}{have} left")
        return f"insufficient {' and '.join(names)}: {', '.join(parts)}"


def format_amount(name: str, amount: int) -> str:
    """Format an amount as a quantity; what is more than a Gi is rounded down to Mi."""
    if name == CPU:
        return Quantity(amount, -3, Format.DECIMAL_SI, decimal=False).canonical()
    if name in (MEMORY, STORAGE) or name.startswith(_HUGE_PAGES):
        shown = amount if amount < _MI << 10 else amount // _MI * _MI
        return Quantity.of(shown, Format.BINARY_SI).canonical()
    return f"{amount}"


# --- requests of one pod -------------------------------------------------------------------------


def _total(pod: Pod, *, is_running: bool) -> _Exact:
    """Return the requests of the containers or of the pod as a whole, and its overhead."""
    status = pod.status if is_running else PodStatus()
    statuses = {e.name: e for e in (*status.container_statuses, *status.init_container_statuses)}
    refused = is_running and pod.is_resize_infeasible
    total = _of_containers(pod, statuses, refused=refused)
    total |= _of_pod(pod, total, refused=refused, is_running=is_running)
    _add(total, {name: each.nanos() for name, each in pod.spec.overhead.items()})
    return total


def _of_containers(pod: Pod, statuses: Mapping[str, ContainerStatus], *, refused: bool) -> _Exact:
    """Return the most that the containers request at one time.

    An init container runs alone, except for the sidecars before it, which keep running. Each
    request is looked at once: a pod has as many containers and names as fit into it.
    """
    total: _Exact = {}
    for container in pod.spec.containers:
        _add(total, _of_container(container, statuses, refused=refused))
    sidecars: _Exact = {}
    largest: _Exact = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == SIDECAR:
            amounts = _of_container(container, statuses, refused=refused)
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise(largest, {name: sidecars[name] for name in amounts})
        else:
            alone = _of_container(container, {}, refused=False)
            _raise(largest, {name: each + sidecars.get(name, 0) for name, each in alone.items()})
    _raise(total, largest)
    return total


def _of_container(
    container: PodContainer, statuses: Mapping[str, ContainerStatus], *, refused: bool
) -> _Exact:
    asked = _exact(container.resources.effective_requests())
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    return _resized(asked, status.resources.requests, status.allocated_resources, refused=refused)


def _of_pod(pod: Pod, of_containers: _Exact, *, refused: bool, is_running: bool) -> _Exact:
    """Return the amounts that the pod requests as a whole; they replace those of the containers."""
    resources = pod.spec.resources
    if resources is None:
        return {}
    asked = {name: each for name, each in _exact(resources.requests).items() if _is_of_pod(name)}
    for name, limit in _exact(resources.limits).items():
        # The API server writes this default when it creates the pod.
        if name in _OF_POD:
            asked.setdefault(name, of_containers.get(name, limit))
        elif _is_of_pod(name):
            asked.setdefault(name, limit)
    if not asked or not is_running or pod.status.resources is None:
        return asked
    has, allocated = pod.status.resources.requests, pod.status.allocated_resources
    resized = _resized(asked, has, allocated, refused=refused)
    return {name: resized.get(name, 0) for name in asked}


def _resized(
    asked: _Exact,
    has: Mapping[str, Quantity],
    allocated: Mapping[str, Quantity],
    *,
    refused: bool,
) -> _Exact:
    """Return the largest of what is asked, used and allocated; a refused resize is not asked."""
    requests: _Exact = {} if refused else dict(asked)
    _raise(requests, _exact(has))
    _raise(requests, _exact(allocated))
    return requests


def _exact(amounts: Mapping[str, Quantity]) -> _Exact:
    return {name: amount.nanos() for name, amount in amounts.items()}


def _add(total: _Exact, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: _Exact, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def _in_units(exact: _Exact) -> Amounts:
    amounts = {PODS: 1}
    for name, nanos in exact.items():
        if nanos > 0 and _is_counted(name):
            amounts[name] = _units(name, nanos)
    return amounts


def _units(name: str, nanos: int) -> int:
    """Return whole units, rounded up, at most an int64."""
    return to_int64(-(-nanos // (1_000_000 if name == CPU else 1_000_000_000)))


def _is_counted(name: str) -> bool:
    if name in _ALWAYS_REPORTED:
        return name != PODS
    return is_extended(name) or "kubernetes.io/" in name or name.startswith(_OTHER_COUNTED)


def _is_of_pod(name: str) -> bool:
    return name in _OF_POD or name.startswith(_HUGE_PAGES)


def count_running(nodes: Iterable[Node], pods: Collection[Pod]) -> NodeResources:
    """Return what the running pods leave. Pods that have ended hold nothing."""
    left = NodeResources(nodes)
    for pod in pods:
        if pod.is_running:
            left.add(pod.spec.node_name, held_amounts(pod))
    return left
