"""The objects of a cluster as the models play them: pods by kind, nodes, budgets and Jobs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from drawbridge.agreement.gpu_operator import find_rivals, set_operands
from drawbridge.agreement.scope import Mode, find_root_owner, read_metadata
from drawbridge.audit.allocated import AllocatedClaims
from drawbridge.audit.allowed_nodes import AllowedNodes
from drawbridge.audit.fit import FindDevices, read_template
from drawbridge.audit.interrupted import find_interrupted
from drawbridge.audit.model import Fate
from drawbridge.audit.node_groups import Group
from drawbridge.audit.objects import (
    AuditedNamespace,
    AuditedObjects,
    controllers_of,
    namespace_of,
    text_at,
)
from drawbridge.audit.outcomes import Decider, PodOutcome
from drawbridge.audit.templates import make_pod, name_workload
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.classes import is_implicit_name
from drawbridge.dra.nodes import Node
from drawbridge.ledger.node_resources import allocatable_amounts, requested_amounts
from drawbridge.ledger.pods import FINISHED, Pod, pod_reader
from drawbridge.models.budgeted_kinds import UNSCALED
from drawbridge.models.budgets import Budget, index_budgets, read_budget
from drawbridge.models.cluster import ClusterStart
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, Health, ModelPod, PodKind, Served
from drawbridge.models.quotas import read_quota
from drawbridge.models.spreading import read_rules
from drawbridge.names import DEVICES_LABEL, DUAL_LABEL
from drawbridge.report.tied_pods import find_tied

_MIRROR: Final = "kubernetes.io/config.mirror"
# What feature discovery says of how a plugin shares devices goes with the plugin.
_OF_SHARING: Final = ("nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy")
_PRODUCT: Final = "nvidia.com/gpu.product"
_SHARED: Final = "-SHARED"


class Nodes(NamedTuple):
    """Where pods may start, with the nodes as they are and as they are after their move.

    Translated pods avoid nodes that are `dual`, until these have moved.
    """

    now: AllowedNodes
    moved: AllowedNodes
    dual: frozenset[str]


def labels_after(node: Node, driver: str) -> dict[str, str]:
    """Return the labels of a node after its move: without those that the move takes."""
    labels = {k: v for k, v in node.labels.items() if k != DUAL_LABEL and k not in _OF_SHARING}
    if product := labels.get(_PRODUCT, ""):
        labels[_PRODUCT] = product.removesuffix(_SHARED)
    for pair in set_operands(find_rivals(node.labels), "false").split():
        key, _, value = pair.partition("=")
        labels[key] = value
    return {**labels, DEVICES_LABEL: driver}


def read_nodes(objects: AuditedObjects, groups: Sequence[Group]) -> Nodes:
    """Return where pods may start, on nodes that are in groups."""
    drivers = {node.name: each.driver for each in groups for node in each.nodes if each.driver}
    moved = [
        replace(each, labels=labels_after(each, drivers[each.name]))
        if each.name in drivers
        else each
        for each in objects.nodes
    ]
    volumes = objects.volumes
    now, then = AllowedNodes(objects.nodes, volumes), AllowedNodes(moved, volumes)
    dual = frozenset(node.name for each in groups if each.now.dual for node in each.nodes)
    return Nodes(now, then, dual)


@dataclass
class _Reader:
    """Reads pods into kinds."""

    decider: Decider
    nodes: Nodes
    offered: frozenset[str]  # the resource names that any node offers
    allocated: AllocatedClaims
    find_devices: FindDevices
    selecting: frozenset[str]  # the labels that budgets and rules of pods select by
    kinds: list[PodKind] = field(default_factory=list)
    numbers: dict[object, int] = field(default_factory=dict)
    requests: dict[object, dict[str, int]] = field(default_factory=dict)
    serving: dict[object, frozenset[str]] = field(default_factory=dict)

    def read(self, pod: Value, namespace: AuditedNamespace) -> ModelPod:
        """Return a pod, and remember its kind."""
        outcome = self.decider.decide(pod, namespace)
        owner = self._find_owner(pod, namespace.name)
        own = outcome is not None and outcome.fate.has_claims
        asked = self._find_asked(pod, self._find_held(pod, outcome))
        translated = None
        if outcome is not None and outcome.fate is Fate.TO_TRANSLATE:
            translated = self._find_asked(apply_edits(pod, outcome.edits), outcome.demand.devices)
            has = self._with_devices(pod, outcome, namespace.name)
            translated = translated._replace(
                nodes=(translated.nodes & has) - self.nodes.dual,
                moved_nodes=translated.moved_nodes & has,
            )
        labels = as_mapping(get_value(pod, ("metadata", "labels")))
        texts = {name: f"{text}" for name, text in labels.items()}
        key = (
            owner,
            namespace.name,
            *map(texts.get, self.selecting),
            id(outcome),
            _freeze(asked),
            translated and _freeze(translated),
            rules := read_rules(pod),
            gated := _is_gated(pod, namespace),
            of_pod := _find_controller(pod).get("kind") == "Pod",
        )
        if key not in self.numbers:
            self.numbers[key] = len(self.kinds)
            made = self._make_kind(namespace.name, owner, texts, outcome, asked, translated)
            self.kinds.append(
                made._replace(
                    rules=rules, is_ending=namespace.is_ending, is_gated=gated, is_of_pod=of_pod
                )
            )
        number = self.numbers[key]
        kind = self.kinds[number]
        node = text_at(pod, "spec", "nodeName")
        static = bool(text_at(pod, "metadata", "annotations", _MIRROR))
        served = _find_served(pod, kind, own=own)
        tied = "" if node else find_tied(pod)
        return ModelPod(number, node, served, own, static, name=tied, health=_find_health(pod))

    def _with_devices(self, pod: Value, outcome: PodOutcome, namespace: str) -> frozenset[str]:
        """Return the nodes that have the devices for the claims of a translated pod."""
        key = id(outcome), namespace
        if key not in self.serving:
            templates = [
                read for each in outcome.templates for read in read_template(dict(each), namespace)
            ]
            read = pod_reader().read(_only_claims(apply_edits(_unbind(pod), outcome.edits)))
            everywhere = frozenset(each.name for each in self.decider.objects.nodes)
            self.serving[key] = (
                self.find_devices(read, templates) if isinstance(read, Pod) else everywhere
            )
        return self.serving[key]

    def _make_kind(  # noqa: PLR0913, PLR0917  # the fields of a kind
        self,
        namespace: str,
        owner: str,
        labels: Mapping[str, str],
        outcome: PodOutcome | None,
        asked: AskedOfNode,
        translated: AskedOfNode | None,
    ) -> PodKind:
        units: dict[str, int] = {}
        by_class = outcome is not None and outcome.fate is Fate.BY_CLASS
        if outcome is not None and not (asked.devices and not by_class):
            kept = translated.amounts if translated is not None else {}
            units = {
                name: number
                for name, number in asked.amounts.items()
                if name in outcome.demand.units and name not in kept
            }
        template = self.decider.templates.find(namespace, owner)
        return PodKind(
            namespace,
            owner,
            labels,
            asked,
            translated,
            by_class,
            units,
            template.named_node,
            template.wanted,
            template.job,
            rollout=template.rollout,
        )

    def _find_owner(self, pod: Value, namespace: str) -> str:
        """Return the owner as `Kind/name`: of the pods of a Job, the Job.

        A drain refuses a pod without a controller, whoever else owns it.
        """
        controller = _find_controller(pod)
        if controller.get("kind") == "Job":
            return f"Job/{controller.get('name')}"
        if not controller:
            return f"Pod/{text_at(pod, 'metadata', 'name')}"
        return find_root_owner(namespace, read_metadata(pod)).partition("/")[2]

    def _find_held(self, pod: Value, outcome: PodOutcome | None) -> Mapping[str, float]:
        """Return the devices that a pod has or asks for in the form in which it was created."""
        if outcome is None or not outcome.fate.without_plugin:
            return {}
        held = self.allocated.held_by(pod)
        return outcome.demand.devices if held is None else held

    def _find_asked(self, pod: Value, devices: Mapping[str, float]) -> AskedOfNode:
        unbound = _unbind(pod)
        return AskedOfNode(
            self._amounts(unbound, is_running=bool(text_at(pod, "spec", "nodeName"))),
            devices,
            self.nodes.now.find(unbound, ()),
            self.nodes.moved.find(unbound, ()),
        )

    def _amounts(self, pod: Value, *, is_running: bool) -> dict[str, int]:
        """Return what a pod asks of its node; of one that runs, without names that no node offers.

        A pod that runs can have them of a plugin that is gone since. No node offers implicit names.
        """
        spec = as_mapping(get_value(pod, ("spec",)))
        parts = [
            [get_value(each, (key,)) for key in ("resources", "restartPolicy")]
            for part in ("containers", "initContainers")
            for each in as_list(spec.get(part))
        ]
        rest: list[Value] = [spec.get("overhead"), spec.get("resources"), len(parts), is_running]
        key = msgspec.json.encode([parts, rest], order="sorted")
        if key not in self.requests:
            read = pod_reader().read(pod)
            amounts = requested_amounts(read) if isinstance(read, Pod) else {}
            self.requests[key] = {
                name: n
                for name, n in amounts.items()
                if "/" not in name
                or name in self.offered
                or not (is_running or is_implicit_name(name))
            }
        return self.requests[key]


def read_cluster(
    groups: Sequence[Group], decider: Decider, allocated: AllocatedClaims, find_devices: FindDevices
) -> ClusterStart:
    """Return the cluster as it is, for the models."""
    objects = decider.objects
    nodes = [_read_node(node, group) for group in groups for node in group.nodes]
    budgets = _read_budgets(objects)
    offered = frozenset(name for each in nodes for name in each.free)
    reader = _Reader(
        decider,
        read_nodes(objects, groups),
        offered,
        allocated,
        find_devices,
        _find_selecting(objects.pods, budgets),
    )
    pods, users = [], set[tuple[str, str]]()
    for pod in objects.pods:
        if text_at(pod, "status", "phase") in FINISHED:
            continue
        name = namespace_of(pod)
        pods.append(read := reader.read(pod, objects.find_namespace(name)))
        counted = read.served is Served.DRIVER and reader.kinds[read.kind].asked.devices
        if counted or not read.node:
            users.add((name, text_at(pod, "metadata", "name")))
    _hold_for_others(nodes, allocated.count_without(users))
    suspended = Counter[int]()
    for pod, number in _read_suspended(objects):
        namespace = objects.find_namespace(namespace_of(pod))
        suspended[reader.read(pod, namespace).kind] += number
    enforced = frozenset(e.name for e in objects.namespaces if e.mode is Mode.ENFORCE)
    quotas = tuple(map(read_quota, objects.quotas))
    return ClusterStart(
        tuple(reader.kinds), tuple(pods), tuple(nodes), budgets, quotas, enforced, suspended
    )


def _read_budgets(objects: AuditedObjects) -> tuple[Budget, ...]:
    """Return the budgets. Those of a share of what owners want count finished pods as well."""
    budgets = tuple(map(read_budget, objects.budgets))
    find, failing = index_budgets(budgets), set[int]()
    for pod in objects.pods if budgets else ():
        if text_at(pod, "status", "phase") in FINISHED:
            labels = as_mapping(get_value(pod, ("metadata", "labels")))
            if _find_controller(pod).get("kind") in UNSCALED:
                texts = {name: f"{text}" for name, text in labels.items()}
                failing.update(find(namespace_of(pod), texts))
    return tuple(
        each._replace(fails=each.fails or (each.asks_owners and number in failing))
        for number, each in enumerate(budgets)
    )


def _find_selecting(pods: Iterable[Value], budgets: Iterable[Budget]) -> frozenset[str]:
    """Return the labels that select pods: a controller can give these to some of its pods."""
    by_rules = (key for pod in pods for rule in read_rules(pod) for key, _ in rule.labels)
    return frozenset(by_rules).union(*(each.keys for each in budgets))


def _hold_for_others(nodes: Iterable[ModelNode], others: Mapping[str, Mapping[str, float]]) -> None:
    """Take from nodes what claims hold for others than the pods of the models: nobody gets it."""
    for node in nodes:
        for name, number in others.get(node.name, {}).items():
            if name in node.devices:
                node.devices[name] -= number


def _read_suspended(objects: AuditedObjects) -> Iterator[tuple[Value, int]]:
    """Yield a pod of each Job that a move has suspended, and how many it creates at once."""
    interrupted = {*find_interrupted(objects).jobs}
    for job in objects.workloads if interrupted else ():
        if (namespace_of(job), name_workload(job)) not in interrupted:
            continue
        number = get_value(job, ("spec", "parallelism"))
        pod = make_pod(job, get_value(job, ("spec", "template")))
        yield pod, number if isinstance(number, int) else 1


def _read_node(node: Node, group: Group) -> ModelNode:
    # Where a driver publishes alone, a class that is missing comes with the first step.
    is_served = bool(group.now.drivers) and not group.has_plugin
    offered = group.after.classes if is_served else group.now.classes
    now = {name: float(number) for name, number in offered.items()}
    free = dict(allocatable_amounts(node))
    more = Counter(group.after.classes)
    more.subtract(Counter(offered))
    return ModelNode(
        node.name,
        free,
        now,
        {name: float(number) for name, number in more.items() if number > 0},
        {name: free.get(name, 0) for name in group.replaced},
        group.driver,
        group.has_plugin,
        is_cordoned=node.unschedulable,
        is_ready=node.ready,
        labels=node.labels,
    )


def _find_served(pod: Value, kind: PodKind, *, own: bool) -> Served:
    if not text_at(pod, "spec", "nodeName"):
        return Served.NOBODY
    if own:
        return Served.DRIVER if kind.asked.devices else Served.NOBODY
    if get_value(pod, ("status", "extendedResourceClaimStatus")) is not None:
        return Served.DRIVER
    return Served.PLUGIN if kind.units else Served.NOBODY


def _find_health(pod: Value) -> Health:
    """Return how budgets see a pod: a waiting one is ready when it has started."""
    if not text_at(pod, "spec", "nodeName"):
        return Health.READY
    deleted = get_value(pod, ("metadata", "deletionTimestamp")) is not None
    if deleted or text_at(pod, "status", "phase") == "Pending":
        return Health.UNGUARDED
    conditions = map(as_mapping, as_list(get_value(pod, ("status", "conditions"))))
    is_ready = all(e.get("status") == "True" for e in conditions if e.get("type") == "Ready")
    return Health.READY if is_ready else Health.NOT_READY


def _find_controller(pod: Value) -> Mapping[str, Value]:
    """Return the reference to the controller of a pod; empty without one."""
    return next(controllers_of(pod), {})


def _is_gated(pod: Value, namespace: AuditedNamespace) -> bool:
    """Whether a pod that waits gets no node. In a namespace that ends, it is deleted before."""
    return namespace.is_ending or bool(as_list(get_value(pod, ("spec", "schedulingGates"))))


def _unbind(pod: Value) -> Value:
    """Return a pod as its owner creates it: without a node."""
    fields = as_mapping(pod)
    spec = as_mapping(fields.get("spec"))
    unbound: Value = {key: value for key, value in spec.items() if key != "nodeName"}
    return {**fields, "spec": unbound}


def _only_claims(pod: Value) -> Value:
    """Return a pod that asks for nothing but its claims, on any node: its nodes are known apart."""
    fields = as_mapping(pod)
    spec = as_mapping(fields.get("spec"))
    reduced: dict[str, Value] = {
        key: spec[key] for key in ("resourceClaims", "schedulerName") if key in spec
    }
    for part in ("containers", "initContainers"):
        reduced[part] = [
            {"name": each.get("name"), "resources": {"claims": claims}}
            for each in map(as_mapping, as_list(spec.get(part)))
            if (claims := as_mapping(each.get("resources")).get("claims")) is not None
        ]
    tolerated: Value = [{"operator": "Exists"}]
    return {**fields, "spec": {**reduced, "tolerations": tolerated}}


def _freeze(request: AskedOfNode) -> object:
    return (
        frozenset(request.amounts.items()),
        frozenset(request.devices.items()),
        request.nodes,
        request.moved_nodes,
    )
