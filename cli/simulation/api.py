"""Lets the API of the allocator place the pods of `drawbridge simulate`."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from cli.input.allocator_api import Json, ask_allocator, ask_found_allocator
from cli.input.live_cluster import ClusterReadError
from cli.simulation import placements
from cli.simulation.gangs import has_gangs
from cli.simulation.input import SimulationInput
from cli.simulation.pod_allocators import find_pod_allocators
from cli.simulation.stages import format_stages, stages_as_data
from cli.terminal import output
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.documents.document import LocatedFinding, has_errors
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.counted import count_noun
from drawbridge.dra.decode import decode_quantity
from drawbridge.finding import Severity
from drawbridge.ledger import codes
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.placing import PodPlacement
from drawbridge.ledger.stages import PodStages
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.reasons import Reason, ReasonOfExample

# The API takes no more.
MAX_PODS: Final = 100
# The API does not know these options.
_LOCAL_OPTIONS: Final = (
    "allocator",
    "claims",
    "cluster",
    "config",
    "devices",
    "feature_gates",
    "kubernetes_version",
    "more_nodes",
    "node",
    "preempt",
    "taint",
    "without",
)


def run_by_allocator(options: argparse.Namespace, inputs: SimulationInput, streams: Streams) -> int:
    """Ask the allocator, and print the placements as those of a local simulation."""
    findings = list(inputs.findings)
    told: tuple[Json, ...] = ()
    if (pods := _count_pods(inputs)) > MAX_PODS:
        text = f"the allocator is asked about {MAX_PODS} of {pods:,} pods"
        findings.append(LocatedFinding(codes.NOT_SIMULATED.at("", text)))
    try:
        body = _body(inputs, by_stage=options.stages)
        told = tuple(ask_allocator(options, "/v1/simulate", body)["pods"])
    except ClusterReadError as error:
        failed = replace(error.finding, severity=Severity.ERROR)
        findings.append(LocatedFinding(failed))
    return _print(options, findings, told, options.allocator_url, streams)


class FoundPlacements(NamedTuple):
    """The placements of the cluster's allocator and the pod that answered, or why it was not."""

    placed: tuple[Json, ...] = ()
    pod: str = ""
    not_asked: str = ""


def ask_cluster(options: argparse.Namespace, inputs: SimulationInput) -> FoundPlacements:
    """Let the allocator of the live cluster place the pods, if its API can express the command."""
    if reason := next(_list_obstacles(options, inputs), ""):
        return FoundPlacements(not_asked=reason)
    try:
        body = _body(inputs, by_stage=options.stages)
        answer = ask_found_allocator(options, "/v1/simulate", body)
    except ClusterReadError as error:
        return FoundPlacements(not_asked=error.finding.message)
    return FoundPlacements(tuple(answer.response["pods"]), answer.pod)


def print_found(
    options: argparse.Namespace, inputs: SimulationInput, answer: FoundPlacements, streams: Streams
) -> int:
    """Print the placements of the cluster's allocator; returns the exit code."""
    return _print(options, inputs.findings, answer.placed, f"pod {answer.pod}", streams)


def _count_pods(inputs: SimulationInput) -> int:
    """Return how many pods the input has; those of a workload can be too many to list."""
    return sum(each.pods.number for each in inputs.pods)


def _list_obstacles(options: argparse.Namespace, inputs: SimulationInput) -> Iterator[str]:
    """Yield why the API cannot place the pods as the command wants them."""
    if has_gangs(inputs):
        yield "it simulates one pod after the other, and some are members of gangs"
    if inputs.details.rules:
        yield "it does not know the DeviceTaintRules of -f"
    allocators = find_pod_allocators(
        inputs.objects, inputs.gates, inputs.configuration, running=inputs.running or ()
    )
    if any(allocators.choose(each.pod) is not Allocator.DRAWBRIDGE for each in inputs.pods):
        yield "other schedulers place some of the pods"
    given = [each for each in _LOCAL_OPTIONS if getattr(options, each)]
    if given:
        yield f"its API has no equivalent of --{given[0].replace('_', '-')}"
    if has_errors(inputs.findings):
        yield "the input has errors"
    if any(each.pods.on_each_node for each in inputs.pods):
        yield "its API has no equivalent of a DaemonSet"
    if not 0 < (pods := _count_pods(inputs)) <= MAX_PODS:
        yield f"its API takes 1 to {MAX_PODS} pods, and the input has {pods:,}"


def _print(
    options: argparse.Namespace,
    findings: Sequence[LocatedFinding],
    told: Sequence[Json],
    place: str,
    streams: Streams,
) -> int:
    placed = tuple(map(_decode_placement, told))
    stages = tuple(msgspec.convert(e["stages"], PodStages) for e in told if e.get("stages"))
    if options.output == "text":
        output.print_findings(findings, streams.out, color=streams.color)
        output.write_lines(_text(placed, stages, place), streams.out)
    else:
        output.print_findings(findings, streams.err)
        data = placements.placements_as_data(placed, Ledger(), (), {})
        data = {"allocator": place, **data}
        if options.stages:
            data = {**data, "stages": stages_as_data(stages)}
        data |= output.findings_as_data(findings)
        output.print_value(data, options.output, streams.out)
    if has_errors(findings):
        return BAD
    return DONE if all(map(placements.is_placed, placed)) else NOTICE


def _text(placed: Sequence[PodPlacement], stages: Sequence[PodStages], place: str) -> Iterator[str]:
    yield from placements.format_entries(placed)
    yield from format_stages(stages)
    if placed:
        fit, total = placements.count_placed(placed)
        yield ""
        yield f"{fit:,} of {count_noun(total, 'pod')} {'is' if fit == 1 else 'are'} placed."
        yield f"Allocator: that of the cluster, at {place}. Nothing is reserved."


def _body(inputs: SimulationInput, *, by_stage: bool) -> dict[str, Any]:
    """Return the request: the first pods, and all claims and templates of files.

    The allocator knows those of the live cluster.
    """
    loaded = inputs.objects
    pods = chain.from_iterable(each.list_pods() for each in inputs.pods)
    objects: dict[str, Any] = {
        "pods": [*islice(pods, MAX_PODS)],
        "claims": [each for each in loaded.claims if _is_in_file("ResourceClaim", each, inputs)],
        "templates": [
            template
            for template in loaded.templates
            if _is_in_file("ResourceClaimTemplate", template, inputs)
        ],
    }
    if by_stage:
        objects["stages"] = True
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(objects, enc_hook=str))
    return plain


def _is_in_file(kind: str, claim: Claim | Template, inputs: SimulationInput) -> bool:
    namespace, name = claim.metadata.namespace or "default", claim.metadata.name
    names = {f"{kind}/{namespace}/{name}"}
    if namespace == "default":
        names.add(f"{kind}/{name}")
    return not names.isdisjoint(inputs.details.places)


def _decode_placement(told: Json) -> PodPlacement:
    """Return what the allocator says as a placement."""
    namespace = told["namespace"]
    node = told["node"] or None
    claims = [
        (
            f"{namespace}/{claim['claim']}",
            _decode_allocation(claim["devices"]) if node else None,
        )
        for claim in told["claims"]
    ]
    # The API does not tell which messages say too little without the example.
    reasons = tuple(
        (ReasonOfExample if reason.get("example") else Reason)(
            reason["code"],
            "",
            0,
            0,
            reason.get("nodes", 0),
            reason.get("example", ""),
            reason["message"],
        )
        for reason in told["reasons"]
    )
    return PodPlacement(f"{namespace}/{told['pod']}", node, tuple(claims), reasons)


def _decode_allocation(devices: Json) -> Allocation:
    return msgspec.convert({"devices": {"results": devices}}, Allocation, dec_hook=decode_quantity)
