"""`drawbridge lint`: checks ResourceSlices, DeviceClasses and the rules of claims for errors.

Reads files, and prints findings with their file and line. Of claims and templates, it checks only
the rules for the allocator of Drawbridge.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from cel.dra import Selectors
from cli import config, output
from cli.cluster_objects import ClusterObjects, sort_documents
from cli.cluster_options import add_config_option, add_manifests_option
from cli.exit_codes import JUDGED, exit_code
from cli.input_files import read_documents
from cli.streams import Streams
from config.model import Configuration
from config.policy import apply_policies, compatibility_declarations
from documents.document import Document, LocatedFinding
from documents.paths import get_value
from dra.claim import CLAIM, TEMPLATE, claim_reader, template_reader
from dra.compatibility import UnsetGroups
from dra.finding import Finding
from dra.gates import NEWEST
from dra.names import RULES_ANNOTATION
from judge import classes, slices
from judge.codes import NOTHING_TO_JUDGE
from judge.rules_annotation import find_rule_errors
from judge.subject import Subject, claim_subject, template_subject

NAME = "lint"
HELP = "check ResourceSlices, DeviceClasses and the rules of claims for errors"

EXIT_CODES = JUDGED
_RULES: Final = (
    ("metadata", "annotations", RULES_ANNOTATION),
    ("spec", "metadata", "annotations", RULES_ANNOTATION),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files, the configuration and the output format."""
    add_manifests_option(parser)
    add_config_option(parser)
    output.add_findings_format(parser)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the findings; the exit code is that of the most severe one."""
    configuration = config.read_configuration_file(options.config, streams)
    if isinstance(configuration, Configuration):
        found = tuple(
            lint_documents(read_documents(options.filename, streams.stdin), configuration)
        )
    else:
        found = configuration
    output.print_found(found, options, streams)
    return exit_code(found, strict=options.strict)


def lint_documents(
    documents: Iterable[Document | LocatedFinding], configuration: Configuration
) -> list[LocatedFinding]:
    """Return all findings, sorted by file and line, with the configured severities."""
    places: dict[str, Document] = {}
    order: dict[str, int] = {}
    ruled: list[Document] = []
    files = sort_documents(_record_places(documents, places, order, ruled))
    # The judge checks the last one of several objects with the same name.
    files = replace(files, places=places)
    rules = tuple(_judge_rules(ruled))
    found = (
        *files.findings,
        *rules,
        *files.located(_judge(files, configuration, rules=bool(ruled))),
    )
    located = [
        replace(each, finding=finding)
        for each in found
        for finding in apply_policies([each.finding], configuration.findings)
    ]
    return sorted(located, key=lambda each: (order.get(each.source, 0), each.line, each.column))


def _record_places(
    documents: Iterable[Document | LocatedFinding],
    places: dict[str, Document],
    order: dict[str, int],
    ruled: list[Document],
) -> Iterator[Document | LocatedFinding]:
    """Yield the documents; record the last place of each object, and the order of the files.

    Records claims with rules in `ruled`, because a claim may have no name yet.
    """
    for each in documents:
        if isinstance(each, Document):
            places[each.name] = each.without_value()
            if any(get_value(each.value, path) is not None for path in _RULES):
                ruled.append(each)
        source = each.source.name if isinstance(each, Document) else each.source
        order.setdefault(source, len(order))
        yield each


def _judge_rules(documents: Iterable[Document]) -> Iterator[LocatedFinding]:
    """Check the rules of claims; an unreadable claim has findings already."""
    for each in documents:
        subject = read_claim_subject(each)
        if subject is not None:
            yield from map(each.locate_finding, find_rule_errors(subject))


def read_claim_subject(document: Document) -> Subject | None:
    """Return a claim or a template as a subject; None for other and for unreadable objects."""
    kind = get_value(document.value, ("kind",))
    if kind == CLAIM:
        claim = claim_reader().read(document.value, ordinal=document.index)
        return None if isinstance(claim, tuple) else claim_subject(claim, document.name)
    if kind == TEMPLATE:
        template = template_reader().read(document.value, ordinal=document.index)
        return None if isinstance(template, tuple) else template_subject(template, document.name)
    return None


def _judge(
    files: ClusterObjects, configuration: Configuration, *, rules: bool
) -> Iterator[Finding]:
    if not (files.slices or files.classes or files.findings or rules):
        message = "no ResourceSlice, DeviceClass or claim with rules in the input"
        yield NOTHING_TO_JUDGE.at("", message)
    selectors = Selectors(NEWEST)
    unset, declared = (
        UnsetGroups(configuration.unset_groups),
        compatibility_declarations(configuration),
    )
    yield from slices.judge_slices(files.slices, unset, declared, selectors)
    yield from classes.judge_classes(files.classes, files.slices, selectors)
