"""Lets the API of the allocator place the pods of `drawbridge simulate`."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cli import output, placements
from cli.allocator_api import ask_allocator
from cli.allocator_request import Json
from cli.exit_codes import BAD, DONE, NOTICE
from cli.live_cluster import ClusterReadError
from cli.simulation_input import SimulationInput
from cli.streams import Streams
from documents.document import LocatedFinding
from dra.counted import count_noun
from dra.finding import Severity
from ledger import codes
from ledger.ledger import Ledger
from ledger.placing import PodPlacement
from ledger.pods import Pod
from solver.reasons import Reason

# The API takes no more.
MAX_PODS: Final = 100


def run_by_allocator(options: argparse.Namespace, inputs: SimulationInput, streams: Streams) -> int:
    """Ask the allocator, and print the placements as those of a local simulation."""
    findings = list(inputs.findings)
    pods = list(_each_pod(inputs))
    placed: tuple[PodPlacement, ...] = ()
    if len(pods) > MAX_PODS:
        text = f"the allocator is asked about {MAX_PODS} of {len(pods):,} pods"
        findings.append(LocatedFinding(codes.NOT_SIMULATED.at("", text), "", 0, 0))
    try:
        reply = ask_allocator(options, "/v1/simulate", _body(inputs, pods[:MAX_PODS]))
        placed = tuple(map(_read_placement, reply["pods"]))
    except ClusterReadError as error:
        failed = replace(error.finding, severity=Severity.ERROR)
        findings.append(LocatedFinding(failed, "", 0, 0))
    if options.output == "text":
        output.print_findings(findings, streams.out, color=streams.color)
        streams.out.writelines(f"{line}\n" for line in _text(placed, options.allocator_url))
    else:
        output.print_findings(findings, streams.err)
        data = placements.placements_as_data(placed, Ledger(), ())
        data = {"allocator": options.allocator_url, **data}
        output.print_value(data, options.output, streams.out)
    if any(each.finding.severity is Severity.ERROR for each in findings):
        return BAD
    return DONE if all(map(placements.is_placed, placed)) else NOTICE


def _text(placed: Sequence[PodPlacement], url: str) -> Iterator[str]:
    yield from placements.format_entries(placed)
    if placed:
        fit, total = placements.count_placed(placed)
        yield ""
        yield f"{fit:,} of {count_noun(total, 'pod')} {'is' if fit == 1 else 'are'} placed."
        yield f"Allocator: that of the cluster, at {url}. Nothing is reserved."


def _each_pod(inputs: SimulationInput) -> Iterator[Pod]:
    """Yield the pods of the input, those of workloads with a number each."""
    for each in inputs.pods:
        if not each.path:
            yield each.pod
            continue
        for number in range(each.pods.number):
            metadata = replace(each.pod.metadata, name=f"{each.pod.metadata.name}-{number}")
            yield replace(each.pod, metadata=metadata)


def _body(inputs: SimulationInput, pods: Sequence[Pod]) -> dict[str, Any]:
    """Return the request: the pods, and all claims and templates of the input."""
    objects: dict[str, Any] = {
        "pods": pods,
        "claims": inputs.objects.claims,
        "templates": inputs.objects.templates,
    }
    plain: dict[str, Any] = msgspec.to_builtins(objects, enc_hook=str)
    return plain


def _read_placement(told: Json) -> PodPlacement:
    """Return what the allocator says as a placement."""
    namespace = told["namespace"]
    node = told["node"] or None
    claims = [
        (
            f"{namespace}/{each['claim']}",
            {"devices": {"results": each["devices"]}} if node else None,
        )
        for each in told["claims"]
    ]
    reasons = tuple(
        Reason(
            each["code"], "", 0, 0, each.get("nodes", 0), each.get("example", ""), each["message"]
        )
        for each in told["reasons"]
    )
    return PodPlacement(f"{namespace}/{told['pod']}", node, tuple(claims), reasons)
