"""Places the pods of the input, or some of its claims, one after the other, in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Final

from cli.simulation import placements
from cli.simulation.gangs import place_gangs
from cli.simulation.input import PodsToPlace, SimulationInput, parse_claim_names
from cli.simulation.placements import WorkloadPlacement
from cli.simulation.preemption import preempting_placer
from cli.simulation.schedulers import SimulatedSchedulers, find_schedulers
from cli.simulation.stages import StagesOfPods
from drawbridge.agreement.owned_pools import report_unused_pools
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.counted import join_words
from drawbridge.finding import Finding
from drawbridge.ledger import codes, node_fit
from drawbridge.ledger.ledger import Ledger, name_of
from drawbridge.ledger.placing import Placer, PodPlacement
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.replicas import PodPlacer, number_pod, place_on_each_node, place_replicas
from drawbridge.ledger.stages import PodStages
from drawbridge.ledger.unenforced import (
    unenforced_claim_rules,
    unenforced_compatibility,
    unenforced_rules,
)
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.world import World
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.legacy.read import find_dialects, make_pod
from drawbridge.translate.pods import translate

_TRANSLATE: Final = "Run `drawbridge translate` on the manifest first, or install a device plugin."


class NoScheduler:
    """Leaves pods pending, as a cluster without their scheduler does."""

    def place_pod(self, pod: Pod) -> PodPlacement:
        """Return why a pod is not placed."""
        text = (
            f"the scheduler {pod.spec.scheduler_name} runs only with bridge placement, which the"
            " configuration does not have"
        )
        reason = node_fit.make_reason(codes.SCHEDULER_NOT_INSTALLED, "scheduler", text)
        return PodPlacement(pod.full_name, None, (), (reason,))


@dataclass(frozen=True)
class Simulation:
    """The placements, the ledger after them, and the findings.

    `world` contains all declarations, also those that the allocator does not read.
    """

    entries: tuple[PodPlacement | WorkloadPlacement, ...]
    allocators: tuple[Allocator, ...]  # first the one of translated pods, then of other pods
    ledger: Ledger
    world: World
    findings: tuple[LocatedFinding, ...]
    stages: tuple[PodStages, ...] = ()

    @property
    def placements(self) -> tuple[PodPlacement, ...]:
        """All pods that were tried, in order."""
        return tuple(chain.from_iterable(map(placements.tried_pods, self.entries)))


def simulate(
    inputs: SimulationInput,
    names: str | None = None,
    allocator: Allocator | None = None,
    *,
    preempt: bool = False,
    by_stage: bool = False,
) -> Simulation:
    """Place the pods of the input one after the other, or the claims `names` instead.

    Without `allocator`, the placement of the configuration decides. With `by_stage`, the filters
    for each pod are kept.
    """
    schedulers = find_schedulers(inputs, names, allocator)
    placer = schedulers.new_placer()
    findings = [*inputs.findings, *_report_unenforced(inputs, names, schedulers)]
    stages = StagesOfPods(lambda pod: schedulers.filtered(pod, placer)) if by_stage else None
    if names is None:
        preempting = preempting_placer(inputs, placer, findings) if preempt else None
        placers = schedulers.placers(placer, preempting)
        done = tuple(_place_pods(inputs, schedulers, placers, findings, stages))
    else:
        done = tuple(
            _place_claims(inputs, parse_claim_names(names, inputs.namespace), placer, findings)
        )
    with_policies = (
        replace(located, finding=finding)
        for located in findings
        for finding in apply_policies([located.finding], inputs.configuration.findings)
    )
    world = schedulers.declared_world()
    by_pod = stages.stages if stages is not None else ()
    return Simulation(done, schedulers.used, placer.ledger, world, tuple(with_policies), by_pod)


def _report_unenforced(
    inputs: SimulationInput, names: str | None, schedulers: SimulatedSchedulers
) -> tuple[LocatedFinding, ...]:
    """Report rules and declarations of the input that the allocators do not enforce."""
    objects, findings = inputs.objects, list[Finding]()
    for allocator in schedulers.used:
        if names is None:
            pods = [each.pod for each in inputs.pods if schedulers.of_pod(each.pod) is allocator]
            findings += unenforced_rules(pods, objects.claims, objects.templates, allocator)
        else:
            named = parse_claim_names(names, inputs.namespace)
            claims = [each for each in objects.claims if name_of(each) in named]
            findings += unenforced_claim_rules(claims, allocator)
        world = schedulers.planners[allocator].declared_world()
        findings += unenforced_compatibility(world, allocator)
        unused = report_unused_pools(objects.slices, schedulers.pools.slices(allocator))
        findings += [unused] if unused else []
    return objects.located(findings)


def _place_claims(
    inputs: SimulationInput, names: Sequence[str], placer: Placer, findings: list[LocatedFinding]
) -> Iterator[PodPlacement]:
    """Place the claims `names` together, as those of one pod."""
    if not names:
        findings.append(
            LocatedFinding(codes.NOTHING_TO_PLACE.at("--claims", "no claim name given"))
        )
        return
    claims = {name_of(each) for each in inputs.objects.claims}
    missing = [name for name in names if name not in claims]
    for name in missing:
        message = f"ResourceClaim {name} does not exist"
        findings.append(LocatedFinding(codes.CLAIM_MISSING.at("--claims", message)))
    if not missing:
        yield placer.place_claims(names, inputs.cluster.nodes)


def _place_pods(
    inputs: SimulationInput,
    schedulers: SimulatedSchedulers,
    placers: Mapping[Allocator, PodPlacer],
    findings: list[LocatedFinding],
    stages: StagesOfPods | None,
) -> Iterator[PodPlacement | WorkloadPlacement]:
    if not inputs.pods:
        findings.append(
            LocatedFinding(codes.NOTHING_TO_PLACE.at("", "no pod to place in the input"))
        )
    members = place_gangs(inputs, placers, schedulers.of_pod, findings)
    advise = cache(partial(_advise_translation, make_context(inputs.configuration)))
    for pod in inputs.pods:
        findings += inputs.objects.located(_report_ignored(pod, inputs, advise))
        placer = members.get(id(pod)) or placers[schedulers.of_pod(pod.pod)]
        filters = stages
        if schedulers.lacks_scheduler(pod.pod):
            placer, filters = NoScheduler(), None
        first = number_pod(pod.pod, 0) if pod.path else pod.pod
        if filters is not None:
            filters.add(first)
        if not pod.path:
            yield placer.place_pod(pod.pod)
            continue
        placed = _place_workload(pod, schedulers, placer)
        if filters is not None and placed.replicas.refused and not pod.pods.on_each_node:
            filters.replace(first, number_pod(pod.pod, placed.replicas.fits))
        if placed.replicas.untried:
            message = (
                f"{placed.replicas.fits:,} of {placed.replicas.number:,} pods are placed, and "
            )
            message += "the others are not tried"
            untried = codes.NOT_SIMULATED.at(pod.path, message, object=pod.object)
            findings += inputs.objects.located([untried])
        yield placed


def _report_ignored(
    pod: PodsToPlace, inputs: SimulationInput, advise: Callable[[str], str | None]
) -> Iterator[Finding]:
    yield from node_fit.extended_resource_findings(pod.pod, inputs.cluster, pod.object, advise)
    if pod.hints:
        text = f"no scheduler of the simulation reads {join_words(pod.hints, 'and')}"
        path = pod.path or "spec"
        yield codes.SERVED_BY_NOBODY.at(path, text, object=pod.object, remedy=_TRANSLATE)
    if pod.ignored:
        text = f"the simulation ignores {join_words(pod.ignored, 'and')}"
        yield codes.RULE_NOT_SIMULATED.at(pod.path or "spec", text, object=pod.object)


def _place_workload(
    pods: PodsToPlace, schedulers: SimulatedSchedulers, placer: PodPlacer
) -> WorkloadPlacement:
    if pods.pods.on_each_node:
        _, nodes = schedulers.world_of(schedulers.of_pod(pods.pod))
        done = place_on_each_node(placer, pods.pod, nodes)
    else:
        done = place_replicas(placer, pods.pod, pods.pods.number)
    return WorkloadPlacement(pods.object, pods.path, pods.pods.name, done)


def _advise_translation(context: TranslationContext, name: str) -> str | None:
    """Return the remedy for a name that is translated: the manifests are not translated yet.

    By itself or with other names of its dialect.
    """
    is_read = find_dialects(name, context.configuration)
    return _TRANSLATE if is_read or translate(make_pod(name), context).templates else None
