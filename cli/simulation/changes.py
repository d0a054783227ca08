"""Changes the cluster before a simulation: what is gone, added, drained or tainted."""

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any, Final, NamedTuple

from msgspec import structs

from cli.input.codes import POD_UNKNOWN
from cli.simulation.input import PodsToPlace, SimulationInput
from cli.simulation.pod_allocators import find_cluster_nodes
from cli.simulation.preemption import find_evictable
from cli.simulation.schedulers import find_schedulers
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import Taint
from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import EXCLUDING, DeviceTaintRule, TaintSelector
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.defragmentation import RECREATING
from drawbridge.ledger.evictions import TaintedPod, find_tainted_pods
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.removals import NodeRemovals, Tries, by_node, find_fewest, find_holds
from drawbridge.ledger.victims import importance
from drawbridge.translate.manifests.replicas import PodCount

MAX_COPIES: Final = 1000
_HOST: Final = "kubernetes.io/hostname"
# Their pods stay on a drained node.
_STAYING: Final = ("DaemonSet", "Node")
_MOST_SETS: Final = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the changes."""
    group = parser.add_argument_group("what if")
    text = "as if these pods (namespace/name,...) were gone; says which few of them must go"
    group.add_argument("--without-pods", metavar="NAMES", action="append", default=[], help=text)
    text = "as if there were N more nodes like NODE, with its devices and without pods"
    group.add_argument("--more-nodes", metavar="NODE=N", action="append", default=[], help=text)
    text = "as if this node were drained: places its pods on other nodes first"
    group.add_argument("--drain", metavar="NODE", action="append", default=[], help=text)
    text = "as if this DeviceClass did not exist"
    group.add_argument("--without-class", metavar="CLASS", action="append", default=[], help=text)
    text = (
        "as if devices had this taint: who is evicted, who stays, and which pods wait then; -f"
        " with a DeviceTaintRule asks the same"
    )
    group.add_argument("--taint", metavar="KEY[=VALUE]:EFFECT", help=text)
    text = "the devices of --taint: all of a driver, of a pool, or one"
    group.add_argument("--devices", metavar="DRIVER[/POOL[/DEVICE]]", help=text)


def change_cluster(inputs: SimulationInput, options: argparse.Namespace) -> SimulationInput:
    """Return the input with the changes of the options; their errors are in its findings."""
    for text in options.more_nodes:
        inputs = _with_more_nodes(inputs, text)
    for name in options.without_class:
        inputs = _without_class(inputs, name)
    names = frozenset(parse_names(options.without_pods))
    inputs = _without_pods(inputs, names, _report_unknown(inputs, names))
    for name in options.drain:
        inputs = _drained(inputs, name)
    return _tainted(inputs, options)


def parse_names(texts: Iterable[str]) -> Iterator[str]:
    """Yield the names of pods; the namespace defaults to `default`."""
    for name in ",".join(texts).split(","):
        if name.strip():
            yield name.strip() if "/" in name else f"default/{name.strip()}"


def _with_findings(inputs: SimulationInput, *findings: LocatedFinding) -> SimulationInput:
    return replace(inputs, findings=(*inputs.findings, *findings))


def _report_unknown(inputs: SimulationInput, names: Collection[str]) -> list[LocatedFinding]:
    running = {each.full_name for each in inputs.running or ()}
    return [
        LocatedFinding(POD_UNKNOWN.at("--without-pods", f"pod {name} has no node in the input"))
        for name in sorted(names)
        if name not in running
    ]


def _without_pods(
    inputs: SimulationInput, names: Collection[str], findings: Sequence[LocatedFinding] = ()
) -> SimulationInput:
    """Return the input without pods that run, and with the claims released that only they use."""
    if not names or inputs.running is None:
        return _with_findings(inputs, *findings)
    running = tuple(each for each in inputs.running if each.full_name not in names)
    claims = tuple(_without_consumers(each, names) for each in inputs.objects.claims)
    objects = replace(inputs.objects, claims=claims)
    return _with_findings(replace(inputs, running=running, objects=objects), *findings)


def _without_consumers(claim: Claim, names: Collection[str]) -> Claim:
    namespace = claim.metadata.namespace or "default"
    users = claim.status.reserved_for
    left = tuple(e for e in users if not e.is_pod or f"{namespace}/{e.name}" not in names)
    if len(left) == len(users):
        return claim
    allocation = claim.status.allocation if left else None
    status = structs.replace(claim.status, reserved_for=left, allocation=allocation)
    return structs.replace(claim, status=status)


def _with_more_nodes(inputs: SimulationInput, text: str) -> SimulationInput:
    """Return the input with copies of a node and of the devices that only it has."""
    name, _, number = text.rpartition("=")
    like = {each.name: each for each in inputs.objects.nodes}.get(name)
    if like is None:
        return _with_findings(inputs, _unknown_node("--more-nodes", name or text))
    if not number.isdecimal() or not 1 <= int(number) <= MAX_COPIES:
        message = f"{text} does not end with a number from 1 to {MAX_COPIES:,}"
        return _with_findings(
            inputs, LocatedFinding(codes.CHANGE_UNREADABLE.at("--more-nodes", message))
        )
    own = [each for each in inputs.objects.slices if each.node_name == name]
    nodes, slices = [*inputs.objects.nodes], [*inputs.objects.slices]
    exist = {each.name for each in nodes}
    free = (f"-more-{i}" for i in count(1) if f"{name}-more-{i}" not in exist)
    for suffix in islice(free, int(number)):
        labels = like.labels
        if _HOST in labels:
            labels = {**labels, _HOST: f"{name}{suffix}"}
        nodes.append(structs.replace(like, name=f"{name}{suffix}", labels=labels))
        slices += [
            structs.replace(
                each,
                name=f"{each.name}{suffix}",
                node_name=f"{name}{suffix}",
                pool=f"{each.pool}{suffix}",
            )
            for each in own
        ]
    added = nodes[len(inputs.objects.nodes) :]
    objects = replace(inputs.objects, nodes=tuple(nodes), slices=tuple(slices))
    return _with_nodes(replace(inputs, objects=objects), (*inputs.cluster.nodes, *added))


def _with_nodes(inputs: SimulationInput, nodes: tuple[Node, ...]) -> SimulationInput:
    legacy = inputs.configuration.legacy
    return replace(inputs, cluster=find_cluster_nodes(nodes, inputs.objects, inputs.gates, legacy))


def _without_class(inputs: SimulationInput, name: str) -> SimulationInput:
    classes = tuple(each for each in inputs.objects.classes if each.metadata.name != name)
    if len(classes) == len(inputs.objects.classes):
        message = f"the input has no DeviceClass {name}"
        return _with_findings(
            inputs, LocatedFinding(codes.CHANGE_UNREADABLE.at("--without-class", message))
        )
    objects = replace(inputs.objects, classes=classes)
    return _with_nodes(replace(inputs, objects=objects), inputs.cluster.nodes)


def _drained(inputs: SimulationInput, name: str) -> SimulationInput:
    """Return the input with a cordoned node, whose pods are the first ones to place."""
    if all(each.name != name for each in inputs.objects.nodes):
        return _with_findings(inputs, _unknown_node("--drain", name))
    leaving = [
        each
        for each in inputs.running or ()
        if each.spec.node_name == name and each.owner_kind not in _STAYING
    ]
    findings = [
        LocatedFinding(
            codes.POD_NOT_RECREATED.at("", "no owner recreates it", object=f"Pod/{each.full_name}")
        )
        for each in leaving
        if each.owner_kind not in RECREATING
    ]
    again = [_to_place(each) for each in leaving if each.owner_kind in RECREATING]
    inputs = _without_pods(inputs, {each.full_name for each in leaving}, findings)
    nodes = tuple(map(_cordon, inputs.objects.nodes, (name,) * len(inputs.objects.nodes)))
    by_name = {each.name: each for each in nodes}
    inputs = replace(
        inputs, objects=replace(inputs.objects, nodes=nodes), pods=(*again, *inputs.pods)
    )
    return _with_nodes(inputs, tuple(by_name[each.name] for each in inputs.cluster.nodes))


def _tainted(inputs: SimulationInput, options: argparse.Namespace) -> SimulationInput:
    """Return the input with the rules that are asked about, and without the pods they evict."""
    rules = [each for each in inputs.objects.taint_rules if each.name in inputs.details.rules]
    if options.taint or options.devices:
        rule = _read_taint(options.taint or "", options.devices or "")
        if isinstance(rule, LocatedFinding):
            return _with_findings(inputs, rule)
        rules.append(rule)
        every = (*inputs.objects.taint_rules, rule)
        inputs = replace(inputs, objects=replace(inputs.objects, taint_rules=every))
    if not rules:
        return inputs
    inputs = replace(inputs, gates=inputs.gates.with_taint_rules())
    pods, version = inputs.running or (), inputs.gates.version
    tainted = tuple(find_tainted_pods(rules, inputs.objects.claims, pods, version))
    leaving = [each.pod for each in tainted if each.seconds is not None]
    inputs = _without_pods(
        inputs,
        {each.full_name for each in leaving},
        [LocatedFinding(_describe_tainted(each)) for each in tainted],
    )
    again = [_to_place(each) for each in leaving if each.owner_kind in RECREATING]
    return _with_nodes(replace(inputs, pods=(*again, *inputs.pods)), inputs.cluster.nodes)


def _read_taint(text: str, devices: str) -> DeviceTaintRule | LocatedFinding:
    """Read the options of a taint and of its devices."""
    both, _, effect = text.rpartition(":")
    key, _, value = both.partition("=")
    if not key or effect not in EXCLUDING:
        message = f"{text or 'nothing'} is not KEY=VALUE:NoExecute or KEY=VALUE:NoSchedule"
        return LocatedFinding(codes.CHANGE_UNREADABLE.at("--taint", message))
    driver, *rest = devices.split("/", 2)
    if not driver:
        message = "name a driver, a pool or a device: DRIVER/POOL/DEVICE"
        return LocatedFinding(codes.CHANGE_UNREADABLE.at("--devices", message))
    pool, device = [*rest, None, None][:2]
    return DeviceTaintRule(
        "--taint", Taint(key, effect, value), TaintSelector(driver, pool, device)
    )


def _describe_tainted(tainted: TaintedPod) -> Finding:
    taint = tainted.taint
    value = f"={taint.value}" if taint.value else ""
    about = f"the taint {taint.key}{value}:{taint.effect}"
    pod, (pool, name) = f"Pod/{tainted.pod.full_name}", tainted.device
    device = f"{pool.driver}/{pool.name}/{name}"
    if tainted.seconds is None:
        by_name = "it has the device by the name of an extended resource, so nothing applies"
        why = by_name if tainted.by_name else f"its claim {tainted.claim} tolerates"
        return codes.POD_NOT_EVICTED.at("", f"stays with {device}: {why} {about}", object=pod)
    when = f"after {tainted.seconds:,} s" if tainted.seconds else "at once"
    message = f"evicted {when}: claim {tainted.claim} has {device}, which gets {about}"
    if tainted.pod.owner_kind not in RECREATING:
        message += "; no owner recreates it elsewhere"
    return codes.POD_EVICTED.at("", message, object=pod)


def _cordon(node: Node, name: str) -> Node:
    return structs.replace(node, unschedulable=True) if node.name == name else node


def _to_place(pod: Pod) -> PodsToPlace:
    pod = structs.replace(pod, spec=structs.replace(pod.spec, node_name=""))
    return PodsToPlace(pod, f"Pod/{pod.full_name}", PodCount(1))


def _unknown_node(option: str, name: str) -> LocatedFinding:
    return LocatedFinding(codes.NODE_UNKNOWN.at(option, f"Node {name} not found"))


# --- the fewest pods ------------------------------------------------------------------------------


class FewestPods(NamedTuple):
    """The fewest of the named pods without which a pod fits on a node.

    If it is not `proven`, the search ended before all smaller sets were tried.
    """

    pod: str
    node: str
    pods: tuple[str, ...]
    proven: bool


def find_fewest_pods(inputs: SimulationInput, names: Collection[str]) -> Iterator[FewestPods]:
    """Yield for each pod to place the nodes on which it fits without some of the named pods.

    `inputs` is the cluster before the change; what other pods to place would get is not counted.
    """
    evictable = find_evictable(inputs, [])
    nodes = by_node(e for e in evictable.running if e.name in names)
    schedulers = find_schedulers(inputs)
    placers = schedulers.plain_placers(schedulers.new_placer())
    tries = Tries()
    for to_place in inputs.pods:
        pod = to_place.pod
        allocator = schedulers.of_pod(pod)
        placer = placers[allocator]
        if placer.fitting_nodes(pod, ()):
            continue
        holds = find_holds(placer.claims)
        planner, cluster = schedulers.world_of(allocator)
        fewest = []
        for node, candidates in sorted(nodes.items()):
            removals = NodeRemovals(pod, node, placer, planner, cluster, holds, tries)
            ordered = sorted(candidates, key=importance)
            smallest = find_fewest(ordered, removals.fits_without, tries)
            if smallest.pods is not None:
                gone = tuple(sorted(each.name for each in smallest.pods))
                fewest.append(FewestPods(pod.full_name, node, gone, smallest.proven))
        fewest.sort(key=lambda of_node: (len(of_node.pods), of_node.node))
        yield from fewest[:_MOST_SETS]


def format_fewest(several: Iterable[FewestPods]) -> Iterator[str]:
    """Format the sets of pods."""
    for fewest in several:
        cut = "" if fewest.proven else " (not all smaller sets were tried)"
        yield f"{fewest.pod} fits on {fewest.node} without {', '.join(fewest.pods)}{cut}"


def fewest_as_data(several: Iterable[FewestPods]) -> list[Mapping[str, Any]]:
    """Return the sets of pods for JSON and YAML."""
    return [{**each._asdict(), "pods": list(each.pods)} for each in several]
