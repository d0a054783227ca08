"""`drawbridge lint`: what is wrong with ResourceSlices and DeviceClasses, before anybody waits.

Of claims and their templates it looks at the rules for our own allocator. Reads files, asks the
judge, prints findings at their lines. Exit code 0 when there is nothing worse than an info, 1 with
warnings, 2 with errors or bad input. Judges nothing itself.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from cel.dra import Selectors
from cli import config, output
from cli.input_files import read
from cli.streams import Streams
from cli.world import World, world
from config.model import Configuration
from config.policy import declarations, treated
from documents.document import Document, Located
from documents.paths import get
from dra.claim import CLAIM, TEMPLATE, claim_reader, template_reader
from dra.compatibility import UnsetGroups
from dra.finding import Finding, Severity
from dra.gates import NEWEST
from dra.names import RULES_ANNOTATION
from judge import claims, classes, slices
from judge.codes import NOTHING_TO_JUDGE

NAME = "lint"
HELP = "find what is wrong with ResourceSlices, DeviceClasses and rules of claims"

CLEAN, WARNINGS, ERRORS = 0, 1, 2
_RULES: Final = (
    ("metadata", "annotations", RULES_ANNOTATION),
    ("spec", "metadata", "annotations", RULES_ANNOTATION),
)


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
        output.findings(found, streams.out, color=streams.color)
    else:
        output.value(output.plain(found), options.output, streams.out)
    return exit_code(each.finding for each in found)


def judged(documents: Iterable[Document | Located], wanted: Configuration) -> list[Located]:
    """Give all findings about these documents, by file and line, treated as the user wants."""
    places: dict[str, Document] = {}
    order: dict[str, int] = {}
    ruled: list[Document] = []
    files = world(_remembered(documents, places, order, ruled))
    # Of an object that is there twice the judge looks at the last one, and so do we.
    files = replace(files, places=places)
    rules = tuple(_rules(ruled))
    found = (*files.findings, *rules, *files.located(_judged(files, wanted, rules=bool(ruled))))
    located = [
        replace(each, finding=finding)
        for each in found
        for finding in treated([each.finding], wanted.findings)
    ]
    return sorted(located, key=lambda each: (order.get(each.source, 0), each.line, each.column))


def _remembered(
    documents: Iterable[Document | Located],
    places: dict[str, Document],
    order: dict[str, int],
    ruled: list[Document],
) -> Iterator[Document | Located]:
    """Pass documents on; remember where each object stands last, and in which order files came.

    Claims with rules are remembered whole: one that has no name yet is found by nothing else.
    """
    for each in documents:
        if isinstance(each, Document):
            places[each.name] = each.forgetting()
            if any(get(each.value, path) is not None for path in _RULES):
                ruled.append(each)
        source = each.source.name if isinstance(each, Document) else each.source
        order.setdefault(source, len(order))
        yield each


def _rules(documents: Iterable[Document]) -> Iterator[Located]:
    """Judge the rules of claims; one that cannot be read has its findings already."""
    claim, template = claim_reader(), template_reader()
    for each in documents:
        kind = get(each.value, ("kind",))
        if kind in (CLAIM, TEMPLATE):
            read = (claim if kind == CLAIM else template).one(each.value, ordinal=each.index)
            if not isinstance(read, tuple):
                yield from (each.located(one) for one in claims.judge(read, each.name))


def _judged(files: World, wanted: Configuration, *, rules: bool) -> Iterator[Finding]:
    if not (files.slices or files.classes or files.findings or rules):
        message = "there is no ResourceSlice, no DeviceClass and no claim with rules in the input"
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
