"""Removes parts of a cluster before a simulation: pods, a class, nodes, a driver, room in a quota.

What a removal ends is in the findings, and what its owner creates again is placed first. A driver
or a class evicts nobody: pods keep their devices until they end.
"""

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import structs

from cli.input.codes import POD_UNKNOWN
from cli.input.namespace_labels import labels_of_namespaces
from cli.simulation.input import PodsToPlace, SimulationInput
from cli.simulation.pod_allocators import find_cluster_nodes
from drawbridge.config.model import Quota
from drawbridge.config.placement import decide_placements
from drawbridge.config.policy import device_quotas
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.claim import Claim
from drawbridge.dra.counted import count_noun
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Quantity, QuantityError, parse
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.defragmentation import RECREATING, STAYING
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.quota_lines import measure_quotas, report_exceeded
from drawbridge.translate.manifests.replicas import PodCount

OPTION: Final = "--without"
# Their pods stay on a drained node.
_MOST_PODS: Final = 50


def add_options(group: argparse._ArgumentGroup) -> None:
    """Declare the removals."""
    group.add_argument(
        OPTION,
        metavar="KIND/NAME",
        action="append",
        default=[],
        help="as if this were gone: pod/NAMESPACE/NAME, class/NAME, node/NAME, nodes/LABEL=VALUE,"
        " driver/NAME (with the slices of -f in their place: an upgrade), or"
        " quota/NAME/CLASS/AMOUNT=LIMIT for a lower limit; says who goes, who stays, who waits",
    )


class Removal(NamedTuple):
    """What is gone: its kind, and its name."""

    kind: str
    name: str


def read_removals(options: argparse.Namespace) -> list[Removal]:
    """Return what the options name, in order."""
    return [Removal(*text.partition("/")[::2]) for text in options.without]


def names_of_pods(removals: Iterable[Removal]) -> frozenset[str]:
    """Return the pods that are gone; their namespace defaults to `default`."""
    named = (each.name for each in removals if each.kind == "pod")
    return frozenset(each if "/" in each else f"default/{each}" for each in named)


def remove(inputs: SimulationInput, removals: Sequence[Removal]) -> SimulationInput:
    """Return the input without what is named; what is wrong with the names is in its findings."""
    pods = names_of_pods(removals)
    for removal in removals:
        if removal.kind not in ("pod", "node", "nodes"):
            change = _CHANGES.get(removal.kind)
            if change is None:
                named = f"{removal.kind}/{removal.name}".removesuffix("/")
                message = f"{named} is not KIND/NAME with one of the kinds {', '.join(KINDS)}"
                inputs = with_findings(inputs, unreadable(message))
            else:
                inputs = change(inputs, removal.name)
    inputs = without_pods(inputs, pods, _report_unknown(inputs, pods))
    for removal in removals:
        if removal.kind == "node":
            inputs = _drained(inputs, removal.name)
        elif removal.kind == "nodes":
            inputs = _without_nodes(inputs, removal.name)
    return inputs


def unreadable(message: str, option: str = OPTION) -> LocatedFinding:
    """Report what is wrong with the words of an option."""
    return LocatedFinding(codes.CHANGE_UNREADABLE.at(option, message))


def with_findings(inputs: SimulationInput, *findings: LocatedFinding) -> SimulationInput:
    """Return the input with more findings."""
    return replace(inputs, findings=(*inputs.findings, *findings))


def _report_unknown(inputs: SimulationInput, names: Collection[str]) -> list[LocatedFinding]:
    running = {each.full_name for each in inputs.running or ()}
    return [
        LocatedFinding(POD_UNKNOWN.at(OPTION, f"pod {name} has no node in the input"))
        for name in sorted(names)
        if name not in running
    ]


def without_pods(
    inputs: SimulationInput, names: Collection[str], findings: Sequence[LocatedFinding] = ()
) -> SimulationInput:
    """Return the input without pods that run, and with the claims released that only they use."""
    if not names or inputs.running is None:
        return with_findings(inputs, *findings)
    running = tuple(each for each in inputs.running if each.full_name not in names)
    claims = tuple(_without_consumers(each, names) for each in inputs.objects.claims)
    objects = replace(inputs.objects, claims=claims)
    return with_findings(replace(inputs, running=running, objects=objects), *findings)


def without_leaving(
    inputs: SimulationInput, pods: Sequence[Pod], findings: Sequence[LocatedFinding]
) -> SimulationInput:
    """Return the input without pods that run; those that owners create again are placed first."""
    again = [_to_place(each) for each in pods if each.owner_kind in RECREATING]
    inputs = without_pods(inputs, {each.full_name for each in pods}, findings)
    return replace(inputs, pods=(*again, *inputs.pods))


def _without_consumers(claim: Claim, names: Collection[str]) -> Claim:
    namespace = claim.metadata.namespace or "default"
    users = claim.status.reserved_for
    left = tuple(e for e in users if not e.is_pod or f"{namespace}/{e.name}" not in names)
    if len(left) == len(users):
        return claim
    allocation = claim.status.allocation if left else None
    status = structs.replace(claim.status, reserved_for=left, allocation=allocation)
    return structs.replace(claim, status=status)


def with_nodes(inputs: SimulationInput, nodes: tuple[Node, ...]) -> SimulationInput:
    """Return the input with these nodes, and with what follows from its objects."""
    legacy = inputs.configuration.legacy
    return replace(inputs, cluster=find_cluster_nodes(nodes, inputs.objects, inputs.gates, legacy))


def _without_class(inputs: SimulationInput, name: str) -> SimulationInput:
    classes = tuple(each for each in inputs.objects.classes if each.metadata.name != name)
    if len(classes) == len(inputs.objects.classes):
        return with_findings(inputs, unreadable(f"the input has no DeviceClass {name}"))
    findings = list(_report_kept(inputs, lambda claim: _names_class(claim, name)))
    inputs = replace(inputs, objects=replace(inputs.objects, classes=classes))
    return with_findings(with_nodes(inputs, inputs.cluster.nodes), *findings)


def _drained(inputs: SimulationInput, name: str) -> SimulationInput:
    """Return the input with a cordoned node, whose pods are the first ones to place."""
    if all(each.name != name for each in inputs.objects.nodes):
        return with_findings(inputs, unknown_node(OPTION, name))
    leaving = [
        each
        for each in inputs.running or ()
        if each.spec.node_name == name and each.owner_kind not in STAYING
    ]
    findings = [
        LocatedFinding(
            codes.POD_NOT_RECREATED.at("", doubt_owner(each), object=f"Pod/{each.full_name}")
        )
        for each in leaving
        if each.owner_kind not in RECREATING
    ]
    return _cordoned(without_leaving(inputs, leaving, findings), {name})


def _cordoned(inputs: SimulationInput, names: Collection[str]) -> SimulationInput:
    nodes = tuple(
        structs.replace(each, unschedulable=True) if each.name in names else each
        for each in inputs.objects.nodes
    )
    by_name = {each.name: each for each in nodes}
    inputs = replace(inputs, objects=replace(inputs.objects, nodes=nodes))
    return with_nodes(inputs, tuple(by_name[each.name] for each in inputs.cluster.nodes))


def doubt_owner(pod: Pod) -> str:
    """Return what is known of a pod whose owner may not create it again on another node."""
    if pod.owner_kind in {"", *STAYING}:
        return "no owner recreates it"
    return f"it is not known whether its {pod.owner_kind} recreates it"


def _to_place(pod: Pod) -> PodsToPlace:
    """Return a pod that runs as one that its owner creates again."""
    pod = structs.replace(pod, spec=structs.replace(pod.spec, node_name=""))
    return PodsToPlace(pod, f"Pod/{pod.full_name}", PodCount(1))


def unknown_node(option: str, name: str) -> LocatedFinding:
    """Report a node that an option names and that does not exist."""
    return LocatedFinding(codes.NODE_UNKNOWN.at(option, f"Node {name} not found"))


def _without_nodes(inputs: SimulationInput, selector: str) -> SimulationInput:
    """Return the input with all nodes drained that have a label."""
    key, given, value = selector.partition("=")
    if not given:
        return with_findings(inputs, unreadable(f"nodes/{selector} is not nodes/LABEL=VALUE"))
    named = [each.name for each in inputs.objects.nodes if each.labels.get(key) == value]
    if not named:
        return with_findings(inputs, unreadable(f"no node has the label {selector}"))
    inputs = _cordoned(inputs, named)
    for name in named:
        inputs = _drained(inputs, name)
    return inputs


# --- drivers -------------------------------------------------------------------------------------


def _without_driver(inputs: SimulationInput, driver: str) -> SimulationInput:
    """Return the input with the slices of -f instead of those of a driver; without any, none."""
    asked = inputs.details.slices
    mine = [each for each in inputs.objects.slices if each.driver == driver]
    gone = {id(each) for each in mine if id(each) not in _last_of(mine, asked)}
    if not gone:
        return with_findings(inputs, unreadable(f"the input has no ResourceSlice of {driver}"))
    slices = tuple(each for each in inputs.objects.slices if id(each) not in gone)
    after = {
        (each.pool, device.name)
        for each in slices
        if each.driver == driver
        for device in each.devices
    }
    findings = list(_report_kept(inputs, lambda claim: _find_lost(claim, driver, after)))
    inputs = replace(inputs, objects=replace(inputs.objects, slices=slices))
    return with_findings(with_nodes(inputs, inputs.cluster.nodes), *findings)


def _last_of(slices: Iterable[Slice], names: Collection[str]) -> frozenset[int]:
    """Return the slices of -f: of several with one name, the last one."""
    last = {each.name: id(each) for each in slices if each.name in names}
    return frozenset(last.values())


def _find_lost(claim: Claim, driver: str, after: Collection[tuple[str, str]]) -> str:
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation else ():
        if result.driver == driver and (result.pool, result.device) not in after:
            return f"{driver}/{result.pool}/{result.device}, which nobody publishes then"
    return ""


def _names_class(claim: Claim, name: str) -> str:
    """Return what a claim keeps of a class, if it has an allocation and names only this class."""
    if claim.status.allocation is None:
        return ""
    requests = (each.exactly for each in claim.spec.devices.requests)
    if any(each is not None and each.device_class_name == name for each in requests):
        return f"its devices of class {name}"
    return ""


def _report_kept(
    inputs: SimulationInput, find_reason: Callable[[Claim], str]
) -> Iterator[LocatedFinding]:
    """Yield a finding for each running pod that keeps devices for a reason."""
    running = {each.full_name for each in inputs.running or ()}
    told: dict[str, Finding] = {}
    for claim in inputs.objects.claims:
        reason, namespace = find_reason(claim), claim.metadata.namespace or "default"
        for consumer in claim.status.reserved_for if reason else ():
            name = f"{namespace}/{consumer.name}"
            if consumer.is_pod and name in running:
                message = f"stays, and keeps {reason}; created again, it needs others"
                told[name] = codes.POD_KEEPS_DEVICES.at("", message, object=f"Pod/{name}")
    for name in sorted(told)[:_MOST_PODS]:
        yield LocatedFinding(told[name])
    if len(told) > _MOST_PODS:
        message = f"{count_noun(len(told) - _MOST_PODS, 'more pod')} the same"
        yield LocatedFinding(codes.POD_KEEPS_DEVICES.at("", message))


# --- quotas --------------------------------------------------------------------------------------


def _with_lower_quota(inputs: SimulationInput, text: str) -> SimulationInput:
    """Return the input with another limit in a quota, and say which namespaces are above it."""
    place, _, amount = text.partition("=")
    name, class_, what = [*place.split("/", 2), "", ""][:3]
    quotas, limit = inputs.configuration.quotas, _read_amount(amount)
    lowered = tuple(
        each if each.name != name or limit is None else _lower(each, class_, what, limit)
        for each in quotas
    )
    if lowered == quotas:
        wrong = _describe_wrong_limit(quotas, (name, class_, what), amount, limit)
        return with_findings(inputs, unreadable(f"quota/{text}: {wrong}"))
    configuration = structs.replace(inputs.configuration, quotas=lowered)
    inputs = replace(inputs, configuration=configuration)
    labels = labels_of_namespaces(each.value for each in inputs.objects.others)
    inventory = build_inventory(inputs.objects.slices, gates=inputs.gates)
    claims = inputs.objects.claims
    use = measure_quotas(device_quotas(configuration), inventory, claims, labels)
    above = (each for each in use.list_lines() if each.quota == name and each.is_exceeded)
    placements = decide_placements(labels, configuration)
    told = (LocatedFinding(report_exceeded(each, placements)) for each in above)
    return with_findings(inputs, *told)


def _describe_wrong_limit(
    quotas: Iterable[Quota], named: tuple[str, str, str], amount: str, limit: Quantity | None
) -> str:
    """Return why the text of an option sets no other limit in a total of a quota."""
    name, class_, what = named
    if not all((*named, amount)):
        return (
            "it is not quota/NAME/CLASS/AMOUNT=LIMIT, such as quota/team/gpu.nvidia.com/devices=8"
        )
    if limit is None:
        return f"{amount} is no quantity"
    totals = [each.total for each in quotas if each.name == name]
    if not totals:
        return f"no quota has the name {name}"
    if not any(what in own for total in totals for key, own in total.items() if key == class_):
        return f"quota {name} has no total for {what} of class {class_}"
    return f"{amount} is the total already"


def _lower(quota: Quota, class_: str, amount: str, limit: Quantity) -> Quota:
    """Return a quota with another limit where it has one for this class and amount."""
    total = {
        name: {key: limit if (name, key) == (class_, amount) else most for key, most in own.items()}
        for name, own in quota.total.items()
    }
    return structs.replace(quota, total=total)


def _read_amount(text: str) -> Quantity | None:
    try:
        return parse(text)
    except QuantityError:
        return None


_CHANGES: Final[Mapping[str, Callable[[SimulationInput, str], SimulationInput]]] = {
    "class": _without_class,
    "driver": _without_driver,
    "quota": _with_lower_quota,
}
KINDS: Final = ("pod", "class", "node", "nodes", "driver", "quota")
