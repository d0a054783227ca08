"""Reads who may hold devices, for `drawbridge explain`: a cluster, or files.

What the caller may not read in the whole cluster is read in the namespace of the kubeconfig.
"""

import argparse
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cli.input import codes, live_cluster
from cli.input.files import read_values
from cli.input.live_cluster import ClusterReadError
from cli.input.stuck_objects import find_stuck_holders, find_stuck_in_files
from cli.terminal.streams import Streams
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.cluster.resources import Resource
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.report.device_holders import HeldObjects
from drawbridge.report.stuck.found import Stuck

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_FORBIDDEN = 403


class NodeObjects(NamedTuple):
    """What was read, the node that was named, and its events."""

    held: HeldObjects
    node: Value = None
    events: tuple[Value, ...] = ()
    stuck: tuple[Stuck, ...] = ()


def read_held(
    options: argparse.Namespace, node: str, streams: Streams, findings: list[LocatedFinding]
) -> NodeObjects:
    """Read the objects of a node, or of all nodes; raises ClusterReadError."""
    if files := [*options.filename, *options.cluster]:
        values = [*read_values(files, streams.stdin, findings)]
        stuck = find_stuck_in_files(values, is_cluster=bool(options.cluster))
        return _from_values(values, node)._replace(stuck=stuck)
    read = partial(_read_live, node=node, findings=findings)
    return live_cluster.run_with_session(options, read)


def _from_values(values: Iterable[Value], node: str) -> NodeObjects:
    by_kind: dict[str, list[Value]] = {}
    for value in values:
        by_kind.setdefault(f"{get_value(value, ('kind',))}", []).append(value)
    nodes = tuple(by_kind.get("Node", ()))
    named = [each for each in nodes if get_value(each, ("metadata", "name")) == node]
    held = HeldObjects(
        tuple(by_kind.get("ResourceClaim", ())),
        tuple(by_kind.get("Pod", ())),
        tuple(by_kind.get("ResourceSlice", ())),
        nodes,
    )
    if node and nodes and not named:
        raise _unknown(node)
    return NodeObjects(held, (*named, None)[0], tuple(by_kind.get("Event", ())))


def _unknown(node: str) -> ClusterReadError:
    return ClusterReadError(codes.DEVICE_NOT_FOUND.at("", f"Node {node} not found"))


async def _read_live(session: "Session", node: str, findings: list[LocatedFinding]) -> NodeObjects:
    named: Value = None
    nodes: tuple[Value, ...] = ()
    unread = set[str]()

    async def list_kind(resource: Resource, fields: str) -> tuple[Value, ...]:
        listed, is_whole = await live_cluster.list_readable(
            session, resource, findings, namespace=session.namespace, fields=fields
        )
        unread.update(() if is_whole else (resource.kind,))
        return listed

    if node:
        try:
            named = await live_cluster.read_object(session, resources.NODES, node)
            nodes = () if named is None else (named,)
            if named is None:
                raise _unknown(node)
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
            unread.add(resources.NODES.kind)
            findings.append(LocatedFinding(codes.PART_UNREADABLE.at("", error.describe())))
    else:
        nodes = await list_kind(resources.NODES, "")
    on_node = f"spec.nodeName={node}" if node else ""
    regarding = f"regarding.kind=Node,regarding.name={node}"
    held = HeldObjects(
        await list_kind(resources.CLAIMS, ""),
        await list_kind(resources.PODS, on_node or "spec.nodeName!="),
        await list_kind(resources.SLICES, on_node),
        nodes,
        frozenset(unread),
    )
    events = await list_kind(resources.EVENTS, regarding) if node else ()
    values = (*held.claims, *held.pods, *held.slices, *held.nodes)
    # What may not be read as a whole, or was read of one node only, tells nothing by its absence.
    whole = {"Pod"} if node else {"Pod", "ResourceSlice", "Node"}
    complete = frozenset(() if unread else whole)
    stuck = await find_stuck_holders(session, values, complete, "" if unread else node)
    return NodeObjects(held, named, events, stuck)
