"""Reads what `drawbridge explain` explains: a pod or a workload, with its claims and events.

Reads a live cluster, or files.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cli.input import codes, installed_namespace, live_cluster
from cli.input.cluster_objects import find_objects
from cli.input.files import read_documents
from cli.input.live_cluster import ClusterReadError
from cli.input.stuck_objects import find_stuck_around, find_stuck_in_files
from cli.terminal.streams import Streams
from drawbridge.agreement.match_conditions import KIND as WEBHOOK_KIND
from drawbridge.agreement.webhook_selectors import PodWebhook, find_pod_webhook, read_pod_webhook
from drawbridge.cluster import resources
from drawbridge.cluster.resources import Resource
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.names import NAMESPACE, SCHEDULER_LEASE, WEBHOOK_CONFIGURATION
from drawbridge.pod_groups import (
    COSCHEDULING_API,
    COSCHEDULING_LABEL,
    WORKLOADS_API,
    GroupForm,
    PodGroup,
    find_group,
)
from drawbridge.report.events import event_subject
from drawbridge.report.explain import PodObjects, referenced_names
from drawbridge.report.scheduling import is_untried
from drawbridge.report.tied_pods import find_tied
from drawbridge.report.workloads import (
    WorkloadObjects,
    WorkloadReference,
    find_pods,
    find_reference,
    is_kind,
    parse_reference,
    pod_labels,
)
from drawbridge.translate.returned_requests import list_own_claims

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

Subject = PodObjects | WorkloadObjects


class SubjectRead(NamedTuple):
    """The objects that were read, and the webhook for pods, None if it is unknown.

    `unread` says so where a right is missing.
    """

    objects: Subject
    webhook: PodWebhook | None
    unread: tuple[LocatedFinding, ...] = ()


_DEFAULT = "default"
_WEBHOOK_UNREAD = codes.PART_UNREADABLE.at(
    "",
    f"you may not get MutatingWebhookConfiguration {WEBHOOK_CONFIGURATION}: whether Drawbridge is"
    " switched off, or its selectors leave out the pod, is not known",
    remedy="Ask for the right to get it in the whole cluster, which ClusterRole"
    " `drawbridge-reader` has, or ask a cluster administrator.",
)
# The objects of groups by the form in which a pod names its group: API, plural and kind.
_GROUP_KINDS = ("PodGroup", "Workload")
_GROUP_OBJECTS = {
    GroupForm.SCHEDULING_GROUP: (WORKLOADS_API, ("v1beta1", "v1alpha3", "v1alpha2"), "podgroups"),
    GroupForm.WORKLOAD_REF: (WORKLOADS_API, ("v1alpha1",), "workloads"),
    GroupForm.COSCHEDULING: (COSCHEDULING_API, ("v1alpha1",), "podgroups"),
}


class _Named(NamedTuple):
    """What a person names; without a workload it is a pod. The namespace may be unknown."""

    name: str
    namespace: str
    workload: WorkloadReference | None


def read_subject(
    options: argparse.Namespace, streams: Streams, findings: list[LocatedFinding]
) -> SubjectRead:
    """Read the pod or workload with its objects; raises ClusterReadError."""
    named = _parse_name(options.pod, options.namespace or "")
    if files := [*options.filename, *options.cluster]:
        by_kind = _sort_by_kind(read_documents(files, streams.stdin), findings)
        subject = _read_from_files(by_kind, named, options.pod)
        everything = (each for objects in by_kind.values() for each in objects)
        registered = by_kind.get(WEBHOOK_KIND, ())
        stuck = find_stuck_in_files(everything, is_cluster=bool(options.cluster))
        nodes = {f"{_name(each)}": each for each in by_kind.get("Node", ())}
        subject = replace(subject, stuck=stuck, nodes=nodes)
        return SubjectRead(subject, find_pod_webhook(registered))

    async def read(session: "Session") -> SubjectRead:
        full_name = named._replace(namespace=named.namespace or session.namespace)
        registration = await installed_namespace.find_registration(session)
        webhook = None if registration is None else read_pod_webhook(registration)
        unread = (LocatedFinding(_WEBHOOK_UNREAD),) if registration is None else ()
        if full_name.workload is not None:
            workload = await _read_workload(session, full_name, full_name.workload, findings)
            return SubjectRead(workload, webhook, unread)
        installed_in = installed_namespace.of_registration(registration)
        pod = await _read_pod(session, full_name, installed_in, findings)
        return SubjectRead(pod, webhook, unread)

    return live_cluster.run_with_session(options, read)


def _parse_name(text: str, namespace: str) -> _Named:
    """Parse the name of a pod, namespace/name, or as in kubectl, type/name."""
    workload = parse_reference(text)
    if workload is not None:
        return _Named(workload.name, namespace, workload)
    before, _, name = text.rpartition("/")
    if before in ("pod", "pods", "po"):
        before = ""
    return _Named(name, namespace or before, None)


# --- files ---------------------------------------------------------------------------------------

_ByKind = dict[str, list[dict[str, Value]]]


def _sort_by_kind(
    documents: Iterator[Document | LocatedFinding], findings: list[LocatedFinding]
) -> _ByKind:
    by_kind: _ByKind = {}
    for _, value in find_objects(documents, findings):
        by_kind.setdefault(f"{value.get('kind')}", []).append(value)
    return by_kind


def _read_from_files(by_kind: _ByKind, named: _Named, text: str) -> Subject:
    if named.workload is None and not any(_name(e) == named.name for e in by_kind.get("Pod", ())):
        everything = (each for objects in by_kind.values() for each in objects)
        reference = find_reference(text, everything)
        if reference is not None:
            namespace = "" if named.namespace == text.rpartition("/")[0] else named.namespace
            named = _Named(reference.name, namespace, reference)
    workload, kind = named.workload, named.workload.kind.kind if named.workload else "Pod"
    same_name = [each for each in by_kind.get(kind, ()) if _name(each) == named.name]
    if workload is not None:
        same_name = [each for each in same_name if is_kind(each, workload.kind)]
    value = _select(same_name, kind, named)
    namespace = _namespace(value)
    claims = _by_name(by_kind.get("ResourceClaim", ()), namespace)
    templates = _by_name(by_kind.get("ResourceClaimTemplate", ()), namespace)
    events = [each for each in by_kind.get("Event", ()) if _is_in(each, namespace)]
    labelled = next(
        (each for each in by_kind.get("Namespace", ()) if _name(each) == namespace), None
    )
    pods = [each for each in by_kind.get("Pod", ()) if _namespace(each) == namespace]
    groups = [each for kind in _GROUP_KINDS for each in by_kind.get(kind, ())]
    if workload is None:
        leases = [each for each in by_kind.get("Lease", ()) if _name(each) == SCHEDULER_LEASE]
        lease = next(iter(leases), None)
        installed_in = NAMESPACE if lease is None else _namespace(lease)
        return PodObjects(
            value, claims, templates, events, labelled, lease, installed_in, pods, groups
        )
    pods_of_workload = list(find_pods(value, workload.kind, pods))
    return WorkloadObjects(
        value, workload.kind, pods_of_workload, claims, templates, events, labelled, groups
    )


def _by_name(objects: Iterable[dict[str, Value]], namespace: str) -> dict[str, Value]:
    return {f"{_name(each)}": each for each in objects if _namespace(each) == namespace}


def _select(candidates: list[dict[str, Value]], kind: str, named: _Named) -> dict[str, Value]:
    """Return the named object; of several objects with the same name the last one."""
    by_namespace = {_namespace(each): each for each in candidates}
    if named.namespace in by_namespace:
        return by_namespace[named.namespace]
    if not named.namespace and len(by_namespace) == 1:
        return next(iter(by_namespace.values()))
    where = f"in namespace {named.namespace}" if named.namespace else "in the input"
    message = f"{kind} {named.name} not found {where}"
    if by_namespace:
        several = ", ".join(sorted(by_namespace))
        message += f"; it exists in {several}"
        if not named.namespace:
            message = f"{kind} {named.name} exists in several namespaces: {several}"
    raise ClusterReadError(codes.POD_UNKNOWN.at("", message))


def _name(value: Value) -> Value:
    return get_value(value, ("metadata", "name"))


def _namespace(value: Value) -> str:
    return f"{get_value(value, ('metadata', 'namespace')) or _DEFAULT}"


def _is_in(event: Value, namespace: str) -> bool:
    """Tell whether an event, of either Event API, is about an object of the namespace."""
    return (event_subject(event).get("namespace") or _DEFAULT) == namespace


# --- a live cluster ------------------------------------------------------------------------------


async def _read_pod(
    session: "Session", named: _Named, installed_in: str, findings: list[LocatedFinding]
) -> PodObjects:
    name, namespace = named.name, named.namespace
    pod = await live_cluster.read_object(session, resources.PODS, name, namespace)
    if pod is None:
        message = f"Pod {name} not found in namespace {namespace}"
        raise ClusterReadError(codes.POD_UNKNOWN.at("", message))
    claims, templates = referenced_names(pod)
    selector = f"regarding.kind=Pod,regarding.name={name}"
    untried = is_untried(pod)
    existing = await _read_existing(session, resources.CLAIMS, claims, namespace)
    events = await _read_events(session, namespace, selector, findings)
    labelled = await _read_namespace(session, namespace, findings)
    return PodObjects(
        pod=pod,
        claims=existing,
        templates=await _read_existing(session, resources.TEMPLATES, templates, namespace),
        events=events,
        namespace=labelled,
        lease=await _read_lease(session, installed_in, findings) if untried else None,
        installed_in=installed_in,
        pods=await _read_members(session, find_group(pod), namespace, findings),
        groups=await _read_group(session, find_group(pod), findings),
        stuck=await find_stuck_around(
            session, [pod], existing, events, labelled, findings=findings
        ),
        is_live=True,
        nodes=await _read_tied(session, [pod], findings),
    )


async def _read_tied(
    session: "Session", pods: Iterable[Value], findings: list[LocatedFinding]
) -> dict[str, Value]:
    """Read the node of the first pod with claims that waits, and that is for one node."""
    for pod in pods:
        is_waiting = list_own_claims(pod) and not get_value(pod, ("spec", "nodeName"))
        if is_waiting and (name := find_tied(pod)):
            reading = live_cluster.read_object(session, resources.NODES, name)
            node = await live_cluster.read_if_allowed(reading, findings)
            return {} if node is None else {name: node}
    return {}


async def _read_members(
    session: "Session", group: PodGroup | None, namespace: str, findings: list[LocatedFinding]
) -> list[dict[str, Value]] | None:
    """Read the pods that may be members of a gang; None if access is forbidden."""
    if group is None or not group.is_gang:
        return []
    is_labelled = group.form is GroupForm.COSCHEDULING
    labels = f"{COSCHEDULING_LABEL}={group.name}" if is_labelled else ""
    reading = live_cluster.list_objects(session, resources.PODS, namespace, labels=labels)
    return await live_cluster.read_if_allowed(reading, findings)


async def _read_group(
    session: "Session", group: PodGroup | None, findings: list[LocatedFinding]
) -> list[dict[str, Value]]:
    """Read the object of a gang, at the first version that has it."""
    if group is None or not group.is_gang:
        return []
    api, versions, plural = _GROUP_OBJECTS[group.form]
    for version in versions:
        resource = resources.Resource(api, version, plural, group.kind)
        reading = live_cluster.read_object(session, resource, group.name, group.namespace)
        value = await live_cluster.read_if_allowed(reading, findings)
        if value is not None:
            return [{**value, "apiVersion": resource.api_version, "kind": group.kind}]
    return []


async def _read_lease(session: "Session", namespace: str, findings: list[LocatedFinding]) -> Value:
    """Read the Lease of our scheduler; empty if it does not exist, None if access is forbidden."""

    async def read() -> Value:
        lease = await live_cluster.read_object(
            session, resources.LEASES, SCHEDULER_LEASE, namespace
        )
        return lease or {}

    return await live_cluster.read_if_allowed(read(), findings)


async def _read_workload(
    session: "Session",
    named: _Named,
    reference: WorkloadReference,
    findings: list[LocatedFinding],
) -> WorkloadObjects:
    """Read a workload and the objects of its namespace, each kind in one list."""
    kind, namespace = reference.kind, named.namespace
    resource = resources.Resource(kind.group, kind.version, kind.plural, kind.kind)
    workload = await live_cluster.read_object(session, resource, named.name, namespace)
    if workload is None:
        message = f"{kind.kind} {named.name} not found in namespace {namespace}"
        raise ClusterReadError(codes.POD_UNKNOWN.at("", message))
    workload = {"apiVersion": resource.api_version, "kind": kind.kind, **workload}
    labels = ",".join(f"{key}={text}" for key, text in pod_labels(workload, kind).items())
    pods = await live_cluster.list_objects(session, resources.PODS, namespace, labels=labels)
    claims = await live_cluster.list_objects(session, resources.CLAIMS, namespace)
    templates = await live_cluster.list_objects(session, resources.TEMPLATES, namespace)
    of_workload = list(find_pods(workload, kind, pods))
    group = next(filter(None, map(find_group, of_workload)), None)
    by_name = _by_name(claims, namespace)
    names = {each for pod in of_workload for each in referenced_names(pod)[0]}
    events = await _read_events(session, namespace, "", findings)
    labelled = await _read_namespace(session, namespace, findings)
    used = {name: each for name, each in by_name.items() if name in names}
    return WorkloadObjects(
        workload=workload,
        kind=kind,
        pods=of_workload,
        claims=by_name,
        templates=_by_name(templates, namespace),
        events=events,
        namespace=labelled,
        groups=await _read_group(session, group, findings),
        stuck=await find_stuck_around(
            session, of_workload, used, events, labelled, findings=findings
        ),
        is_live=True,
        nodes=await _read_tied(session, of_workload, findings),
    )


async def _read_events(
    session: "Session", namespace: str, selector: str, findings: list[LocatedFinding]
) -> list[dict[str, Value]]:
    reading = live_cluster.list_objects(session, resources.EVENTS, namespace, selector)
    return await live_cluster.read_if_allowed(reading, findings) or []


async def _read_namespace(
    session: "Session", namespace: str, findings: list[LocatedFinding]
) -> dict[str, Value] | None:
    reading = live_cluster.read_object(session, resources.NAMESPACES, namespace)
    return await live_cluster.read_if_allowed(reading, findings)


async def _read_existing(
    session: "Session", resource: Resource, names: list[str], namespace: str
) -> dict[str, Value]:
    """Read the objects `names` that exist."""
    objects: dict[str, Value] = {}
    for name in names:
        existing = await live_cluster.read_object(session, resource, name, namespace)
        if existing is not None:
            objects[name] = existing
    return objects
