"""Reads the objects that facts are computed from: a live cluster, or files."""

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.input import codes, live_cluster
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.files import read_documents
from cli.input.live_cluster import ClusterReadError
from cli.input.refused_lists import RefusedLists
from cli.input.server_features import ServerFeatures, read_server_features
from cli.input.spare_facts import SpareFacts, find_spare_facts
from cli.terminal.streams import Streams
from drawbridge.cluster import resources
from drawbridge.documents.document import LocatedFinding
from drawbridge.facts.gather import FactsInput
from drawbridge.facts.networks import read_network

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session
    from drawbridge.documents.values import Value
    from drawbridge.facts.model import Facts

_NEEDED: Final = (resources.NODES, resources.CLASSES, resources.SLICES)
_OF_NAMESPACES: Final = (resources.NAMESPACES, resources.LOCAL_QUEUES)


class FactsObjects(NamedTuple):
    """The objects, what the API server stores, and the namespace of manifests that name none.

    Where some objects may not be read, `published` are the facts that the controller has of all.
    """

    files: ClusterObjects
    server: ServerFeatures
    namespace: str = ""
    published: "Facts | None" = None


def read_objects(
    options: argparse.Namespace, streams: Streams, *, translates: bool = False
) -> FactsObjects:
    """Read the objects; for a translation also those of namespaces that decide it.

    A translation needs the facts only, which the controller publishes.
    """
    if options.cluster and options.context is None:
        files = sort_documents(read_documents(options.cluster, streams.stdin))
        return FactsObjects(files, ServerFeatures(files.version))

    async def read(session: "Session") -> FactsObjects:
        server = await read_server_features(session, options)
        spare = find_spare_facts(server, options) if translates else SpareFacts()
        unread: list[LocatedFinding] = []
        values, published = await list_needed(session, spare, unread)
        namespace = (translates and options.namespace) or session.namespace
        for kind in (resources.NETWORKS, *(_OF_NAMESPACES if translates else ())):
            listed = await live_cluster.list_readable(session, kind, unread, namespace=namespace)
            values += listed.values
        from_files = read_documents(options.cluster, streams.stdin)
        documents = live_cluster.as_documents(values)
        files = sort_documents((*unread, *server.findings, *documents, *from_files))
        return FactsObjects(files, server, namespace, published)

    return live_cluster.run_with_session(options, read)


async def list_needed(
    session: "Session", spare: SpareFacts, findings: list[LocatedFinding]
) -> tuple[list[dict[str, "Value"]], "Facts | None"]:
    """List what facts are computed from; where a part may not be read, return published ones.

    Without these, all has to be readable.
    """
    values: list[dict[str, Value]] = []
    refused = RefusedLists()
    for kind in _NEEDED:
        values += await refused.read(kind, live_cluster.list_objects(session, kind)) or ()
    if not refused:
        return values, None
    if spare.facts is None:
        raise ClusterReadError(refused.report(spare.reason, spare.remedy))
    message = f"{refused.describe()}; {spare.reason}"
    findings.append(LocatedFinding(codes.PART_UNREADABLE.at("", message)))
    return [], spare.facts


def facts_input(files: ClusterObjects) -> FactsInput:
    """Select the objects that facts are computed from."""
    networks = (read_network(each.value) for each in files.others)
    return FactsInput(files.slices, files.classes, files.nodes, tuple(filter(None, networks)))
