"""`drawbridge lint`: what is wrong with ResourceSlices and DeviceClasses, before anybody waits.

Reads files, asks the judge, prints findings at their lines. Exit code 0 when there is nothing
worse than an info, 1 with warnings, 2 with errors or bad input. Judges nothing itself.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace

from cli import config, show
from cli.reading import read
from cli.streams import Streams
from cli.world import World, world
from config.model import Configuration
from config.policy import declarations, treated
from documents.document import Document, Located
from dra.cel import Selectors
from dra.compatibility import UnsetGroups
from dra.finding import Finding, Severity
from dra.gates import NEWEST
from judge import classes, slices
from judge.codes import NOTHING_TO_JUDGE

NAME = "lint"
HELP = "find what is wrong with ResourceSlices and DeviceClasses"

CLEAN, WARNINGS, ERRORS = 0, 1, 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files, the configuration and the form of the output."""
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE|DIR|-",
        action="append",
        required=True,
        help="what to look at; may be given several times",
    )
    config.option(parser)
    parser.add_argument(
        "-o", "--output", choices=["text", "json", "yaml"], default="text", help="format"
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print what was found, and return the worst of it."""
    wanted = config.configuration(options.config, streams)
    if isinstance(wanted, Configuration):
        found = tuple(judged(read(options.filename, streams.stdin), wanted))
    else:
        found = wanted
    if options.output == "text":
        show.findings(found, streams.out, color=streams.color)
    else:
        show.value(show.plain(found), options.output, streams.out)
    return exit_code(each.finding for each in found)


def judged(documents: Iterable[Document | Located], wanted: Configuration) -> list[Located]:
    """Give all findings about these documents, by file and line, treated as the user wants."""
    places: dict[str, Document] = {}
    order: dict[str, int] = {}
    files = world(_remembered(documents, places, order))
    # Of an object that is there twice the judge looks at the last one, and so do we.
    files = replace(files, places=places)
    found = (*files.findings, *files.located(_judged(files, wanted)))
    located = [
        replace(each, finding=finding)
        for each in found
        for finding in treated([each.finding], wanted.findings)
    ]
    return sorted(located, key=lambda each: (order.get(each.source, 0), each.line, each.column))


def _remembered(
    documents: Iterable[Document | Located], places: dict[str, Document], order: dict[str, int]
) -> Iterator[Document | Located]:
    """Pass documents on; remember where each object stands last, and in which order files came."""
    for each in documents:
        if isinstance(each, Document):
            places[each.name] = each.forgetting()
        source = each.source.name if isinstance(each, Document) else each.source
        order.setdefault(source, len(order))
        yield each


def _judged(files: World, wanted: Configuration) -> Iterator[Finding]:
    if not files.slices and not files.classes and not files.findings:
        message = "there is no ResourceSlice and no DeviceClass in the input"
        yield NOTHING_TO_JUDGE.at("", message)
    selectors = Selectors(NEWEST)
    unset, declared = UnsetGroups(wanted.unset_groups), declarations(wanted)
    yield from slices.judge(files.slices, unset, declared, selectors)
    yield from classes.judge(files.classes, files.slices, selectors)


def exit_code(findings: Iterable[Finding]) -> int:
    """Turn findings into what scripts see; info never counts."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return ERRORS
    return WARNINGS if Severity.WARNING in severities else CLEAN
