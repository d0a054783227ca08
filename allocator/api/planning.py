"""Plans moves for a pod that waits, and says whether a claim could have more.

Both run in a copy of the process, change it as they like, and end early when time is over.
"""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from allocator.api.plan_messages import (
    AdjustReply,
    AdjustRequest,
    DefragReply,
    DefragRequest,
    PlannedMove,
)
from allocator.api.reading import describe_devices
from allocator.api.searching import (
    PreemptionView,
    describe_claims,
    describe_reasons,
    live_nodes,
)
from allocator.decisions.pod_devices import PodDecisions
from allocator.state.cluster_state import AllocatorState
from allocator.state.records import key_of
from drawbridge.dra.claim import Claim
from drawbridge.dra.quantity import QuantityError, parse
from drawbridge.ledger.adjustment import (
    AllocatedCluster,
    Growth,
    NotAdjustableError,
    adjust,
)
from drawbridge.ledger.defragmentation import (
    ClusterCopy,
    FragmentedCluster,
    MovablePods,
    MovePlan,
    NoPlan,
    plan_moves,
)
from drawbridge.ledger.ledger import Ledger, name_of
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_resources import NodeResources, held_amounts
from drawbridge.ledger.placing import Placer, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.preemption import running_pod
from drawbridge.ledger.priorities import Priorities
from drawbridge.ledger.removals import Tries, find_holds
from drawbridge.ledger.victims import RunningPod
from drawbridge.process.forked import ForkLimits
from drawbridge.report.moves import hold_for, list_commands

# Of processor time, from the first try on.
SEARCH_SECONDS: Final = 2.0
# Before it, a plan reads all claims and nodes: seconds in the largest clusters, as do its copies.
PLAN_LIMITS: Final = ForkLimits(seconds=30.0, cpu_seconds=15)
MAX_TOLD: Final = 20


class InvalidGrowth(msgspec.Struct, frozen=True):
    """What is wrong with a request, and which field of it."""

    message: str
    path: str


class Adjusted(msgspec.Struct, frozen=True):
    """What a copy of the process returns: the answer, or what is wrong with the claim."""

    reply: AdjustReply | None = None
    problem: str = ""


def ending_in(seconds: float = SEARCH_SECONDS) -> Tries:
    """Return tries that end when this process has computed for so long since the first one."""

    @functools.cache
    def deadline() -> float:
        return time.process_time() + seconds

    return Tries(out_of_time=lambda: deadline() <= time.process_time())


# --- the cluster ----------------------------------------------------------------------------------


class _Cluster:
    """The cluster as the allocator knows it: its pools, its nodes and the pods that run there."""

    def __init__(self, state: AllocatorState, view: PreemptionView, asking: str = "") -> None:
        """`asking` is the UID of a pod that gets what is kept for it."""
        self.state = state
        self._asking = asking
        nodes = map(state.planner.nodes.get, state.nodes_with_pools)
        listed = (each for each in nodes if each is not None)
        self.nodes = live_nodes(state.planner, listed)
        claims = (state.with_reservation(each) for each in state.claims.values())
        self.claims = {name_of(each): each for each in claims}
        self.pods = {each.full_name: each for each in view.running()}
        self.priorities = Priorities(view.classes())

    def running(self) -> list[RunningPod]:
        """Return the pods with claims that the scheduler of the allocator has placed."""
        ours = (each for each in self.pods.values() if each.is_of_our_scheduler)
        priority_of = self.priorities.value_of
        return [running_pod(each, priority_of(each), held_amounts(each)) for each in ours]

    def copy(self) -> ClusterCopy:
        """Return a copy that a plan can change."""
        ledger = self.state.ledger.without_claims()
        ledger.keep(key_of(self._asking), ())
        return _Copy(self, ledger, self._left())

    def _left(self) -> NodeResources:
        """Return what nodes have left of CPU and memory."""
        left = NodeResources(self.nodes.nodes)
        for node in self.nodes.nodes:
            total, free = left.left(node.name), self.state.amounts.left(node.name)
            left.add(node.name, {name: total[name] - free[name] for name in free if name in total})
        return left


class _Copy:
    """A copy of the claims and their devices."""

    def __init__(self, cluster: _Cluster, ledger: Ledger, left: NodeResources) -> None:
        self._planner, self._nodes = cluster.state.planner, cluster.nodes
        held = hold_claims(ledger, cluster.claims.values(), ())
        self._placer = Placer(self._planner, self._nodes, held, resources=left)

    def world(self, _pod: Pod) -> tuple[Planner, ClusterNodes]:
        """Return what the scheduler sees."""
        return self._planner, self._nodes

    def placer(self, _pod: Pod) -> Placer:
        """Return the placer of the scheduler."""
        return self._placer


_: tuple[type[FragmentedCluster], type[ClusterCopy]] = (_Cluster, _Copy)


# --- moves for a pod ------------------------------------------------------------------------------


def plan_for_pod(
    decisions: PodDecisions,
    pod: Pod,
    view: PreemptionView,
    request: DefragRequest,
    make_tries: Callable[[], Tries] = ending_in,
) -> DefragReply:
    """Plan the fewest moves after which a pod fits."""
    tries = make_tries()
    cluster = _Cluster(decisions.state, view, pod.metadata.uid)
    movable = MovablePods(
        cluster.running(), cluster.pods, tuple(view.budgets()), cluster.priorities.value_of(pod)
    )
    plan = plan_moves(pod, cluster, movable, tries)
    named = DefragReply(namespace=pod.namespace, pod=pod.metadata.name, leading=False)
    if isinstance(plan, NoPlan):
        return msgspec.structs.replace(named, reasons=plan.reasons)
    hold = None
    if request.hold_seconds:
        until = datetime.fromtimestamp(decisions.server_time() + request.hold_seconds, UTC)
        hold = hold_for(plan, pod.metadata.uid, until.replace(microsecond=0))
    return msgspec.structs.replace(
        named,
        node=plan.node,
        claims=describe_claims(plan.claims),
        moves=tuple(_describe_moves(plan)),
        proven=plan.proven,
        commands=tuple(list_commands(plan, hold)),
    )


def _describe_moves(plan: MovePlan) -> Iterable[PlannedMove]:
    for move in plan.moves:
        yield PlannedMove(
            namespace=move.namespace,
            pod=move.pod,
            owner=move.owner,
            to_node=move.to_node,
            claims=describe_claims(move.claims),
        )


# --- more for a claim -----------------------------------------------------------------------------


def read_growth(request: AdjustRequest) -> Growth | InvalidGrowth:
    """Return what a claim should have."""
    if bool(request.count) == bool(request.capacity or request.amount):
        return InvalidGrowth(
            "the request needs a count, or else a capacity with its amount", "count"
        )
    if request.amount and not request.capacity:
        return InvalidGrowth("the amount needs the name of its capacity", "capacity")
    if request.count:
        return Growth(request.request, count=request.count)
    try:
        amount = parse(request.amount)
    except QuantityError as error:
        return InvalidGrowth(f"{error}", "amount")
    if amount.sign() < 0:
        return InvalidGrowth(f"the amount {amount} is negative", "amount")
    return Growth(request.request, capacity=request.capacity, amount=amount)


def adjust_claim(
    state: AllocatorState,
    request: AdjustRequest,
    growth: Growth,
    view: PreemptionView,
    make_tries: Callable[[], Tries] = ending_in,
) -> Adjusted:
    """Answer whether an allocated claim could have more."""
    tries = make_tries()
    cluster = _Cluster(state, view)
    name = f"{request.namespace}/{request.name}"
    claims: Mapping[str, Claim] = cluster.claims
    allocated = AllocatedCluster(
        state.planner,
        state.ledger,
        cluster.nodes.nodes,
        claims,
        find_holds(claims),
        cluster.running(),
    )
    try:
        answer = adjust(name, growth, allocated, tries)
    except NotAdjustableError as error:
        return Adjusted(problem=f"{error}")
    reply = AdjustReply(
        namespace=request.namespace,
        claim=request.name,
        leading=False,
        fits=answer.fits,
        node=answer.node,
        keeps_devices=answer.keeps,
        devices=describe_devices(answer.allocation),
        most=answer.most,
        helps=answer.without is not None,
        without=answer.without or (),
        elsewhere=len(answer.elsewhere),
        elsewhere_nodes=answer.elsewhere[:MAX_TOLD],
        cut=answer.cut,
        reasons=describe_reasons(answer.reasons),
    )
    return Adjusted(reply)
