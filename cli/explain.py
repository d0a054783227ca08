"""`drawbridge explain POD`: what was asked, what it became, which devices, and what lacks.

Reads a live cluster, or files; changes nothing. Exit code 0 when the pod has its node and
devices, 1 when it has not, 2 when there is no such pod or something cannot be read.
"""

import argparse
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cli import codes, live_cluster, output
from cli.input_files import read
from cli.live_cluster import UnreadableError
from cli.streams import Streams
from documents.document import Document, Located
from documents.paths import get
from documents.values import Value
from dra.finding import Severity
from report.explain import Device, Explanation, Scene, explain, names
from report.tables import printable, table

if TYPE_CHECKING:
    from cluster.session import Session

T = TypeVar("T")

NAME = "explain"
HELP = "say what a pod asked for, what it became, which devices it has, and what lacks"

PLACED, NOT_PLACED, BAD = 0, 1, 2
_DEFAULT = "default"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pod, and where it is looked for."""
    parser.add_argument("pod", metavar="POD", help="its name, or namespace/name")
    parser.add_argument("-n", "--namespace", metavar="NS", help="the pod's namespace")
    live_cluster.options(parser)
    parser.add_argument(
        "-f",
        "--filename",
        "--cluster",
        "--inventory",
        dest="filename",
        metavar="FILE|DIR|-",
        action="append",
        default=[],
        help="look in these files instead of a live cluster; may be given several times",
    )
    parser.add_argument(
        "-o", "--output", choices=["text", "json", "yaml"], default="text", help="format"
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Explain the pod, and say by the exit code whether it is placed."""
    findings: list[Located] = []
    try:
        scene = _scene(options, streams, findings)
    except UnreadableError as error:
        findings.append(error.located)
        return _refused(findings, options.output, streams)
    told = explain(scene)
    output.findings(findings, streams.err)
    if options.output == "text":
        streams.out.writelines(f"{printable(line)}\n" for line in lines(told))
        there = (Located(each, "", 0, 0) for each in told.findings)
        output.findings(there, streams.out, color=streams.color)
        streams.out.writelines(f"event: {printable(each)}\n" for each in told.events)
    else:
        output.value(msgspec.to_builtins(told), options.output, streams.out)
    if any(each.finding.severity is Severity.ERROR for each in findings):
        return BAD
    return PLACED if told.placed else NOT_PLACED


def _refused(findings: list[Located], form: str, streams: Streams) -> int:
    if form == "text":
        output.findings(findings, streams.err)
    else:
        output.value(output.plain(findings), form, streams.out)
    return BAD


def _scene(options: argparse.Namespace, streams: Streams, findings: list[Located]) -> Scene:
    namespace, _, name = options.pod.rpartition("/")
    # As kubectl has it: a kind may stand before the name.
    if namespace in ("pod", "pods", "po"):
        namespace = ""
    wanted = options.namespace or namespace
    if options.filename:
        return _of_files(read(options.filename, streams.stdin), wanted, name, findings)

    async def look(session: "Session") -> Scene:
        return await _of_cluster(session, wanted or session.namespace, name, findings)

    return live_cluster.reading(options, look)


# --- files ---------------------------------------------------------------------------------------


def _of_files(
    documents: Iterator[Document | Located], namespace: str, name: str, findings: list[Located]
) -> Scene:
    by_kind: dict[str, list[dict[str, Value]]] = {}
    for each in documents:
        if isinstance(each, Located):
            findings.append(each)
        elif each.findings:
            findings += each.findings
        elif isinstance(each.value, dict):
            by_kind.setdefault(f"{each.value.get('kind')}", []).append(each.value)
    pods = [pod for pod in by_kind.get("Pod", ()) if get(pod, ("metadata", "name")) == name]
    pod = _chosen(pods, namespace, name)
    space = _space(pod)

    def of(kind: str) -> dict[str, Value]:
        mine = (each for each in by_kind.get(kind, ()) if _space(each) == space)
        return {f"{get(each, ('metadata', 'name'))}": each for each in mine}

    spaces = by_kind.get("Namespace", ())
    return Scene(
        pod=pod,
        claims=of("ResourceClaim"),
        templates=of("ResourceClaimTemplate"),
        events=[each for each in by_kind.get("Event", ()) if _about(each, name, space)],
        namespace=next((e for e in spaces if get(e, ("metadata", "name")) == space), None),
    )


def _chosen(pods: list[dict[str, Value]], namespace: str, name: str) -> dict[str, Value]:
    """Give the one pod that is meant; of an object that is there twice the last one counts."""
    by_space = {_space(pod): pod for pod in pods}
    if namespace in by_space:
        return by_space[namespace]
    if not namespace and len(by_space) == 1:
        return next(iter(by_space.values()))
    where = f"in namespace {namespace}" if namespace else "in the input"
    told = f"there is no Pod {name} {where}"
    if by_space:
        told = f"there are Pods {name} in the namespaces {', '.join(sorted(by_space))}"
    raise UnreadableError(codes.POD_UNKNOWN.at("", told))


def _space(value: Value) -> str:
    return f"{get(value, ('metadata', 'namespace')) or _DEFAULT}"


def _about(event: Value, name: str, namespace: str) -> bool:
    """Tell whether an event, of either API, is about the pod."""
    for part in ("regarding", "involvedObject"):
        about = get(event, (part,))
        if get(about, ("kind",)) == "Pod" and get(about, ("name",)) == name:
            return (get(about, ("namespace",)) or _DEFAULT) == namespace
    return False


# --- a live cluster ------------------------------------------------------------------------------


async def _of_cluster(
    session: "Session", namespace: str, name: str, findings: list[Located]
) -> Scene:
    from cluster import resources  # noqa: PLC0415  # as `cli.live` does

    pod = await live_cluster.one(session, resources.PODS, name, namespace)
    if pod is None:
        told = f"there is no Pod {name} in namespace {namespace}"
        raise UnreadableError(codes.POD_UNKNOWN.at("", told))
    claims, templates = names(pod)
    about = f"regarding.kind=Pod,regarding.name={name}"
    return Scene(
        pod=pod,
        claims={
            each: found
            for each in claims
            if (found := await live_cluster.one(session, resources.CLAIMS, each, namespace))
            is not None
        },
        templates={
            each: found
            for each in templates
            if (found := await live_cluster.one(session, resources.TEMPLATES, each, namespace))
            is not None
        },
        events=await _if_allowed(
            live_cluster.every(session, resources.EVENTS, namespace, about), findings
        )
        or (),
        namespace=await _if_allowed(
            live_cluster.one(session, resources.NAMESPACES, namespace), findings
        ),
    )


async def _if_allowed(reading: Awaitable[T], findings: list[Located]) -> T | None:
    """Read what the answer can do without."""
    from cluster.session import ApiError  # noqa: PLC0415  # as `cli.live` does

    try:
        return await reading
    except ApiError as error:
        if error.code != 403:
            raise
        findings.append(Located(codes.PART_UNREADABLE.at("", error.message), "", 0, 0))
        return None


# --- what is printed -----------------------------------------------------------------------------


def lines(told: Explanation) -> Iterator[str]:
    """Say it in lines, from what was asked to the devices."""
    yield f"{told.pod}: {told.phase} on {told.node}" if told.node else f"{told.pod}: {told.phase}"
    if told.mode:
        yield f"  namespace: {told.mode}"
    yield "  asked, and translated:" if told.translated else "  asked:"
    rows = [(each.container, each.resource, each.amount) for each in told.asked]
    rows += [("pod", key, value) for key, value in told.hints.items()]
    yield from (f"    {line}" for line in table(rows))
    if not rows:
        yield "    no devices the old way"
    for claim in told.claims:
        made = f" from template {claim.template}" if claim.template else ""
        yield f"  claim {claim.name}{made}: {claim.claim or 'none yet'}, {claim.state}"
        yield from (f"    {each}" for each in claim.requests)
        if claim.containers:
            yield f"    used by {', '.join(claim.containers)}"
        yield from (f"    {line}" for line in table(list(_held(claim.devices))))


def _held(devices: tuple[Device, ...]) -> Iterator[tuple[str, ...]]:
    for each in devices:
        consumed = ", ".join(f"{amount} {key}" for key, amount in each.consumed.items())
        yield each.request, f"{each.driver}/{each.pool}/{each.device}", consumed
