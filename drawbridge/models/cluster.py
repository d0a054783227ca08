"""Plays the commands of an administrator on the pods and nodes of a cluster, without faults.

Each command goes on until nothing changes any more, and says what it did to whom. A copy plays on
alone, so that a planner can try a command before it prints it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.models.admission import is_translated
from drawbridge.models.budgeted_kinds import BudgetedKinds
from drawbridge.models.budgets import Budget
from drawbridge.models.nodes import ModelNode, find_request
from drawbridge.models.pods import Health, ModelPod, PodKind, Served
from drawbridge.models.quotas import ModelQuota, allows_another, sum_units
from drawbridge.models.rollouts import PodRollout, restart
from drawbridge.models.room import NewRoom
from drawbridge.models.scheduler import ChosenNode, SchedulerChoice, choose_node
from drawbridge.models.shared import SharedKeys
from drawbridge.models.spreading import PodNear, find_kept_apart
from drawbridge.models.undecided import (
    AlikeKinds,
    can_lose_devices,
    doubt_drained,
    find_never_evicted,
    place_otherwise,
)
from drawbridge.models.workloads import Again, find_successor


class Change(NamedTuple):
    """Something that became of pods of a kind: `what` is one of the names below."""

    what: str
    kind: int
    node: str = ""
    to: str = ""
    served: Served = Served.NOBODY
    why: str = ""


STARTED, LOST, BLOCKED, ENDED, HELD = "started", "lost", "blocked", "ended", "held"
_NEVER = "a scheduler can put it there, and its budget never allows an eviction"
_STOPS = "a new pod can wait, so that the rollout does not end"
OVERRULED = "overruled"  # a budget that a deletion does not ask


class ClusterStart(NamedTuple):
    """A cluster as it is. `suspended` are the pods that Jobs create when they go on, by kind."""

    kinds: Sequence[PodKind]
    pods: Sequence[ModelPod]
    nodes: Sequence[ModelNode]
    budgets: Sequence[Budget] = ()
    quotas: Sequence[ModelQuota] = ()
    enforced: frozenset[str] = frozenset()
    suspended: Mapping[int, int] = {}


class ModelCluster:
    """Pods and nodes, and what the commands of an administrator do to them."""

    def __init__(self, start: ClusterStart, choice: SchedulerChoice = SchedulerChoice()) -> None:  # noqa: B008
        self.choice = choice
        self.kinds = start.kinds
        self.budgets = start.budgets
        self.quotas = start.quotas
        self.nodes = {each.name: each for each in start.nodes}
        self.closed_at_start = frozenset(each.name for each in start.nodes if each.is_cordoned)
        self.enforced = set(start.enforced)
        self.pods: dict[int, ModelPod] = {}
        self.waiting: dict[int, None] = {}
        self.lost = Counter[int]()
        self.suspended = dict(start.suspended)
        self.changes: list[Change] = []
        self._on, self._alike = SharedKeys[str](), SharedKeys[int]()
        self._ready = Counter[int]()
        self._failures = Counter[str]()
        self._next = 0
        self._since = 0  # the next key when a command began: it creates pods in any order
        self._room = NewRoom()
        self._offered: frozenset[str] | None = None
        self._owned: dict[str, set[int]] = {}
        for number, kind in enumerate(self.kinds):
            self._owned.setdefault(kind.full_owner, set()).add(number)
        self.alike = AlikeKinds(self.kinds)
        self._labels = {name: each.labels for name, each in self.nodes.items()}
        self.budgeted = BudgetedKinds(start.kinds, start.budgets, start.pods)
        for pod in start.pods:
            self._add(pod, counted=False)

    def copy(self, choice: SchedulerChoice | None = None) -> "ModelCluster":
        """Return a cluster that plays on alone, with no changes yet, perhaps by another choice."""
        other = object.__new__(ModelCluster)
        other.__dict__.update(self.__dict__)
        other.choice = choice or self.choice
        # Both copy a node before they change it.
        other.nodes, other._on = dict(self.nodes), self._on.copy()
        other._alike = self._alike.copy()
        other.enforced, other.pods = set(self.enforced), dict(self.pods)
        other.waiting, other.lost = dict(self.waiting), Counter(self.lost)
        other.suspended, other.changes = dict(self.suspended), []
        other._ready = self._ready.copy()
        other._failures = self._failures.copy()
        other._room = self._room.copy()
        return other

    def _own(self, name: str) -> dict[int, None]:
        """Return the pods of a node, to change them or the node: no copy has them any more."""
        if not self._on.is_mine(name) and name in self.nodes:
            self.nodes[name] = self.nodes[name].copy()
        return self._on.change(name)

    def _change(self, name: str) -> ModelNode:
        self._own(name)
        self._offered = None
        return self.nodes[name]

    # --- what is there ---------------------------------------------------------------------------

    def on_node(self, name: str) -> list[ModelPod]:
        """Return the pods of a node."""
        return [self.pods[each] for each in self._on.get(name)]

    def tied_to(self, name: str) -> list[ModelPod]:
        """Return the pods that wait for this node alone."""
        return [pod for key in self.waiting if (pod := self.pods[key]).name == name]

    def count(self, served: Served) -> int:
        """Return the pods with devices of plugins or of drivers."""
        return sum(each.served is served for each in self.pods.values() if each.node)

    def count_waiting(self) -> int:
        """Return the pods that wait for devices."""
        return sum(self.kinds[self.pods[each].kind].needs_devices for each in self.waiting)

    def waiting_kinds(self) -> Counter[tuple[int, bool]]:
        """Return the waiting pods by kind, and by whether they are translated."""
        return Counter((self.pods[e].kind, self.pods[e].is_translated) for e in self.waiting)

    def of_kinds(self, kinds: Iterable[int]) -> list[int]:
        """Return the pods of kinds in their order."""
        return sorted(key for kind in kinds for key in self._alike.get(kind))

    def kinds_of(self, owner: str) -> Collection[int]:
        """Return the kinds of the pods of an owner with its namespace."""
        return self._owned.get(owner, ())

    def offered(self) -> frozenset[str]:
        """Return the classes of which a node without a plugin of the same devices has some."""
        if self._offered is None:
            self._offered = frozenset(
                name
                for e in self.nodes.values()
                if not e.has_plugin
                for name in e.devices
                if e.is_ready
            )
        return self._offered

    def survives(self, kind: PodKind, more: int, *, evicted: bool) -> bool:
        """Whether the Job of a kind goes on when so many more pods are evicted or deleted."""
        done = self._failures[kind.full_owner]
        return kind.job is None or kind.job.survives(done + more, evicted=evicted)

    # --- pods come and go ------------------------------------------------------------------------

    def _add(self, pod: ModelPod, *, counted: bool = True) -> int:
        key, self._next = self._next, self._next + 1
        self.pods[key] = pod
        self._alike.change(pod.kind)[key] = None
        if pod.node:
            self._start(key, pod)
        else:
            self.waiting[key] = None
        if counted and pod.node:
            self._note(STARTED, pod, to=pod.node)
        return key

    def _start(self, key: int, pod: ModelPod) -> None:
        self._own(pod.node)[key] = None
        self._ready[pod.kind] += pod.health is Health.READY
        if pod.node in self.nodes:
            self.nodes[pod.node].hold(self.kinds[pod.kind], pod)

    def _remove(self, key: int) -> ModelPod:
        pod = self.pods.pop(key)
        del self._alike.change(pod.kind)[key]
        if not pod.node:
            del self.waiting[key]
            return pod
        del self._own(pod.node)[key]
        self._ready[pod.kind] -= pod.health is Health.READY
        if pod.node in self.nodes:
            self.nodes[pod.node].hold(self.kinds[pod.kind], pod, -1)
            if not self.nodes[pod.node].is_cordoned:
                self._room.add(pod.node)
        return pod

    def _note(self, what: str, pod: ModelPod, *, to: str = "", why: str = "") -> None:
        self.changes.append(Change(what, pod.kind, pod.node, to, pod.served, why))

    def _create(self, kind: int, node: str = "", *, has_other_source: bool = False) -> int:
        """Create a pod again. A DaemonSet creates it on its node, also on one that is cordoned."""
        translated = is_translated(self.kinds[kind], self.enforced, self.offered())
        pod = ModelPod(
            kind, is_translated=translated, has_other_source=has_other_source, since=self._since
        )
        key = self._add(pod)
        if node:
            self.pods[key] = self.pods[key]._replace(name=node)
            self._try_node(key, node)
        return key

    def create_beside(self, kind: int) -> int | None:
        """Create a pod beside those of its owner, and return it; None if a quota forbids it."""
        return self._create(kind) if allows_another(self, self.kinds[kind]) else None

    def end_replaced(self, key: int) -> None:
        """End a pod that another one replaces already."""
        self._note(ENDED, self._remove(key))

    def _try_node(self, key: int, node: str) -> bool:
        pod, at = self.pods[key], self.nodes.get(node)
        if at is None:
            return False
        served = at.serve(self.kinds[pod.kind], translated=pod.is_translated)
        if served is None:
            return False
        self._place(key, ChosenNode(node, served))
        return True

    def _place(self, key: int, choice: ChosenNode) -> None:
        # Nobody else could have come to a node that is cordoned.
        placed = 0 if self.nodes[choice.node].is_cordoned else self._next
        pod = self.pods[key]._replace(node=choice.node, served=choice.served, placed=placed)
        self.pods[key] = pod
        del self.waiting[key]
        self._start(key, pod)
        self._note(STARTED, pod, to=choice.node)

    def schedule(self) -> bool:
        """Give nodes to waiting pods; alike pods wait behind the first that finds none."""
        placed = False
        keys = [*self.waiting]
        for key in reversed(keys) if self.choice.newest_first else keys:
            pod = self.pods[key]
            if pod.name:
                placed |= self._try_node(key, pod.name)
                continue
            kind, alike = self.kinds[pod.kind], (pod.kind, pod.is_translated)
            only = None if kind.rules else self._room.find(alike)
            if kind.is_gated or (only is not None and not only):
                continue
            place = choose_node(
                kind,
                self.nodes if only is None else {name: self.nodes[name] for name in only},
                self.choice,
                translated=pod.is_translated,
                is_kept_off=self._find_kept_apart(pod) if kind.rules else None,
            )
            if place is None:
                self._room.note_none(alike)
                continue
            self._place(key, place)
            placed = True
        return placed

    def _find_kept_apart(self, pod: ModelPod) -> Callable[[str], bool]:
        kind = self.kinds[pod.kind]
        allowed = find_request(kind, translated=pod.is_translated)
        running = (
            PodNear(self.kinds[e.kind].namespace, self.kinds[e.kind].labels, e.node)
            for e in self.pods.values()
            if e.node
        )
        nodes = allowed.nodes | allowed.moved_nodes
        return find_kept_apart(kind.rules, kind.namespace, running, self._labels, nodes)

    def end_and_follow(
        self,
        key: int,
        *,
        evicted: bool = False,
        counts: bool = True,
        has_other_source: bool = False,
    ) -> None:
        """End a pod, and let its owner create another one."""
        pod = self._remove(key)
        kind = self.kinds[pod.kind]
        self._note(ENDED, pod)
        successor = find_successor(kind)
        if successor is Again.NEVER:
            self.lost[pod.kind] += 1
            why = "its namespace is being deleted" if kind.is_ending else "nobody creates it again"
            self._note(LOST, pod, why=why)
            if kind.is_bare:
                self._end_all(kind.full_owner, "the pods that it created end with it")
            return
        if kind.job is not None and counts:
            if not kind.job.ignores_evictions or not evicted:
                self._failures[kind.full_owner] += 1
            if not kind.job.survives(self._failures[kind.full_owner], evicted=evicted):
                self._fail_job(pod)
                return
        same = successor is Again.SAME_NODE
        node = (kind.named_node or pod.node or pod.name) if same else ""
        self._create(pod.kind, node, has_other_source=has_other_source)

    def _fail_job(self, pod: ModelPod) -> None:
        """End all pods of a Job that has failed; of an indexed one, only this index."""
        kind = self.kinds[pod.kind]
        self.lost[pod.kind] += 1
        self._note(LOST, pod, why="its Job fails")
        if kind.job is not None and kind.job.by_index:
            self._failures[kind.full_owner] = 0
            return
        self._end_all(kind.full_owner, "its Job fails")

    def _end_all(self, owner: str, why: str) -> None:
        """End all pods of an owner that is gone."""
        for key in self.of_kinds(self.kinds_of(owner)):
            other = self._remove(key)
            self.lost[other.kind] += 1
            self._note(LOST, other, why=why)

    # --- commands --------------------------------------------------------------------------------

    def set_mode(self, namespace: str, *, enforced: bool) -> None:
        """Let new pods of a namespace be translated, or no longer."""
        (self.enforced.add if enforced else self.enforced.discard)(namespace)

    def _open(self, nodes: Iterable[str]) -> None:
        for name in nodes:
            self._room.add(name)
        self.schedule()

    def cordon(self, nodes: Iterable[str], *, cordoned: bool) -> None:
        """Keep new pods off nodes, or let them come."""
        names = [*nodes]
        for name in names:
            self._change(name).is_cordoned = cordoned
        if not cordoned:
            self._open(names)

    def drain(self, nodes: Iterable[str], *, obeys_budgets: bool = True) -> None:
        """Evict the pods of nodes until none is left, or the budgets refuse all that are left."""
        names = [*nodes]
        self._since = self._next
        for key in find_never_evicted(self, names) if obeys_budgets else ():
            self._note(BLOCKED, self.pods[key], why=_NEVER)
        doubtful = doubt_drained(self, names, self._since)
        if self.choice.drained:
            place_otherwise(self, names)
        for name in names:
            self._change(name).is_cordoned = True
        left = {key: None for name in names for key in self._on.get(name) if self._is_evicted(key)}
        before = len(left) + 1
        while left and len(left) < before:
            before = len(left)
            for key in [*left]:
                if key not in self.pods:
                    del left[key]
                    continue
                why = self.budgeted.find_refusing(self.pods[key], self._ready)
                if why and not obeys_budgets:
                    self._note(OVERRULED, self.pods[key], why=why)
                if not why or not obeys_budgets:
                    del left[key]
                    doubt = key in doubtful
                    self.end_and_follow(key, evicted=obeys_budgets, has_other_source=doubt)
                    self.schedule()
        for key in left:
            pod = self.pods[key]
            self._note(BLOCKED, pod, why=self.budgeted.find_refusing(pod, self._ready))

    def try_other(self, key: int, name: str) -> bool:
        """Put a pod on another node if the same serves it there."""
        pod, node = self.pods[key], self.nodes[name]
        kind = self.kinds[pod.kind]
        if node.serve(kind, translated=pod.is_translated) is not pod.served:
            return False
        del self._own(pod.node)[key]
        self.nodes[pod.node].hold(kind, pod, -1)
        self.pods[key] = pod._replace(node=name)
        self._own(name)[key] = None
        self.nodes[name].hold(kind, pod)
        self._room.add(pod.node)
        return True

    def _is_evicted(self, key: int) -> bool:
        pod = self.pods[key]
        return self.kinds[pod.kind].owner_kind != "DaemonSet" and not pod.is_static

    def unplug(self, nodes: Iterable[str]) -> None:
        """Let the plugin of nodes go."""
        for name in nodes:
            self._change(name).remove_plugin()

    def swap(self, nodes: Iterable[str]) -> None:
        """Let the plugin of nodes go, if it has not, and the driver come."""
        names = [*nodes]
        for name in names:
            node = self._change(name)
            for pod in self.on_node(name):
                units = self.kinds[pod.kind].units.keys()
                if pod.served is Served.PLUGIN and node.replaced.keys() & units:
                    self._note(HELD, pod)
            node.remove_plugin()
            if not node.is_moved:
                node.publish()
        self._open(names)

    def swap_back(self, nodes: Iterable[str]) -> None:
        """Let the driver of nodes go and the plugin come."""
        names = [*nodes]
        for name in names:
            here = [each for each in self.on_node(name) if each.served is Served.PLUGIN]
            self._change(name).restore_plugin(sum_units(self.kinds[e.kind].units for e in here))
        self._open(names)

    def delete(self, chosen: Callable[[ModelPod], bool]) -> None:
        """Delete the pods that are chosen; budgets do not hold."""
        for key, pod in [*self.pods.items()]:
            if key in self.pods and chosen(pod):
                self.end_and_follow(key)
        self.schedule()

    def restart(self, owners: Collection[str]) -> None:
        """Restart workloads as their controllers do; one whose new pods can wait is stopped."""
        for owner in owners:
            kinds = self.kinds_of(owner)
            rollouts = (rollout for e in sorted(kinds) if (rollout := self.kinds[e].rollout))
            rollout = next(rollouts, PodRollout())
            can_stop = can_lose_devices(self, owner, rollout.missing)
            if not restart(self, owner, rollout) or can_stop:
                self._note(BLOCKED, self.pods[self.of_kinds(kinds)[0]], why=_STOPS)

    def suspend(self, owners: Collection[str]) -> None:
        """Suspend Jobs: their pods end, and none of them counts as a failure."""
        kinds = {kind for owner in owners for kind in self.kinds_of(owner)}
        for key in self.of_kinds(kinds):
            pod = self._remove(key)
            self._note(ENDED, pod)
            self.suspended[pod.kind] = self.suspended.get(pod.kind, 0) + 1
        self.schedule()

    def resume(self, owners: Collection[str]) -> None:
        """Let suspended Jobs create their pods again."""
        for kind, number in [*self.suspended.items()]:
            if self.kinds[kind].full_owner in owners:
                del self.suspended[kind]
                for _ in range(number):
                    self._create(kind)
        self.schedule()

    def take_changes(self) -> tuple[Change, ...]:
        """Return what happened since the last call."""
        changes, self.changes = tuple(self.changes), []
        return changes

    def describe_waiting(self) -> Iterator[tuple[PodKind, int, bool]]:
        """Yield the kinds that wait, how many pods of each, and whether they are translated."""
        for (kind, translated), number in sorted(self.waiting_kinds().items()):
            yield self.kinds[kind], number, translated
