"""Reads what `drawbridge audit` needs of a cluster: all that asks for devices or offers them."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cli.input import codes, live_cluster
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.facts_objects import facts_input
from cli.input.files import read_values
from cli.input.refused_lists import RefusedLists
from cli.input.server_features import read_server_features
from cli.input.stuck_objects import find_stuck_in_files, find_stuck_live, list_failures
from cli.terminal.streams import Streams
from drawbridge.agreement.scope import decide_namespace_scope
from drawbridge.agreement.uncalled_namespaces import find_uncalled_namespaces
from drawbridge.agreement.webhook_selectors import PodWebhook, find_pod_webhook
from drawbridge.audit.managed import find_manager
from drawbridge.audit.objects import AuditedNamespace, AuditedObjects, namespace_of, text_at
from drawbridge.audit.workloads import FAILED_CREATE
from drawbridge.cluster import resources
from drawbridge.cluster.resources import Resource
from drawbridge.config.model import Scope
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.device import NodeSelector
from drawbridge.dra.nodes import Node, matches_selector, without_malformed_terms
from drawbridge.finding import Severity
from drawbridge.names import WEBHOOK_CONFIGURATION
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.stuck.objects import KINDS, from_values
from drawbridge.report.workloads import KINDS as WORKLOADS
from drawbridge.translate.manifests.workloads import TEMPLATES

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_MISSING: Final = codes.PART_UNREADABLE.name
_SORTED: Final = frozenset(
    {
        "Node",
        "DeviceClass",
        "ResourceSlice",
        "NetworkAttachmentDefinition",
        "ResourceClaim",
        "ResourceClaimTemplate",
    }
)
# Where objects have the spec of a claim.
_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec", "spec"),
}
_WEBHOOKS: Final = resources.MUTATING_WEBHOOKS.kind
Report = Callable[[str], None]


class _Kind(NamedTuple):
    """A kind that is read of a live cluster.

    Without a required one, the audit would tell what is not true of pods: that no driver serves
    their devices, or that there are none. Another one that may not be read is a finding.
    """

    resource: Resource
    is_required: bool = False
    is_for_plan: bool = False  # and not read for one namespace
    fields: str = ""


_READ: Final[Mapping[str, tuple[_Kind, ...]]] = {
    "nodes and devices": (
        _Kind(resources.NODES, is_required=True),
        _Kind(resources.CLASSES, is_required=True),
        _Kind(resources.SLICES, is_required=True),
        _Kind(resources.NETWORKS),
        _Kind(resources.NAMESPACES, is_required=True),
    ),
    "workloads": (
        *(_Kind(Resource(e.group, e.version, e.plural, e.kind)) for e in WORKLOADS),
        _Kind(resources.CLAIMS),
        _Kind(resources.TEMPLATES),
        _Kind(resources.RESOURCE_QUOTAS),
        _Kind(resources.DISRUPTION_BUDGETS, is_for_plan=True),
        _Kind(resources.VOLUME_CLAIMS, is_for_plan=True),
        _Kind(resources.VOLUMES, is_for_plan=True),
        _Kind(resources.EVENTS, fields=f"reason={FAILED_CREATE}"),
    ),
    "pods": (_Kind(resources.PODS, is_required=True),),
}


class ClusterRead(NamedTuple):
    """The objects, the version of the API server, and the fields of claims that it stores."""

    objects: AuditedObjects
    version: str
    findings: tuple[LocatedFinding, ...]
    namespaces: tuple[Document, ...]
    config_maps: tuple[Value, ...] = ()
    keeps: tuple[str, ...] | None = None

    @property
    def nodes_missing(self) -> bool:
        """Whether no node was read, so that the objects are not those of a cluster."""
        return not self.objects.nodes


def read_audited(
    options: argparse.Namespace, streams: Streams, scope: Scope, report: Report
) -> ClusterRead:
    """Read the files, or the live cluster; raises ClusterReadError.

    `report` is told what is read.
    """
    findings: list[LocatedFinding] = []
    if options.cluster:
        values = _order(read_values(options.cluster, streams.stdin, findings))
        findings += _missing_kinds(values)
        read_files = _sort(values, "", findings, options.only or "", scope)
        slices = read_files.objects.slices
        stuck = find_stuck_in_files(values, is_cluster=True, slices=slices)
        return _with_stuck(read_files, stuck, options.only)

    async def read(session: "Session") -> ClusterRead:
        listed = await _read_live(session, options.only or "", findings, report)
        values = _order([*listed, *await _read_webhook(session)])
        failures = await list_failures(session, findings, options.only or "")
        server = await read_server_features(session, options)
        findings.extend(server.findings)
        read = _sort(values, server.version, findings, options.only or "", scope)
        read = read._replace(keeps=server.keeps)
        complete = KINDS if not read.objects.missing else frozenset[str]()
        now = session.clock.now()
        hanging = from_values(
            [*values, *failures], now=now, complete=complete, slices=read.objects.slices
        )
        return _with_stuck(read, await find_stuck_live(session, hanging), options.only)

    return live_cluster.run_with_session(options, read)


def _order(values: Iterable[Value]) -> list[Value]:
    """Return each object once, as it was read last, in an order that no reader decides.

    Files can overlap, and each of several pods that wait can be the first.
    """
    named: dict[tuple[str, ...], Value] = {}
    others: list[Value] = []
    for value in values:
        name = text_at(value, "metadata", "name")
        group = text_at(value, "apiVersion").rpartition("/")[0]
        key = group, text_at(value, "kind"), text_at(value, "metadata", "namespace"), name
        if name:
            named[key] = value
        else:
            others.append(value)
    return [*(named[key] for key in sorted(named)), *others]


def _missing_kinds(values: Iterable[Value]) -> Iterator[LocatedFinding]:
    """Report the kinds without which files are not a cluster."""
    kinds = {text_at(each, "kind") for each in values}
    for kind in ("Node", "Pod"):
        if kind not in kinds:
            yield LocatedFinding(codes.KIND_MISSING.at("", f"no {kind} in the files"))


def _with_stuck(read: ClusterRead, stuck: Iterable[Stuck], only: str | None) -> ClusterRead:
    """Return what was read with what is stuck, of one namespace if one is named."""
    kept = tuple(each for each in stuck if not only or only in each.object.split("/")[1:])
    return read._replace(objects=replace(read.objects, stuck=kept))


async def _read_live(
    session: "Session", only: str, findings: list[LocatedFinding], report: Report
) -> Sequence[Value]:
    values: list[Value] = []
    refused = RefusedLists()
    for stage, kinds in _READ.items():
        report(f"reading {stage}")
        for kind in kinds:
            if kind.is_required:
                reading = refused.read(kind.resource, _read_kind(session, kind, only))
            elif refused or (only and kind.is_for_plan):
                continue
            else:
                reading = live_cluster.read_if_allowed(_read_kind(session, kind, only), findings)
            values += await reading or ()
    if refused:
        raise live_cluster.ClusterReadError(refused.report())
    return values


async def _read_webhook(session: "Session") -> Iterator[Value]:
    """Yield the webhook configuration of an installation, if there is one that may be read."""
    resource = resources.MUTATING_WEBHOOKS
    reading = live_cluster.read_object(session, resource, WEBHOOK_CONFIGURATION)
    # Without the right, the label is taken to have its usual effect.
    read = await live_cluster.read_if_allowed(reading, [])
    return ({**each, "kind": _WEBHOOKS} for each in (read,) if each is not None)


async def _read_kind(session: "Session", kind: _Kind, only: str) -> Sequence[Value] | None:
    """List a kind; nothing if the cluster lacks it. Of namespaces, read the one that is named."""
    if only and kind.resource == resources.NAMESPACES:
        named = await live_cluster.read_object(session, resources.NAMESPACES, only)
        return [] if named is None else [named]
    return await live_cluster.list_if_served(session, kind.resource, only, kind.fields)


def _sort(
    values: Iterable[Value],
    version: str,
    findings: list[LocatedFinding],
    only: str,
    scope: Scope,
) -> ClusterRead:
    """Sort the objects by kind, and keep those of one namespace if one is named.

    Without a version, the nodes tell that of the API server.
    """
    by_kind: dict[str, list[Value]] = {}
    workloads: list[Value] = []
    for value in values:
        fields = as_mapping(value)
        kind, group = f"{fields.get('kind')}", f"{fields.get('apiVersion')}".rpartition("/")[0]
        if kind not in ("Pod", "Namespace") and (group, kind) in TEMPLATES:
            workloads.append(value)
        else:
            by_kind.setdefault(kind, []).append(value)
    decoded = _decode(value for kind in _SORTED for value in by_kind.get(kind, ()))
    findings += decoded.findings

    def select(kind: str) -> tuple[Value, ...]:
        return tuple(_inside(by_kind.get(kind, ()), only))

    namespaces = tuple(_namespaces(by_kind.get("Namespace", ()), only, scope, findings))
    webhook = _find_webhook(by_kind.get(_WEBHOOKS, ()), namespaces, scope, findings)
    unread = {each.finding.object for each in findings if _is_error(each)}
    given = facts_input(decoded)
    objects = AuditedObjects(
        namespaces=namespaces,
        webhook=webhook,
        pods=select("Pod"),
        workloads=tuple(_inside(workloads, only)),
        events=select("Event"),
        quotas=select("ResourceQuota"),
        nodes=decoded.nodes,
        annotations=dict(_annotations(by_kind.get("Node", ()))),
        slices=decoded.slices,
        classes=decoded.classes,
        networks=given.networks,
        claims=decoded.claims,
        templates=decoded.templates,
        claim_specs=_specs(select),
        budgets=select("PodDisruptionBudget"),
        volumes=dict(_tie_volumes(decoded.nodes, by_kind)),
        unread=len(unread),
        missing=tuple(e.finding.message for e in findings if e.finding.code == _MISSING),
    )
    documents = live_cluster.as_documents(map(as_mapping, by_kind.get("Namespace", ())))
    return ClusterRead(
        objects, version or decoded.version, tuple(findings), tuple(documents), select("ConfigMap")
    )


def _decode(values: Iterable[Value]) -> ClusterObjects:
    return sort_documents(live_cluster.as_documents(map(as_mapping, values)))


def _is_error(located: LocatedFinding) -> bool:
    return located.finding.severity is Severity.ERROR


def _inside(values: Iterable[Value], only: str) -> Iterator[Value]:
    return (each for each in values if not only or namespace_of(each) == only)


def _namespaces(
    values: Iterable[Value], only: str, scope: Scope, findings: list[LocatedFinding]
) -> Iterator[AuditedNamespace]:
    for value in values:
        name = text_at(value, "metadata", "name")
        labels = as_mapping(get_value(value, ("metadata", "labels")))
        texts = {key: text for key, text in labels.items() if isinstance(text, str)}
        if not only or name == only:
            mode, _, told = decide_namespace_scope(name, texts, scope)
            findings += map(LocatedFinding, told)
            ends = bool(text_at(value, "metadata", "deletionTimestamp"))
            yield AuditedNamespace(name, mode, texts, ends, find_manager(value).text)


def _tie_volumes(
    nodes: Iterable[Node], by_kind: Mapping[str, Sequence[Value]]
) -> Iterator[tuple[tuple[str, str], frozenset[str]]]:
    """Yield the nodes of the volumes that are tied to some, by the claims that have them."""
    nodes = tuple(nodes)
    tied: dict[str, frozenset[str]] = {}
    for persistent in by_kind.get("PersistentVolume", ()):
        required = get_value(persistent, ("spec", "nodeAffinity", "required"))
        try:
            selector = msgspec.convert(required, NodeSelector) if required is not None else None
        except msgspec.ValidationError:
            continue
        if selector is not None:
            valid = without_malformed_terms(selector)
            selected = (node.name for node in nodes if matches_selector(valid, node))
            tied[text_at(persistent, "metadata", "name")] = frozenset(selected)
    for volume_claim in by_kind.get("PersistentVolumeClaim", ()):
        volume = text_at(volume_claim, "spec", "volumeName")
        if volume in tied:
            yield (
                (namespace_of(volume_claim), text_at(volume_claim, "metadata", "name")),
                tied[volume],
            )


def _annotations(nodes: Iterable[Value]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    for node in nodes:
        annotations = as_mapping(get_value(node, ("metadata", "annotations")))
        yield text_at(node, "metadata", "name"), annotations


def _specs(
    select: Callable[[str], Iterable[Value]],
) -> dict[tuple[str, str, str], Value]:
    return {
        (kind, namespace_of(each), text_at(each, "metadata", "name")): get_value(each, path)
        for kind, path in _SPECS.items()
        for each in select(kind)
    }


def _find_webhook(
    registered: Iterable[Value],
    namespaces: Iterable[AuditedNamespace],
    scope: Scope,
    findings: list[LocatedFinding],
) -> PodWebhook | None:
    """Return the webhook of an installation; report the namespaces in scope that it leaves out."""
    webhook = find_pod_webhook(map(as_mapping, registered))
    if webhook is not None:
        labels = {each.name: each.labels for each in namespaces}
        findings += map(LocatedFinding, find_uncalled_namespaces(labels, scope, webhook))
    return webhook


def select_recent(objects: AuditedObjects, is_recent: Callable[[Value], bool]) -> AuditedObjects:
    """Return the objects with only the pods and events of a time."""
    return replace(
        objects,
        pods=tuple(filter(is_recent, objects.pods)),
        events=tuple(filter(is_recent, objects.events)),
        workloads=(),
        of_a_time=True,
    )
