"""`drawbridge explain`: shows the requests of a pod or workload, its claims, devices and problems.

Of a workload, it shows how many pods have their devices, and one pod that lacks something. Of a
node, it shows what it offers and who holds its devices. Of devices, it shows the claims and pods
that hold them, also pods of device plugins.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cli.explanation.held_objects import read_held
from cli.explanation.holders import explain_devices, format_holders, parse_devices, select_stuck
from cli.explanation.objects import Subject, read_subject
from cli.explanation.pod_modes import SOURCES, check_label, find_modes
from cli.input import allocator_api
from cli.input.allocator_api import Json, ask_allocator, ask_found_allocator
from cli.input.codes import CONFIGURATION_NOT_READ
from cli.input.effective_configuration import read_effective_configuration
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, add_manifests_option, add_shared_options
from cli.terminal.durations import format_age
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.agreement.owned_pools import decide_node
from drawbridge.agreement.scope import ScopeRule
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import LocatedFinding, has_errors
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.report.codes import (
    ALLOW_SIMULATION,
    CLAIM_PENDING,
    FREE_DEVICES,
    NOT_TRANSLATED,
)
from drawbridge.report.device_holders import find_holders
from drawbridge.report.events import SeenEvent
from drawbridge.report.explain import AllocatedDevice, Explanation, explain
from drawbridge.report.gangs import format_gang
from drawbridge.report.node import explain_node, format_node
from drawbridge.report.stuck.found import format_stuck
from drawbridge.report.tables import align_columns
from drawbridge.report.workloads import (
    WorkloadExplanation,
    WorkloadObjects,
    explain_manifest,
    explain_workload,
    is_created,
    parse_node,
)
from drawbridge.translate.changes.scheduler import DEFAULT as DEFAULT_SCHEDULER
from drawbridge.translate.changes.scheduler import OURS

if TYPE_CHECKING:
    from cli.simulation.waiting_pod import WaitingPod

EXIT_CODES = {
    DONE: "all pods have their node and devices; the node or device exists, as far as you may read",
    NOTICE: "a pod lacks its node or a device, or a wanted pod does not exist",
    BAD: "the pod, workload, node or device does not exist, or bad input",
}


class Told(NamedTuple):
    """What the allocator said about a pod, or why it was not asked about a pod that waits.

    Of a pod that waits without an answer: the simulation.
    """

    answer: Json | None = None
    not_asked: str = ""
    waiting: "WaitingPod | None" = None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pod and its source."""
    parser.add_argument(
        "pod",
        metavar="POD|TYPE/NAME",
        help="name of a pod, namespace/name, a workload such as deploy/train, node/NAME,"
        " device/NODE/NAME (by name, number or UUID), device/NODE, or devices for all that are"
        " held",
    )
    add_shared_options(parser, "--namespace")
    add_manifests_option(parser, required=False)
    add_shared_options(parser, "--cluster", "--config", *LIVE)
    allocator_api.add_options(parser)
    add_shared_options(parser, "--stages")
    output.add_format_option(parser, "text", "json", "yaml")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Explain what is named; the exit code shows whether all pods have their devices."""
    findings: list[LocatedFinding] = []
    devices = parse_devices(options.pod)
    is_live = devices is None and not (options.filename or options.cluster)
    configuration, told = read_effective_configuration(
        options, streams, asks_cluster=is_live, is_required=False
    )
    findings += told
    if configuration is None:
        return output.print_unreadable(findings, options, streams)
    if devices is not None:
        return explain_devices(devices, options, streams)
    if node := parse_node(options.pod):
        return _explain_node(node, configuration, findings, options, streams)
    try:
        objects, webhook, unread = read_subject(options, streams, findings)
    except ClusterReadError as error:
        findings.append(error.located)
        return output.print_unreadable(findings, options, streams)
    findings += map(LocatedFinding, check_label(objects.namespace, configuration.scope))
    is_known = not any(map(_is_not_read, told))
    scope = configuration.scope if is_known else None
    find_mode = find_modes(objects.namespace, scope, webhook)
    subject = replace(objects, find_mode=find_mode, configuration=configuration)
    done = _explain(subject, configuration)
    pods = done.explained if isinstance(done, WorkloadExplanation) else (done,)
    if not any(each.code == NOT_TRANSLATED.name for pod in pods for each in pod.findings):
        # No answer depends on it, so nobody needs to know what the caller may not read.
        findings = [each for each in findings if not _is_not_read(each)]
    else:
        findings += unread
    existing = objects.pods if isinstance(objects, WorkloadObjects) else (objects.pod,)
    values = {_full_name(each): each for each in existing}
    answers = {each.pod: Told() for each in pods}
    # Nothing but a pod that exists is asked about: no template of a workload.
    for pod in pods:
        if pod.pod in values:
            answers[pod.pod] = ask_about(options, pod, values[pod.pod], streams, findings)
    output.print_findings(findings, streams.err)
    done = _change_pods(done, lambda each: _add_remedy(each, answers[each.pod]))
    _print_explanations(options, done, answers, streams, findings)
    if has_errors(findings):
        return BAD
    complete = done.complete if isinstance(done, WorkloadExplanation) else done.placed
    return DONE if complete else NOTICE


def _is_not_read(told: LocatedFinding) -> bool:
    return told.finding.code == CONFIGURATION_NOT_READ.name


def _explain(objects: Subject, configuration: Configuration) -> Explanation | WorkloadExplanation:
    """Explain a pod or workload, with the policies of the configuration."""
    done: Explanation | WorkloadExplanation
    if isinstance(objects, WorkloadObjects):
        done = explain_workload(objects)
    else:
        done = explain(objects) if is_created(objects) else explain_manifest(objects)
    return _change_pods(done, lambda each: _with_policies(each, configuration))


def _change_pods(
    done: Explanation | WorkloadExplanation, change: Callable[[Explanation], Explanation]
) -> Explanation | WorkloadExplanation:
    """Return an explanation with that of each pod changed."""
    if isinstance(done, Explanation):
        return change(done)
    return msgspec.structs.replace(done, explained=tuple(map(change, done.explained)))


def _with_policies(done: Explanation, configuration: Configuration) -> Explanation:
    findings = tuple(apply_policies(done.findings, configuration.findings))
    return msgspec.structs.replace(done, findings=findings)


def _add_remedy(done: Explanation, told: Told) -> Explanation:
    """Say of claims that wait what to do about the reasons, or about a failed simulation."""
    placement = told.waiting.placement if told.waiting is not None else None
    if (told.answer or {}).get("reasons") or (placement is not None and placement.reasons):
        remedy = FREE_DEVICES
    elif told.waiting is not None and placement is None:
        remedy = ALLOW_SIMULATION
    else:
        return done
    findings = (
        msgspec.structs.replace(each, remedy=remedy) if each.code == CLAIM_PENDING.name else each
        for each in done.findings
    )
    return msgspec.structs.replace(done, findings=tuple(findings))


def _explain_node(
    node: str,
    configuration: Configuration,
    findings: list[LocatedFinding],
    options: argparse.Namespace,
    streams: Streams,
) -> int:
    try:
        objects = read_held(options, node, streams, findings)
    except ClusterReadError as error:
        return output.print_unreadable([*findings, error.located], options, streams)
    held = [each for each in find_holders(objects.held) if each.node == node]
    labels = as_mapping(get_value(objects.node, ("metadata", "labels")))
    ownership = decide_node(owned_pools(configuration), {k: f"{v}" for k, v in labels.items()})
    now = datetime.now(UTC)
    done = explain_node(
        node,
        objects.node,
        objects.held,
        held,
        objects.events,
        now=now,
        owned=ownership.drivers,
    )
    output.print_findings(findings, streams.err)
    data = msgspec.to_builtins(done) | output.findings_as_data(findings)
    table = format_holders(held, now) if held else ()
    stuck = format_stuck(select_stuck(objects.stuck, held))
    lines = chain(format_node(done), table, stuck, _format_events(done.events, now))
    output.print_answer(options.output, data, lines, streams.out)
    return BAD if has_errors(findings) else DONE


def _full_name(pod: Value) -> str:
    metadata = as_mapping(get_value(pod, ("metadata",)))
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"


def _print_explanations(
    options: argparse.Namespace,
    done: Explanation | WorkloadExplanation,
    told: Mapping[str, Told],
    streams: Streams,
    findings: Sequence[LocatedFinding],
) -> None:
    """Print the explanation of a pod or workload, and what the allocator says about its pods."""
    if options.output != "text":
        data = msgspec.to_builtins(done)
        pods = data["explained"] if isinstance(done, WorkloadExplanation) else [data]
        for pod in pods:
            _add_told(pod, told[pod["pod"]], asked=bool(options.allocator_url))
        read = output.findings_as_data(findings)["findings"]
        data["findings"] = [*data.get("findings", ()), *read]
        output.print_value(data, options.output, streams.out)
        return
    if isinstance(done, Explanation):
        _print_text(done, streams, format_told(told[done.pod]))
        return
    events = _format_events(done.events, datetime.now(UTC))
    output.write_lines(chain(_format_workload(done), events), streams.out)
    for explanation in done.explained:
        streams.out.write("\n")
        _print_text(explanation, streams, format_told(told[explanation.pod]))


def _add_told(data: dict[str, object], told: Told, *, asked: bool) -> None:
    """Add what the allocator said about a pod, or why it was not asked, to the data of the pod."""
    if told.answer is not None or asked:
        data["allocator"] = told.answer
    elif told.not_asked:
        data["allocatorNotAsked"] = told.not_asked
    if told.waiting is not None:
        from cli.simulation.waiting_pod import waiting_as_data  # noqa: PLC0415  # loaded on demand

        data |= waiting_as_data(told.waiting)


# --- text output ---------------------------------------------------------------------------------


def _print_text(explanation: Explanation, streams: Streams, more: Iterable[str]) -> None:
    now = datetime.now(UTC)
    output.write_lines((*format_explanation(explanation, now), *more), streams.out)
    findings = (LocatedFinding(each) for each in explanation.findings)
    output.print_findings(findings, streams.out, color=streams.color)
    output.write_lines(_format_events(explanation.events, now), streams.out)


def _format_events(events: Iterable[SeenEvent], now: datetime) -> Iterator[str]:
    aged = ((format_age(each.time, now), each.text) for each in events)
    return (f"event: {f'{age} ago: ' if age else ''}{text}" for age, text in aged)


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
        names = ", ".join(done.not_placed) + (
            f" and {count_noun(more, 'more pod')}" if more else ""
        )
        yield f"  without: {names}"


def format_explanation(pod: Explanation, now: datetime) -> Iterator[str]:
    """Format the explanation: the original requests, then each claim with its devices."""
    created = format_age(pod.created, now)
    age = f", created {created} ago" if created else ""
    yield f"{pod.pod}: {pod.phase}" + (f" on {pod.node}" if pod.node else "") + age
    if pod.mode and pod.rule:
        yield f"  mode: {pod.mode} ({SOURCES[ScopeRule(pod.rule)]})"
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
        since = format_age(claim.allocated, now)
        state = f"{claim.state}{source}" + (f", allocated {since} ago" if since else "")
        yield f"  claim {claim.name}{template}: {claim.claim or 'not created'}, {state}"
        yield from (f"    {each}" for each in claim.requests)
        if claim.containers:
            yield f"    used by {', '.join(claim.containers)}"
        yield from (f"    {line}" for line in align_columns(list(_device_rows(claim.devices))))
    if pod.gang is not None:
        yield from format_gang(pod.gang)


def _device_rows(devices: tuple[AllocatedDevice, ...]) -> Iterator[tuple[str, ...]]:
    for device in devices:
        consumed = ", ".join(f"{amount} {key}" for key, amount in device.consumed.items())
        yield device.request, f"{device.driver}/{device.pool}/{device.device}", consumed


def ask_about(
    options: argparse.Namespace,
    pod: Explanation,
    value: Value,
    streams: Streams,
    findings: list[LocatedFinding],
) -> Told:
    """Ask about a pod that exists; without an answer, the output is that of the others.

    Without a URL, a pod of a live cluster that waits for devices is asked about: the allocator of
    its scheduler, or without that a simulation.
    """
    namespace, _, name = pod.pod.partition("/")
    body: dict[str, object] = {"namespace": namespace, "name": name}
    if options.stages:
        body["stages"] = True
    if options.allocator_url:
        try:
            return Told(ask_allocator(options, "/v1/explain", body))
        except ClusterReadError as error:
            findings.append(error.located)
            return Told()
    is_live = not (options.filename or options.cluster)
    if not is_live or pod.placed:
        return Told()
    not_asked = ""
    if pod.scheduler == OURS:
        try:
            return Told(ask_found_allocator(options, "/v1/explain", body).response)
        except ClusterReadError as error:
            not_asked = error.finding.message
    if pod.node is not None or not (pod.claims or pod.asked):
        return Told(not_asked=not_asked)
    from cli.simulation.waiting_pod import simulate_waiting  # noqa: PLC0415  # loads the CEL engine

    return Told(not_asked=not_asked, waiting=simulate_waiting(options, value, streams))


def format_told(told: Told) -> Iterator[str]:
    """Format what the allocator said, or why it was not asked."""
    if told.not_asked:
        yield f"  allocator: not asked: {told.not_asked}"
    if told.answer is not None:
        yield from _format_answer(told.answer)
    if told.waiting is not None:
        from cli.simulation.waiting_pod import format_waiting  # noqa: PLC0415  # loaded on demand

        yield from format_waiting(told.waiting)


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
    for line in told.get("quotas", ()):
        whose = line["namespace"] or "all selected namespaces"
        what = f"{line['amount']} of class {line['deviceClass']}"
        yield (
            f"    quota {line['quota']}, {what}: {whose} used {line['used']} of {line['limit']},"
            f" {line['left']} left"
        )
    for step in told.get("transitions", ()):
        ago = f"{step['secondsAgo']:.0f} s ago"
        yield f"    {ago}: the pod {step['event']} ({step['state']})"
    for node in told["nodes"]:
        yield f"    {node['node']}: {'; '.join(each['message'] for each in node['reasons'])}"
    if told.get("stages"):
        from cli.simulation.stages import format_answer  # noqa: PLC0415  # loads the CEL engine

        yield from format_answer(told["stages"])
