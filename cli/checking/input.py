"""Reads what `drawbridge check` judges, and the cluster that it judges against.

A Configuration among the manifests is judged, too. If it is the only one and no other is chosen, it
also decides the judgement, as if it were applied together with the other objects.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.input import live_cluster
from cli.input.cluster_objects import ClusterObjects, recognize_slices, sort_documents
from cli.input.config_map import find_among_objects
from cli.input.configuration_file import load_configuration
from cli.input.default_namespace import put_in_namespace
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates
from cli.input.facts_objects import list_needed
from cli.input.files import read_documents
from cli.input.live_cluster import ClusterReadError
from cli.input.server_features import ServerFeatures, read_server_features
from cli.input.spare_facts import find_spare_facts
from cli.terminal.streams import Streams
from drawbridge.cluster import resources
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.dra.claim import CLAIM, TEMPLATE
from drawbridge.dra.gates import DEFAULTS, Gates

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session
    from drawbridge.facts.model import Facts

_OF_NAMESPACES: Final = (
    resources.CLAIMS,
    resources.TEMPLATES,
    resources.NAMESPACES,
    resources.RESOURCE_QUOTAS,
    resources.NETWORKS,
)


class CheckInput(NamedTuple):
    """The manifests with their objects, the cluster, and what decides the judgement.

    The `problems` are those of reading the manifests. Without a cluster that `is_read`, other
    objects are not known, so none is missing, and without `claims_read` no claim or template is.
    The facts are computed from the objects, or those that the controller `published`.
    """

    read: Sequence[Document | LocatedFinding]
    files: ClusterObjects
    configuration: Configuration
    problems: Sequence[LocatedFinding]
    cluster: ClusterObjects = ClusterObjects()
    is_read: bool = False
    claims_read: bool = True
    published: "Facts | None" = None
    gates: Gates = DEFAULTS
    own: Configuration | None = None  # the only Configuration among the manifests


class _ReadCluster(NamedTuple):
    objects: ClusterObjects
    server: ServerFeatures
    serves_taint_rules: bool = False
    claims_read: bool = True
    published: "Facts | None" = None
    namespace: str = ""  # of manifests that name none


def read_check_input(
    options: argparse.Namespace, streams: Streams, findings: list[LocatedFinding]
) -> CheckInput | None:
    """Read the manifests and the cluster; None after an error that leaves nothing to judge with.

    Adds the findings about the configuration that was chosen, and about the cluster.
    """
    is_live = options.context is not None
    configuration, before = read_effective_configuration(options, streams, asks_cluster=is_live)
    findings += before
    if configuration is None:
        return None
    read = [*read_documents(options.filename, streams.stdin, recognize_slices())]
    try:
        cluster = _read_cluster(options, streams, findings)
    except ClusterReadError as error:
        findings.append(error.located)
        return None
    enabled = choose_gates(
        options,
        cluster.server.version,
        keeps=cluster.server.keeps,
        serves_taint_rules=cluster.serves_taint_rules,
    )
    if isinstance(enabled, tuple):
        findings += enabled
        return None
    findings += cluster.objects.findings
    read = [*put_in_namespace(read, cluster.namespace)]
    given = of_manifests(read, configuration, may_replace=options.config is None and not is_live)
    is_read = (is_live and cluster.published is None) or bool(options.cluster)
    return given._replace(
        cluster=cluster.objects,
        is_read=is_read,
        claims_read=cluster.claims_read,
        published=cluster.published,
        gates=enabled,
    )


def of_manifests(
    read: Sequence[Document | LocatedFinding],
    configuration: Configuration,
    *,
    may_replace: bool = False,
) -> CheckInput:
    """Return manifests without a cluster; one of them may replace the configuration."""
    files = sort_documents(read)
    given = _load_configurations(read)
    problems = [one for each in given if isinstance(each, tuple) for one in each]
    own = given[0] if len(given) == 1 and isinstance(given[0], Configuration) else None
    if may_replace and own is not None:
        configuration = own
    return CheckInput(read, files, configuration, (*files.findings, *problems), own=own)


def _load_configurations(
    read: Iterable[Document | LocatedFinding],
) -> list[Configuration | tuple[LocatedFinding, ...]]:
    documents = (
        each
        for each in read
        if isinstance(each, Document) and each.decoded is None and not each.findings
    )
    return [load_configuration(each) for each in find_among_objects(documents)]


def _read_cluster(
    options: argparse.Namespace, streams: Streams, findings: list[LocatedFinding]
) -> _ReadCluster:
    """Read the objects of the cluster, its version, and whether it serves DeviceTaintRules."""
    if options.context is None:
        files = sort_documents(read_documents(options.cluster, streams.stdin))
        server = ServerFeatures(files.version)
        return _ReadCluster(files, server, namespace=options.namespace or "")

    async def read(session: "Session") -> _ReadCluster:
        server = await read_server_features(session, options)
        spare = find_spare_facts(server, options)
        values, published = await list_needed(session, spare, findings)
        namespace = options.namespace or session.namespace
        unread = set[str]()
        for kind in _OF_NAMESPACES:
            listed = await live_cluster.list_readable(session, kind, findings, namespace=namespace)
            values += listed.values
            unread.update(() if listed.is_whole else (kind.kind,))
        rules = await live_cluster.list_taint_rules(session, findings)
        values += rules or ()
        from_files = read_documents(options.cluster, streams.stdin)
        documents = (*live_cluster.as_documents(values), *from_files)
        return _ReadCluster(
            sort_documents(documents),
            server,
            serves_taint_rules=rules is not None,
            claims_read=unread.isdisjoint((CLAIM, TEMPLATE)),
            published=published,
            namespace=namespace,
        )

    return live_cluster.run_with_session(options, read)
