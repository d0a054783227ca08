"""Whether all pods that run now still fit after a migration: where they are, and packed anew.

The caller gives the cluster as it is after the migration, and the answer is for that cluster:

    answer = still_fits(
        pods,          # every running pod, translated, each still with the nodeName where it runs
        nodes,         # `nodes_after(...)`: without the plugins that nobody needs any longer
        schedulers,    # which allocator places a pod, and what it sees: cli's `PodAllocators`
        claims,        # the claims of the cluster, as they are now
        templates,     # those of the cluster and those that the translation adds
    )

Pure and deterministic: the order of the input does not change which pods fit. Pods are placed from
the most difficult to the easiest, and equal pods are placed together, so that each node refuses a
group of equal pods at most once. Packing finds a placement or not; if it does not, another order
could still find one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from drawbridge.dra.claim import Claim, ClaimSpec, Template
from drawbridge.dra.nodes import Node
from drawbridge.ledger import codes, node_fit
from drawbridge.ledger.extended_resources import requested_names
from drawbridge.ledger.ledger import Ledger, name_of
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_resources import (
    CPU,
    MEMORY,
    Amounts,
    NodeResources,
    requested_amounts,
)
from drawbridge.ledger.placing import Placer, freed, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.removals import consumers_of
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.reasons import Reason, merge_reasons

_MIRROR: Final = "kubernetes.io/config.mirror"
# The scheduler compares nothing like this; 4 GiB for each CPU is usual for machines.
_BYTES_OF_MILLI_CPU: Final = (4 << 30) // 1000
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=str)


class Schedulers(Protocol):
    """Which allocator places a pod, and the devices and nodes that each one uses."""

    def choose(self, pod: Pod) -> Allocator:
        """Return the allocator of a pod."""

    def planner(self, allocator: Allocator) -> Planner:
        """Return a planner with the devices of an allocator."""

    def nodes(self, allocator: Allocator, nodes: ClusterNodes) -> ClusterNodes:
        """Return the nodes as the scheduler of an allocator sees them."""


class RefusedPod(msgspec.Struct, frozen=True):
    """A running pod that does not fit, the node where it runs, and why."""

    pod: str
    node: str
    reasons: tuple[Reason, ...]


class Fit(msgspec.Struct, frozen=True):
    """How many of the pods fit, the node of each by its name, and those that do not fit."""

    pods: int
    nodes: Mapping[str, str]
    refused: tuple[RefusedPod, ...]


class StillFits(msgspec.Struct, frozen=True):
    """Whether the pods fit where they are, and placed again on all nodes."""

    in_place: Fit
    packed: Fit


# How many placements of how many are done.
Progress = Callable[[int, int], None]


def still_fits(  # noqa: PLR0913  # the parts of a cluster
    pods: Collection[Pod],
    nodes: ClusterNodes,
    schedulers: Schedulers,
    claims: Collection[Claim],
    templates: Collection[Template],
    *,
    progress: Progress = lambda _done, _total: None,
) -> StillFits:
    """Place the running pods on their nodes, and once more on all nodes.

    `progress` is told how many placements of how many are done.
    """
    wanted = {name_of(template): _Wanted.of(template.spec.spec) for template in templates}
    groups = _group(pods, schedulers, wanted)
    used = dict.fromkeys(each.allocator for each in groups)
    cluster = _Cluster(
        nodes,
        {each: (schedulers.planner(each), schedulers.nodes(each, nodes)) for each in used},
        templates,
        groups,
    )
    names = {each.full_name for each in pods}
    kept = [*_without_class_claims(claims, pods)]
    released = [_released(each, names) for each in kept]
    total = 2 * len(pods)
    in_place = _Placement(cluster, kept, lambda done: progress(done, total))
    anew = _Placement(cluster, released, lambda done: progress(len(pods) + done, total))
    return StillFits(in_place.in_place(), anew.anew())


def nodes_after(
    nodes: Sequence[Node], kept: Collection[str], replaced: Collection[str], dual_label: str
) -> tuple[Node, ...]:
    """Return the nodes without plugins for the names `replaced`, except those that keep theirs.

    A node that is `kept` keeps or gets the label that keeps translated pods off it.
    """
    return tuple(
        _node_after(each, replaced, dual_label, is_kept=each.name in kept) for each in nodes
    )


def _node_after(node: Node, replaced: Collection[str], dual_label: str, *, is_kept: bool) -> Node:
    served = [name for name in node.allocatable if name in replaced]
    if is_kept:
        return replace(node, labels={**node.labels, dual_label: "true"})
    if not served and dual_label not in node.labels:
        return node
    allocatable = {name: each for name, each in node.allocatable.items() if name not in served}
    labels = {key: value for key, value in node.labels.items() if key != dual_label}
    return replace(node, allocatable=allocatable, labels=labels)


# --- groups of equal pods ------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """What makes claims difficult to satisfy: how many devices, and conditions for them."""

    devices: int
    selectors: int = 0

    @staticmethod
    def of(spec: ClaimSpec) -> "_Wanted":
        """Return what a claim wants, with the first alternative of each request."""
        firsts = (
            request.exactly or next(iter(request.first_available), None)
            for request in spec.devices.requests
        )
        wanted = [request for request in firsts if request is not None]
        return _Wanted(
            sum(request.count for request in wanted),
            sum(len(request.selectors) for request in wanted),
        )


class _Group(NamedTuple):
    """Pods that fit on the same nodes, sorted by name. Static pods are tied to their node."""

    pods: tuple[Pod, ...]
    requested: Amounts
    allocator: Allocator
    is_static: bool
    wanted: _Wanted  # as far as templates and extended resources tell

    @property
    def has_claims(self) -> bool:
        return bool(self.pods[0].spec.resource_claims) or self.wanted.devices > 0


def _group(
    pods: Iterable[Pod], schedulers: Schedulers, templates: Mapping[str, _Wanted]
) -> list[_Group]:
    """Group equal pods, from the most difficult to place to the easiest.

    `templates` is what a claim of each template wants.
    """
    members: dict[bytes, list[Pod]] = {}
    for pod in sorted(pods, key=attrgetter("full_name")):
        members.setdefault(_key(pod), []).append(pod)
    groups = [
        _Group(
            tuple(equal),
            requested_amounts(equal[0]),
            schedulers.choose(equal[0]),
            _is_static(equal[0]),
            _add_wanted(equal[0], templates),
        )
        for equal in members.values()
    ]
    return sorted(groups, key=_difficulty)


def _key(pod: Pod) -> bytes:
    """Return what decides where a pod fits. Only static pods are tied to their node."""
    spec = pod.spec if _is_static(pod) else pod.with_node("").spec
    # A claim that exists is another one for each pod; claims of templates are equal.
    claims = pod.status.resource_claim_statuses
    return _ENCODER.encode((pod.namespace, spec, claims))


def _add_wanted(pod: Pod, templates: Mapping[str, _Wanted]) -> _Wanted:
    """Return what the templates and the extended resources of a pod want together."""
    names = (claim.resource_claim_template_name for claim in pod.spec.resource_claims)
    of_templates = [templates.get(f"{pod.namespace}/{name}", _Wanted(0)) for name in names]
    requested = requested_amounts(pod)
    return _Wanted(
        sum(wanted.devices for wanted in of_templates)
        + sum(requested[name] for name in requested_names(pod)),
        sum(wanted.selectors for wanted in of_templates),
    )


def _is_static(pod: Pod) -> bool:
    return _MIRROR in pod.metadata.annotations


def _difficulty(group: _Group) -> tuple[object, ...]:
    """Sort groups: tied to a node, devices, selectors of devices or nodes, size; then by name."""
    first = group.pods[0]
    required = first.required_nodes
    terms = required.node_selector_terms if required is not None else ()
    # The affinity of the pods of a DaemonSet names their node.
    tied = group.is_static or (bool(terms) and all(each.match_fields for each in terms))
    selects = required is not None or bool(first.spec.node_selector)
    of_claims = not group.has_claims, -group.wanted.devices, -group.wanted.selectors
    return not tied, *of_claims, not selects, -_weight(group.requested), first.full_name


def _released(claim: Claim, pods: Collection[str]) -> Claim:
    """Return a claim as it is when these pods, and nobody else, used it and have ended."""
    users = consumers_of(claim)
    return freed(claim) if users and users.issubset(pods) else claim


def _without_class_claims(claims: Iterable[Claim], pods: Iterable[Pod]) -> Iterator[Claim]:
    """Yield the claims, without the devices that classes gave these pods for extended resources.

    A pod does not refer to this claim in its spec, so it is placed with a new one.
    """
    names = {f"{each.namespace}/{each.status.class_claim.resource_claim_name}" for each in pods}
    for claim in claims:
        yield freed(claim) if name_of(claim) in names else claim


# --- placement -----------------------------------------------------------------------------------


class _Cluster(NamedTuple):
    """What both placements start with."""

    nodes: ClusterNodes
    # The devices that each allocator uses, and the nodes as its scheduler sees them.
    sides: Mapping[Allocator, tuple[Planner, ClusterNodes]]
    templates: Collection[Template]
    groups: Sequence[_Group]


class _Placement:
    """One placement of all groups, with what is placed so far."""

    def __init__(
        self, cluster: _Cluster, claims: Iterable[Claim], progress: Callable[[int], None]
    ) -> None:
        self._cluster = cluster
        self._resources = NodeResources(cluster.nodes.nodes)
        self._ledger = Ledger()
        self._progress = progress
        self._nodes: dict[str, str] = {}
        self._refused: list[RefusedPod] = []
        held = hold_claims(self._ledger, claims, cluster.templates)
        self._placers = {
            allocator: Placer(planner, nodes, held, resources=self._resources)
            for allocator, (planner, nodes) in cluster.sides.items()
        }

    def in_place(self) -> Fit:
        """Place each pod on its node. What keeps new pods off the node does not count."""
        alone = {
            allocator: {each.name: replace(nodes, nodes=(each,)) for each in nodes.nodes}
            for allocator, (_, nodes) in self._cluster.sides.items()
        }
        for group in self._cluster.groups:
            refused: dict[str, tuple[Reason, ...]] = {}
            for pod in group.pods:
                name = pod.spec.node_name
                node = alone[group.allocator].get(name)
                if node is None:
                    text = "the node does not exist"
                    why = node_fit.make_reason(codes.NODE_UNFIT, "nodes", text, about=name)
                    refused[name] = (why,)
                elif name not in refused:
                    nodes, unfit = node_fit.selected_nodes(pod, node)
                    placed = self._placers[group.allocator].place_on(pod, nodes, unfit)
                    if placed.node is None:
                        refused[name] = placed.reasons
                self._note(pod, name, refused.get(name))
            self._report_progress()
        return self._result()

    def anew(self) -> Fit:
        """Place each group on the nodes that its pods may use, one node after the other."""
        for group in self._cluster.groups:
            _, cluster = self._cluster.sides[group.allocator]
            pod = group.pods[0] if group.is_static else group.pods[0].with_node("")
            nodes, unfit = node_fit.selected_nodes(pod, cluster)
            self._fill(group, self._tightest_first(group, nodes), unfit)
            self._report_progress()
        return self._result()

    def _fill(self, group: _Group, nodes: Iterable[Node], unfit: tuple[Reason, ...]) -> None:
        """Place equal pods on a node until it refuses one, then on the next node."""
        placer, requested = self._placers[group.allocator], group.requested
        waiting = list(reversed(group.pods))
        full: list[Node] = []
        refusals: list[Reason] = []
        for node in nodes:
            while waiting:
                if self._resources.lacking(node.name, requested):
                    full.append(node)
                    break
                placed = placer.place_on(waiting[-1].with_node(""), [node])
                if placed.node is None:
                    refusals += placed.reasons
                    break
                self._note(waiting.pop(), node.name, None)
            if not waiting:
                return
        _, insufficient = self._resources.fitting(requested, full)
        reasons = (*unfit, *insufficient, *merge_reasons(refusals))
        while waiting:
            self._note(waiting.pop(), "", reasons)

    def _tightest_first(self, group: _Group, nodes: Sequence[Node]) -> Sequence[Node]:
        """Sort nodes: few free devices first, or no devices at all; then those with little left."""
        planner, _ = self._cluster.sides[group.allocator]
        view = self._ledger.view()

        def key(node: Node) -> tuple[object, ...]:
            has_devices = bool(planner.pools_for(node.name))
            used = planner.part_in_use(node.name, view) if has_devices and group.has_claims else 0.0
            left = _weight(self._resources.left(node.name))
            # Nodes without a free device refuse nearly every pod.
            return has_devices is not group.has_claims, used == 1.0, -used, left, node.name

        return sorted(nodes, key=key)

    def _note(self, pod: Pod, node: str, refused: tuple[Reason, ...] | None) -> None:
        if refused is None:
            self._nodes[pod.full_name] = node
        else:
            self._refused.append(RefusedPod(pod.full_name, pod.spec.node_name, refused))

    def _report_progress(self) -> None:
        self._progress(len(self._nodes) + len(self._refused))

    def _result(self) -> Fit:
        refused = sorted(self._refused, key=lambda each: each.pod)
        return Fit(len(self._nodes) + len(refused), self._nodes, tuple(refused))


def _weight(amounts: Amounts) -> int:
    """Return CPU and memory as one number."""
    return amounts.get(CPU, 0) * _BYTES_OF_MILLI_CPU + amounts.get(MEMORY, 0)
