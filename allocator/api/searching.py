"""Searches the nodes for pods: why one waits, and where pods would go.

Both run in a copy of the process and change it as they like.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from allocator.api.messages import (
    ClaimOfPod,
    ClaimState,
    DeviceReason,
    PodState,
    ReasonsOfNode,
    SimulatedClaim,
    SimulatedPod,
)
from allocator.api.reading import describe_devices, find_state
from allocator.decisions.pod_requests import ReceivedClaim, check_claims, describe_pod
from allocator.decisions.shortlist import (
    NodeSearch,
    candidate_names,
    find_nodes,
)
from allocator.scheduler.protocol import shorten_message
from allocator.state.awaited_claims import find_awaited
from allocator.state.cluster_state import AllocatorState
from allocator.state.records import key_of
from allocator.state.releases import Releases, waits_for
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import first_untolerated
from drawbridge.facts.served_names import advertised_resources
from drawbridge.ledger.claim_references import find_pod_claims
from drawbridge.ledger.codes import CLAIM_MISSING
from drawbridge.ledger.disruption_budgets import DisruptionBudget
from drawbridge.ledger.extended_resources import class_by_resource_name, requested_names
from drawbridge.ledger.ledger import name_of, uid_of
from drawbridge.ledger.node_fit import ClusterNodes, group_nodes_by_service, make_reason
from drawbridge.ledger.placing import Placer, PodPlacement, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import FINISHED, Pod
from drawbridge.ledger.preemption import PreemptingPlacer, running_pod
from drawbridge.ledger.priorities import Priorities, PriorityClass
from drawbridge.ledger.quota_room import find_least_excess, narrow_claims, quota_reason
from drawbridge.ledger.stages import FilteredCluster, PodStages, filter_by_stage
from drawbridge.solver.reasons import Reason, summarize_reasons
from drawbridge.solver.world import View

MAX_REASONS: Final = 32
MAX_NODES: Final = 20


class PodSearch(msgspec.Struct, frozen=True):
    """How many nodes fit for a pod, and why the others do not."""

    fitting: int = 0
    message: str = ""
    reasons: tuple[DeviceReason, ...] = ()
    nodes: tuple[ReasonsOfNode, ...] = ()
    stages: PodStages | None = None


# --- one pod of the cluster ---


def explain_claims(state: AllocatorState, pod: Pod) -> Iterator[ClaimOfPod]:
    """Yield the claims of a pod as they are."""
    claims_by_name = {name_of(each): each for each in state.claims_of(pod.metadata.uid)}
    generated = pod.generated
    for resource_claim in pod.spec.resource_claims:
        name = resource_claim.resource_claim_name or generated.get(resource_claim.name) or ""
        claim = claims_by_name.get(f"{pod.namespace}/{name}")
        if claim is None:
            yield ClaimOfPod(name=resource_claim.name, claim=name, state=ClaimState.MISSING)
            continue
        allocation = state.with_reservation(claim).status.allocation
        record = state.ledger.claims[uid_of(claim)]
        explained = ClaimState(find_state(state, uid_of(claim), record).value)
        yield ClaimOfPod(
            name=resource_claim.name,
            claim=name,
            state=explained if allocation else ClaimState.WAITING,
            devices=describe_devices(allocation),
        )


def find_pod_state(pod: Pod, claims: Sequence[ClaimOfPod]) -> PodState:
    """Return how far a pod is, as far as no search is needed."""
    if pod.status.phase in FINISHED:
        return PodState.ENDED
    if pod.metadata.deletion_timestamp is not None:
        return PodState.TERMINATING
    if pod.spec.node_name:
        return PodState.BOUND
    has_devices = all(each.devices for each in claims)
    return PodState.FITS if has_devices else PodState.WAITING


def describe_missing(namespace: str, claims: Sequence[ClaimOfPod]) -> PodSearch:
    """Return that claims of a pod do not exist, if so."""
    missing = (each for each in claims if each.state is ClaimState.MISSING)
    texts = (
        f"ResourceClaim {namespace}/{reference.claim} does not exist"
        if reference.claim
        else f"the ResourceClaim for {reference.name} was not generated yet"
        for reference in missing
    )
    return _describe_search([make_reason(CLAIM_MISSING, "claims", text) for text in texts])


def search_for_pod(state: AllocatorState, pod: Pod, *, by_stage: bool = False) -> PodSearch:
    """Examine all nodes for a pod of the cluster that waits."""
    done = _search_for_pod(state, pod)
    if not by_stage:
        return done
    claims = (state.with_reservation(each) for each in state.claims_of(pod.metadata.uid))
    view = state.ledger.view_without((key_of(pod.metadata.uid),))
    stages = _filter_pod(state, pod, view, {name_of(each): each for each in claims}, {})
    return replace(done, stages=stages)


def _search_for_pod(state: AllocatorState, pod: Pod) -> PodSearch:
    claims = tuple(state.with_reservation(each) for each in state.claims_of(pod.metadata.uid))
    described = describe_pod(pod)
    reason = check_claims(described, [ReceivedClaim(each, None) for each in claims], state)
    reason = reason or find_awaited(map(uid_of, claims), described.priority, state)
    if reason is not None:
        return _describe_search((reason,))
    quotas = state.ledger.quotas
    if (excess := find_least_excess(quotas, pod.namespace, claims)) is not None:
        return _describe_search((quota_reason(excess),))
    claims = tuple(narrow_claims(quotas, pod.namespace, claims))
    search = NodeSearch(pod=described, claims=claims)
    # What is kept for a pod that preempts is free for this pod.
    view = state.ledger.view_without((key_of(pod.metadata.uid),))
    shortlist = find_nodes(search, state, view)
    if shortlist.fitting:
        return PodSearch(fitting=len(shortlist.fitting))
    reasons = shortlist.list_reasons()
    paired = Releases(state).pair(search)
    waits = (waits_for(len(paired.holds), paired.node),) if paired else ()
    ordered = (*waits, *reasons)
    return replace(_describe_search(ordered), nodes=tuple(_reasons_by_node(search, state)))


def _reasons_by_node(search: NodeSearch, state: AllocatorState) -> Iterator[ReasonsOfNode]:
    for name in itertools.islice(candidate_names(search, state), MAX_NODES):
        only = replace(search, only=frozenset({name}))
        shortlist = find_nodes(only, state, state.ledger.view())
        yield ReasonsOfNode(node=name, reasons=describe_reasons(shortlist.list_reasons()))


def _describe_search(reasons: Sequence[Reason]) -> PodSearch:
    message = shorten_message(summarize_reasons(reasons))
    return PodSearch(message=message, reasons=describe_reasons(reasons))


def describe_reasons(reasons: Sequence[Reason]) -> tuple[DeviceReason, ...]:
    """Return the first reasons, with short messages."""
    return tuple(
        DeviceReason(
            code=reason.code,
            message=shorten_message(reason.message),
            nodes=reason.nodes,
            example=shorten_message(reason.example),
        )
        for reason in reasons[:MAX_REASONS]
    )


def live_nodes(planner: Planner, nodes: Iterable[Node]) -> ClusterNodes:
    """Return nodes with the names that device plugins serve there; classes serve none here."""
    kept, world = tuple(nodes), planner.world()
    classes = world.classes.values() if world.gates.extended_resource else ()
    return ClusterNodes(
        nodes=kept,
        advertised={each.name: frozenset(advertised_resources(each)) for each in kept},
        classes=class_by_resource_name(classes),
        makes_claims=False,
    )


def _filter_pod(
    state: AllocatorState,
    pod: Pod,
    view: View,
    claims: Mapping[str, Claim],
    templates: Mapping[str, Template],
) -> PodStages:
    """Filter all nodes for a pod by stage. The scheduler counts CPU and memory itself."""
    cluster = live_nodes(state.planner, state.planner.nodes.values())
    return filter_by_stage(pod, FilteredCluster(state.planner, cluster, view, claims, templates))


# --- pods that do not exist ---


class PodsToSimulate(msgspec.Struct, frozen=True):
    """The pods to place, and the claims and templates that exist for them only."""

    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...] = ()
    templates: tuple[Template, ...] = ()
    preempt: bool = False
    stages: bool = False


class PreemptionView(Protocol):
    """What preemption depends on beside devices."""

    def running(self) -> Iterable[Pod]:
        """Return the pods with claims that have a node."""
        ...

    def budgets(self) -> Iterable[DisruptionBudget]:
        """Return the PodDisruptionBudgets."""
        ...

    def classes(self) -> Iterable[PriorityClass]:
        """Return the PriorityClasses."""
        ...


def simulate_pods(
    state: AllocatorState, simulated: PodsToSimulate, view: PreemptionView
) -> tuple[SimulatedPod, ...]:
    """Place pods one after the other. Changes the state."""
    state.ledger.accept_unversioned()
    existing = {name_of(each): each for each in state.claims.values()}
    added = {name_of(each): each for each in simulated.claims}
    claims = (state.with_reservation(each) for each in (existing | added).values())
    held = hold_claims(state.ledger, claims, simulated.templates)
    placer = Placer(state.planner, ClusterNodes(nodes=()), held)
    if simulated.preempt:
        priorities = Priorities(view.classes())
        pods = (running_pod(each, priorities.value_of(each)) for each in view.running())
        running = {each.name: each for each in pods}
        preempting = PreemptingPlacer(placer, running, tuple(view.budgets()), priorities)
        place = functools.partial(_preempt, preempting, placer, state)
    else:
        place = functools.partial(_place, placer, state, held.templates)
    return tuple(
        _with_stages(state, each, placer, held.templates, place)
        if simulated.stages
        else place(each)
        for each in simulated.pods
    )


def _with_stages(
    state: AllocatorState,
    pod: Pod,
    placer: Placer,
    templates: Mapping[str, Template],
    place: Callable[[Pod], SimulatedPod],
) -> SimulatedPod:
    """Place a pod, and add the filters as they were before."""
    stages = _filter_pod(state, pod, state.ledger.view(), placer.claims, templates)
    return replace(place(pod), stages=stages)


def _preempt(
    preempting: PreemptingPlacer, placer: Placer, state: AllocatorState, pod: Pod
) -> SimulatedPod:
    """Place a pod on a node whose taints it tolerates, where it may evict others."""
    names = state.nodes_with_pools if pod.spec.resource_claims else tuple(state.planner.nodes)
    nodes = tuple(
        node
        for node in map(state.planner.nodes.get, names)
        if node is not None and first_untolerated(node.taints, pod.spec.tolerations) is None
    )
    there = placer.beside(state.planner, live_nodes(state.planner, nodes))
    return _describe_placement(pod, preempting.beside(there).place_pod(pod))


def _place(
    placer: Placer, state: AllocatorState, templates: Mapping[str, Template], pod: Pod
) -> SimulatedPod:
    """Find the first node that fits, as for a pod of the scheduler, and place the pod there."""
    used = find_pod_claims(pod, placer.claims, templates)
    if used.problems:
        return _refused(pod, used.claims, used.problems)
    served, unserved = _serving_nodes(pod, state)
    search = NodeSearch(pod=describe_pod(pod), claims=used.claims, limit=1, only=served)
    shortlist = find_nodes(search, state, state.ledger.view())
    if not shortlist.fitting:
        return _refused(pod, used.claims, (*unserved, *shortlist.list_reasons()))
    there = (state.planner.nodes[shortlist.fitting[0].name],)
    beside = placer.beside(state.planner, live_nodes(state.planner, there))
    return _describe_placement(pod, beside.place_pod(pod))


def _serving_nodes(
    pod: Pod, state: AllocatorState
) -> tuple[frozenset[str] | None, tuple[Reason, ...]]:
    """Return the nodes whose device plugins serve a pod's extended resources; None for all.

    No class serves an extended resource in this scheduler.
    """
    if not requested_names(pod):
        return None, ()
    nodes = tuple(state.planner.nodes.values())
    served = group_nodes_by_service(pod, nodes, live_nodes(state.planner, nodes))
    names = frozenset(each.name for group in served.groups.values() for each in group)
    return names, served.reasons


def _refused(pod: Pod, claims: Sequence[Claim], reasons: tuple[Reason, ...]) -> SimulatedPod:
    without = tuple((name_of(each), None) for each in claims)
    return _describe_placement(pod, PodPlacement(pod.full_name, None, without, reasons))


def _describe_placement(pod: Pod, placed: PodPlacement) -> SimulatedPod:
    return SimulatedPod(
        namespace=pod.namespace,
        pod=pod.metadata.name,
        node=placed.node or "",
        claims=describe_claims(placed.claims),
        reasons=describe_reasons(placed.reasons),
        preempted=placed.preempted,
    )


def describe_claims(
    claims: Iterable[tuple[str, Allocation | None]],
) -> tuple[SimulatedClaim, ...]:
    """Return claims, by `namespace/name`, with the devices that they would get."""
    return tuple(
        SimulatedClaim(claim=name.partition("/")[2], devices=describe_devices(allocation))
        for name, allocation in claims
    )
