"""Reads the live cluster in which `drawbridge simulate --context` places pods."""

import argparse
from typing import TYPE_CHECKING, NamedTuple

from cli.input import live_cluster
from cli.input.effective_configuration import read_effective_configuration
from cli.input.live_cluster import ClusterReadError
from cli.terminal.streams import Streams
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session


class SimulatedCluster(NamedTuple):
    """The objects of a live cluster, the version of its API server, and its configuration.

    The configuration is None if another one was chosen.
    """

    documents: tuple[Document, ...] = ()
    version: str = ""
    configuration: Configuration | None = None
    findings: tuple[LocatedFinding, ...] = ()


def read_live_cluster(options: argparse.Namespace, streams: Streams) -> SimulatedCluster:
    """Read the cluster of `--context`; without the option, or for the allocator's API, nothing."""
    if options.context is None or options.allocator_url:
        return SimulatedCluster()

    async def read(session: "Session") -> SimulatedCluster:
        return SimulatedCluster(
            tuple(await _read_documents(session, options)), await session.version()
        )

    try:
        found = live_cluster.run_with_session(options, read)
    except ClusterReadError as error:
        return SimulatedCluster(findings=(error.located,))
    if options.config is not None:
        return found
    effective = read_effective_configuration(options, streams, asks_cluster=True)
    return found._replace(
        configuration=effective.configuration or Configuration(), findings=effective.findings
    )


async def _read_documents(session: "Session", options: argparse.Namespace) -> list[Document]:
    from drawbridge.cluster import resources  # noqa: PLC0415  # loaded on demand

    needed = (resources.NODES, resources.CLASSES, resources.SLICES, resources.CLAIMS)
    found = [each for kind in needed for each in await live_cluster.list_objects(session, kind)]
    for kind in (resources.TEMPLATES, resources.TAINT_RULES):
        found += await live_cluster.list_if_served(session, kind)
    if options.preempt:
        for kind in (resources.PRIORITY_CLASSES, resources.DISRUPTION_BUDGETS):
            found += await live_cluster.list_objects(session, kind)
        pods = await live_cluster.list_objects(session, resources.PODS)
        # Pods of the cluster that wait are not what the command is about.
        found += [each for each in pods if get_value(each, ("spec", "nodeName"))]
    return live_cluster.as_documents(found)
