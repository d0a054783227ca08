"""`drawbridge check`: judges objects before they are applied.

Reads slices, classes, claims, templates, pods, workloads and configurations, and prints what is
wrong in them, what can never work, what waits for something that does not exist, and what does not
fit now. Needs no cluster; with one, it also judges devices, references and quotas.
"""

import argparse

from cli.checking.findings import check_manifests
from cli.checking.input import read_check_input
from cli.checking.looked_at import describe_looked_at
from cli.terminal import output
from cli.terminal.cluster_options import (
    LIVE,
    VERSION,
    add_allocator_option,
    add_manifests_option,
    add_shared_options,
)
from cli.terminal.exit_codes import JUDGED, exit_code
from cli.terminal.streams import Streams
from drawbridge.documents.document import LocatedFinding

EXIT_CODES = JUDGED


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the manifests, the cluster and the output format."""
    add_manifests_option(parser)
    add_shared_options(parser, "--namespace", "--cluster", *LIVE, "--config")
    add_allocator_option(parser)
    add_shared_options(parser, *VERSION)
    output.add_findings_format(parser)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the findings; the exit code is that of the most severe one."""
    findings: list[LocatedFinding] = []
    given = read_check_input(options, streams, findings)
    if given is not None:
        findings += check_manifests(given, options.allocator)
    output.print_found(findings, options, streams)
    if given is not None and options.output == "text" and not options.quiet:
        streams.out.write(f"{describe_looked_at(given.read, findings)}\n")
    return exit_code(findings, strict=options.strict)
