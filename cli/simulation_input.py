"""Files to what a simulation starts from: a world, the pods to place, a configuration.

Keeps of objects what the domain does not read of them and a simulation needs: what a node
advertises and whether it is cordoned, when a class was made, an allocation as it is written.
Places nothing.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import config.codes
from cli import config as configuring
from cli.input_files import read
from cli.streams import Streams
from cli.world import World, world
from config.load import load
from config.model import Configuration
from documents.document import Document, Located
from documents.values import Value
from dra import gates
from dra.gates import Gates
from dra.quantity import QuantityError, from_json
from ledger import codes
from ledger.extended_resources import is_extended, served
from ledger.generated_claims import Json, named
from ledger.node_fit import Cluster
from ledger.pods import FINISHED, Pod, pod_reader


@dataclass
class Beside:
    """What is kept of objects beside their domain form, by their names."""

    pods: dict[str, tuple[Document, bool]] = field(default_factory=dict)
    makers: list[tuple[Document, str]] = field(default_factory=list)
    allocations: dict[str, Json] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)
    unschedulable: set[str] = field(default_factory=set)
    advertised: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[str, Document] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """Where a simulation starts."""

    world: World
    beside: Beside
    gates: Gates
    configuration: Configuration
    pods: tuple[tuple[Pod, str], ...]
    cluster: Cluster
    findings: tuple[Located, ...]


def scene(options: argparse.Namespace, streams: Streams) -> Scene:
    """Read all files and options; whatever is wrong with them is among the findings."""
    beside = Beside()
    files = world(_read(options, streams, beside))
    files = replace(files, places=beside.places)
    found = list(files.findings)
    wanted = _gates(options)
    if isinstance(wanted, tuple):
        found += wanted
        wanted = gates.DEFAULTS
    configuration = _configuration(options, files, streams)
    if isinstance(configuration, tuple):
        found += configuration
        configuration = Configuration()
    pods = tuple(_pods(beside, found))
    cluster = _cluster(options.node, files, beside, wanted, found)
    found += [
        each.located(codes.NOT_SIMULATED.at("", "its pods are not placed", object=name))
        for each, name in beside.makers
    ]
    return Scene(files, beside, wanted, configuration, pods, cluster, tuple(found))


def _cluster(
    node: str | None, files: World, beside: Beside, wanted: Gates, found: list[Located]
) -> Cluster:
    nodes = {each.name: each for each in files.nodes}
    if node is not None:
        nodes = {name: each for name, each in nodes.items() if name == node}
        if not nodes:
            missing = codes.NODE_UNKNOWN.at("--node", f"there is no Node {node}")
            found.append(Located(missing, "", 0, 0))
    classes = {each.metadata.name: each for each in files.classes}.values()
    return Cluster(
        nodes=tuple(nodes.values()),
        unschedulable=frozenset(beside.unschedulable),
        advertised=beside.advertised,
        classes=served(classes, beside.created) if wanted.extended_resource else {},
    )


def _read(
    options: argparse.Namespace, streams: Streams, beside: Beside
) -> Iterator[Document | Located]:
    """Pass documents on; of an object that is there twice the last one counts."""
    for paths, given in ((options.cluster, False), (options.filename, True)):
        for each in read(paths, streams.stdin):
            if isinstance(each, Document) and isinstance(each.value, dict):
                beside.places[each.name] = each.forgetting()
                _keep(each, each.value, beside, given=given)
            yield each


def _keep(document: Document, value: Mapping[str, Value], beside: Beside, *, given: bool) -> None:
    kind, metadata, spec = value.get("kind"), _map(value, "metadata"), _map(value, "spec")
    name = f"{metadata.get('name')}"
    if kind == "Pod":
        unnamed = f"{id(document)}" if metadata.get("name") is None else ""
        beside.pods[f"{metadata.get('namespace') or 'default'}/{name}/{unnamed}"] = document, given
    elif kind == "Node":
        beside.unschedulable.discard(name)
        if spec.get("unschedulable") is True:
            beside.unschedulable.add(name)
        beside.advertised[name] = _advertised(_map(_map(value, "status"), "allocatable"))
    elif kind == "DeviceClass":
        beside.created[name] = f"{metadata.get('creationTimestamp') or ''}"
    elif kind == "ResourceClaim":
        full = f"{metadata.get('namespace') or 'default'}/{name}"
        beside.allocations.pop(full, None)
        allocation = _map(value, "status").get("allocation")
        if isinstance(allocation, dict):
            beside.allocations[full] = dict(allocation)
    elif given and _map(_map(_map(value, "spec"), "template"), "spec").get("containers"):
        beside.makers.append((document.forgetting(), document.name))


def _map(value: Mapping[str, Value], name: str) -> Mapping[str, Value]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _advertised(allocatable: Mapping[str, Value]) -> frozenset[str]:
    """Give the extended resources of which a node has any."""
    names = set()
    for name, amount in allocatable.items():
        try:
            if is_extended(name) and from_json(amount).sign() > 0:
                names.add(name)
        except (QuantityError, TypeError, ValueError):
            continue
    return frozenset(names)


def _gates(options: argparse.Namespace) -> Gates | tuple[Located, ...]:
    overrides = gates.parse(options.feature_gates)
    if not isinstance(overrides, tuple):
        wanted = gates.gates(options.kubernetes_version, overrides)
        if isinstance(wanted, Gates):
            return wanted
        overrides = wanted
    return tuple(Located(each, "", 0, 0) for each in overrides)


def _configuration(
    options: argparse.Namespace, files: World, streams: Streams
) -> Configuration | tuple[Located, ...]:
    """Read the one configuration there is, in its own file or among the others."""
    if options.config is not None and not files.configurations:
        return configuring.configuration(options.config, streams)
    if not files.configurations:
        return Configuration()
    several = len(files.configurations) + (options.config is not None)
    first = files.configurations[0]
    if several > 1:
        message = f"there are {several} Configurations in the input, expected one"
        return (first.located(config.codes.NOT_ONE.at("", message, object=first.name)),)
    loaded = load(first.value, configuring.known())
    if isinstance(loaded, Configuration):
        return loaded
    return tuple(first.located(finding) for finding in loaded)


def _pods(beside: Beside, found: list[Located]) -> Iterator[tuple[Pod, str]]:
    """Give the pods to place, each with the name that findings about it have.

    Of the cluster's own pods those that are not on a node yet; those that are have their claims.
    """
    reader = pod_reader()
    for number, (document, given) in enumerate(beside.pods.values(), 1):
        pod = reader.one(document.value, ordinal=document.index)
        if isinstance(pod, tuple):
            found += [document.located(finding) for finding in pod]
        elif pod.status.phase not in FINISHED and (given or _pending(pod)):
            yield named(pod, number), document.name


def _pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.metadata.deletion_timestamp


def chosen(text: str) -> tuple[str, ...]:
    """Read the names of claims, with their namespaces filled in."""
    names = (part.strip() for part in text.split(","))
    full = (name if "/" in name else f"default/{name}" for name in names if name)
    return tuple(dict.fromkeys(full))
