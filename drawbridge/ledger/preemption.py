"""Places pods that may preempt pods with a lower priority to get their devices.

Victims are pods that hold devices, and on nodes that lack CPU, memory or another resource all pods,
if the placer counts them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from drawbridge.dra.counted import count_noun
from drawbridge.ledger import codes
from drawbridge.ledger.disruption_budgets import DisruptionBudget, charge_budgets
from drawbridge.ledger.holdings import read_holds
from drawbridge.ledger.lost_work import LostClaim, newest_start, read_interval, with_lost_work
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.node_resources import Amounts, requested_amounts
from drawbridge.ledger.placing import Placer, PodPlacement
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.priorities import Priorities
from drawbridge.ledger.quota_room import STAGE
from drawbridge.ledger.removals import PodHolds, consumers_of, find_holds
from drawbridge.ledger.replicas import PodPlacer
from drawbridge.ledger.victims import NodeVictims, RunningPod, choose_victims, find_victims
from drawbridge.solver.reasons import Reason


class _Attempt(NamedTuple):
    """One pod that preempts, and what it may evict."""

    pod: Pod
    holds: PodHolds
    leaving: frozenset[str]
    requested: Amounts


class PreemptingPlacer:
    """Places pods one after the other, each with preemption if it does not fit."""

    def __init__(
        self,
        placer: Placer,
        running: dict[str, RunningPod],
        budgets: Sequence[DisruptionBudget],
        priorities: Priorities,
    ) -> None:
        """Create the placer; `running` are the pods by name, and change with each placement."""
        self._placer = placer
        self._running = running
        # Those beside this one share them, as the running pods.
        self._budgets = budgets if isinstance(budgets, list) else list(budgets)
        self._priorities = priorities

    def beside(self, placer: Placer) -> "PreemptingPlacer":
        """Return a placer for the pods of another scheduler, with the same running pods."""
        return PreemptingPlacer(placer, self._running, self._budgets, self._priorities)

    @property
    def without_preemption(self) -> Placer:
        """The placer that evicts nobody."""
        return self._placer

    def place_pod(self, pod: Pod) -> PodPlacement:
        """Place a pod, on a node where it evicts others if it fits on none without that."""
        placement = self._placer.place_pod(pod)
        counts = self._placer.resources is not None
        exceeds = any(each.stage == STAGE for each in placement.reasons)
        if placement.node is None and (placement.claims or counts) and not exceeds:
            placement = self._preempt(pod, placement)
        if placement.node is not None:
            self._add(pod, placement.node)
        return placement

    def _preempt(self, pod: Pod, refused: PodPlacement) -> PodPlacement:
        priority = self._priorities.find(pod)
        if priority is None:
            name = pod.spec.priority_class_name
            return _explain(refused, f"PriorityClass {name} does not exist")
        if not priority.may_preempt:
            return _explain(refused, "the preemptionPolicy of the pod is Never")
        attempt = _Attempt(pod, self._find_holds(), self._leaving(), requested_amounts(pod))
        held = "devices" if refused.claims else "resources"
        waits = self._fitting(attempt, ())
        if waits:
            text = f"the pod waits for {held} of terminating pods on a node"
            return _explain(refused, text, about=min(waits))
        lower = [
            running
            for running in self._with_lost_work(attempt.holds).values()
            if running.priority < priority.value and not running.terminating
        ]
        victims = self._choose(attempt, lower)
        if victims is None:
            text = f"the {held} of pods with a priority below {priority.value} are not enough"
            return _explain(refused, text)
        return self._evict(attempt, victims)

    def _choose(self, attempt: _Attempt, lower: Sequence[RunningPod]) -> NodeVictims | None:
        choices = []
        resources = self._placer.resources
        for node in self._fitting(attempt, lower):
            # A pod that holds no device is not a victim where there is room for it.
            lacks = resources is not None and resources.lacking(node, attempt.requested)
            there = [
                each
                for each in lower
                if each.node == node and (lacks or each.name in attempt.holds.claims)
            ]
            victims = find_victims(node, there, self._budgets, self._fits_on(attempt, node))
            if victims is not None:
                choices.append(victims)
        return choose_victims(choices)

    def _fits_on(self, attempt: _Attempt, node: str) -> Callable[[Collection[RunningPod]], bool]:
        return lambda removed: bool(self._fitting(attempt, removed, {node}))

    def _fitting(
        self,
        attempt: _Attempt,
        removed: Collection[RunningPod],
        nodes: Collection[str] | None = None,
    ) -> Collection[str]:
        """Return the nodes on which the pod fits after pods were removed."""
        gone = [*removed, *(self._running[each] for each in attempt.leaving)]
        released = attempt.holds.released_without({each.name for each in gone})
        held = [(each.node, each.held) for each in gone if each.held]
        if not released and not held:
            return ()
        return self._placer.fitting_nodes(attempt.pod, released, nodes, held)

    def _evict(self, attempt: _Attempt, victims: NodeVictims) -> PodPlacement:
        names = [each.name for each in victims.pods]
        self._placer.release(attempt.holds.released_without({*names, *attempt.leaving}))
        # The next pod finds them charged, as the disruption controller does.
        self._budgets[:] = charge_budgets(self._budgets, victims.pods)
        for name in (*names, *attempt.leaving):
            gone = self._running.pop(name)
            if self._placer.resources is not None:
                self._placer.resources.remove(gone.node, gone.held)
        placement = self._placer.place_pod(attempt.pod.with_node(victims.node))
        reasons = (_budget_reason(victims),) if victims.violations else ()
        return replace(placement, preempted=tuple(names), reasons=reasons)

    def _with_lost_work(self, holds: PodHolds) -> Mapping[str, RunningPod]:
        claims = []
        for name, pods in holds.pods.items():
            allocation = self._placer.claims[name].status.allocation
            devices = {hold.device_id for hold in read_holds(allocation)}
            claims.append(LostClaim(devices, pods))
        running = self._running.values()
        return with_lost_work(running, claims, newest_start(running))

    def _find_holds(self) -> PodHolds:
        """Return who has the claims that can be released: all of their consumers are known."""
        claims, running = self._placer.claims.items(), self._running.keys()
        return find_holds({name: each for name, each in claims if consumers_of(each) <= running})

    def _leaving(self) -> frozenset[str]:
        return frozenset(each.name for each in self._running.values() if each.terminating)

    def _add(self, pod: Pod, node: str) -> None:
        held = requested_amounts(pod) if self._placer.resources is not None else {}
        added = running_pod(pod, self._priorities.value_of(pod), held)
        self._running[added.name] = replace(added, node=node)


def running_pod(pod: Pod, priority: int, held: Amounts = MappingProxyType({})) -> RunningPod:
    """Return a pod as preemption sees it."""
    return RunningPod(
        namespace=pod.namespace,
        pod_name=pod.metadata.name,
        node=pod.spec.node_name,
        priority=priority,
        started=pod.status.start_time or "",
        terminating=pod.metadata.deletion_timestamp is not None,
        labels=pod.metadata.labels,
        held=held,
        group=pod.group.key if pod.group and pod.group.is_gang else "",
        interval=read_interval(pod.metadata.annotations),
    )


def _explain(refused: PodPlacement, text: str, about: str = "") -> PodPlacement:
    message = f"no preemption: {text}"
    reason = make_reason(codes.NOTHING_PREEMPTED, "preemption", message, about=about)
    return replace(refused, reasons=(*refused.reasons, reason))


def _budget_reason(victims: NodeVictims) -> Reason:
    pods = count_noun(victims.violations, "pod")
    text = f"the eviction of {pods} violates a PodDisruptionBudget"
    return make_reason(codes.BUDGET_VIOLATED, "preemption", text)


_: tuple[type[PodPlacer], type[PodPlacer]] = (Placer, PreemptingPlacer)
