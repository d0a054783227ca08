"""Reads what decides a translation besides the manifests: configuration, facts and cluster."""

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from cli.input import installed_namespace, live_cluster
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates, read_facts
from cli.input.live_cluster import ClusterReadError
from cli.input.namespace_labels import NAMESPACE_KIND, labels_of_namespaces
from cli.terminal.streams import Streams
from drawbridge.agreement.scheduler_lease import is_scheduler_missing
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.placement import decide_placements
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_objects as objects_in
from drawbridge.documents.values import Value
from drawbridge.dra import gates
from drawbridge.facts.model import Facts
from drawbridge.facts.networks import KIND as NETWORK_KIND
from drawbridge.facts.networks import read_network
from drawbridge.names import ADMIN_ACCESS_LABEL, NAMESPACE, SCHEDULER_LEASE
from drawbridge.translate.changes.queues import LOCAL_QUEUE, find_default_queues
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.definitions import DEFINITION, Definitions, find_definitions
from drawbridge.translate.legacy.networks import add_networks
from drawbridge.translate.manifests.custom_fields import (
    CUSTOM_KINDS,
    name_definition,
)

if TYPE_CHECKING:
    from cli.input.cluster_objects import ClusterObjects
    from drawbridge.cluster.session import Session

# The kinds of objects that decide the translation of others.
_DECIDING: Final = frozenset({NETWORK_KIND, NAMESPACE_KIND, LOCAL_QUEUE, DEFINITION})


@dataclass
class TranslationInput:
    """The context, None after an error; the cluster if there is one; and the findings."""

    context: TranslationContext | None = None
    cluster: "tuple[ClusterObjects, gates.Gates] | None" = None
    findings: list[LocatedFinding] = field(default_factory=list)
    # The namespace of manifests that name none.
    namespace: str = ""
    # The labels of the cluster's namespaces.
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # The default queue of Kueue in each namespace of the cluster that has one.
    queues: dict[str, str] = field(default_factory=dict)
    # The CustomResourceDefinitions of the cluster.
    definitions: Definitions = field(default_factory=dict)
    # Why the cluster did not give others, by their names.
    unread: dict[str, list[LocatedFinding]] = field(default_factory=dict)


def read_translation_input(
    options: argparse.Namespace, streams: Streams, sources: Sequence[Source | LocatedFinding]
) -> TranslationInput:
    """Read the configuration and the facts; `sources` are the manifests."""
    inputs = TranslationInput()
    configuration, findings = read_effective_configuration(
        options, streams, asks_cluster=_asks_cluster(options)
    )
    inputs.findings += findings
    if configuration is None:
        return inputs
    facts = _read_facts(options, streams, configuration, inputs)
    if isinstance(facts, tuple):
        inputs.findings += facts
        return inputs
    deciding = _find_objects(sources)
    written = [each.value for each in deciding]
    networks = filter(None, map(read_network, written))
    context = make_context(add_networks(configuration, tuple(networks)), facts)
    # The manifests may change the objects of the cluster.
    namespaces = labels_of_namespaces(written)
    context = with_namespaces(context, {**inputs.namespaces, **namespaces})
    context = context.with_queues({**inputs.queues, **find_default_queues(written)})
    definitions = {**inputs.definitions, **_definitions_in(deciding)}
    if _asks_cluster(options):
        try:
            read = _read_definitions(options, sources, {*definitions}, inputs.unread)
            definitions = {**read, **definitions}
        except ClusterReadError as error:
            inputs.findings.append(error.located)
            return inputs
    inputs.context = replace(context, definitions=definitions)
    return inputs


def _asks_cluster(options: argparse.Namespace) -> bool:
    return options.context is not None or bool(options.kubeconfig and not options.cluster)


def _read_facts(
    options: argparse.Namespace,
    streams: Streams,
    configuration: Configuration,
    inputs: TranslationInput,
) -> Facts | tuple[LocatedFinding, ...] | None:
    """Return the facts if the options name a source of them, or findings about errors."""
    facts: Facts | None = None
    if options.cluster or _asks_cluster(options):
        gathered = _gather_facts(options, streams, configuration, inputs)
        if not isinstance(gathered, Facts):
            return gathered
        facts = gathered
    if options.facts:
        from_file = read_facts(options.facts, streams, facts)
        return _with_version(from_file, options) if isinstance(from_file, Facts) else from_file
    if facts is None and isinstance(enabled := choose_gates(options, gates.NEWEST), tuple):
        return enabled
    return facts


def _with_version(facts: Facts, options: argparse.Namespace) -> Facts | tuple[LocatedFinding, ...]:
    """Return the facts of a file, with the version and the gates of the options if there are."""
    if not (options.kubernetes_version or options.feature_gates):
        return facts
    # This import loads the CEL engine, which takes longer than a translation.
    from drawbridge.facts.gather import describe_cluster  # noqa: PLC0415

    enabled = choose_gates(options, facts.cluster.version)
    if not isinstance(enabled, gates.Gates):
        return enabled
    return replace(facts, cluster=describe_cluster(enabled))


def _gather_facts(
    options: argparse.Namespace,
    streams: Streams,
    configuration: Configuration,
    inputs: TranslationInput,
) -> Facts | tuple[LocatedFinding, ...]:
    """Return the facts about the live cluster, or findings about why it cannot be read."""
    # These imports load the CEL engine, which takes longer than a translation.
    from cli.input.facts_objects import facts_input, read_objects  # noqa: PLC0415
    from drawbridge.facts.gather import gather_facts  # noqa: PLC0415

    try:
        files, server, inputs.namespace, published = read_objects(options, streams, translates=True)
        has_scheduler = published is not None or _has_scheduler(options, configuration)
    except ClusterReadError as error:
        return (error.located,)
    enabled = choose_gates(options, server.version, keeps=server.keeps)
    if not isinstance(enabled, gates.Gates):
        return enabled
    inputs.namespaces = labels_of_namespaces(each.value for each in files.others)
    inputs.queues = find_default_queues(each.value for each in files.others)
    inputs.definitions = _definitions_in(files.others)
    if published is not None:
        inputs.findings += files.findings
        return published
    inputs.cluster = files, enabled
    gathered = gather_facts(facts_input(files), configuration, enabled)
    with_policies = apply_policies(gathered.findings, configuration.findings)
    inputs.findings += (*files.findings, *files.located(with_policies))
    return replace(gathered.facts, scheduler=has_scheduler)


def _has_scheduler(options: argparse.Namespace, configuration: Configuration) -> bool:
    """Whether the live cluster runs the scheduler of bridge placement, as far as one may read."""
    if configuration.placement is Placement.NATIVE or not _asks_cluster(options):
        return True
    return live_cluster.run_with_session(options, _read_scheduler)


async def _read_scheduler(session: "Session") -> bool:
    namespace = await installed_namespace.find(session) or NAMESPACE
    try:
        lease = await live_cluster.read_object(
            session, resources.LEASES, SCHEDULER_LEASE, namespace
        )
    except ApiError as error:
        if not error.forbidden:
            raise
        return True
    return not is_scheduler_missing(lease, session.clock.now())


def with_namespaces(
    context: TranslationContext, namespaces: Mapping[str, Mapping[str, str]]
) -> TranslationContext:
    """Return a context that knows what the labels of namespaces decide."""
    return replace(
        context,
        admin_access={
            name: labels.get(ADMIN_ACCESS_LABEL) == "true" for name, labels in namespaces.items()
        },
        placements=decide_placements(namespaces, context.configuration),
    )


def _find_objects(sources: Iterable[Source | LocatedFinding]) -> list[Document]:
    """Return the objects of manifests that decide the translation of others, by their kinds."""
    mentions = [kind.encode() for kind in _DECIDING]
    return [
        document
        for source in sources
        if isinstance(source, Source) and any(each in source.data for each in mentions)
        for document in objects_in(source)
        if f"{get_value(document.value, ('kind',))}" in _DECIDING
    ]


def _definitions_in(documents: Iterable[Document]) -> Definitions:
    return find_definitions((each.source.name, each.value) for each in documents)


def _read_definitions(
    options: argparse.Namespace,
    sources: Iterable[Source | LocatedFinding],
    defined: Collection[tuple[str, str]],
    unread: dict[str, list[LocatedFinding]],
) -> Definitions:
    """Read the CustomResourceDefinitions of the custom kinds that manifests mention.

    Most users may not read them, which only matters if one of their objects is translated.
    """
    texts = [each.data for each in sources if isinstance(each, Source)]
    names = [
        name_definition(kind)
        for kind in CUSTOM_KINDS
        if kind not in defined and any(all(e.encode() in text for e in kind) for text in texts)
    ]

    async def read(session: "Session") -> list[tuple[str, Value]]:
        objects: list[tuple[str, Value]] = []
        for name in names:
            reading = live_cluster.read_object(session, resources.DEFINITIONS, name)
            refused = unread.setdefault(name, [])
            objects.append(("", await live_cluster.read_if_allowed(reading, refused)))
        return objects

    return find_definitions(live_cluster.run_with_session(options, read) if names else ())
