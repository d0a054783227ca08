"""Decides which allocator places a pod, and which pools and nodes that one uses.

With `placement: bridge` it depends on the scheduler of the pod: the allocator of Drawbridge uses
the owned pools for the scheduler `drawbridge`, and kube-scheduler the other nodes for other pods.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from msgspec.structs import replace

from cli.input.cluster_objects import ClusterObjects
from cli.input.namespace_labels import labels_of_namespaces
from drawbridge.agreement.device_fence import (
    fence_rules,
    find_open_node,
    group_slices,
    without_fence,
)
from drawbridge.agreement.owned_pools import decide_node, select_owned_slices
from drawbridge.config.model import Configuration, Legacy, OwnedPool, Placement
from drawbridge.config.placement import decide_placements, owned_pools
from drawbridge.config.policy import compatibility_declarations, partition_tables
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import DeviceTaintRule
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.facts.offers import served_resources
from drawbridge.ledger.extended_resources import class_by_resource_name, requested_names
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.planner import Planner, PlannerObject
from drawbridge.ledger.plugin_holders import find_held_on_nodes
from drawbridge.ledger.pods import Pod
from drawbridge.solver.deviations import Allocator
from drawbridge.translate.changes.own_claims import owns_all_drivers
from drawbridge.translate.changes.scheduler import OURS, is_default_scheduler


@dataclass(frozen=True)
class PodAllocators:
    """The pools that each allocator uses, and the nodes that kube-scheduler cannot use."""

    objects: ClusterObjects
    gates: Gates
    configuration: Configuration
    owned: tuple[Slice, ...]  # all, without bridge placement
    fenced: frozenset[str] = frozenset()
    fence: tuple[DeviceTaintRule, ...] = ()  # of the pools on other owned nodes
    # Whether admission moves pods with claims off the default scheduler, in bridge placement.
    moves_default: bool = False
    facts: Facts = field(default_factory=Facts)
    placements: Mapping[str, Placement] = field(default_factory=dict)  # by namespace, "" the others

    def choose(self, pod: Pod) -> Allocator:
        """Return the allocator for a pod as it is after admission."""
        if not owned_pools(self.configuration):
            return Allocator.UPSTREAM
        name = pod.spec.scheduler_name
        placement = self.placements.get(pod.metadata.namespace, self.placements[""])
        moves = self.moves_default if pod.spec.resource_claims else pod.group is not None
        moves = moves and not self.facts.left_to_classes(requested_names(pod))
        moved = moves and is_default_scheduler(name) and placement is Placement.BRIDGE
        return Allocator.DRAWBRIDGE if name == OURS or moved else Allocator.UPSTREAM

    def slices(self, allocator: Allocator) -> tuple[Slice, ...]:
        """Return the slices of the pools that an allocator uses."""
        return tuple(self.objects.slices) if allocator is Allocator.UPSTREAM else self.owned

    @property
    def kept_off(self) -> frozenset[str]:
        """The names of the owned slices that a fence keeps kube-scheduler from."""
        guarded = {
            (each.selector.driver, each.selector.pool) for each in self.fence if each.selector
        }
        return frozenset(
            each.name
            for each in self.owned
            if each.node_name in self.fenced or (each.driver, each.pool) in guarded
        )

    def planner(self, allocator: Allocator) -> Planner:
        """Return a planner with the pools of an allocator."""
        planner = Planner(
            self.gates,
            compatibility=compatibility_declarations(self.configuration),
            unset_groups=UnsetGroups(self.configuration.unset_groups),
            partitions=partition_tables(self.configuration),
            allocator=allocator,
        )
        objects = self.objects
        several: tuple[Iterable[PlannerObject], ...] = (
            self.slices(allocator), self._rules(allocator), objects.classes, objects.nodes,
        )  # fmt: skip
        for change in chain.from_iterable(several):
            planner.update(change)
        return planner

    def _rules(self, allocator: Allocator) -> tuple[DeviceTaintRule, ...]:
        """Return the rules that an allocator obeys: kube-scheduler also those of the fence."""
        rules = self.objects.taint_rules
        return without_fence(rules) if allocator is Allocator.DRAWBRIDGE else (*rules, *self.fence)

    def nodes(self, allocator: Allocator, nodes: ClusterNodes) -> ClusterNodes:
        """Return the nodes as the scheduler of an allocator sees them."""
        if allocator is Allocator.UPSTREAM:
            return replace(nodes, fenced=self.fenced)
        return replace(nodes, makes_claims=False)


def find_pod_allocators(
    objects: ClusterObjects,
    enabled: Gates,
    configuration: Configuration,
    facts: Facts | None = None,
    *,
    running: Iterable[Pod] = (),
) -> PodAllocators:
    """Find out who uses which pools; computes the facts from the objects if they are needed.

    The `running` pods keep what they have from device plugins.
    """
    entries = owned_pools(configuration)
    if not entries:
        return PodAllocators(objects, enabled, configuration, owned=tuple(objects.slices))
    if facts is None:
        given = FactsInput(objects.slices, objects.classes, objects.nodes)
        facts = gather_facts(given, configuration, enabled).facts
    return PodAllocators(
        objects,
        enabled,
        configuration,
        owned=select_owned_slices(
            configuration,
            objects.slices,
            objects.nodes,
            facts.classes,
            find_held_on_nodes(running, objects.nodes),
        ),
        fenced=frozenset(
            node.name
            for node in objects.nodes
            if decide_node(entries, node.labels).needs_taint(rules_hold=enabled.device_taint_rules)
        ),
        fence=fence_rules(_find_pools_by_rules(entries, objects)),
        moves_default=owns_all_drivers(facts, configuration),
        facts=facts,
        placements=decide_placements(
            labels_of_namespaces(each.value for each in objects.others), configuration
        ),
    )


def _find_pools_by_rules(owned: Sequence[OwnedPool], objects: ClusterObjects) -> Iterator[PoolID]:
    by_name = {each.name: each for each in objects.nodes}
    for pool, slices in group_slices(owned, objects.slices).items():
        if find_open_node(owned, pool, slices, by_name.get) is not None:
            yield pool


def find_cluster_nodes(
    nodes: tuple[Node, ...], objects: ClusterObjects, enabled: Gates, legacy: Legacy
) -> ClusterNodes:
    """Return nodes with the resource names that plugins and classes serve there."""
    classes = {each.metadata.name: each for each in objects.classes}.values()
    return ClusterNodes(
        nodes=nodes,
        # The facts that decide a translation know the names of plugins by the same function.
        advertised={each.name: frozenset(served_resources(each, legacy)) for each in objects.nodes},
        classes=class_by_resource_name(classes) if enabled.extended_resource else {},
    )
