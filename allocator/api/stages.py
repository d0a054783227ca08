"""Filters all nodes for one pod stage by stage, for explanations and simulations."""

from collections.abc import Mapping

from msgspec.structs import replace

from allocator.api.live_nodes import live_nodes
from allocator.api.messages import without_node_names
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.claim import Claim, Template
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.stages import FilteredCluster, PodStages, filter_by_stage
from drawbridge.solver.world import View


def filter_pod(
    state: AllocatorState,
    pod: Pod,
    view: View,
    claims: Mapping[str, Claim],
    templates: Mapping[str, Template],
) -> PodStages:
    """Filter all nodes for a pod. The scheduler counts CPU and memory itself."""
    cluster = live_nodes(state.planner.nodes.values())
    return filter_by_stage(pod, FilteredCluster(state.planner, cluster, view, claims, templates))


def without_names_of_nodes(stages: PodStages) -> PodStages:
    """Return the stages for a caller who may not list nodes."""
    nodes = (
        replace(each, rejected=(), messages=tuple(map(without_node_names, each.messages)))
        for each in stages.nodes
    )
    return replace(stages, nodes=tuple(nodes))
