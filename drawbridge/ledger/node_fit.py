"""Filters the nodes for a pod, by the fields of both.

The filters are nodeName, nodeSelector, required node affinity, unschedulable, taints, the resource
names that device plugins serve, and the node selectors of allocated claims. The amounts of
resources are in `drawbridge.ledger.node_resources`. The other filters of the scheduler are not
evaluated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from drawbridge.dra.allocation import Consumer
from drawbridge.dra.claim import CLAIM, Claim
from drawbridge.dra.classes import is_implicit_name
from drawbridge.dra.codes import CLASS_NAME_UNSERVED
from drawbridge.dra.counted import count_noun
from drawbridge.dra.device import NodeSelector, Taint
from drawbridge.dra.nodes import (
    Node,
    matches_selector,
    named_nodes,
    selector_problems,
    without_malformed_terms,
)
from drawbridge.dra.taints import UNSCHEDULABLE, Toleration, first_untolerated
from drawbridge.finding import Code, Finding
from drawbridge.ledger import codes, extended_resources
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.pods import Pod
from drawbridge.names import OWNED_TAINT, SCHEDULER_NAME
from drawbridge.solver.reasons import Reason, ReasonOfExample

_FENCE: Final = Taint(OWNED_TAINT, "NoSchedule")


class ClusterNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a cluster, and their properties other than devices.

    `fenced` nodes get the taint of owned nodes, which pods of other schedulers do not tolerate. Of
    the nodes that are not among them, that taint does not count. `advertised` holds the resource
    names that device plugins serve on a node; `classes` maps each resource name to the class that
    serves it, by a claim that only a scheduler that `makes_claims` makes.
    """

    nodes: tuple[Node, ...]
    fenced: frozenset[str] = frozenset()
    advertised: Mapping[str, frozenset[str]] = {}
    classes: Mapping[str, extended_resources.ServingClass] = {}
    makes_claims: bool = True


class ServedNodes(msgspec.Struct, frozen=True):
    """Nodes that serve a pod's extended resources, by the names that classes serve there."""

    groups: Mapping[tuple[str, ...], list[Node]]
    reasons: tuple[Reason, ...] = ()


# The nodes that passed, and the reasons for the others.
Passed: TypeAlias = tuple[list[Node], tuple[Reason, ...]]


class NodeFilter(NamedTuple):
    """One filter by name: which nodes passed, and the reasons for the others."""

    name: str
    nodes: list[Node]
    reasons: tuple[Reason, ...] = ()


def selected_nodes(pod: Pod, cluster: ClusterNodes) -> Passed:
    """Return the nodes that the fields of a pod and of the nodes allow, and other reasons."""
    if not cluster.nodes:
        return [], (make_reason(codes.NODE_UNFIT, "nodes", "there are no nodes"),)
    nodes: list[Node] = []
    reasons: tuple[Reason, ...] = ()
    for each in filter_nodes(pod, cluster):
        nodes, reasons = each.nodes, (*reasons, *each.reasons)
    return nodes, reasons


def filter_nodes(pod: Pod, cluster: ClusterNodes) -> Iterator[NodeFilter]:
    """Yield the filters by the fields of a pod and of the nodes, each with what it leaves."""
    nodes: list[Node] = [*cluster.nodes]
    for name, apply in _FILTERS:
        nodes, reasons = apply(pod, nodes, cluster)
        yield NodeFilter(name, nodes, reasons)


def _requested_node(pod: Pod, nodes: list[Node], _: ClusterNodes) -> Passed:
    requested = pod.spec.node_name
    if not requested:
        return nodes, ()
    passed = [node for node in nodes if node.name == requested]
    return _exclude(f"excluded by nodeName {requested}", nodes, passed)


def _open_nodes(pod: Pod, nodes: list[Node], _: ClusterNodes) -> Passed:
    # A pod with nodeName bypasses the scheduler, so unschedulable and taints have no effect.
    if pod.spec.node_name or not nodes:
        return nodes, ()
    return schedulable_nodes(nodes, pod.spec.tolerations)


def _labelled_nodes(pod: Pod, nodes: list[Node], _: ClusterNodes) -> Passed:
    selector = pod.spec.node_selector
    if not selector:
        return nodes, ()
    passed = [node for node in nodes if has_labels(selector, node)]
    text = "excluded by nodeSelector " + ", ".join(f"{k}={v}" for k, v in sorted(selector.items()))
    return _exclude(text, nodes, passed)


def _near_nodes(pod: Pod, nodes: list[Node], _: ClusterNodes) -> Passed:
    required = pod.required_nodes
    if required is None:
        return nodes, ()
    valid = without_malformed_terms(required)
    near = [node for node in _named(nodes, valid) if matches_selector(valid, node)]
    return _exclude("excluded by the required node affinity", nodes, near)


def _named(nodes: list[Node], selector: NodeSelector) -> list[Node]:
    """Return the nodes that a selector names, or all: each pod of a DaemonSet names its node."""
    names = named_nodes(selector)
    return nodes if names is None else [node for node in nodes if node.name in names]


def _tolerated_nodes(pod: Pod, nodes: list[Node], cluster: ClusterNodes) -> Passed:
    """Return the nodes without a taint that the pod does not tolerate, and the other reasons."""
    if pod.spec.node_name:
        return nodes, ()
    fitting: list[Node] = []
    excluded: dict[Taint, int] = {}
    for node in nodes:
        is_fenced = node.name in cluster.fenced
        # Most nodes have no taint.
        tainted = is_fenced or bool(node.taints)
        taint = _first_untolerated(pod, node, is_fenced=is_fenced) if tainted else None
        if taint is None:
            fitting.append(node)
        else:
            excluded[taint] = excluded.get(taint, 0) + 1
    reasons = [
        _node_reason(f"excluded by the taint {_format_taint(taint)}", len(nodes), count)
        for taint, count in excluded.items()
    ]
    return fitting, tuple(reasons)


_FILTERS: Final = (
    ("nodeName", _requested_node),
    ("unschedulable", _open_nodes),
    ("taints", _tolerated_nodes),
    ("nodeSelector", _labelled_nodes),
    ("nodeAffinity", _near_nodes),
)


def _first_untolerated(pod: Pod, node: Node, *, is_fenced: bool) -> Taint | None:
    # The owned nodes of the configuration decide about their taint, not what a node has now.
    taints = (each for each in node.taints if each.key not in (OWNED_TAINT, UNSCHEDULABLE.key))
    counting = (*taints, _FENCE) if is_fenced else taints
    taint = first_untolerated(counting, pod.spec.tolerations)
    # The time at which a taint was added would tell equal taints apart.
    return taint and Taint(taint.key, taint.effect, taint.value)


def _format_taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def schedulable_nodes(nodes: Sequence[Node], tolerations: Sequence[Toleration] = ()) -> Passed:
    """Return the schedulable nodes, and reasons for the others; a toleration can ignore that."""
    if not nodes:
        return [], (make_reason(codes.NODE_UNFIT, "nodes", "there are no nodes"),)
    if first_untolerated((UNSCHEDULABLE,), tolerations) is None:
        return [*nodes], ()
    return _exclude("unschedulable", nodes, [node for node in nodes if not node.unschedulable])


def group_nodes_by_service(pod: Pod, nodes: Sequence[Node], cluster: ClusterNodes) -> ServedNodes:
    """Group nodes by the extended resources of a pod that a class must serve there.

    A device plugin takes precedence over a class.
    """
    requested = extended_resources.requested_names(pod)
    if not requested:
        return ServedNodes({(): [*nodes]} if nodes else {})
    groups: dict[tuple[str, ...], list[Node]] = {}
    unserved: dict[str, int] = {}
    for node in nodes:
        plugins = cluster.advertised.get(node.name, frozenset())
        class_names = tuple(name for name in requested if name not in plugins)
        unserved_names = [
            name for name in class_names if not cluster.makes_claims or name not in cluster.classes
        ]
        if not unserved_names:
            groups.setdefault(class_names, []).append(node)
        for name in unserved_names:
            unserved[name] = unserved.get(name, 0) + 1
    reasons = [
        make_reason(
            *_why_unserved(name, cluster),
            before=len(nodes),
            nodes=count,
        )
        for name, count in sorted(unserved.items())
    ]
    return ServedNodes(groups, tuple(reasons))


def _why_unserved(name: str, cluster: ClusterNodes) -> tuple[Code, str, str]:
    """Return the code, the stage and the message of a name that nothing serves on a node."""
    if not cluster.makes_claims and (name in cluster.classes or is_implicit_name(name)):
        message = f"the scheduler {SCHEDULER_NAME} does not allocate {name} (of a DeviceClass)"
        return CLASS_NAME_UNSERVED, "resources", message
    message = f"no device plugin or DeviceClass serves {name}"
    return codes.SERVED_BY_NOBODY, "resources", message


def extended_resource_findings(
    pod: Pod, cluster: ClusterNodes, about: str, remedy_of: Callable[[str], str | None]
) -> tuple[Finding, ...]:
    """Return findings for extended resources of a pod that get no claim.

    `remedy_of` returns what to do about a name that nobody serves, if it is not the usual.
    """
    findings = []
    for name in extended_resources.requested_names(pod):
        count = sum(name in names for names in cluster.advertised.values())
        if count:
            message = (
                f"a device plugin serves {name} on {count_noun(count, 'node')}, so the pod gets no "
                "claim for it"
            )
            findings.append(codes.SERVED_BY_PLUGIN.at("spec", message, object=about))
        elif name not in cluster.classes:
            message = f"no node advertises {name}, and no DeviceClass serves it"
            unserved = codes.SERVED_BY_NOBODY.at(
                "spec", message, object=about, remedy=remedy_of(name)
            )
            findings.append(unserved)
    return tuple(findings)


def reachable_nodes(claims: Sequence[Claim], nodes: Sequence[Node]) -> Passed:
    """Return the nodes where allocated claims can be used, and reasons for the others."""
    left, reasons = list(nodes), []
    for claim in claims:
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation else None
        if selector is None:
            continue
        invalid = selector_problems(selector)
        selected = [node for node in left if not invalid and matches_selector(selector, node)]
        if len(selected) < len(left):
            code, before = codes.ALLOCATED_ELSEWHERE, len(left)
            text = f"{CLAIM} {name_of(claim)} is allocated on other nodes"
            lost = before - len(selected)
            reasons.append(make_reason(code, "nodes", text, before=before, nodes=lost))
        left = selected
    return left, tuple(reasons)


def with_consumer(claim: Claim, pod: Pod) -> Claim:
    """Return a claim that is also reserved for a pod."""
    user = Consumer.of_pod(pod.metadata.name, pod.metadata.uid)
    if user in claim.status.reserved_for:
        return claim
    users = (*claim.status.reserved_for, user)
    return replace(claim, status=replace(claim.status, reserved_for=users))


def make_reason(  # noqa: PLR0913  # the fields of a reason
    code: Code,
    stage: str,
    message: str,
    *,
    before: int = 0,
    nodes: int = 0,
    about: str = "",
) -> Reason:
    """Create a reason; without `nodes` it is about the pod. `about` is a node that it speaks of.

    Of the nodes `before`, the others are left.
    """
    kind = ReasonOfExample if about else Reason
    after = max(0, before - nodes)
    return kind(code.name, stage, before, after, nodes, about, message)


def has_labels(selector: Mapping[str, str], node: Node) -> bool:
    """Tell whether a node has all labels of a nodeSelector."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def _exclude(text: str, nodes: Sequence[Node], passed: list[Node]) -> Passed:
    lost = len(nodes) - len(passed)
    return passed, (_node_reason(text, len(nodes), lost),) if lost else ()


def _node_reason(text: str, before: int, lost: int) -> Reason:
    return make_reason(codes.NODE_UNFIT, "nodes", text, before=before, nodes=lost)
