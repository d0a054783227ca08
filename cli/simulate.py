"""`drawbridge simulate`: places pods in memory and prints which devices they get, or why not.

Reads files only.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from msgspec import structs

from cli import output, placements
from cli.cluster_options import (
    add_allocator_option,
    add_config_option,
    add_files_option,
    add_manifests_option,
    add_version_options,
)
from cli.exit_codes import BAD, DONE, NOTICE
from cli.placements import WorkloadPlacement
from cli.simulation_input import PodsToPlace, SimulationInput, parse_claim_names, read_input
from cli.simulation_preemption import preempting_placer
from cli.streams import Streams
from config.model import Configuration, Placement
from config.policy import apply_policies, compatibility_declarations
from documents.document import LocatedFinding
from dra.claim import Claim
from dra.compatibility import UnsetGroups
from dra.finding import Finding, Severity
from dra.slices import Slice
from ledger import codes, node_fit
from ledger.audit import audit
from ledger.ledger import Ledger, name_of
from ledger.placing import Placer, PodPlacement
from ledger.planner import Planner, PlannerObject
from ledger.replicas import PodPlacer, place_on_each_node, place_replicas
from ledger.unenforced import (
    unenforced_claim_rules,
    unenforced_compatibility,
    unenforced_rules,
)
from registration.owned_pools import report_unused_pools, select_owned_slices
from solver.deviations import Allocator
from solver.world import World

NAME = "simulate"
EXIT_CODES = {DONE: "all pods are placed", NOTICE: "some pods are not placed", BAD: "bad input"}
_ALLOCATORS: Final = {
    Allocator.UPSTREAM: "Allocator: upstream, the allocator of kube-scheduler.",
    Allocator.DRAWBRIDGE: "Allocator: drawbridge, for pods with schedulerName drawbridge.",
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
    add_version_options(parser)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Place the pods, and print the placements."""
    inputs = read_input(options, streams)
    allocator = options.allocator and Allocator(options.allocator)
    result = simulate(inputs, options.claims, allocator, preempt=options.preempt)
    audit_findings = audit(result.ledger, result.world)
    if options.output != "text":
        # The data has no place for findings about the input.
        output.print_findings(result.findings, streams.err)
        data = placements.placements_as_data(result.entries, result.ledger, audit_findings)
        data = {"allocator": result.allocator.value, **data}
        output.print_value(data, options.output, streams.out)
    else:
        output.print_findings(result.findings, streams.out, color=streams.color)
        streams.out.writelines(
            f"{line}\n" for line in _text(result, inputs, audit_findings, streams)
        )
    if any(each.finding.severity is Severity.ERROR for each in result.findings):
        return BAD
    return DONE if all(map(placements.is_placed, result.entries)) else NOTICE


def _text(
    result: "Simulation",
    inputs: SimulationInput,
    audit_findings: Sequence[Finding],
    streams: Streams,
) -> Iterator[str]:
    for entry in result.entries:
        yield from placements.format_entry(entry)
    yield from placements.draw_nodes(
        result.placements,
        result.ledger,
        result.world.inventory,
        inputs.cluster.nodes,
        unicode=streams.unicode,
    )
    yield from placements.format_audit(audit_findings)
    if result.placements:
        yield from ("", _ALLOCATORS[result.allocator], placements.NOTE)


@dataclass(frozen=True)
class Simulation:
    """The placements, the ledger after them, and the findings.

    `world` contains all declarations, also those that the allocator does not read.
    """

    entries: tuple[PodPlacement | WorkloadPlacement, ...]
    allocator: Allocator
    ledger: Ledger
    world: World
    findings: tuple[LocatedFinding, ...]

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
) -> Simulation:
    """Place the pods of the input one after the other, or the claims `names` instead.

    Without `allocator`, the placement of the configuration decides.
    """
    allocator = allocator or default_allocator(inputs.configuration)
    planner = _planner(inputs, allocator)
    ledger = Ledger(sharing=inputs.gates.consumable_capacity)
    # Claims in files are identified by name: a copied claim often keeps the UID of the original.
    claims = {name_of(each): _without_uid(each) for each in inputs.objects.claims}
    allocated = [(each, inputs.details.allocations.get(name)) for name, each in claims.items()]
    placer = Placer(planner, ledger, inputs.cluster, allocated, inputs.objects.templates)
    findings = [*inputs.findings, *_report_unenforced(inputs, names, planner, allocator)]
    if names is None:
        preempting = preempting_placer(inputs, placer, findings) if preempt else placer
        done = tuple(_place_pods(inputs, preempting, findings))
    else:
        done = tuple(_place_claims(inputs, parse_claim_names(names), placer, findings))
    with_policies = (
        replace(each, finding=finding)
        for each in findings
        for finding in apply_policies([each.finding], inputs.configuration.findings)
    )
    return Simulation(done, allocator, ledger, planner.declared_world(), tuple(with_policies))


def default_allocator(configuration: Configuration) -> Allocator:
    """Return the allocator of the scheduler that places translated pods."""
    native = configuration.placement is Placement.NATIVE
    return Allocator.UPSTREAM if native else Allocator.DRAWBRIDGE


def _report_unenforced(
    inputs: SimulationInput, names: str | None, planner: Planner, allocator: Allocator
) -> tuple[LocatedFinding, ...]:
    """Report rules and declarations of the input that the allocator does not enforce."""
    objects, found = inputs.objects, list[Finding]()
    if names is None:
        pods = [each.pod for each in inputs.pods]
        found += unenforced_rules(pods, objects.claims, objects.templates, allocator)
    else:
        named = parse_claim_names(names)
        claims = [each for each in objects.claims if name_of(each) in named]
        found += unenforced_claim_rules(claims, allocator)
    found += unenforced_compatibility(planner.declared_world(), allocator)
    unused = report_unused_pools(objects.slices, _used_slices(inputs, allocator))
    found += [unused] if unused else []
    return objects.located(found)


def _planner(inputs: SimulationInput, allocator: Allocator) -> Planner:
    planner = Planner(
        inputs.gates,
        compatibility=compatibility_declarations(inputs.configuration),
        unset_groups=UnsetGroups(inputs.configuration.unset_groups),
        allocator=allocator,
    )
    objects = inputs.objects
    several: tuple[tuple[PlannerObject, ...], ...] = (
        _used_slices(inputs, allocator), objects.taint_rules, objects.classes, objects.nodes,
    )  # fmt: skip
    for each in chain.from_iterable(several):
        planner.update(each)
    return planner


def _used_slices(inputs: SimulationInput, allocator: Allocator) -> tuple[Slice, ...]:
    """Return the slices of the pools that the allocator uses."""
    objects = inputs.objects
    if allocator is Allocator.UPSTREAM:
        return tuple(objects.slices)
    return select_owned_slices(inputs.configuration, objects.slices, objects.nodes)


def _without_uid(claim: Claim) -> Claim:
    metadata = structs.replace(claim.metadata, uid="", resource_version="")
    return structs.replace(claim, metadata=metadata)


def _place_claims(
    inputs: SimulationInput, names: Sequence[str], placer: Placer, findings: list[LocatedFinding]
) -> Iterator[PodPlacement]:
    """Place the claims `names` together, as those of one pod."""
    if not names:
        findings.append(_unlocated(codes.NOTHING_TO_PLACE.at("--claims", "no claim name given")))
        return
    known = {name_of(each) for each in inputs.objects.claims}
    missing = [name for name in names if name not in known]
    for name in missing:
        message = f"ResourceClaim {name} does not exist"
        findings.append(_unlocated(codes.CLAIM_MISSING.at("--claims", message)))
    if not missing:
        yield placer.place_claims(names, inputs.cluster.nodes)


def _place_pods(
    inputs: SimulationInput, placer: PodPlacer, findings: list[LocatedFinding]
) -> Iterator[PodPlacement | WorkloadPlacement]:
    if not inputs.pods:
        findings.append(_unlocated(codes.NOTHING_TO_PLACE.at("", "no pod to place in the input")))
    for each in inputs.pods:
        found = node_fit.extended_resource_findings(each.pod, inputs.cluster, each.object)
        findings += inputs.objects.located(found)
        if not each.path:
            yield placer.place_pod(each.pod)
            continue
        placed = _place_workload(each, inputs, placer)
        if placed.replicas.untried:
            message = (
                f"{placed.replicas.fits:,} of {placed.replicas.number:,} pods are placed, and "
            )
            message += "the others are not tried"
            untried = codes.NOT_SIMULATED.at(each.path, message, object=each.object)
            findings += inputs.objects.located([untried])
        yield placed


def _place_workload(
    each: PodsToPlace, inputs: SimulationInput, placer: PodPlacer
) -> WorkloadPlacement:
    if each.pods.on_each_node:
        done = place_on_each_node(placer, each.pod, inputs.cluster)
    else:
        done = place_replicas(placer, each.pod, each.pods.number)
    return WorkloadPlacement(each.object, each.path, each.pods.name, done)


def _unlocated(finding: Finding) -> LocatedFinding:
    return LocatedFinding(finding, "", 0, 0)
