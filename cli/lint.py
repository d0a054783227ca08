"""`drawbridge lint`: checks ResourceSlices, DeviceClasses and claims of files for errors.

Prints findings with their file and line. The selectors of classes and claims are tried on the
devices of the slices. Knows only the files; `drawbridge check` also judges pods, and knows a
cluster.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from cli import config
from cli.input.cluster_objects import ClusterObjects, recognize_slices, sort_documents
from cli.input.files import read_documents
from cli.terminal import output
from cli.terminal.cluster_options import add_config_option, add_manifests_option
from cli.terminal.exit_codes import JUDGED, exit_code
from cli.terminal.looked_at import DEVICE_KINDS, describe_looked_at
from cli.terminal.streams import Streams
from drawbridge.agreement.configuration import report_not_published
from drawbridge.agreement.node_groups import report_unlike_nodes
from drawbridge.agreement.owned_pools import report_shared_pools
from drawbridge.cel.dra import Selectors
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.config.policy import apply_policies, compatibility_declarations
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.claim import CLAIM, TEMPLATE, claim_reader, template_reader
from drawbridge.dra.classes import class_reader
from drawbridge.dra.codes import EITHER_OR, FIELD_MISPLACED
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.gates import DEFAULTS, NEWEST
from drawbridge.dra.ignored_fields import IgnoredFields
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import KIND as SLICE
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.facts.families import known_families
from drawbridge.finding import Finding
from drawbridge.judge.slices import checks as slices
from drawbridge.judge.slices import classes
from drawbridge.judge.slices.codes import NOTHING_TO_JUDGE, POOL_INCOMPLETE
from drawbridge.judge.subject import Subject, claim_subject, template_subject

NAME = "lint"
EXIT_CODES = JUDGED
_ANY_NODE: Final = "any-node"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files, the configuration and the output format."""
    add_manifests_option(parser)
    add_config_option(parser)
    output.add_findings_format(parser)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the findings; the exit code is that of the most severe one."""
    configuration = config.read_configuration_file(options.config, streams)
    if not isinstance(configuration, Configuration):
        output.print_found(configuration, options, streams)
        return exit_code(configuration, strict=options.strict)
    documents = list(read_documents(options.filename, streams.stdin, recognize_slices()))
    findings = lint_documents(documents, configuration)
    output.print_found(findings, options, streams)
    if options.output == "text" and not options.quiet:
        streams.out.write(f"{describe_looked_at(documents, findings, DEVICE_KINDS)}\n")
    return exit_code(findings, strict=options.strict)


def _kind(document: Document) -> str:
    kind = get_value(document.value, ("kind",))
    return kind if isinstance(kind, str) else ""


def lint_documents(
    documents: Iterable[Document | LocatedFinding], configuration: Configuration
) -> list[LocatedFinding]:
    """Return all findings, sorted by file and line, with the configured severities."""
    places: dict[str, Document] = {}
    order: dict[str, int] = {}
    kept = list(documents)
    files = sort_documents(_record_places(kept, places, order))
    # The judge checks the last one of several objects with the same name.
    files = replace(files, places=places)
    readable = [each for each in kept if isinstance(each, Document) and not each.findings]
    findings = (
        *files.findings,
        *find_ignored_fields(readable),
        *_judge_claims(readable, files, configuration),
        *files.located(_judge(files, configuration, readable)),
    )
    located = [
        replace(place, finding=finding)
        for place in drop_consequences(findings)
        for finding in apply_policies([place.finding], configuration.findings)
    ]
    return sorted(located, key=lambda each: (order.get(each.source, 0), each.line, each.column))


def _record_places(
    documents: Iterable[Document | LocatedFinding],
    places: dict[str, Document],
    order: dict[str, int],
) -> Iterator[Document | LocatedFinding]:
    """Yield the documents; record the last place of each object, and the order of the files."""
    for document in documents:
        if isinstance(document, Document):
            places[document.name] = document.without_value()
        source = document.source.name if isinstance(document, Document) else document.source
        order.setdefault(source, len(order))
        yield document


def find_ignored_fields(documents: Iterable[Document]) -> Iterator[LocatedFinding]:
    """Report the fields of device objects that the API server drops.

    The reader recognizes an object only if all its fields are known.
    """
    fields = IgnoredFields(slice_reader(), class_reader(), claim_reader(), template_reader())
    for document in documents:
        if document.decoded is None:
            yield from map(document.locate_finding, fields.find(document.value, document.name))


def drop_consequences(findings: Iterable[LocatedFinding]) -> Iterator[LocatedFinding]:
    """Leave out that an object lacks a field that it has in the wrong place."""
    kept = list(findings)
    misplaced = {
        (each.finding.object, each.finding.path.rpartition(".")[0])
        for each in kept
        if each.finding.code == FIELD_MISPLACED.name
    }
    for located in kept:
        where = located.finding.object, located.finding.path
        if located.finding.code != EITHER_OR.name or where not in misplaced:
            yield located


def _judge_claims(
    documents: Sequence[Document], files: ClusterObjects, configuration: Configuration
) -> Iterator[LocatedFinding]:
    """Judge claims and templates with the devices of the files; unreadable ones have findings."""
    subjects = [(each, read_claim_subject(each)) for each in documents]
    if all(subject is None for _, subject in subjects):
        return
    # Few inputs have claims, and what judges them takes half of the imports.
    from cli.checking.checked_cluster import CheckedCluster  # noqa: PLC0415
    from cli.simulation.schedulers import default_allocator  # noqa: PLC0415
    from drawbridge.judge.judgement import judge_file  # noqa: PLC0415

    cluster = CheckedCluster(
        input=_with_nodes(files),
        cluster=ClusterObjects(),
        is_read=False,
        gates=DEFAULTS,
        configuration=configuration,
        allocator=default_allocator(configuration),
    )
    context = cluster.judge_context()
    for document, subject in subjects:
        if subject is not None:
            yield from map(document.locate_finding, judge_file(subject, context))


def _with_nodes(files: ClusterObjects) -> ClusterObjects:
    """Add the nodes that slices need, because authors of drivers have files without nodes.

    Whether a node selector selects any node is then unknown, so the devices are, too.
    """
    if files.nodes:
        return files
    if any(each.node_selector for each in files.slices):
        return replace(files, slices=())
    named = {name for each in files.slices for name in _node_names(each)}
    return replace(files, nodes=tuple(map(Node, sorted(named) or [_ANY_NODE])))


def _node_names(slice_: Slice) -> Iterator[str]:
    yield from filter(None, (slice_.node_name, *(device.node_name for device in slice_.devices)))


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
    files: ClusterObjects, configuration: Configuration, documents: Sequence[Document]
) -> Iterator[Finding]:
    if not files.findings and not any(_kind(each) in DEVICE_KINDS for each in documents):
        message = "no ResourceSlice, DeviceClass, ResourceClaim or template in the input"
        yield NOTHING_TO_JUDGE.at("", message)
    selectors = Selectors(NEWEST)
    judged = slices.judge_slices(
        files.slices,
        UnsetGroups(configuration.unset_groups),
        compatibility_declarations(configuration),
        selectors,
    )
    yield from _without_consequences(judged, files, documents)
    yield from classes.judge_classes(files.classes, files.slices, selectors)
    yield from report_shared_pools(owned_pools(configuration), files.slices)
    yield from report_not_published(configuration, files.slices)
    yield from report_unlike_nodes(files.nodes, files.slices, known_families(configuration))


def _without_consequences(
    judged: Iterable[Finding], files: ClusterObjects, documents: Sequence[Document]
) -> Iterator[Finding]:
    """Leave out that a pool lacks a slice, if a slice of it is in the input and unreadable."""
    slices = {f"{SLICE}/{each.name}": each for each in files.slices}
    broken = [
        (
            get_value(document.value, ("spec", "driver")),
            get_value(document.value, ("spec", "pool", "name")),
        )
        for document in documents
        if document.decoded is None and _kind(document) == SLICE and document.name not in slices
    ]
    for finding in judged:
        about = slices.get(finding.object)
        lacks = finding.code == POOL_INCOMPLETE.name and about is not None
        if not (lacks and about is not None and any(_may_be_of(about, *each) for each in broken)):
            yield finding


def _may_be_of(slice_: Slice, driver: Value, pool: Value) -> bool:
    """Tell whether an unreadable slice may belong to the pool of another slice."""
    return all(
        not isinstance(read, str) or read == own
        for read, own in ((driver, slice_.driver), (pool, slice_.pool))
    )
