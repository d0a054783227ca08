"""`drawbridge facts`: what of a cluster decides translations, as one file.

The same file given to other commands makes them say the same anywhere. Exit code 0, 1 with
warnings, 2 where something could not be read. Counts nothing itself.
"""

import argparse
from typing import TYPE_CHECKING

from cli import config, live_cluster, output
from cli.effective_configuration import settled
from cli.facts_file import given
from cli.input_files import read
from cli.lint import ERRORS, exit_code
from cli.live_cluster import UnreadableError
from cli.streams import Streams
from cli.world import World, world
from documents.document import Located
from dra import gates
from dra.finding import Finding
from facts import serialized
from facts.gather import Objects, gather

if TYPE_CHECKING:
    from cluster.session import Session

NAME = "facts"
HELP = "show what of a cluster decides translations"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, what stands in for a part of it, and the form of the output."""
    parser.add_argument(
        "--cluster",
        "--inventory",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        help="files and folders with the objects of the cluster, instead of a live one",
    )
    live_cluster.options(parser)
    parser.add_argument(
        "--facts", metavar="FILE", help="tables that stand in for those that are counted"
    )
    config.option(parser)
    parser.add_argument(
        "--kubernetes-version",
        metavar="VERSION",
        help=f"of the API server (default: what a live one says, else {gates.NEWEST})",
    )
    parser.add_argument(
        "--feature-gates", metavar="GATE=true,...", default="", help="that differ from the defaults"
    )
    parser.add_argument(
        "-o", "--output", choices=["yaml", "json"], default="yaml", help="format (default: yaml)"
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the facts, and what was found on the way to the error stream."""
    named = not options.cluster or options.context is not None
    wanted, before = settled(options, streams, asks_cluster=named)
    if wanted is None:
        output.findings(before, streams.err)
        return ERRORS
    try:
        files, version = objects(options, streams)
    except UnreadableError as error:
        output.findings((error.located,), streams.err)
        return ERRORS
    turned = gates_of(options.kubernetes_version or version, options.feature_gates)
    if not isinstance(turned, gates.Gates):
        output.findings((Located(each, "", 0, 0) for each in turned), streams.err)
        return ERRORS
    gathered = gather(Objects(files.slices, files.classes, files.nodes), wanted, turned)
    told = (*before, *files.findings, *files.located(gathered.findings))
    facts = given(options.facts, streams, gathered.facts) if options.facts else gathered.facts
    if isinstance(facts, tuple):
        output.findings((*told, *facts), streams.err)
        return ERRORS
    output.value(serialized.plain(facts), options.output, streams.out)
    output.findings(told, streams.err)
    return exit_code(each.finding for each in told)


def objects(options: argparse.Namespace, streams: Streams) -> tuple[World, str]:
    """Read the objects, and the version of the server that has them."""
    if options.cluster and options.context is None:
        return world(read(options.cluster, streams.stdin)), gates.NEWEST

    async def look(session: "Session") -> tuple[World, str]:
        from cluster import resources  # noqa: PLC0415  # as `cli.live` does

        kinds = (resources.NODES, resources.CLASSES, resources.SLICES)
        found = [each for kind in kinds for each in await live_cluster.every(session, kind)]
        beside = read(options.cluster, streams.stdin)
        return world((*live_cluster.documents(found), *beside)), await session.version()

    return live_cluster.reading(options, look)


def gates_of(version: str, overrides: str) -> gates.Gates | tuple[Finding, ...]:
    """The gates that two options name, or what is wrong with them."""
    read_ = gates.parse(overrides)
    return read_ if isinstance(read_, tuple) else gates.gates(version, read_)
