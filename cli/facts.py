"""`drawbridge facts`: prints the facts about a cluster that decide translations.

Other commands accept the output with `--facts`, and then give the same results without the cluster.
"""

import argparse
from typing import TYPE_CHECKING

from cli.input import live_cluster
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import read_facts, read_gates
from cli.input.files import read_documents
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.cluster_options import (
    add_config_option,
    add_facts_option,
    add_files_option,
    add_live_options,
    add_version_options,
)
from cli.terminal.exit_codes import BAD, DONE, exit_code
from cli.terminal.streams import Streams
from drawbridge.dra import gates
from drawbridge.facts import serialized
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.networks import read_network

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

NAME = "facts"
EXIT_CODES = {DONE: "printed", BAD: "something cannot be read, or bad input"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the facts file and the output format."""
    add_files_option(parser)
    add_live_options(parser)
    add_facts_option(parser)
    add_config_option(parser)
    add_version_options(parser)
    output.add_detail_options(parser)
    output.add_format_option(parser, "yaml", "json")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the facts to the output, and findings to the error stream."""
    live = not options.cluster or options.context is not None
    configuration, before = read_effective_configuration(options, streams, asks_cluster=live)
    if configuration is None:
        output.print_findings(before, streams.err)
        return BAD
    try:
        files, version = read_objects(options, streams)
    except ClusterReadError as error:
        output.print_findings((error.located,), streams.err)
        return BAD
    enabled = read_gates(options, version)
    if not isinstance(enabled, gates.Gates):
        output.print_findings(enabled, streams.err)
        return BAD
    gathered = gather_facts(facts_input(files), configuration, enabled.with_groups())
    findings = (*before, *files.findings, *files.located(gathered.findings))
    facts = read_facts(options.facts, streams, gathered.facts) if options.facts else gathered.facts
    if isinstance(facts, tuple):
        output.print_findings((*findings, *facts), streams.err)
        return BAD
    output.print_value(serialized.facts_to_plain(facts), options.output, streams.out)
    shown = output.select_findings(findings, quiet=options.quiet, verbose=options.verbose)
    output.print_findings(shown, streams.err)
    return exit_code(findings)


def read_objects(
    options: argparse.Namespace, streams: Streams, *, namespaces: bool = False
) -> tuple[ClusterObjects, str]:
    """Read the objects, and the version of the API server.

    Facts do not need namespaces, and a user may not be allowed to list them.
    """
    if options.cluster and options.context is None:
        files = sort_documents(read_documents(options.cluster, streams.stdin))
        return files, files.version

    async def read(session: "Session") -> tuple[ClusterObjects, str]:
        from drawbridge.cluster import resources  # noqa: PLC0415  # loaded on demand

        kinds = (resources.NODES, resources.CLASSES, resources.SLICES)
        of_namespaces = (resources.NAMESPACES, resources.LOCAL_QUEUES)
        optional = (resources.NETWORKS, *(of_namespaces if namespaces else ()))
        values = await live_cluster.list_kinds(session, kinds, optional)
        from_files = read_documents(options.cluster, streams.stdin)
        return sort_documents(
            (*live_cluster.as_documents(values), *from_files)
        ), await session.version()

    return live_cluster.run_with_session(options, read)


def facts_input(files: ClusterObjects) -> FactsInput:
    """Select the objects that facts are computed from."""
    networks = (read_network(each.value) for each in files.others)
    return FactsInput(files.slices, files.classes, files.nodes, tuple(filter(None, networks)))
