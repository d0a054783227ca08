"""Plans which pods to move so that a pod fits: as few as possible, and only those that it needs.

A plan is for one node. It evicts some of the pods there, and each of them must find devices
elsewhere before the plan counts. Only pods are moved that an owner recreates, that have no higher
priority than the pod, and that no PodDisruptionBudget protects. Nothing is changed.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from drawbridge.dra.allocation import Allocation
from drawbridge.dra.counted import count_noun
from drawbridge.ledger.disruption_budgets import DisruptionBudget, can_evict_all, has_several
from drawbridge.ledger.node_fit import ClusterNodes, selected_nodes
from drawbridge.ledger.placing import PlacedPod, Placer, PodPlacement
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.removals import (
    NodeRemovals,
    OutOfTriesError,
    PodHolds,
    Tries,
    by_node,
    fewest_or_few,
    find_holds,
    find_needed,
    sets_of_size,
)
from drawbridge.ledger.victims import RunningPod, importance

# Owners that create a pod again, maybe elsewhere. A DaemonSet does so on the same node.
RECREATING: Final = ("Job", "ReplicaSet", "ReplicationController", "StatefulSet")
# Owners whose pods stay on their nodes.
STAYING: Final = ("DaemonSet", "Node")
# How often one plan looks for other nodes for the pods that it moves.
MAX_PLACEMENTS: Final = 200
Placements = list[tuple[Pod, PodPlacement]]


class Move(msgspec.Struct, frozen=True):
    """A pod that leaves a node, and where it fits then: there can be other nodes for it."""

    namespace: str
    pod: str
    owner: str
    from_node: str
    to_node: str
    labels: Mapping[str, str]
    claims: tuple[tuple[str, Allocation | None], ...]
    uid: str = ""


class MovePlan(msgspec.Struct, frozen=True):
    """The node for a pod, its devices there, and the pods that move before.

    `proven` is whether every other set of pods is at least as large.
    """

    pod: str
    node: str
    claims: tuple[tuple[str, Allocation | None], ...]
    moves: tuple[Move, ...]
    proven: bool


class NoPlan(msgspec.Struct, frozen=True):
    """Why no plan was made."""

    pod: str
    reasons: tuple[str, ...]


class ClusterCopy(Protocol):
    """A cluster in memory, with a placer for the scheduler of each pod."""

    def world(self, pod: Pod) -> tuple[Planner, ClusterNodes]:
        """Return what the scheduler of a pod sees."""

    def placer(self, pod: Pod) -> Placer:
        """Return the placer for a pod; all of them share the claims, the ledger and resources."""


class FragmentedCluster(Protocol):
    """What a plan is made for."""

    def copy(self) -> ClusterCopy:
        """Return a new copy, which a plan can change."""


class MovablePods(msgspec.Struct, frozen=True):
    """The pods that run, by `namespace/name`, as preemption sees them and whole; and the budgets.

    `priority` is that of the pod that asks.
    """

    running: Sequence[RunningPod]
    pods: Mapping[str, Pod]
    budgets: Sequence[DisruptionBudget]
    priority: int


def plan_moves(
    pod: Pod, cluster: FragmentedCluster, movable: MovablePods, tries: Tries | None = None
) -> MovePlan | NoPlan:
    """Plan the fewest moves after which a pod fits."""
    name = pod.full_name
    copy = cluster.copy()
    placed = copy.placer(pod).place_pod(pod)
    if placed.node is not None:
        return MovePlan(name, placed.node, placed.claims, (), proven=True)
    planning = _Planning(pod, cluster, copy, movable, tries or Tries())
    best = planning.find_best()
    if best is None:
        return NoPlan(name, tuple(planning.explain()))
    return best


class _Planning:
    """The search for one plan."""

    def __init__(
        self,
        pod: Pod,
        cluster: FragmentedCluster,
        copy: ClusterCopy,
        movable: MovablePods,
        tries: Tries,
    ) -> None:
        """`copy` is one of the cluster that nothing has changed."""
        self._pod = pod
        self._cluster = cluster
        self._movable = movable
        self._tries = tries
        self._copy = copy
        self._placer = copy.placer(pod)
        self._holds: PodHolds = find_holds(self._placer.claims)
        self._fixed = Counter[str]()
        self._not_enough = self._nowhere = 0
        self._cut = False
        self._claims = self._placer.claims
        self._best: MovePlan | None = None
        self._best_cost: tuple[object, ...] = ()

    def find_best(self) -> MovePlan | None:
        """Return the plan with the fewest moves, then with the least important pods."""
        _, cluster = self._copy.world(self._pod)
        nodes, _ = selected_nodes(self._pod, cluster)
        names = {each.name for each in nodes}
        candidates = {
            node: sorted(self._candidates(pods), key=importance)
            for node, pods in by_node(self._movable.running).items()
            if node in names
        }
        # A node with few pods needs few moves, and then the others need not be searched so far.
        for node in sorted(candidates, key=lambda each: (len(candidates[each]), each)):
            if self._cut and self._tries.is_over:
                break
            if candidates[node]:
                self._search_node(node, candidates[node])
        if self._best is not None and self._cut:
            return replace(self._best, proven=False)
        return self._best

    def _candidates(self, pods: Sequence[RunningPod]) -> Iterator[RunningPod]:
        """Yield the pods of a node that can move, and count the others by what keeps them."""
        counts = self._placer.resources is not None
        for running in pods:
            if not counts and running.name not in self._holds.claims:
                continue
            reason = self._find_obstacle(running)
            if reason:
                self._fixed[reason] += 1
            else:
                yield running

    def _find_obstacle(self, running: RunningPod) -> str:
        pod = self._movable.pods[running.name]
        if running.terminating:
            return "ends already"
        if running.priority > self._movable.priority:
            return "has a higher priority"
        if pod.owner_kind not in RECREATING:
            return "has no owner that is known to recreate it elsewhere"
        if pod.group is not None and pod.group.is_gang:
            return "is a member of a gang"
        if has_several(running, self._movable.budgets):
            return "has several PodDisruptionBudgets, with which the API server evicts no pod"
        can_go = can_evict_all((running,), self._movable.budgets)
        return "" if can_go else "is protected by a PodDisruptionBudget"

    def _search_node(self, node: str, candidates: Sequence[RunningPod]) -> None:
        """Search a node for a plan that is better than the best one."""
        planner, cluster = self._copy.world(self._pod)
        removals = NodeRemovals(
            self._pod, node, self._placer, planner, cluster, self._holds, self._tries
        )
        most = len(self._best.moves) if self._best else len(candidates)
        try:
            needed = find_needed(candidates, removals.fits_without, most)
        except OutOfTriesError:
            self._cut = True
            return
        if needed is None:
            self._not_enough += 1
            return
        least_first = candidates[::-1]
        try:
            for size in range(len(needed), most + 1):
                sets = sets_of_size(size, least_first, needed, removals.fits_without)
                accepted = [self._accept(node, removed) for removed in sets]
                if any(accepted):
                    return
        except OutOfTriesError:
            self._cut = True
            if self._best is None:
                self._accept_few(node, candidates, removals)

    def _accept_few(
        self, node: str, candidates: Sequence[RunningPod], removals: NodeRemovals
    ) -> None:
        """Take a set in which every pod is needed: this takes a few tries for each pod."""
        self._tries.allow(len(candidates) ** 2)
        try:
            few = fewest_or_few(candidates, removals.fits_without)
        except OutOfTriesError:
            return  # no time is left
        self._accept(node, few)

    def _accept(self, node: str, removed: Sequence[RunningPod]) -> bool:
        """Keep a plan if the pods may go and find other places, and it is the best so far.

        False if it is no plan.
        """
        if self._best is not None and self._cost(node, removed) >= self._best_cost:
            return True
        if not can_evict_all(removed, self._movable.budgets):
            self._fixed["would violate a PodDisruptionBudget together with others"] += 1
            return False
        plan = self._try_plan(node, removed)
        if plan is None:
            self._nowhere += 1
            return False
        stays = sum(each.from_node == each.to_node for each in plan.moves)
        cost = self._cost(node, removed, stays)
        if self._best is None or cost < self._best_cost:
            self._best, self._best_cost = plan, cost
        return True

    def _cost(self, node: str, removed: Sequence[RunningPod], stays: int = 0) -> tuple[object, ...]:
        """Order plans: few pods, none that stays on the node, unimportant ones, few devices."""
        priorities = [each.priority for each in removed]
        claims = (name for each in removed for name in self._holds.claims.get(each.name, ()))
        devices = sum(map(self._count_devices, claims))
        highest = max(priorities, default=0)
        return (len(removed), stays, highest, sum(priorities), devices, node)

    def _count_devices(self, claim: str) -> int:
        allocation = self._claims[claim].status.allocation
        return len(allocation.devices.results) if allocation else 0

    def _try_plan(self, node: str, removed: Sequence[RunningPod]) -> MovePlan | None:
        """Play a plan on a copy of the cluster."""
        copy = self._cluster.copy()
        placer = copy.placer(self._pod)
        placer.release(self._holds.released_without([each.name for each in removed]))
        if placer.resources is not None:
            for each in removed:
                placer.resources.remove(each.node, each.held)
        _, cluster = copy.world(self._pod)
        there = [each for each in cluster.nodes if each.name == node]
        placed = placer.place_on(self._pod, there)
        if placed.node is None:
            return None
        again = [self._movable.pods[each.name].with_node("") for each in removed]
        replacing = _Replacing(copy, node)
        moved = replacing.place(again)
        if moved is None:
            self._cut = self._cut or replacing.gave_up
            return None
        moves = tuple(_move(pod, node, placement) for pod, placement in moved)
        return MovePlan(placed.pod or "", node, placed.claims, moves, proven=True)

    def explain(self) -> Iterator[str]:
        """Yield why there is no plan."""
        if self._not_enough:
            nodes = count_noun(self._not_enough, "node")
            yield f"{nodes}: the pods that can move are not enough"
        for reason, number in self._fixed.most_common():
            yield f"{count_noun(number, 'pod')} on the nodes {_plural(reason, number)}"
        if self._nowhere:
            sets = count_noun(self._nowhere, "set")
            yield f"{sets} of pods would be enough, but the pods fit on no other node"
        if self._cut:
            yield "the search ended before all sets of pods were tried"
        if not (self._not_enough or self._fixed or self._nowhere or self._cut):
            yield "no pod that holds devices or resources runs on a node that the pod can use"


def _plural(text: str, number: int) -> str:
    if number == 1:
        return text
    verbs = (("has ", "have "), ("is ", "are "), ("ends ", "end "))
    for singular, plural in verbs:
        if text.startswith(singular):
            return plural + text.removeprefix(singular)
    return text


def _move(pod: Pod, node: str, placement: PodPlacement) -> Move:
    return Move(
        namespace=pod.namespace,
        pod=pod.metadata.name,
        owner=pod.owner_kind,
        from_node=node,
        to_node=placement.node or "",
        labels=pod.metadata.labels,
        claims=placement.claims,
        uid=pod.metadata.uid,
    )


class _Replacing:
    """Places the moved pods again: as their schedulers do, else anywhere that all of them fit."""

    def __init__(self, copy: ClusterCopy, left: str) -> None:
        self._copy = copy
        self._left = left
        self._tries = MAX_PLACEMENTS

    def place(self, pods: Collection[Pod]) -> Placements | None:
        """Return the placements of all pods, the one with most devices first; None if one fails."""
        ordered = sorted(pods, key=self._size, reverse=True)
        return self._place(ordered, as_schedulers=True) or self._place(ordered)

    @property
    def gave_up(self) -> bool:
        """Whether the search ended before everything was tried."""
        return self._tries <= 0

    def _size(self, pod: Pod) -> tuple[int, int, str]:
        placer = self._copy.placer(pod)
        asked, _ = placer.find_shared_question(pod)
        count = sum(
            each.exactly.count if each.exactly else 1
            for claim in asked
            for each in claim.spec.devices.requests
        )
        return count, len(pod.spec.resource_claims), pod.metadata.name

    def _place(self, pods: Sequence[Pod], *, as_schedulers: bool = False) -> Placements | None:
        if not pods:
            return []
        pod, *others = pods
        placer = self._copy.placer(pod)
        _, cluster = self._copy.world(pod)
        nodes, _ = selected_nodes(pod, cluster)
        fitting = frozenset(placer.fitting_nodes(pod, ()))
        nodes = [each for each in nodes if each.name in fitting]
        elsewhere = [each for each in nodes if each.name != self._left]
        here = [each for each in nodes if each.name == self._left]
        choices = [elsewhere] if as_schedulers else [[each] for each in (*elsewhere, *here)]
        for choice in choices:
            if self._tries <= 0:
                return None
            before = placer.claims
            placed = placer.place_on(pod, choice)
            if placed.node is None:
                continue
            self._tries -= 1
            rest = self._place(others, as_schedulers=as_schedulers)
            if rest is not None:
                return [(pod, placed), *rest]
            placer.withdraw([PlacedPod(pod, placed.node)], before)
        return None
