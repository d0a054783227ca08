"""Reads the objects that facts are computed from: a live cluster, or files."""

import argparse
from typing import TYPE_CHECKING

from cli.input import live_cluster
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.files import read_documents
from cli.input.server_features import ServerFeatures, read_server_features
from cli.terminal.streams import Streams
from drawbridge.cluster import resources
from drawbridge.documents.document import LocatedFinding
from drawbridge.facts.gather import FactsInput
from drawbridge.facts.networks import read_network

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session


def read_objects(
    options: argparse.Namespace, streams: Streams, *, namespaces: bool = False
) -> tuple[ClusterObjects, ServerFeatures]:
    """Read the objects, and what the API server stores.

    Facts do not need namespaces, and a user may not be allowed to list them.
    """
    if options.cluster and options.context is None:
        files = sort_documents(read_documents(options.cluster, streams.stdin))
        return files, ServerFeatures(files.version)

    async def read(session: "Session") -> tuple[ClusterObjects, ServerFeatures]:
        kinds = (resources.NODES, resources.CLASSES, resources.SLICES)
        of_namespaces = (resources.NAMESPACES, resources.LOCAL_QUEUES)
        optional = (resources.NETWORKS, *(of_namespaces if namespaces else ()))
        unread: list[LocatedFinding] = []
        values = await live_cluster.list_kinds(session, kinds, optional, unread)
        server = await read_server_features(session, options)
        from_files = read_documents(options.cluster, streams.stdin)
        documents = live_cluster.as_documents(values)
        return sort_documents((*unread, *server.findings, *documents, *from_files)), server

    return live_cluster.run_with_session(options, read)


def facts_input(files: ClusterObjects) -> FactsInput:
    """Select the objects that facts are computed from."""
    networks = (read_network(each.value) for each in files.others)
    return FactsInput(files.slices, files.classes, files.nodes, tuple(filter(None, networks)))
