"""Changes the cluster before a simulation: what is gone, added, drained or tainted."""

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, islice
from typing import Any, Final, NamedTuple

from msgspec import structs

from cli.simulation import removals
from cli.simulation.input import SimulationInput
from cli.simulation.preemption import find_evictable
from cli.simulation.removals import (
    doubt_owner,
    unknown_node,
    unreadable,
    with_findings,
    with_nodes,
    without_leaving,
)
from cli.simulation.schedulers import find_schedulers
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.device import Taint
from drawbridge.dra.slices import Slice
from drawbridge.dra.taints import EXCLUDING, DeviceTaintRule, TaintSelector
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.defragmentation import RECREATING
from drawbridge.ledger.evictions import TaintedPod, find_tainted_pods
from drawbridge.ledger.removals import NodeRemovals, Tries, by_node, find_fewest, find_holds
from drawbridge.ledger.victims import importance

MAX_COPIES: Final = 1000
_HOST: Final = "kubernetes.io/hostname"
_MOST_SETS: Final = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the changes."""
    group = parser.add_argument_group("what if")
    removals.add_options(group)
    text = "as if there were N more nodes like NODE, with its devices and without pods"
    group.add_argument("--more-nodes", metavar="NODE=N", action="append", default=[], help=text)
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
    inputs = removals.remove(inputs, removals.read_removals(options))
    return _tainted(inputs, options)


def _with_more_nodes(inputs: SimulationInput, text: str) -> SimulationInput:
    """Return the input with copies of a node and of the devices that only it has."""
    name, given, number = text.rpartition("=")
    if not given:
        message = f"{text} is not NODE=N; write {text}=1 for one more node"
        return with_findings(inputs, unreadable(message, "--more-nodes"))
    like = {each.name: each for each in inputs.objects.nodes}.get(name)
    if like is None:
        return with_findings(inputs, unknown_node("--more-nodes", name))
    if not number.isdecimal() or not 1 <= int(number) <= MAX_COPIES:
        message = f"{text} does not end with a number from 1 to {MAX_COPIES:,}"
        return with_findings(inputs, unreadable(message, "--more-nodes"))
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
    return with_nodes(replace(inputs, objects=objects), (*inputs.cluster.nodes, *added))


def _tainted(inputs: SimulationInput, options: argparse.Namespace) -> SimulationInput:
    """Return the input with the rules that are asked about, and without the pods they evict."""
    rules = [each for each in inputs.objects.taint_rules if each.name in inputs.details.rules]
    if options.taint or options.devices:
        rule = _read_taint(options.taint or "", options.devices or "")
        if isinstance(rule, LocatedFinding):
            return with_findings(inputs, rule)
        if not any(_has_devices(each, rule.selector) for each in inputs.objects.slices):
            message = f"no ResourceSlice of the input has devices of {options.devices}"
            return with_findings(inputs, unreadable(message, "--devices"))
        rules.append(rule)
        every = (*inputs.objects.taint_rules, rule)
        inputs = replace(inputs, objects=replace(inputs.objects, taint_rules=every))
    if not rules:
        return inputs
    inputs = replace(inputs, gates=inputs.gates.with_taint_rules())
    pods, version = inputs.running or (), inputs.gates.version
    tainted = tuple(find_tainted_pods(rules, inputs.objects.claims, pods, version))
    leaving = [each.pod for each in tainted if each.seconds is not None]
    told = [LocatedFinding(_describe_tainted(each)) for each in tainted]
    return with_nodes(without_leaving(inputs, leaving, told), inputs.cluster.nodes)


def _has_devices(published: Slice, selector: TaintSelector | None) -> bool:
    """Whether a slice has a device that the options of a taint name."""
    if selector is None or published.driver != selector.driver:
        return False
    is_pool = selector.pool in (None, published.pool)
    return is_pool and any(selector.device in (None, each.name) for each in published.devices)


def _read_taint(text: str, devices: str) -> DeviceTaintRule | LocatedFinding:
    """Read the options of a taint and of its devices."""
    both, _, effect = text.rpartition(":")
    key, _, value = both.partition("=")
    if not key or effect not in EXCLUDING:
        message = f"{text or 'nothing'} is not KEY=VALUE:NoExecute or KEY=VALUE:NoSchedule"
        return unreadable(message, "--taint")
    driver, *rest = devices.split("/", 2)
    if not driver:
        message = "name a driver, a pool or a device: DRIVER/POOL/DEVICE"
        return unreadable(message, "--devices")
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
        message += f"; {doubt_owner(tainted.pod)} elsewhere"
    return codes.POD_EVICTED.at("", message, object=pod)


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
    for asked_for in inputs.pods:
        pod = asked_for.pod
        allocator = schedulers.of_pod(pod)
        placer = placers[allocator]
        if placer.fitting_nodes(pod, ()):
            continue
        holds = find_holds(placer.claims)
        planner, cluster = schedulers.world_of(allocator)
        fewest = []
        for node, candidates in sorted(nodes.items()):
            asked = NodeRemovals(pod, node, placer, planner, cluster, holds, tries)
            ordered = sorted(candidates, key=importance)
            smallest = find_fewest(ordered, asked.fits_without, tries)
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
