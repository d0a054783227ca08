"""`drawbridge explain POD`: shows the requests of a pod, its claims, its devices and its problems.

Reads a live cluster, or files.
"""

import argparse
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cli import codes, live_cluster, output
from cli.cluster_options import (
    add_files_option,
    add_live_options,
    add_manifests_option,
    add_namespace_option,
)
from cli.exit_codes import BAD, DONE, NOTICE
from cli.input_files import read_documents
from cli.live_cluster import ClusterReadError
from cli.streams import Streams
from documents.document import Document, LocatedFinding
from documents.paths import get_value
from documents.values import Value
from dra.finding import Severity
from report.explain import AllocatedDevice, Explanation, PodObjects, explain, referenced_names
from report.tables import align_columns, escape_unprintable

if TYPE_CHECKING:
    from cluster.resources import Resource
    from cluster.session import Session

T = TypeVar("T")

NAME = "explain"
HELP = "show the requests of a pod, its claims, its devices and its problems"

EXIT_CODES = {
    DONE: "the pod has its node and all devices",
    NOTICE: "the pod lacks its node or a device",
    BAD: "the pod does not exist, or bad input",
}
_DEFAULT = "default"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pod and its source."""
    parser.add_argument("pod", metavar="POD", help="name of the pod, or namespace/name")
    add_namespace_option(parser)
    add_manifests_option(parser, required=False)
    add_files_option(parser)
    add_live_options(parser)
    output.add_format_option(parser, "text", "json", "yaml")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Explain the pod; the exit code shows whether it has its node and devices."""
    findings: list[LocatedFinding] = []
    try:
        objects = _read_objects(options, streams, findings)
    except ClusterReadError as error:
        findings.append(error.located)
        _print_error(findings, options.output, streams)
        return BAD
    explanation = explain(objects)
    output.print_findings(findings, streams.err)
    if options.output == "text":
        _print_text(explanation, streams)
    else:
        output.print_value(msgspec.to_builtins(explanation), options.output, streams.out)
    if any(each.finding.severity is Severity.ERROR for each in findings):
        return BAD
    return DONE if explanation.placed else NOTICE


def _print_error(findings: list[LocatedFinding], form: str, streams: Streams) -> None:
    if form == "text":
        output.print_findings(findings, streams.err)
    else:
        output.print_value(output.findings_as_data(findings), form, streams.out)


def _read_objects(
    options: argparse.Namespace, streams: Streams, findings: list[LocatedFinding]
) -> PodObjects:
    namespace, _, name = options.pod.rpartition("/")
    # As in kubectl, a resource type can precede the name.
    if namespace in ("pod", "pods", "po"):
        namespace = ""
    namespace = options.namespace or namespace
    if files := [*options.filename, *options.cluster]:
        documents = read_documents(files, streams.stdin)
        return _read_from_files(documents, namespace, name, findings)

    async def read(session: "Session") -> PodObjects:
        return await _read_from_cluster(session, namespace or session.namespace, name, findings)

    return live_cluster.run_with_session(options, read)


# --- files ---------------------------------------------------------------------------------------


def _read_from_files(
    documents: Iterator[Document | LocatedFinding],
    namespace: str,
    name: str,
    findings: list[LocatedFinding],
) -> PodObjects:
    by_kind: dict[str, list[dict[str, Value]]] = {}
    for each in documents:
        if isinstance(each, LocatedFinding):
            findings.append(each)
        elif each.findings:
            findings += each.findings
        elif isinstance(each.value, dict):
            by_kind.setdefault(f"{each.value.get('kind')}", []).append(each.value)
    pods = [pod for pod in by_kind.get("Pod", ()) if _name(pod) == name]
    pod = _select_pod(pods, namespace, name)
    namespace = _namespace(pod)

    def by_name(kind: str) -> dict[str, Value]:
        in_namespace = (each for each in by_kind.get(kind, ()) if _namespace(each) == namespace)
        return {f"{_name(each)}": each for each in in_namespace}

    namespaces = by_kind.get("Namespace", ())
    return PodObjects(
        pod=pod,
        claims=by_name("ResourceClaim"),
        templates=by_name("ResourceClaimTemplate"),
        events=[each for each in by_kind.get("Event", ()) if _is_about(each, name, namespace)],
        namespace=next((each for each in namespaces if _name(each) == namespace), None),
    )


def _select_pod(pods: list[dict[str, Value]], namespace: str, name: str) -> dict[str, Value]:
    """Return the pod; of several objects with the same name the last one."""
    by_namespace = {_namespace(pod): pod for pod in pods}
    if namespace in by_namespace:
        return by_namespace[namespace]
    if not namespace and len(by_namespace) == 1:
        return next(iter(by_namespace.values()))
    message = f"Pod {name} not found {f'in namespace {namespace}' if namespace else 'in the input'}"
    if by_namespace:
        message += f"; it exists in {', '.join(sorted(by_namespace))}"
        if not namespace:
            message = f"Pod {name} exists in several namespaces: {', '.join(sorted(by_namespace))}"
    raise ClusterReadError(codes.POD_UNKNOWN.at("", message))


def _name(value: Value) -> Value:
    return get_value(value, ("metadata", "name"))


def _namespace(value: Value) -> str:
    return f"{get_value(value, ('metadata', 'namespace')) or _DEFAULT}"


def _is_about(event: Value, name: str, namespace: str) -> bool:
    """Tell whether an event, of either Event API, is about the pod."""
    for part in ("regarding", "involvedObject"):
        subject = get_value(event, (part,))
        if get_value(subject, ("kind",)) == "Pod" and get_value(subject, ("name",)) == name:
            return (get_value(subject, ("namespace",)) or _DEFAULT) == namespace
    return False


# --- a live cluster ------------------------------------------------------------------------------


async def _read_from_cluster(
    session: "Session", namespace: str, name: str, findings: list[LocatedFinding]
) -> PodObjects:
    from cluster import resources  # noqa: PLC0415  # loaded on demand

    pod = await live_cluster.read_object(session, resources.PODS, name, namespace)
    if pod is None:
        message = f"Pod {name} not found in namespace {namespace}"
        raise ClusterReadError(codes.POD_UNKNOWN.at("", message))
    claims, templates = referenced_names(pod)
    field_selector = f"regarding.kind=Pod,regarding.name={name}"
    return PodObjects(
        pod=pod,
        claims=await _read_existing(session, resources.CLAIMS, claims, namespace),
        templates=await _read_existing(session, resources.TEMPLATES, templates, namespace),
        events=await _if_allowed(
            live_cluster.list_objects(session, resources.EVENTS, namespace, field_selector),
            findings,
        )
        or (),
        namespace=await _if_allowed(
            live_cluster.read_object(session, resources.NAMESPACES, namespace), findings
        ),
    )


async def _read_existing(
    session: "Session", resource: "Resource", names: list[str], namespace: str
) -> dict[str, Value]:
    """Read the objects `names` that exist."""
    objects: dict[str, Value] = {}
    for name in names:
        found = await live_cluster.read_object(session, resource, name, namespace)
        if found is not None:
            objects[name] = found
    return objects


async def _if_allowed(reading: Awaitable[T], findings: list[LocatedFinding]) -> T | None:
    """Read an optional object; add a finding if access is forbidden."""
    from cluster.session import ApiError  # noqa: PLC0415  # loaded on demand

    try:
        return await reading
    except ApiError as error:
        if error.code != 403:
            raise
        findings.append(LocatedFinding(codes.PART_UNREADABLE.at("", error.message), "", 0, 0))
        return None


# --- text output ---------------------------------------------------------------------------------


def _print_text(explanation: Explanation, streams: Streams) -> None:
    for line in format_explanation(explanation):
        streams.out.write(f"{escape_unprintable(line)}\n")
    findings = (LocatedFinding(each, "", 0, 0) for each in explanation.findings)
    output.print_findings(findings, streams.out, color=streams.color)
    for event in explanation.events:
        streams.out.write(f"event: {escape_unprintable(event)}\n")


def format_explanation(pod: Explanation) -> Iterator[str]:
    """Format the explanation: the original requests, then each claim with its devices."""
    yield f"{pod.pod}: {pod.phase}" + (f" on {pod.node}" if pod.node else "")
    if pod.mode:
        yield f"  namespace mode: {pod.mode}"
    yield f"  device-plugin requests{' (translated)' if pod.translated else ''}:"
    rows = [(each.container, each.resource, each.amount) for each in pod.asked]
    rows += [("pod", key, value) for key, value in pod.hints.items()]
    yield from (f"    {line}" for line in align_columns(rows))
    if not rows:
        yield "    none"
    for claim in pod.claims:
        template = f" from template {claim.template}" if claim.template else ""
        yield f"  claim {claim.name}{template}: {claim.claim or 'not created'}, {claim.state}"
        yield from (f"    {each}" for each in claim.requests)
        if claim.containers:
            yield f"    used by {', '.join(claim.containers)}"
        yield from (f"    {line}" for line in align_columns(list(_device_rows(claim.devices))))


def _device_rows(devices: tuple[AllocatedDevice, ...]) -> Iterator[tuple[str, ...]]:
    for each in devices:
        consumed = ", ".join(f"{amount} {key}" for key, amount in each.consumed.items())
        yield each.request, f"{each.driver}/{each.pool}/{each.device}", consumed
