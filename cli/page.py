"""`drawbridge page`: a local page of nodes, devices, holders, waiting pods and the migration.

Served on loopback of this machine only, to whoever has the URL that is printed, and read with the
rights of the caller. It writes nothing, and nothing is served in the cluster.
"""

import argparse
import asyncio
import io
from functools import partial
from typing import TYPE_CHECKING

from cli.input import live_cluster
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates
from cli.input.files import INPUT, read_values
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, VERSION, add_shared_options
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.config.model import Configuration
from drawbridge.config.policy import device_quotas
from drawbridge.documents.document import LocatedFinding, has_errors
from drawbridge.dra import gates

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

EXIT_CODES = {
    DONE: "ended by a signal",
    BAD: "the cluster or the configuration cannot be read, the port is taken, or bad input",
}
_MAX_PORT = 65_535


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the part of it, and the port."""
    parser.add_argument(
        "only",
        metavar="NAMESPACE",
        nargs="?",
        default="",
        help="only the pods, claims and templates of this namespace (default: all that you may"
        " read, or else those of the namespace of the kubeconfig context)",
    )
    add_shared_options(parser, "--cluster", *LIVE, "--config", *VERSION)
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=_parse_port,
        default=0,
        help="the port on 127.0.0.1 (default: any free port)",
    )


def _parse_port(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and int(word) <= _MAX_PORT):
        raise argparse.ArgumentTypeError(f"{word}: must be a port number, up to {_MAX_PORT}")
    return int(word)


class _KeptInput(io.BytesIO):
    """The standard input, which the page and each audit read from its start."""

    def read(self, size: int | None = -1) -> bytes:
        """Read what came, from the start."""
        self.seek(0)
        return super().read(size)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Serve the page until a signal ends it."""
    is_live = not options.cluster
    if is_live and options.context is None:
        options.context = ""
    configuration, findings = read_effective_configuration(options, streams, asks_cluster=is_live)
    if configuration is None:
        return output.print_unreadable(findings, options, streams)
    output.print_findings(findings, streams.err)
    if not is_live:
        return _serve_files(options, streams, configuration)
    serve = partial(_serve_live, options=options, streams=streams, configuration=configuration)
    return live_cluster.run_with_session(options, serve, lasts=True)


def _serve_files(
    options: argparse.Namespace, streams: Streams, configuration: Configuration
) -> int:
    """Serve what the files have now."""
    from cli.served_page.audited import AuditPage  # noqa: PLC0415  # `--help` needs none of these
    from cli.served_page.feed import PageRules, publish_files  # noqa: PLC0415
    from cli.served_page.objects import ReadObjects  # noqa: PLC0415
    from cli.served_page.serving import serve  # noqa: PLC0415
    from cli.served_page.snapshots import Snapshots  # noqa: PLC0415

    if INPUT in options.cluster:
        streams = streams._replace(stdin=_KeptInput(streams.stdin.read()))
    objects = ReadObjects(configuration.scope, options.only)
    findings: list[LocatedFinding] = []
    for value in read_values(options.cluster, streams.stdin, findings):
        objects.add(value)
    if has_errors(findings):
        return output.print_unreadable(findings, options, streams)
    output.print_findings(findings, streams.err)
    read = objects.as_page_objects()
    version = gates.version_of_kubelets(each.kubelet for each in read.nodes)
    enabled = choose_gates(options, version)
    if not isinstance(enabled, gates.Gates):
        return output.print_unreadable(enabled, options, streams)
    snapshots, rules = Snapshots(), PageRules(enabled, device_quotas(configuration))
    publish_files(objects, rules, snapshots)
    audit = AuditPage(options, streams, configuration, lambda: options.only)
    return asyncio.run(serve(snapshots, audit.write, options.port, streams))


async def _serve_live(
    session: "Session", options: argparse.Namespace, streams: Streams, configuration: Configuration
) -> int:
    """Serve what the cluster has, and follow it."""
    from cli.served_page.audited import AuditPage  # noqa: PLC0415  # `--help` needs none of these
    from cli.served_page.feed import PageRules, follow, publish_unread  # noqa: PLC0415
    from cli.served_page.objects import make_decoders  # noqa: PLC0415
    from cli.served_page.serving import serve  # noqa: PLC0415
    from cli.served_page.snapshots import Snapshots  # noqa: PLC0415
    from cli.served_page.watches import PageWatches  # noqa: PLC0415

    enabled = choose_gates(options, await session.version())
    if not isinstance(enabled, gates.Gates):
        return output.print_unreadable(enabled, options, streams)
    source = f"context {options.context}" if options.context else "the cluster"
    watches = PageWatches(session, make_decoders(configuration.scope), options.only)
    snapshots = Snapshots()
    publish_unread(watches, source, snapshots)
    audit = AuditPage(options, streams, configuration, lambda: watches.only_namespace)
    rules = PageRules(enabled, device_quotas(configuration))
    background = (watches.follow_rights(), follow(watches, rules, source, snapshots))
    return await serve(snapshots, audit.write, options.port, streams, background)
