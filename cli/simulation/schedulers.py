"""The schedulers of a simulation: which allocator places a pod, and what each of them sees."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from cli.input.namespace_labels import labels_of_namespaces
from cli.simulation.input import SimulationInput
from cli.simulation.pod_allocators import PodAllocators, find_pod_allocators
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.placement import owned_pools
from drawbridge.config.policy import device_quotas
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import find_published_pool
from drawbridge.ledger.chosen_strategies import strategy_names
from drawbridge.ledger.ledger import Ledger, name_of
from drawbridge.ledger.node_choice import NodeChoice
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_resources import NodeResources, count_running
from drawbridge.ledger.placing import Placer, hold_claims
from drawbridge.ledger.planned_holds import keep_planned
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.preemption import PreemptingPlacer
from drawbridge.ledger.quota_use import QuotaUse, published_capacity
from drawbridge.ledger.replicas import PodPlacer
from drawbridge.ledger.stages import FilteredCluster
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.world import World
from drawbridge.translate.changes.scheduler import OURS


@dataclass(frozen=True)
class SimulatedSchedulers:
    """The allocators that place the pods of the input: one that was chosen, or by scheduler."""

    inputs: SimulationInput
    pools: PodAllocators
    chosen: Allocator | None
    planners: Mapping[Allocator, Planner]

    @property
    def used(self) -> tuple[Allocator, ...]:
        """The allocators in use: first that of translated pods."""
        return tuple(self.planners)

    def of_pod(self, pod: Pod) -> Allocator:
        """Return the allocator of the scheduler of a pod."""
        return self.chosen or self.pools.choose(pod)

    def lacks_scheduler(self, pod: Pod) -> bool:
        """Return whether a pod waits for a scheduler: that of Drawbridge needs owned pools."""
        is_ours = self.chosen is None and pod.spec.scheduler_name == OURS
        return is_ours and not pod.spec.node_name and not owned_pools(self.inputs.configuration)

    def world_of(self, allocator: Allocator) -> tuple[Planner, ClusterNodes]:
        """Return the pools and the nodes of an allocator; a chosen one may use all nodes."""
        nodes = self.pools.nodes(allocator, self.inputs.cluster)
        if self.chosen is not None:
            nodes = structs.replace(nodes, fenced=frozenset())
        return self.planners[allocator], nodes

    def new_placer(self) -> Placer:
        """Return a placer for the first scheduler, with a ledger of its own."""
        inputs = self.inputs
        # Claims in files are identified by name: a copied one often keeps the UID of the original.
        claims = {name_of(each): _without_uid(each) for each in inputs.objects.claims}
        planner, nodes = self.world_of(self.used[0])
        ledger = Ledger(quotas=self._new_quotas())
        held = hold_claims(ledger, claims.values(), inputs.objects.templates)
        if inputs.holds and Allocator.DRAWBRIDGE in self.planners:
            asking = {each.pod.full_name for each in inputs.pods}
            keep_planned(self.planners[Allocator.DRAWBRIDGE], held, inputs.holds, asking)
        return Placer(planner, nodes, held, resources=_count_resources(inputs))

    def _new_quotas(self) -> QuotaUse:
        """Return the quotas of the configuration, by the labels of the namespaces that are read."""
        quotas = QuotaUse(device_quotas(self.inputs.configuration))
        if quotas:
            inventory = self.declared_world().inventory
            quotas.find_capacity = published_capacity(partial(find_published_pool, inventory))
            others = (each.value for each in self.inputs.objects.others)
            for name, labels in labels_of_namespaces(others).items():
                quotas.set_labels(name, labels)
        return quotas

    def filtered(self, pod: Pod, placer: Placer) -> FilteredCluster:
        """Return what the scheduler of a pod filters, as it is now."""
        planner, nodes = self.world_of(self.of_pod(pod))
        templates = {name_of(each): each for each in self.inputs.objects.templates}
        view = placer.ledger.view()
        return FilteredCluster(planner, nodes, view, placer.claims, templates, placer.resources)

    def placers(
        self, placer: Placer, preempting: PreemptingPlacer | None
    ) -> Mapping[Allocator, PodPlacer]:
        """Return a placer for each allocator, with the same claims, ledger and running pods."""
        plain = self.plain_placers(placer)
        if preempting is None:
            return plain
        return {allocator: preempting.beside(each) for allocator, each in plain.items()}

    def plain_placers(self, placer: Placer) -> Mapping[Allocator, Placer]:
        """Return the placers without preemption."""
        return {each: placer.beside(*self.world_of(each), self._choice(each)) for each in self.used}

    def _choice(self, allocator: Allocator) -> NodeChoice | None:
        """Return the order of nodes by strategies; native has none."""
        if allocator is Allocator.UPSTREAM:
            return None
        names = strategy_names(self.inputs.configuration.strategy)
        return NodeChoice(self.planners[allocator], names)

    def declared_world(self) -> World:
        """Return the world with the most pools."""
        widest = Allocator.UPSTREAM if Allocator.UPSTREAM in self.planners else self.used[0]
        return self.planners[widest].declared_world()


def find_schedulers(
    inputs: SimulationInput,
    names: str | None = None,
    chosen: Allocator | None = None,
    *,
    also_of: Iterable[Pod] = (),
) -> SimulatedSchedulers:
    """Return the schedulers of the pods to place, and those of other pods."""
    pools = find_pod_allocators(inputs.objects, inputs.gates, inputs.configuration)
    used = [chosen or default_allocator(inputs.configuration)]
    if chosen is None and names is None:
        used += [pools.choose(each.pod) for each in inputs.pods]
        used += map(pools.choose, also_of)
    planners = {each: pools.planner(each) for each in dict.fromkeys(used)}
    return SimulatedSchedulers(inputs, pools, chosen, planners)


def default_allocator(configuration: Configuration) -> Allocator:
    """Return the allocator of the scheduler that places translated pods."""
    native = configuration.placement is Placement.NATIVE
    return Allocator.UPSTREAM if native else Allocator.DRAWBRIDGE


def _count_resources(inputs: SimulationInput) -> NodeResources | None:
    """Return what the pods of the cluster leave; None if they are not known."""
    if inputs.running is None:
        return None
    return count_running(inputs.cluster.nodes, inputs.running)


def _without_uid(claim: Claim) -> Claim:
    metadata = structs.replace(claim.metadata, uid="", resource_version="")
    return structs.replace(claim, metadata=metadata)
