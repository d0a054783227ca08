"""Judges the slices, classes, taint rules and nodes of manifests, with those of the cluster.

Loads neither the translation nor what judges claims, because drivers check many slices.
"""

from collections.abc import Iterable, Iterator, Sequence

from cli.checking.input import CheckInput
from drawbridge.agreement.configuration import report_not_published, report_unused_bridge
from drawbridge.agreement.node_groups import report_unlike_nodes
from drawbridge.agreement.owned_pools import (
    decide_node,
    report_disagreement,
    report_missing_drivers,
    report_selection,
    report_shared_pools,
)
from drawbridge.agreement.slice_limits import report_crowded
from drawbridge.agreement.targets_in_cluster import (
    report_quotas,
    report_shapes,
    report_targets,
    report_units,
    report_weights,
)
from drawbridge.cel.dra import Selectors
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.config.policy import compatibility_declarations
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.claim import claim_reader, template_reader
from drawbridge.dra.classes import KIND as CLASS
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.codes import EITHER_OR, FIELD_MISPLACED
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.ignored_fields import IgnoredFields
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import KIND as SLICE
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.facts.families import known_families
from drawbridge.finding import Finding
from drawbridge.judge.slices.checks import judge_slices
from drawbridge.judge.slices.classes import judge_classes
from drawbridge.judge.slices.codes import POOL_INCOMPLETE
from drawbridge.judge.slices.taint_rules import judge_taint_rules


def judge_published(given: CheckInput, documents: Sequence[Document]) -> Iterator[Finding]:
    """Judge the slices, classes and nodes; leaves out findings about those of the cluster."""
    files, cluster, configuration = given.files, given.cluster, given.configuration
    selectors = Selectors.of_gates(given.gates)
    own_slices = {each.name for each in files.slices}
    own_classes = {each.metadata.name for each in files.classes}
    others = [each for each in cluster.slices if each.name not in own_slices]
    slices = (*others, *files.slices)
    about_others = {f"{SLICE}/{each.name}" for each in others}
    findings = list[Finding]()
    if files.slices:
        unset = UnsetGroups(configuration.unset_groups)
        declared = compatibility_declarations(configuration)
        nodes = {each.name for each in (*cluster.nodes, *files.nodes)}
        judged = judge_slices(slices, unset, declared, selectors, nodes)
        findings += _without_consequences(judged, files.slices, documents)
        findings += report_shared_pools(owned_pools(configuration), slices)
        findings += report_crowded(owned_pools(configuration), slices)
    if files.classes:
        unpublished = [e for e in cluster.classes if e.metadata.name not in own_classes]
        about_others |= {f"{CLASS}/{each.metadata.name}" for each in unpublished}
        findings += judge_classes((*unpublished, *files.classes), slices, selectors)
    if given.own or files.slices:
        unpublished = [e for e in cluster.classes if e.metadata.name not in own_classes]
        classes = (*unpublished, *files.classes)
        own = given.own or configuration
        findings += _judge_targets(own, classes, slices, selectors)
        findings += report_units(own, classes, (*cluster.nodes, *files.nodes))
    if given.own:
        findings += report_unused_bridge(given.own)
    if given.own and given.is_read:
        findings += _judge_owned_pools(given.own, (*cluster.nodes, *files.nodes), slices)
    yield from (each for each in findings if each.object not in about_others)
    yield from judge_taint_rules(files.taint_rules)
    yield from report_unlike_nodes(files.nodes, slices, known_families(configuration))


def _judge_targets(
    configuration: Configuration,
    classes: Sequence[DeviceClass],
    slices: Sequence[Slice],
    selectors: Selectors,
) -> Iterator[Finding]:
    """Judge what a configuration says of classes and devices."""
    yield from report_not_published(configuration, slices)
    yield from report_targets(configuration, classes, slices, selectors)
    yield from report_quotas(configuration, classes, slices, selectors)
    yield from report_shapes(configuration, classes, slices, selectors)
    yield from report_weights(configuration, slices, selectors)


def _judge_owned_pools(
    configuration: Configuration, nodes: Iterable[Node], slices: Iterable[Slice]
) -> Iterator[Finding]:
    """Judge which nodes and drivers of the cluster a configuration gives to the allocator."""
    owned = owned_pools(configuration)
    yield from report_missing_drivers(owned, slices)
    decided = {each.name: decide_node(owned, each.labels) for each in nodes}
    if owned and decided:
        reported = report_selection(owned, decided), report_disagreement(decided)
        yield from (each for each in reported if each is not None)


def _without_consequences(
    judged: Iterable[Finding], slices: Iterable[Slice], documents: Iterable[Document]
) -> Iterator[Finding]:
    """Leave out that a pool lacks a slice, if a slice of it is in the input and unreadable."""
    readable = {f"{SLICE}/{each.name}": each for each in slices}
    broken = [
        (
            get_value(document.value, ("spec", "driver")),
            get_value(document.value, ("spec", "pool", "name")),
        )
        for document in documents
        if document.decoded is None
        and document.name not in readable
        and get_value(document.value, ("kind",)) == SLICE
    ]
    for finding in judged:
        about = readable.get(finding.object) if finding.code == POOL_INCOMPLETE.name else None
        if about is None or not any(_may_be_of(about, *each) for each in broken):
            yield finding


def _may_be_of(slice_: Slice, driver: Value, pool: Value) -> bool:
    """Tell whether an unreadable slice may belong to the pool of another slice."""
    return all(
        not isinstance(read, str) or read == own
        for read, own in ((driver, slice_.driver), (pool, slice_.pool))
    )


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
