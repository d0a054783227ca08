"""`drawbridge facts`: what of a cluster decides translations, as one file.

The same file given to other commands makes them say the same anywhere. Exit code 0, 1 with
warnings, 2 where something could not be read. Counts nothing itself.
"""

import argparse

from cli import config, show
from cli.lint import ERRORS, exit_code
from cli.reading import read, sources
from cli.streams import Streams
from cli.world import world
from config.model import Configuration
from documents.document import Document, Located, Source
from documents.read import documents as documents_of
from dra import gates
from dra.finding import Finding
from facts import text
from facts.gather import Objects, gather
from facts.model import Facts

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
        required=True,
        help="files and folders with the objects of the cluster",
    )
    parser.add_argument(
        "--facts", metavar="FILE", help="tables that stand in for those that are counted"
    )
    config.option(parser)
    parser.add_argument(
        "--kubernetes-version", metavar="VERSION", default=gates.NEWEST, help="of the API server"
    )
    parser.add_argument(
        "--feature-gates", metavar="GATE=true,...", default="", help="that differ from the defaults"
    )
    parser.add_argument(
        "-o", "--output", choices=["yaml", "json"], default="yaml", help="format (default: yaml)"
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the facts, and what was found on the way to the error stream."""
    wanted = config.configuration(options.config, streams)
    turned = gates_of(options.kubernetes_version, options.feature_gates)
    if not isinstance(wanted, Configuration) or not isinstance(turned, gates.Gates):
        located = wanted if isinstance(wanted, tuple) else ()
        unknown = turned if isinstance(turned, tuple) else ()
        show.findings((*located, *(Located(each, "", 0, 0) for each in unknown)), streams.err)
        return ERRORS
    files = world(read(options.cluster, streams.stdin))
    objects = Objects(files.slices, files.classes, files.nodes)
    counted, findings = gather(objects, wanted, turned)
    told = (*files.findings, *files.located(findings))
    facts = given(options.facts, streams, counted) if options.facts else counted
    if isinstance(facts, tuple):
        show.findings((*told, *facts), streams.err)
        return ERRORS
    show.value(text.plain(facts), options.output, streams.out)
    show.findings(told, streams.err)
    return exit_code(each.finding for each in told)


def gates_of(version: str, overrides: str) -> gates.Gates | tuple[Finding, ...]:
    """The gates that two options name, or what is wrong with them."""
    read_ = gates.parse(overrides)
    return read_ if isinstance(read_, tuple) else gates.gates(version, read_)


def given(name: str, streams: Streams, base: Facts | None = None) -> Facts | tuple[Located, ...]:
    """Read facts from a file; tables that it does not have are those of `base`."""
    found: list[Document] = []
    for source in sources([name], streams.stdin):
        if not isinstance(source, Source):
            return (source,)
        found += [each for each in documents_of(source) if not each.empty]
    if unread := tuple(located for each in found for located in each.findings):
        return unread
    value = found[0].value if len(found) == 1 else None
    facts = text.read(value, base)
    if isinstance(facts, Facts):
        return facts
    if len(found) != 1:
        return tuple(Located(each, name, 0, 0) for each in facts)
    return tuple(found[0].located(each) for each in facts)
