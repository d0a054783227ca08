"""`drawbridge explain`: shows the requests of a pod or workload, its claims, devices and problems.

Of a workload, it shows how many pods have their devices, and one pod that lacks something.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from cli.input import allocator_api
from cli.input.allocator_api import Json, ask_allocator, ask_found_allocator
from cli.input.explained_objects import read_subject
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.cluster_options import (
    add_files_option,
    add_live_options,
    add_manifests_option,
    add_namespace_option,
)
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Severity
from drawbridge.report.explain import AllocatedDevice, Explanation, explain
from drawbridge.report.tables import align_columns, escape_unprintable
from drawbridge.report.workloads import (
    WorkloadExplanation,
    WorkloadObjects,
    explain_manifest,
    explain_workload,
    is_created,
)
from drawbridge.translate.changes.scheduler import DEFAULT as DEFAULT_SCHEDULER
from drawbridge.translate.changes.scheduler import OURS

NAME = "explain"
EXIT_CODES = {
    DONE: "all pods have their node and devices",
    NOTICE: "a pod lacks its node or a device, or a wanted pod does not exist",
    BAD: "the pod or workload does not exist, or bad input",
}


class Told(NamedTuple):
    """What the allocator said about a pod, or why it was not asked about a pod that waits."""

    answer: Json | None = None
    not_asked: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pod and its source."""
    parser.add_argument(
        "pod",
        metavar="POD|TYPE/NAME",
        help="name of a pod, namespace/name, or a workload such as deploy/train",
    )
    add_namespace_option(parser)
    add_manifests_option(parser, required=False)
    add_files_option(parser)
    add_live_options(parser)
    allocator_api.add_options(parser)
    output.add_format_option(parser, "text", "json", "yaml")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Explain the pod or workload; the exit code shows whether all pods have their devices."""
    findings: list[LocatedFinding] = []
    try:
        objects = read_subject(options, streams, findings)
    except ClusterReadError as error:
        findings.append(error.located)
        return output.print_unreadable(findings, options.output, streams)
    if isinstance(objects, WorkloadObjects):
        done: Explanation | WorkloadExplanation = explain_workload(objects)
    else:
        done = explain(objects) if is_created(objects) else explain_manifest(objects)
    pods = done.explained if isinstance(done, WorkloadExplanation) else (done,)
    told = {each.pod: ask_about(options, each, findings) for each in pods}
    output.print_findings(findings, streams.err)
    _print_explanations(options, done, told, streams)
    if any(each.finding.severity is Severity.ERROR for each in findings):
        return BAD
    complete = done.complete if isinstance(done, WorkloadExplanation) else done.placed
    return DONE if complete else NOTICE


def _print_explanations(
    options: argparse.Namespace,
    done: Explanation | WorkloadExplanation,
    told: Mapping[str, Told],
    streams: Streams,
) -> None:
    """Print the explanation of a pod or workload, and what the allocator says about its pods."""
    if options.output != "text":
        data = msgspec.to_builtins(done)
        _add_told(data, next(iter(told.values()), Told()), asked=bool(options.allocator_url))
        output.print_value(data, options.output, streams.out)
        return
    if isinstance(done, Explanation):
        _print_text(done, streams, format_told(told[done.pod]))
        return
    _print_workload(done, streams)
    for explanation in done.explained:
        streams.out.write("\n")
        _print_text(explanation, streams, format_told(told[explanation.pod]))


def _add_told(data: dict[str, object], told: Told, *, asked: bool) -> None:
    """Add what the allocator said, or why it was not asked, to the data of the output."""
    if told.answer is not None or asked:
        data["allocator"] = told.answer
    elif told.not_asked:
        data["allocatorNotAsked"] = told.not_asked


# --- text output ---------------------------------------------------------------------------------


def _print_text(explanation: Explanation, streams: Streams, more: Iterable[str]) -> None:
    for line in (*format_explanation(explanation), *more):
        streams.out.write(f"{escape_unprintable(line)}\n")
    findings = (LocatedFinding(each) for each in explanation.findings)
    output.print_findings(findings, streams.out, color=streams.color)
    for event in explanation.events:
        streams.out.write(f"event: {escape_unprintable(event)}\n")


def _print_workload(done: WorkloadExplanation, streams: Streams) -> None:
    for line in _format_workload(done):
        streams.out.write(f"{escape_unprintable(line)}\n")
    for event in done.events:
        streams.out.write(f"event: {escape_unprintable(event)}\n")


def _format_workload(done: WorkloadExplanation) -> Iterator[str]:
    """Format the counts, and the names of the first pods that lack something."""
    wanted = "" if done.wanted in (None, done.pods) else f" of {done.wanted:,} wanted"
    if not done.pods:
        yield f"{done.workload}: no pods" + (f", {done.wanted:,} wanted" if done.wanted else "")
        return
    finished = f", {done.finished:,} finished" if done.finished else ""
    pods = f"{count_noun(done.pods, 'pod')}{wanted}"
    yield f"{done.workload}: {pods}: {done.placed:,} with node and devices{finished}"
    if done.not_placed:
        lacking = done.pods - done.placed - done.finished
        more = lacking - len(done.not_placed)
        names = ", ".join(done.not_placed) + (f" and {more:,} more" if more else "")
        yield f"  without: {names}"


def format_explanation(pod: Explanation) -> Iterator[str]:
    """Format the explanation: the original requests, then each claim with its devices."""
    yield f"{pod.pod}: {pod.phase}" + (f" on {pod.node}" if pod.node else "")
    if pod.mode:
        yield f"  namespace mode: {pod.mode}"
    if pod.scheduler != DEFAULT_SCHEDULER:
        yield f"  scheduler: {pod.scheduler}"
    yield f"  device-plugin requests{' (translated)' if pod.translated else ''}:"
    rows = [(each.container, each.resource, each.amount) for each in pod.asked]
    rows += [("pod", key, value) for key, value in pod.hints.items()]
    yield from (f"    {line}" for line in align_columns(rows))
    if not rows:
        yield "    none"
    for claim in pod.claims:
        template = f" from template {claim.template}" if claim.template else ""
        source = f" (devices from {claim.allocator})" if claim.allocator else ""
        state = f"{claim.state}{source}"
        yield f"  claim {claim.name}{template}: {claim.claim or 'not created'}, {state}"
        yield from (f"    {each}" for each in claim.requests)
        if claim.containers:
            yield f"    used by {', '.join(claim.containers)}"
        yield from (f"    {line}" for line in align_columns(list(_device_rows(claim.devices))))


def _device_rows(devices: tuple[AllocatedDevice, ...]) -> Iterator[tuple[str, ...]]:
    for device in devices:
        consumed = ", ".join(f"{amount} {key}" for key, amount in device.consumed.items())
        yield device.request, f"{device.driver}/{device.pool}/{device.device}", consumed


def ask_about(
    options: argparse.Namespace, pod: Explanation, findings: list[LocatedFinding]
) -> Told:
    """Ask about a pod; without an answer, the output is that of the others.

    Without a URL, the allocator of a live cluster is asked about a pod that waits for it.
    """
    namespace, _, name = pod.pod.partition("/")
    body = {"namespace": namespace, "name": name}
    if options.allocator_url:
        try:
            return Told(ask_allocator(options, "/v1/explain", body))
        except ClusterReadError as error:
            findings.append(error.located)
            return Told()
    is_live = not (options.filename or options.cluster)
    if not is_live or pod.scheduler != OURS or pod.placed:
        return Told()
    try:
        return Told(ask_found_allocator(options, "/v1/explain", body).response)
    except ClusterReadError as error:
        return Told(not_asked=error.finding.message)


def format_told(told: Told) -> Iterator[str]:
    """Format what the allocator said, or why it was not asked."""
    if told.not_asked:
        yield f"  allocator: not asked: {told.not_asked}"
    if told.answer is not None:
        yield from _format_answer(told.answer)


def _format_answer(told: Json) -> Iterator[str]:
    source = "" if told["leading"] else " (of a replica that does not lead)"
    fitting = f", {count_noun(told['fitting'], 'node')} can take it now" if told["fitting"] else ""
    yield f"  allocator{source}: {told['state']}{fitting}"
    for claim in told["claims"]:
        if claim["state"] == "Reserved":
            names = ", ".join(
                f"{device['driver']}/{device['pool']}/{device['device']}"
                for device in claim["devices"]
            )
            yield f"    claim {claim['name']}: reserved {names}"
    for reason in told["reasons"]:
        nodes = f"{count_noun(reason['nodes'], 'node')}: " if reason.get("nodes") else ""
        yield f"    {nodes}{reason['message']} [{reason['code']}]"
    for node in told["nodes"]:
        yield f"    {node['node']}: {'; '.join(each['message'] for each in node['reasons'])}"
