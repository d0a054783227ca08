"""`drawbridge simulate`: places pods in memory and prints which devices they get, or why not.

Reads files, or a live cluster with `--context`. The allocator of bridge placement places them with
`--allocator-url`, and in a live cluster that has one.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from cli.input import allocator_api
from cli.simulation import changes, placements
from cli.simulation.api import ask_cluster, print_found, run_by_allocator
from cli.simulation.gangs import has_gangs, place_gangs
from cli.simulation.input import PodsToPlace, SimulationInput, parse_claim_names, read_input
from cli.simulation.placements import WorkloadPlacement
from cli.simulation.pod_allocators import find_pod_allocators
from cli.simulation.preemption import preempting_placer
from cli.simulation.schedulers import SimulatedSchedulers, default_allocator, find_schedulers
from cli.simulation.stages import StagesOfPods, format_stages, stages_as_data
from cli.terminal import output
from cli.terminal.cluster_options import (
    add_allocator_option,
    add_config_option,
    add_files_option,
    add_live_options,
    add_manifests_option,
    add_stages_option,
    add_version_options,
)
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.agreement.owned_pools import report_unused_pools
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import LocatedFinding, has_errors
from drawbridge.dra.counted import count_noun, join_words
from drawbridge.finding import Finding
from drawbridge.ledger import codes, node_fit
from drawbridge.ledger.audit import audit
from drawbridge.ledger.ledger import Ledger, name_of
from drawbridge.ledger.placing import Placer, PodPlacement, report_unpublished
from drawbridge.ledger.replicas import PodPlacer, number_pod, place_on_each_node, place_replicas
from drawbridge.ledger.stages import PodStages
from drawbridge.ledger.unenforced import (
    unenforced_claim_rules,
    unenforced_compatibility,
    unenforced_rules,
)
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.world import World

NAME = "simulate"
EXIT_CODES = {DONE: "all pods are placed", NOTICE: "some pods are not placed", BAD: "bad input"}
_ALLOCATORS: Final = {
    Allocator.UPSTREAM: "the allocator of kube-scheduler",
    Allocator.DRAWBRIDGE: "for pods with schedulerName drawbridge",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the pods and the output format."""
    add_manifests_option(parser, required=False)
    add_files_option(parser)
    add_config_option(parser)
    _add_placement_options(parser)
    output.add_format_option(parser, "text", "json", "yaml")


def _add_placement_options(parser: argparse.ArgumentParser) -> None:
    """Declare what is placed where, and the allocator that does it."""
    add_allocator_option(parser)
    parser.add_argument("--node", metavar="N", help="place on this node only")
    text = "place these claims (namespace/name,...) instead of pods, together as for one pod"
    parser.add_argument("--claims", metavar="NAMES", help=text)
    text = "let pods evict pods with a lower priority in the simulation, as kube-scheduler does"
    parser.add_argument("--preempt", action="store_true", help=text)
    add_stages_option(parser)
    changes.add_options(parser)
    add_version_options(parser)
    allocator_api.add_options(parser)
    add_live_options(parser)
    # Other commands that simulate can leave out the pods of a live cluster.
    parser.set_defaults(pods=True)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Place the pods, and print the placements."""
    before = read_input(options, streams)
    inputs = changes.change_cluster(before, options)
    if options.allocator_url:
        return run_by_allocator(options, inputs, streams)
    not_asked = ""
    is_bridge = default_allocator(inputs.configuration) is Allocator.DRAWBRIDGE
    if inputs.is_live and is_bridge and has_gangs(inputs):
        not_asked = "it simulates one pod after the other, and some are members of gangs"
    elif inputs.is_live and is_bridge:
        answer = ask_cluster(options, inputs, only_ours=_are_ours(inputs))
        if not answer.not_asked:
            return print_found(options, inputs, answer, streams)
        not_asked = answer.not_asked
    names = frozenset(changes.parse_names(options.without_pods))
    fewest = tuple(changes.find_fewest_pods(before, names)) if names else ()
    return _place_here(options, inputs, not_asked, fewest, streams)


def _are_ours(inputs: SimulationInput) -> bool:
    """Whether the allocator of Drawbridge places all pods."""
    pools = find_pod_allocators(inputs.objects, inputs.gates, inputs.configuration)
    return all(pools.choose(each.pod) is Allocator.DRAWBRIDGE for each in inputs.pods)


def _place_here(
    options: argparse.Namespace,
    inputs: SimulationInput,
    not_asked: str,
    fewest: tuple[changes.FewestPods, ...],
    streams: Streams,
) -> int:
    """Place the pods in this process, and print the placements."""
    allocator = options.allocator and Allocator(options.allocator)
    result = simulate(
        inputs, options.claims, allocator, preempt=options.preempt, by_stage=options.stages
    )
    audit_findings = (
        *audit(result.ledger, result.world, inputs.objects.claims),
        *report_unpublished(result.placements),
    )
    if options.output != "text":
        # The data has no place for findings about the input.
        output.print_findings(result.findings, streams.err)
        written = {
            name_of(claim): (claim.status.allocation, inputs.details.allocations[name_of(claim)])
            for claim in inputs.objects.claims
            if name_of(claim) in inputs.details.allocations
        }
        data = placements.placements_as_data(result.entries, result.ledger, audit_findings, written)
        data = {"allocator": result.allocators[0].value, **data}
        if options.stages:
            data = {**data, "stages": stages_as_data(result.stages)}
        if options.without_pods:
            data = {**data, "fewestPods": changes.fewest_as_data(fewest)}
        if not_asked:
            data = {**data, "allocatorNotAsked": not_asked}
        output.print_value(data, options.output, streams.out)
    else:
        output.print_findings(result.findings, streams.out, color=streams.color)
        streams.out.writelines(
            f"{line}\n" for line in _text(result, inputs, audit_findings, streams)
        )
        streams.out.writelines(f"{line}\n" for line in changes.format_fewest(fewest))
        if not_asked and result.placements:
            streams.out.write(f"The allocator of the cluster was not asked: {not_asked}\n")
    if has_errors(result.findings):
        return BAD
    return DONE if all(map(placements.is_placed, result.entries)) else NOTICE


def _text(
    result: "Simulation",
    inputs: SimulationInput,
    audit_findings: Sequence[Finding],
    streams: Streams,
) -> Iterator[str]:
    yield from placements.format_entries(result.entries)
    yield from format_stages(result.stages)
    yield from placements.draw_nodes(
        result.placements,
        result.ledger,
        result.world.inventory,
        inputs.cluster.nodes,
        unicode=streams.unicode,
    )
    yield from placements.format_audit(audit_findings)
    if result.placements:
        placed, total = placements.count_placed(result.entries)
        yield ""
        if len(result.entries) > 1:
            verb = "is" if placed == 1 else "are"
            yield f"{placed:,} of {count_noun(total, 'pod')} {verb} placed."
        yield from _name_allocators(result.allocators)
        yield placements.DEVICES_NOTE if inputs.running is None else placements.NOTE


def _name_allocators(used: Sequence[Allocator]) -> Iterator[str]:
    first, *others = used
    yield f"Allocator: {first}, {_ALLOCATORS[first]}."
    yield from (f"Allocator: {each}, {_ALLOCATORS[each]}, for other pods." for each in others)


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
        done = tuple(_place_claims(inputs, parse_claim_names(names), placer, findings))
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
            named = parse_claim_names(names)
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
    for pod in inputs.pods:
        findings += inputs.objects.located(_report_ignored(pod, inputs))
        placer = members.get(id(pod)) or placers[schedulers.of_pod(pod.pod)]
        first = number_pod(pod.pod, 0) if pod.path else pod.pod
        if stages is not None:
            stages.add(first)
        if not pod.path:
            yield placer.place_pod(pod.pod)
            continue
        placed = _place_workload(pod, schedulers, placer)
        if stages is not None and placed.replicas.refused and not pod.pods.on_each_node:
            stages.replace(first, number_pod(pod.pod, placed.replicas.fits))
        if placed.replicas.untried:
            message = (
                f"{placed.replicas.fits:,} of {placed.replicas.number:,} pods are placed, and "
            )
            message += "the others are not tried"
            untried = codes.NOT_SIMULATED.at(pod.path, message, object=pod.object)
            findings += inputs.objects.located([untried])
        yield placed


def _report_ignored(pod: PodsToPlace, inputs: SimulationInput) -> Iterator[Finding]:
    yield from node_fit.extended_resource_findings(pod.pod, inputs.cluster, pod.object)
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
