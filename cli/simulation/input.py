"""Reads the input of a simulation: the cluster, the pods to place and the configuration.

Also keeps what the structs of `drawbridge.dra` do not have: allocations as written.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import drawbridge.config.codes
from cli.input import live_cluster
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.config_map import ConfigurationDocument
from cli.input.configuration_file import load_configuration, read_configuration_file
from cli.input.default_namespace import put_in_namespace
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates
from cli.input.files import read_documents
from cli.input.server_features import ServerFeatures, read_server_features
from cli.simulation.planned_holds import read_planned_holds
from cli.simulation.pod_allocators import find_cluster_nodes
from cli.terminal.streams import Streams
from drawbridge.cluster import resources
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra import gates
from drawbridge.dra.gates import Gates
from drawbridge.dra.nodes import Node
from drawbridge.finding import Finding
from drawbridge.judge.slices.published_twice import find_published_twice
from drawbridge.ledger import codes
from drawbridge.ledger.generated_claims import with_name
from drawbridge.ledger.ignored_rules import find_ignored_rules
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.planned_holds import PlannedHold
from drawbridge.ledger.pods import FINISHED, Pod, pod_reader
from drawbridge.ledger.replicas import number_pod
from drawbridge.translate.legacy.pod_view import report_rejected_amounts
from drawbridge.translate.legacy.read import as_created, read_hints, read_pod
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.replicas import PodCount, count_pods
from drawbridge.translate.manifests.workloads import Place, find_places, map_finding_path

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session


@dataclass
class ObjectDetails:
    """Fields of objects that their structs do not have, by object name."""

    # Pods and workloads, and whether they are to be placed or exist in the cluster.
    pods: dict[str, tuple[Document, bool]] = field(default_factory=dict)
    allocations: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, Document] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)  # the DeviceTaintRules that are asked about
    slices: set[str] = field(default_factory=set)  # the ResourceSlices that are asked about


class PodsToPlace(NamedTuple):
    """A pod, or the equal pods of one template of a workload."""

    pod: Pod
    object: str  # its name in findings
    pods: PodCount
    path: str = ""  # of the template in the workload
    ignored: tuple[str, ...] = ()  # the rules of the pod that are not simulated
    hints: tuple[str, ...] = ()  # what requests devices of a scheduler that reads annotations

    def list_pods(self) -> Iterator[Pod]:
        """Yield the pods, those of a workload with a number each; there can be millions."""
        if not self.path:
            yield self.pod
            return
        yield from (number_pod(self.pod, each) for each in range(self.pods.number))


class SimulatedCluster(NamedTuple):
    """The objects of a live cluster, what its API server stores, and its configuration.

    The configuration is None if another one was chosen.
    """

    documents: tuple[Document, ...] = ()
    server: ServerFeatures = ServerFeatures()
    configuration: Configuration | None = None
    findings: tuple[LocatedFinding, ...] = ()
    has_pods: bool = True
    serves_taint_rules: bool = False
    holds: tuple[PlannedHold, ...] = ()
    now: Callable[[], float] = time.time  # the Unix time of the API server
    namespace: str = ""  # of the kubeconfig context


@dataclass(frozen=True)
class SimulationInput:
    """Everything that a simulation needs."""

    objects: ClusterObjects
    details: ObjectDetails
    gates: Gates
    configuration: Configuration
    pods: tuple[PodsToPlace, ...]
    cluster: ClusterNodes
    findings: tuple[LocatedFinding, ...]
    # The pods that have a node; None if they are not known, so that CPU and memory do not count.
    running: tuple[Pod, ...] | None = ()
    is_live: bool = False
    # What nodes of a live cluster hold for pods that wait.
    holds: tuple[PlannedHold, ...] = ()
    now: Callable[[], float] = time.time  # the Unix time of a live cluster's API server
    namespace: str = ""  # of manifests that name none


def read_input(
    options: argparse.Namespace, streams: Streams, waiting: Iterable[Document] = ()
) -> SimulationInput:
    """Read all objects and options; errors in them are in `findings`.

    The pods of the cluster that are `waiting` are placed, too. Raises ClusterReadError if the
    cluster cannot be read.
    """
    details = ObjectDetails()
    live = read_live_cluster(options, streams)
    live = live._replace(documents=(*live.documents, *waiting))
    objects = sort_documents(_read_latest(options, streams, details, live))
    objects = replace(objects, places=details.places)
    findings = [*live.findings, *objects.findings]
    findings += map(LocatedFinding, find_published_twice(objects.slices))
    enabled = choose_gates(
        options,
        live.server.version or objects.version,
        keeps=live.server.keeps,
        serves_taint_rules=live.serves_taint_rules,
    )
    if isinstance(enabled, tuple):
        findings += enabled
        enabled = gates.DEFAULTS
    configuration = live.configuration or _configuration(options, objects, streams)
    if isinstance(configuration, tuple):
        findings += configuration
        configuration = Configuration()
    pods = tuple(_pods(details, findings))
    # The allocator knows the nodes itself.
    nodes = () if options.allocator_url else _select_nodes(options.node, objects, findings)
    cluster = find_cluster_nodes(nodes, objects, enabled, configuration.legacy)
    running = tuple(_running_pods(details)) if live.has_pods else None
    return SimulationInput(
        objects,
        details,
        enabled,
        configuration,
        pods,
        cluster,
        tuple(findings),
        running,
        is_live=bool(live.documents),
        holds=live.holds,
        now=live.now,
        namespace=live.namespace,
    )


def _select_nodes(
    node: str | None, objects: ClusterObjects, findings: list[LocatedFinding]
) -> tuple[Node, ...]:
    nodes = {each.name: each for each in objects.nodes}
    if node is not None:
        nodes = {name: each for name, each in nodes.items() if name == node}
        if not nodes:
            missing = codes.NODE_UNKNOWN.at("--node", f"Node {node} not found")
            findings.append(LocatedFinding(missing))
    elif not nodes:
        missing = codes.NODES_MISSING.at("--cluster", "the input has no Node")
        findings.append(LocatedFinding(missing))
    return tuple(nodes.values())


def _read_latest(
    options: argparse.Namespace,
    streams: Streams,
    details: ObjectDetails,
    live: SimulatedCluster,
) -> Iterator[Document | LocatedFinding]:
    """Yield all documents; the last one of several with the same name is used."""
    for document in live.documents:
        if isinstance(document.value, dict):
            _keep_details(document, details, to_place=False)
        yield document
    for paths, to_place in ((options.cluster, False), (options.filename, True)):
        for read in put_in_namespace(read_documents(paths, streams.stdin), live.namespace):
            if isinstance(read, Document) and isinstance(read.value, dict):
                details.places[read.name] = read.without_value()
                _keep_details(read, details, to_place=to_place)
            yield read


def _keep_details(document: Document, details: ObjectDetails, *, to_place: bool) -> None:
    """Keep what the struct of an object leaves out; a later object replaces one of its name."""
    fields = as_mapping(document.value)
    kind, metadata = fields.get("kind"), as_mapping(fields.get("metadata"))
    full_name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    if kind == "ResourceClaim":
        details.allocations.pop(full_name, None)
        allocation = as_mapping(fields.get("status")).get("allocation")
        if isinstance(allocation, dict):
            details.allocations[full_name] = dict(allocation)
    elif kind == "DeviceTaintRule" and to_place:
        details.rules.add(f"{metadata.get('name')}")
    elif kind == "ResourceSlice" and to_place:
        details.slices.add(f"{metadata.get('name')}")
    elif kind == "Pod" or (to_place and _has_pods(document.value)):
        # Objects without a name do not replace each other.
        unnamed = "" if metadata.get("name") else f"{id(document)}"
        details.pods[f"{kind} {full_name} {unnamed}"] = document, to_place


def _has_pods(value: Value) -> bool:
    return bool(find_places(value) or argo.find_places(value))


def _configuration(
    options: argparse.Namespace, objects: ClusterObjects, streams: Streams
) -> Configuration | tuple[LocatedFinding, ...]:
    """Read the configuration from `--config` or from the input files."""
    if options.config is not None and not objects.configurations:
        return read_configuration_file(options.config, streams)
    if not objects.configurations:
        return Configuration()
    several = len(objects.configurations) + (options.config is not None)
    first = objects.configurations[0]
    if several > 1:
        message = f"found {several} Configurations in the input, expected one"
        return (
            first.locate_finding(
                drawbridge.config.codes.CONFIGURATION_NOT_ONE.at("", message, object=first.name)
            ),
        )
    return load_configuration(ConfigurationDocument(first))


def _pods(details: ObjectDetails, findings: list[LocatedFinding]) -> Iterator[PodsToPlace]:
    """Yield the pods to place, and the templates of workloads.

    Skips pods of the cluster that have a node: their claims are allocated already. Pods that the
    API server rejects are not placed.
    """
    reader = pod_reader()
    for number, (document, to_place) in enumerate(details.pods.values(), 1):
        for place in (*find_places(document.value), *argo.find_places(document.value)):
            count = count_pods(document.value, place)
            value = place.pod if place.is_pod else _pod_of_template(document.value, place, count)
            pod = reader.read(value, ordinal=document.index)
            if isinstance(pod, tuple):
                findings += [document.locate_finding(_in_workload(each, place)) for each in pod]
                continue
            if pod.status.phase in FINISHED or not (to_place or _pending(pod)):
                continue
            rejected = tuple(report_rejected_amounts(value))
            for finding in rejected:
                about = msgspec.structs.replace(finding, object=document.name)
                findings.append(document.locate_finding(_in_workload(about, place)))
            if not rejected:
                path = "" if place.is_pod else format_path(place.path)
                ignored = find_ignored_rules(value)
                named = with_name(pod, number)
                yield PodsToPlace(named, document.name, count, path, ignored, _find_hints(value))


def _find_hints(pod: Value) -> tuple[str, ...]:
    """Return the annotations and labels without which a pod would request no devices."""
    bare: Value = {**as_mapping(pod), "metadata": {}}
    return () if read_pod(as_created(bare)).asks else tuple(read_hints(pod))


def _running_pods(details: ObjectDetails) -> Iterator[Pod]:
    """Yield the pods of the cluster that have a node and have not ended."""
    reader = pod_reader()
    for document, to_place in details.pods.values():
        pod = None if to_place else reader.read(document.value, ordinal=document.index)
        # Unreadable pods were reported when the pods to place were read.
        if isinstance(pod, Pod) and pod.is_running:
            yield pod


def _pod_of_template(value: Value, place: Place, count: PodCount) -> Value:
    """Return the template as a pod that is named after the workload and the template."""
    written = as_mapping(get_value(place.pod, ("metadata",)))
    owner = get_value(value, ("metadata", "name"))
    names: dict[str, Value] = {}
    if isinstance(owner, str):
        names["name"] = f"{owner}-{count.name}" if count.name else owner
    namespace = get_value(value, ("metadata", "namespace"))
    if namespace is not None:
        names["namespace"] = namespace
    spec = get_value(place.pod, ("spec",))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**written, **names}, "spec": spec}


def _in_workload(finding: Finding, place: Place) -> Finding:
    if place.is_pod:
        return finding
    return msgspec.structs.replace(finding, path=map_finding_path(finding.path, place))


def _pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.metadata.deletion_timestamp


def parse_claim_names(text: str, namespace: str) -> tuple[str, ...]:
    """Parse a list of claim names; those without a namespace are in this one, or in `default`."""
    names = (part.strip() for part in text.split(","))
    home = namespace or "default"
    full = (name if "/" in name else f"{home}/{name}" for name in names if name)
    return tuple(dict.fromkeys(full))


def read_live_cluster(options: argparse.Namespace, streams: Streams) -> SimulatedCluster:
    """Read the cluster of `--context`; without the option, or for the allocator's API, nothing.

    Raises ClusterReadError.
    """
    if options.context is None or options.allocator_url:
        return SimulatedCluster()

    async def read(session: "Session") -> SimulatedCluster:
        findings: list[LocatedFinding] = []
        values = await _read_objects(session, options, findings)
        rules = await live_cluster.list_taint_rules(session, findings)
        pods = None
        if options.pods:
            pods = await live_cluster.read_if_allowed(_list_bound_pods(session), findings)
        holds = await live_cluster.read_if_allowed(read_planned_holds(session, values), findings)
        documents = live_cluster.as_documents([*values, *(rules or ()), *(pods or ())])
        return SimulatedCluster(
            tuple(documents),
            await read_server_features(session, options),
            findings=tuple(findings),
            has_pods=pods is not None,
            serves_taint_rules=rules is not None,
            holds=tuple(holds or ()),
            now=session.clock.now,
            namespace=session.namespace,
        )

    cluster = live_cluster.run_with_session(options, read)
    if options.config is not None:
        return cluster
    effective = read_effective_configuration(options, streams, asks_cluster=True)
    return cluster._replace(
        configuration=effective.configuration or Configuration(),
        findings=(*cluster.findings, *effective.findings),
    )


async def _list_bound_pods(session: "Session") -> list[dict[str, Value]]:
    """List the pods that have a node. Those that wait are not what the command is about."""
    phases = (f"status.phase!={phase}" for phase in FINISHED)
    fields = ",".join(("spec.nodeName!=", *phases))
    return await live_cluster.list_objects(session, resources.PODS, fields=fields)


async def _read_objects(
    session: "Session", options: argparse.Namespace, findings: list[LocatedFinding]
) -> list[dict[str, Value]]:
    needed = [
        resources.NODES, resources.CLASSES, resources.SLICES, resources.CLAIMS, resources.TEMPLATES,
    ]  # fmt: skip
    if options.preempt:
        needed += [resources.PRIORITY_CLASSES, resources.DISRUPTION_BUDGETS]
    return await live_cluster.list_kinds(session, needed, (), findings)
