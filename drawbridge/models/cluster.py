"""Plays the commands of an administrator on the pods and nodes of a cluster, without faults.

Each command goes on until nothing changes any more, and says what it did to whom. A copy plays on
alone, so that a planner can try a command before it prints it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.models.admission import is_translated
from drawbridge.models.budgets import Budget
from drawbridge.models.nodes import ModelNode, find_request
from drawbridge.models.pods import ModelPod, PodKind, Served
from drawbridge.models.quotas import ModelQuota, sum_units
from drawbridge.models.rollouts import PodRollout, restart
from drawbridge.models.scheduler import ChosenNode, SchedulerChoice, choose_node
from drawbridge.models.spreading import PodNear, find_kept_apart
from drawbridge.models.undecided import doubt_drained, find_never_evicted
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
        self.nodes = {each.name: each.copy() for each in start.nodes}
        self.closed_at_start = frozenset(each.name for each in start.nodes if each.is_cordoned)
        self.enforced = set(start.enforced)
        self.pods: dict[int, ModelPod] = {}
        self.waiting: dict[int, None] = {}
        self.lost = Counter[int]()
        self.suspended = dict(start.suspended)
        self.changes: list[Change] = []
        self._on: dict[str, dict[int, None]] = {name: {} for name in self.nodes}
        self._running = Counter[int]()
        self._failures = Counter[str]()
        self._next = 0
        # Pods that fit on no node, until devices become free or a node opens: by kind, and by
        # whether they are translated.
        self._unfit: set[tuple[int, bool]] = set()
        self._of = [
            [n for n, each in enumerate(self.budgets) if each.selects(kind.namespace, kind.labels)]
            for kind in self.kinds
        ]
        self._labels = {name: each.labels for name, each in self.nodes.items()}
        self._wanted = self._count_wanted(start.pods)
        for pod in start.pods:
            self._add(pod, counted=False)

    def copy(self) -> "ModelCluster":
        """Return a cluster that plays on alone, with no changes yet."""
        other = object.__new__(ModelCluster)
        other.__dict__.update(self.__dict__)
        other.nodes = {name: each.copy() for name, each in self.nodes.items()}
        other.enforced, other.pods = set(self.enforced), dict(self.pods)
        other.waiting, other.lost = dict(self.waiting), Counter(self.lost)
        other.suspended, other.changes = dict(self.suspended), []
        other._on = {name: dict(each) for name, each in self._on.items()}
        other._running = Counter(self._running)
        other._failures = Counter(self._failures)
        other._unfit = set(self._unfit)
        return other

    def _count_wanted(self, pods: Iterable[ModelPod]) -> list[int]:
        """Return how many pods of each budget are wanted."""
        alive = Counter(each.kind for each in pods)
        wanted = [0] * len(self.budgets)
        owners = dict[tuple[int, str], list[int]]()
        for number, kind in enumerate(self.kinds):
            for budget in self._of[number]:
                owners.setdefault((budget, kind.full_owner), []).append(number)
        for (budget, _), kinds in owners.items():
            asked = max(self.kinds[each].wanted for each in kinds)
            wanted[budget] += max(asked, sum(alive[each] for each in kinds))
        return wanted

    # --- what is there ---------------------------------------------------------------------------

    def on_node(self, name: str) -> list[ModelPod]:
        """Return the pods of a node."""
        return [self.pods[each] for each in self._on.get(name, ())]

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

    def offered(self) -> set[str]:
        """Return the classes of which a node without a plugin of the same devices has some."""
        return {
            name
            for e in self.nodes.values()
            if not e.has_plugin
            for name in e.devices
            if e.is_ready
        }

    def is_bound_by_budget(self, kind: int) -> bool:
        """Whether no pod of a kind can ever be evicted, also while all of them run."""
        budgets = self._of[kind]
        return len(budgets) > 1 or any(
            not self.budgets[each].can_ever_allow(self._wanted[each]) for each in budgets
        )

    def survives(self, kind: PodKind, more: int, *, evicted: bool) -> bool:
        """Whether the Job of a kind goes on when so many more pods are evicted or deleted."""
        done = self._failures[kind.full_owner]
        return kind.job is None or kind.job.survives(done + more, evicted=evicted)

    def serves(self, name: str) -> bool:
        """Whether the plugin of a node where pods may start serves a name."""
        return any(name in each.free and not each.is_cordoned for each in self.nodes.values())

    # --- pods come and go ------------------------------------------------------------------------

    def _add(self, pod: ModelPod, *, counted: bool = True) -> int:
        key, self._next = self._next, self._next + 1
        self.pods[key] = pod
        if pod.node:
            self._start(key, pod)
        else:
            self.waiting[key] = None
        if counted and pod.node:
            self._note(STARTED, pod, to=pod.node)
        return key

    def _start(self, key: int, pod: ModelPod) -> None:
        self._on.setdefault(pod.node, {})[key] = None
        self._running[pod.kind] += 1
        if pod.node in self.nodes:
            self.nodes[pod.node].hold(self.kinds[pod.kind], pod)

    def _remove(self, key: int) -> ModelPod:
        pod = self.pods.pop(key)
        if not pod.node:
            del self.waiting[key]
            return pod
        del self._on[pod.node][key]
        self._running[pod.kind] -= 1
        if pod.node in self.nodes:
            self.nodes[pod.node].hold(self.kinds[pod.kind], pod, -1)
            if not self.nodes[pod.node].is_cordoned:
                self._unfit.clear()
        return pod

    def _note(self, what: str, pod: ModelPod, *, to: str = "", why: str = "") -> None:
        self.changes.append(Change(what, pod.kind, pod.node, to, pod.served, why))

    def _create(self, kind: int, node: str = "", *, has_other_source: bool = False) -> int:
        """Create a pod again. A DaemonSet creates it on its node, also on one that is cordoned."""
        translated = is_translated(self.kinds[kind], self.enforced, self.offered())
        pod = ModelPod(kind, is_translated=translated, has_other_source=has_other_source)
        key = self._add(pod)
        if node:
            self.pods[key] = self.pods[key]._replace(name=node)
            self._try_node(key, node)
        return key

    def create_beside(self, kind: int) -> int | None:
        """Create a pod beside those of its owner, and return it; None if a quota forbids it."""
        return self._create(kind) if self._allows_another(self.kinds[kind]) else None

    def _allows_another(self, kind: PodKind) -> bool:
        """Whether the quotas of a namespace leave room. One pod in place of another always has.

        Quotas by units count pods without claims, and with them where a class has the name.
        """
        quotas = [each for each in self.quotas if each.namespace == kind.namespace]
        if not quotas:
            return True
        pods = [e for e in self.pods.values() if self.kinds[e.kind].namespace == kind.namespace]
        used = sum_units(self.kinds[each.kind].units for each in pods)
        return all(each.allows(len(pods), used, kind.units) for each in quotas)

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
            kind = self.kinds[pod.kind]
            if kind.is_gated or (pod.kind, pod.is_translated) in self._unfit:
                continue
            place = choose_node(
                kind,
                self.nodes,
                self.choice,
                translated=pod.is_translated,
                is_kept_off=self._find_kept_apart(pod) if kind.rules else None,
            )
            if place is None:
                if not kind.rules:
                    self._unfit.add((pod.kind, pod.is_translated))
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
        for key, other in [*self.pods.items()]:
            if self.kinds[other.kind].full_owner == kind.full_owner:
                self._remove(key)
                self.lost[other.kind] += 1
                self._note(LOST, other, why="its Job fails")

    # --- commands --------------------------------------------------------------------------------

    def set_mode(self, namespace: str, *, enforced: bool) -> None:
        """Let new pods of a namespace be translated, or no longer."""
        (self.enforced.add if enforced else self.enforced.discard)(namespace)

    def cordon(self, nodes: Iterable[str], *, cordoned: bool) -> None:
        """Keep new pods off nodes, or let them come."""
        for name in nodes:
            self.nodes[name].is_cordoned = cordoned
        if not cordoned:
            self._unfit.clear()
            self.schedule()

    def drain(self, nodes: Iterable[str], *, obeys_budgets: bool = True) -> None:
        """Evict the pods of nodes until none is left, or the budgets refuse all that are left."""
        names = [*nodes]
        for key in find_never_evicted(self, names) if obeys_budgets else ():
            self._note(BLOCKED, self.pods[key], why=_NEVER)
        doubtful = doubt_drained(self, names)
        if self.choice.drained:
            self._place_otherwise(names)
        for name in names:
            self.nodes[name].is_cordoned = True
        left = {key: None for name in names for key in self._on[name] if self._is_evicted(key)}
        before = len(left) + 1
        while left and len(left) < before:
            before = len(left)
            for key in [*left]:
                if key not in self.pods:
                    del left[key]
                    continue
                why = self._refuses(self.pods[key])
                if why and not obeys_budgets:
                    self._note(OVERRULED, self.pods[key], why=why)
                if not why or not obeys_budgets:
                    del left[key]
                    doubt = key in doubtful
                    self.end_and_follow(key, evicted=obeys_budgets, has_other_source=doubt)
                    self.schedule()
        for key in left:
            self._note(BLOCKED, self.pods[key], why=self._refuses(self.pods[key]))

    def _place_otherwise(self, drained: Collection[str]) -> None:
        """Let pods of which a scheduler chose the node be on drained nodes, or on others."""
        onto = self.choice.drained > 0
        others = sorted(e.name for e in self.nodes.values() if e.is_ready and not e.is_cordoned)
        places = [*drained] if onto else [each for each in others if each not in drained]
        without = set[tuple[int, bool]]()
        for key, pod in self.pods.items():
            kind = self.kinds[pod.kind]
            alike = pod.kind, pod.is_translated
            if not pod.placed or pod.name or kind.rules or (pod.node in drained) is onto:
                continue
            if alike not in without and not any(self._try_other(key, name) for name in places):
                without.add(alike)

    def _try_other(self, key: int, name: str) -> bool:
        """Put a pod on another node if the same serves it there."""
        pod, node = self.pods[key], self.nodes[name]
        kind = self.kinds[pod.kind]
        if node.serve(kind, translated=pod.is_translated) is not pod.served:
            return False
        self.nodes[pod.node].hold(kind, pod, -1)
        del self._on[pod.node][key]
        self.pods[key] = pod._replace(node=name)
        self._on.setdefault(name, {})[key] = None
        node.hold(kind, pod)
        return True

    def _is_evicted(self, key: int) -> bool:
        pod = self.pods[key]
        return self.kinds[pod.kind].owner_kind != "DaemonSet" and not pod.is_static

    def _refuses(self, pod: ModelPod) -> str:
        """Return the budgets that refuse the eviction of a pod."""
        budgets = self._of[pod.kind]
        if len(budgets) > 1:
            names = " and ".join(self.budgets[each].name for each in budgets)
            return f"budgets {names} both select it, so that no eviction is allowed"
        for budget in budgets:
            running = sum(n for kind, n in self._running.items() if budget in self._of[kind])
            if not self.budgets[budget].allows(self._wanted[budget], running):
                return f"budget {self.budgets[budget].name}"
        return ""

    def unplug(self, nodes: Iterable[str]) -> None:
        """Let the plugin of nodes go."""
        for name in nodes:
            self.nodes[name].remove_plugin()

    def swap(self, nodes: Iterable[str]) -> None:
        """Let the plugin of nodes go, if it has not, and the driver come."""
        for name in nodes:
            node = self.nodes[name]
            for pod in self.on_node(name):
                units = self.kinds[pod.kind].units.keys()
                if pod.served is Served.PLUGIN and node.replaced.keys() & units:
                    self._note(HELD, pod)
            node.remove_plugin()
            if not node.is_moved:
                node.publish()
        self._unfit.clear()
        self.schedule()

    def swap_back(self, nodes: Iterable[str]) -> None:
        """Let the driver of nodes go and the plugin come."""
        for name in nodes:
            here = [each for each in self.on_node(name) if each.served is Served.PLUGIN]
            self.nodes[name].restore_plugin(sum_units(self.kinds[e.kind].units for e in here))
        self._unfit.clear()
        self.schedule()

    def delete(self, chosen: Callable[[ModelPod], bool]) -> None:
        """Delete the pods that are chosen; budgets do not hold."""
        for key, pod in [*self.pods.items()]:
            if key in self.pods and chosen(pod):
                self.end_and_follow(key)
        self.schedule()

    def restart(self, owners: Collection[str]) -> None:
        """Restart workloads as their controllers do; one whose new pods wait is stopped."""
        for owner in owners:
            rollouts = (e.rollout for e in self.kinds if e.full_owner == owner and e.rollout)
            rollout = next(rollouts, PodRollout())
            if not restart(self, owner, rollout):
                pod = next(e for e in self.pods.values() if self.kinds[e.kind].full_owner == owner)
                self._note(BLOCKED, pod, why="a new pod waits, so the rollout does not end")

    def suspend(self, owners: Collection[str]) -> None:
        """Suspend Jobs: their pods end, and none of them counts as a failure."""
        for key, pod in [*self.pods.items()]:
            if self.kinds[pod.kind].full_owner in owners:
                self._remove(key)
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
