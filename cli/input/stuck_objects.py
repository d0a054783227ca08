"""Reads what tells whether something is stuck, in a live cluster or in files.

A list of pods and a list of claims are not of the same moment. So a claim whose pod seems to be
gone is read again, and its pods, before anybody is told.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.input import live_cluster
from drawbridge.cluster import resources
from drawbridge.cluster.resources import Resource
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.slices import Slice
from drawbridge.report.stuck.codes import CONSUMER_GONE
from drawbridge.report.stuck.find import find_stuck
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.stuck.objects import KINDS, READY, HangingObjects, from_values
from drawbridge.report.stuck.pods import FAILURES, decode_device_pod

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

# Claims that are read again one by one, and nodes whose objects are read for one workload.
_MOST_CLAIMS: Final = 100
_MOST_NODES: Final = 5
_OWNERS: Final = ("metadata", "ownerReferences")


def find_stuck_in_files(
    values: Iterable[Value], *, is_cluster: bool, slices: tuple[Slice, ...] | None = None
) -> tuple[Stuck, ...]:
    """Return what is stuck by objects of files: those of a cluster, or some objects only."""
    values = [*values]
    kinds = frozenset(f"{get_value(each, ('kind',))}" for each in values)
    complete = kinds & KINDS if is_cluster else frozenset[str]()
    return find_stuck(from_values(values, complete=complete, slices=slices))


class StuckRead(NamedTuple):
    """What is stuck, and what may not be read that would tell more."""

    stuck: tuple[Stuck, ...] = ()
    findings: tuple[LocatedFinding, ...] = ()


async def read_stuck(session: "Session", published: Iterable[Value]) -> StuckRead:
    """Return what is stuck in a live cluster whose nodes, devices and claims were read.

    Raises ApiError if pods or namespaces may not be read.
    """
    from drawbridge.cluster.client import ResourceClient  # noqa: PLC0415

    values, findings = [*published], list[LocatedFinding]()
    values += await live_cluster.list_objects(session, resources.NAMESPACES)
    client = ResourceClient(session, resources.PODS, decode_device_pod)
    pods = await live_cluster.list_all(client.iterate)
    values += await list_failures(session, findings)
    hanging = replace(from_values(values, now=session.clock.now()), pods=tuple(pods))
    return StuckRead(await find_stuck_live(session, hanging), tuple(findings))


async def find_stuck_live(session: "Session", hanging: HangingObjects) -> tuple[Stuck, ...]:
    """Return what is stuck in a live cluster, confirmed where lists of two moments can differ."""
    stuck = find_stuck(hanging)
    gone = [each for each in stuck if each.code == CONSUMER_GONE.name][:_MOST_CLAIMS]
    dropped = {each.object for each in gone if not await _is_confirmed(session, each)}
    return tuple(each for each in stuck if each.object not in dropped)


async def _is_confirmed(session: "Session", stuck: Stuck) -> bool:
    """Whether the claim is still there, and its pods are not."""
    _, namespace, name = stuck.object.split("/")
    claim = await live_cluster.read_object(session, resources.CLAIMS, name, namespace)
    if claim is None:
        return False
    listed = as_list(get_value(claim, ("status", "reservedFor")))
    users = [*map(as_mapping, (*listed, *as_list(get_value(claim, _OWNERS))))]
    for full_name in stuck.pods:
        name = full_name.partition("/")[2]
        pod = await live_cluster.read_object(session, resources.PODS, name, namespace)
        uid = get_value(pod, ("metadata", "uid"))
        if any(each.get("name") == name and each.get("uid", uid) != uid for each in users):
            return True
        if pod is None and any(each.get("name") == name for each in users):
            return True
    return False


async def find_stuck_holders(
    session: "Session", values: Iterable[Value], complete: frozenset[str], only_node: str
) -> tuple[Stuck, ...]:
    """Return which claims and pods are stuck that hold devices, of one node or of all."""
    now = session.clock.now()
    hanging = from_values(values, now=now, complete=complete, only_node=only_node)
    if only_node:
        # Pods of other nodes are not known, so nothing is told of claims for them.
        claims = tuple(each for each in hanging.claims if each.node == only_node)
        hanging = replace(hanging, claims=claims)
    return await find_stuck_live(session, hanging)


async def find_stuck_around(  # noqa: PLR0913  # what was read already
    session: "Session",
    pods: Sequence[Value],
    claims: Mapping[str, Value],
    events: Iterable[Value],
    namespace: Value,
    *,
    findings: list[LocatedFinding],
) -> tuple[Stuck, ...]:
    """Return what is stuck about these pods of one namespace, their claims and their nodes.

    Who may read his namespace only is not told of nodes and slices while all pods are ready.
    """
    findings = [] if all(map(_is_ready, pods)) else findings
    names = [*dict.fromkeys(filter(None, map(_node_of, pods)))][:_MOST_NODES]
    complete = set[str]()
    values: list[Value] = [*pods, *claims.values(), *events]
    nodes = [await _read_object(session, resources.NODES, each, findings) for each in names]
    values += [each for each in nodes if each]
    if len(nodes) == len(set(map(_node_of, pods)) - {""}) and None not in nodes:
        complete.add("Node")
    slices: list[dict[str, Value]] | None = []
    only = names[0] if len(names) == 1 else ""
    if only:
        slices = await _list(session, resources.SLICES, findings, fields=f"spec.nodeName={only}")
        values += slices or ()
    if _has_other_users(pods, claims) and names:
        listed = await _list(session, resources.PODS, findings, namespace=_namespace_of(pods[0]))
        if listed is not None:
            mine = {get_value(each, ("metadata", "name")) for each in pods}
            # Of the others it only counts whether they are there and have ended.
            values += [
                {**each, "spec": {}}
                for each in listed
                if get_value(each, ("metadata", "name")) not in mine
            ]
            complete.add("Pod")
    if namespace is not None:
        values.append(namespace)
    hanging = from_values(
        values,
        now=session.clock.now(),
        complete=frozenset(complete),
        only_node="" if slices is None else only,
    )
    return await find_stuck_live(session, hanging)


def _is_ready(pod: Value) -> bool:
    conditions = map(as_mapping, as_list(get_value(pod, ("status", "conditions"))))
    ready = any(each.get("type") == READY and each.get("status") == "True" for each in conditions)
    return ready and not get_value(pod, ("metadata", "deletionTimestamp"))


def _node_of(pod: Value) -> str:
    return f"{get_value(pod, ('spec', 'nodeName')) or ''}"


def _namespace_of(pod: Value) -> str:
    return f"{get_value(pod, ('metadata', 'namespace')) or 'default'}"


def _has_other_users(pods: Iterable[Value], claims: Mapping[str, Value]) -> bool:
    mine = {get_value(each, ("metadata", "uid")) for each in pods}
    users = (
        as_mapping(user).get("uid")
        for claim in claims.values()
        for user in as_list(get_value(claim, ("status", "reservedFor")))
    )
    return any(uid not in mine for uid in users)


async def _read_object(
    session: "Session", kind: Resource, name: str, findings: list[LocatedFinding]
) -> dict[str, Value] | None:
    """Read an object that only explains more; empty if there is none, None if forbidden."""

    async def read() -> dict[str, Value]:
        return await live_cluster.read_object(session, kind, name) or {}

    return await live_cluster.read_if_allowed(read(), findings)


async def _list(
    session: "Session",
    kind: Resource,
    findings: list[LocatedFinding],
    *,
    namespace: str = "",
    fields: str = "",
) -> list[dict[str, Value]] | None:
    listing = live_cluster.list_if_served(session, kind, namespace, fields)
    return await live_cluster.read_if_allowed(listing, findings)


async def list_failures(
    session: "Session", findings: list[LocatedFinding], namespace: str = ""
) -> list[dict[str, Value]]:
    """List the events that say why kubelets do not start pods; none if they may not be read."""
    failures: list[dict[str, Value]] = []
    for reason in FAILURES:
        fields = f"reason={reason}"
        listed = await _list(
            session, resources.EVENTS, findings, namespace=namespace, fields=fields
        )
        failures += listed or ()
    return failures
