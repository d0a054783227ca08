"""Filters all nodes for one pod stage by stage: what went into each filter, and what came out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.nodes import Node
from drawbridge.ledger.claim_references import find_pod_claims
from drawbridge.ledger.generated_claims import claim_for_extended_resources
from drawbridge.ledger.node_fit import (
    ClusterNodes,
    filter_nodes,
    group_nodes_by_service,
    reachable_nodes,
)
from drawbridge.ledger.node_resources import NodeResources, requested_amounts
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.solver.answers import Failure, Solution
from drawbridge.solver.reasons import Reason, merge_reasons
from drawbridge.solver.stage_counts import RequestStages
from drawbridge.solver.world import View

MAX_REJECTED: Final = 20
MAX_MESSAGES: Final = 20


class NodeStage(msgspec.Struct, frozen=True):
    """One filter of nodes: how many it got and left, why, and the first nodes that it rejected."""

    name: str
    before: int
    after: int
    messages: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


class PodStages(msgspec.Struct, frozen=True):
    """The filters for a pod in order: of nodes, and of their devices before the last of them."""

    pod: str
    nodes: tuple[NodeStage, ...]
    requests: tuple[RequestStages, ...] = ()


class FilteredCluster(msgspec.Struct, frozen=True):
    """The cluster that is filtered; without `resources`, CPU, memory and the like do not count."""

    planner: Planner
    nodes: ClusterNodes
    view: View
    claims: Mapping[str, Claim]
    templates: Mapping[str, Template]
    resources: NodeResources | None = None


def filter_by_stage(pod: Pod, cluster: FilteredCluster) -> PodStages:
    """Filter all nodes for a pod; changes nothing."""
    name = pod.full_name
    pod_claims = find_pod_claims(pod, cluster.claims, cluster.templates)
    stages: list[NodeStage] = []
    left: Sequence[Node] = cluster.nodes.nodes
    for filter_name, passed, reasons in filter_nodes(pod, cluster.nodes):
        stages.append(_node_stage(filter_name, left, passed, reasons))
        left = passed
    if pod_claims.problems:
        stages.append(_node_stage("claims", left, (), pod_claims.problems))
        return PodStages(name, tuple(stages))
    served = group_nodes_by_service(pod, left, cluster.nodes)
    serving = [node for group in served.groups.values() for node in group]
    stages.append(_node_stage("extendedResources", left, serving, served.reasons))
    left = serving
    if cluster.resources is not None:
        fitting, lacking = cluster.resources.fitting(requested_amounts(pod), left)
        stages.append(_node_stage("resources", left, fitting, lacking))
        left = fitting
    reachable, elsewhere = reachable_nodes(pod_claims.claims, left)
    stages.append(_node_stage("allocatedClaims", left, reachable, elsewhere))
    names = {node.name for node in reachable}
    devices = _Devices(cluster, pod, pod_claims.claims)
    for of_class, group in served.groups.items():
        devices.add(of_class, [node.name for node in group if node.name in names])
    solved = [node for node in reachable if node.name in devices.fitting]
    stages.append(_node_stage("devices", reachable, solved, merge_reasons(devices.reasons)))
    return PodStages(name, tuple(stages), tuple(devices.requests))


class _Devices:
    """What the devices of nodes are for a pod, by the resource names that classes serve there."""

    def __init__(self, cluster: FilteredCluster, pod: Pod, claims: Sequence[Claim]) -> None:
        self._cluster = cluster
        self._pod = pod
        self._claims = claims
        self.fitting: set[str] = set()
        self.reasons: list[Reason] = []
        self.requests: list[RequestStages] = []

    def add(self, resource_names: Sequence[str], nodes: Sequence[str]) -> None:
        """Filter the devices of nodes on which classes serve these names."""
        claims = [each for each in self._claims if each.status.allocation is None]
        classes = {each: self._cluster.nodes.classes[each] for each in resource_names}
        if (claim := claim_for_extended_resources(self._pod, classes)) is not None:
            claims.append(claim)
        if not claims:
            self.fitting.update(nodes)
            return
        planner, view = self._cluster.planner, self._cluster.view
        self.requests += planner.count_stages(view, claims, nodes)
        answers = planner.solve_nodes(view, claims, nodes)
        for node, answer in answers.items():
            if isinstance(answer, Solution):
                self.fitting.add(node)
            elif isinstance(answer, Failure):
                self.reasons += answer.reasons


def _node_stage(
    name: str, before: Sequence[Node], after: Iterable[Node], reasons: Iterable[Reason]
) -> NodeStage:
    passed = {node.name for node in after}
    rejected = [node.name for node in before if node.name not in passed]
    messages = tuple(_messages(reasons))[:MAX_MESSAGES]
    return NodeStage(name, len(before), len(passed), messages, tuple(rejected[:MAX_REJECTED]))


def _messages(reasons: Iterable[Reason]) -> Iterator[str]:
    for reason in reasons:
        yield f"{reason.nodes:,} of them: {reason.message}" if reason.nodes else reason.message
