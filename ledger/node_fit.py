"""Which nodes a pod may be placed on, as far as that is looked at here.

nodeName, nodeSelector, unschedulable, which resource names plugins serve, and where claims that
are allocated can be used. What else the scheduler asks of a node is not known here.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from dra.allocation import Consumer
from dra.claim import CLAIM, Claim
from dra.finding import Code, Finding
from dra.nodes import Node, matches_selector, selector_problems
from ledger import codes, extended_resources
from ledger.ledger import name_of
from ledger.pods import Pod
from solver.reasons import Reason


class ClusterNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes there are to choose from, and what is known of them beside their devices.

    `advertised` are the resource names of which a node's plugins have any; `classes` says which
    class serves a name.
    """

    nodes: tuple[Node, ...]
    unschedulable: frozenset[str] = frozenset()
    advertised: Mapping[str, frozenset[str]] = {}
    classes: Mapping[str, str] = {}


class ServedNodes(msgspec.Struct, frozen=True):
    """Nodes that have what a pod names, by the names that are served by classes there."""

    groups: Mapping[tuple[str, ...], list[Node]]
    reasons: tuple[Reason, ...] = ()


def selected_nodes(pod: Pod, cluster: ClusterNodes) -> tuple[list[Node], tuple[Reason, ...]]:
    """Give the nodes that a pod's own fields allow, and why not the others."""
    wanted = pod.spec.node_name
    if wanted and cluster.nodes:
        # Who names the node passes by the scheduler, and so by what is unschedulable.
        found = [node for node in cluster.nodes if node.name == wanted]
        told = _left_out(f"nodeName is {wanted}", len(cluster.nodes), len(found))
    else:
        found, told = schedulable_nodes(cluster.nodes, cluster)
    selector = pod.spec.node_selector
    chosen = [node for node in found if _selected(selector, node)]
    text = "nodeSelector is " + ", ".join(f"{k}={v}" for k, v in sorted(selector.items()))
    return chosen, (*told, *_left_out(text, len(found), len(chosen)))


def schedulable_nodes(
    several: Sequence[Node], cluster: ClusterNodes
) -> tuple[list[Node], tuple[Reason, ...]]:
    """Give the nodes that are open to new pods, and why not the others."""
    if not several:
        return [], (make_reason(codes.NODE_UNFIT, "nodes", "there is no node"),)
    found = [node for node in several if node.name not in cluster.unschedulable]
    told = _left_out("unschedulable", len(several), len(found))
    return found, told


def group_nodes_by_service(pod: Pod, several: Sequence[Node], cluster: ClusterNodes) -> ServedNodes:
    """Sort nodes by which of a pod's extended resources a class has to serve there.

    A plugin comes first: where it has any, the class is not asked.
    """
    wanted = extended_resources.requested_names(pod)
    groups: dict[tuple[str, ...], list[Node]] = {}
    unserved: dict[str, int] = {}
    for node in several:
        plugins = cluster.advertised.get(node.name, frozenset())
        rest = tuple(name for name in wanted if name not in plugins)
        lacking = [name for name in rest if name not in cluster.classes]
        if not lacking:
            groups.setdefault(rest, []).append(node)
        for name in lacking:
            unserved[name] = unserved.get(name, 0) + 1
    told = [
        make_reason(
            codes.SERVED_BY_NOBODY,
            "resources",
            f"nobody serves {name}",
            before=len(several),
            after=len(several) - count,
            nodes=count,
        )
        for name, count in sorted(unserved.items())
    ]
    return ServedNodes(groups, tuple(told))


def extended_resource_findings(pod: Pod, cluster: ClusterNodes, about: str) -> tuple[Finding, ...]:
    """Tell of the names that a pod asks for and that get no claim."""
    found = []
    for name in extended_resources.requested_names(pod):
        count = sum(name in names for names in cluster.advertised.values())
        if count:
            where = "1 node" if count == 1 else f"{count} nodes"
            message = f"{name} is served by a device plugin on {where}, without a claim"
            found.append(codes.SERVED_BY_PLUGIN.at("spec", message, object=about))
        elif name not in cluster.classes:
            message = f"nobody serves {name}: no node advertises it, no class has the name"
            found.append(codes.SERVED_BY_NOBODY.at("spec", message, object=about))
    return tuple(found)


def reachable_nodes(
    claims: Sequence[Claim], several: Sequence[Node]
) -> tuple[list[Node], tuple[Reason, ...]]:
    """Give the nodes where the claims that are allocated can be used, and why not the others."""
    left, told = list(several), []
    for claim in claims:
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation else None
        if selector is None:
            continue
        broken = selector_problems(selector)
        found = [node for node in left if not broken and matches_selector(selector, node)]
        if len(found) < len(left):
            text = f"{CLAIM} {name_of(claim)} is allocated for other nodes"
            told.append(
                make_reason(
                    codes.ALLOCATED_ELSEWHERE,
                    "nodes",
                    text,
                    before=len(left),
                    after=len(found),
                    nodes=len(left) - len(found),
                )
            )
        left = found
    return left, tuple(told)


def with_consumer(claim: Claim, pod: Pod) -> Claim:
    """Give a claim that a pod uses, beside those that do already."""
    user = Consumer("pods", pod.metadata.name, pod.metadata.uid)
    if user in claim.status.reserved_for:
        return claim
    users = (*claim.status.reserved_for, user)
    return replace(claim, status=replace(claim.status, reserved_for=users))


def make_reason(  # noqa: PLR0913  # the fields of a reason
    code: Code, stage: str, message: str, *, before: int = 0, after: int = 0, nodes: int = 0
) -> Reason:
    """Make a reason of ours; most are about the pod and not about a node."""
    return Reason(code.name, stage, before, after, nodes, "", message)


def _selected(selector: Mapping[str, str], node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _left_out(text: str, before: int, after: int) -> tuple[Reason, ...]:
    if before == after:
        return ()
    lost = before - after
    return (make_reason(codes.NODE_UNFIT, "nodes", text, before=before, after=after, nodes=lost),)
