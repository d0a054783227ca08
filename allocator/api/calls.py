"""Answers the calls of the API: checks rights first, then reads the state of the allocator.

Every replica answers from its caches. Only the one that leads has reservations, so every response
says whether its replica leads.
"""

import functools
import re
from collections.abc import Collection, Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from allocator.api.callers import CallerAccess
from allocator.api.messages import (
    DEFAULT_ITEMS,
    MAX_ITEMS,
    AllocationList,
    ApiFailure,
    ApiFailureError,
    DescribedNode,
    FailureCode,
    NamedPod,
    PodExplanation,
    PodState,
    QuotaList,
    SimulatedPod,
    SimulationReply,
    SimulationRequest,
    Transition,
)
from allocator.api.plan_messages import (
    AdjustReply,
    AdjustRequest,
    DefragReply,
    DefragRequest,
)
from allocator.api.planning import (
    PLAN_LIMITS,
    Adjusted,
    InvalidGrowth,
    adjust_claim,
    plan_for_pod,
    read_growth,
)
from allocator.api.pool_status import PoolQuery, PoolStatusList, list_pools
from allocator.api.reading import (
    PageRequest,
    describe_node,
    describe_quotas,
    list_allocations,
    list_quotas,
    namespaces_on,
    parse_position,
)
from allocator.api.requests import (
    check_name,
    decode_request,
    namespaces_of,
    read_simulation,
    without_names_of_nodes,
    without_nodes,
    without_victims,
)
from allocator.api.reviews import Action, Caller
from allocator.api.searches import ApiSearches
from allocator.api.searching import (
    PodSearch,
    PreemptionView,
    describe_missing,
    describe_reasons,
    explain_claims,
    find_pod_state,
    search_for_pod,
    simulate_pods,
)
from allocator.decisions.preemption import is_held_for
from allocator.scheduler.protocol import shorten_message
from allocator.state.cluster_state import AllocatorState
from allocator.state.live_state import LiveState
from allocator.term import TermKeeper
from drawbridge.ledger.pods import FINISHED, Pod
from drawbridge.ledger.stages import PodStages
from drawbridge.solver.reasons import Reason

# With more namespaces on a node, no claim is named: each costs a request to the API server.
MAX_REVIEWED: Final = 32
_GROUP: Final = "resource.k8s.io"
_CLAIMS: Final = "resourceclaims"
_LIMIT: Final = re.compile(r"[0-9]{1,4}")


class WatchedPreemption(PreemptionView, Protocol):
    """What preemption depends on, from watches."""

    def find_problem(self) -> str:
        """Return why it is not known, or an empty string."""
        ...


class ApiCalls:
    """The calls. All raise ApiFailureError."""

    def __init__(  # its parts
        self,
        state: LiveState,
        leadership: TermKeeper,
        access: CallerAccess,
        searches: ApiSearches,
        preemption: WatchedPreemption,
    ) -> None:
        self._state = state
        self._leadership = leadership
        self._access = access
        self._searches = searches
        self._preemption = preemption

    async def list_allocations(self, caller: Caller, query: Mapping[str, str]) -> AllocationList:
        """Return a page of the allocations of a namespace, or of all."""
        page = _parse_page(query)
        await self._access.require(caller, _list_claims(page.namespace))
        return list_allocations(self._current(), page, leading=self._leadership.leading)

    async def list_quotas(self, caller: Caller, query: Mapping[str, str]) -> QuotaList:
        """Return what is left of the quotas of a namespace, or of all."""
        page = _parse_page(query)
        await self._access.require(caller, _list_claims(page.namespace))
        return list_quotas(self._current(), page, leading=self._leadership.leading)

    async def list_pools(self, caller: Caller, query: Mapping[str, str]) -> PoolStatusList:
        """Return how many devices of pools are free."""
        await self._access.require(caller, Action("list", "resourceslices", _GROUP))
        asked = PoolQuery(
            query.get("driver", ""),
            query.get("poolName", ""),
            _parse_limit(query),
            parse_position(query.get("continue", "")),
        )
        return list_pools(self._current(), asked, leading=self._leadership.leading)

    async def get_node(self, caller: Caller, name: str) -> DescribedNode:
        """Return the devices of the allocator on a node."""
        check_name(name, "name", 253)
        await self._access.require(caller, Action("get", "nodes", name=name))
        if name not in self._current().planner.nodes:
            raise ApiFailureError(FailureCode.NOT_FOUND, f"node {name} does not exist", "name")
        readable = await self.readable_of(caller, namespaces_on(self._current(), name))
        state = self._current()
        if name not in state.planner.nodes:
            raise ApiFailureError(FailureCode.NOT_FOUND, f"node {name} was deleted", "name")
        decisions = self._state.decisions
        return describe_node(decisions, name, readable, leading=self._leadership.leading)

    async def explain(self, caller: Caller, body: bytes) -> PodExplanation:
        """Return where the devices of a pod are, or why it waits for them."""
        named = decode_request(body, NamedPod)
        namespace, name = named.namespace, named.name
        await self._access.require(caller, Action("get", "pods", namespace=namespace, name=name))
        sees_nodes = await self._access.is_allowed(caller, Action("list", "nodes"))
        state = self._current()
        pod = self._state.find_pod(namespace, name)
        if pod is None:
            text = f"pod {namespace}/{name} does not exist"
            raise ApiFailureError(FailureCode.NOT_FOUND, text, "name")
        claims = tuple(explain_claims(state, pod))
        explanation, how_far = describe_missing(namespace, claims), find_pod_state(pod, claims)
        if how_far is PodState.WAITING and not explanation.reasons:
            run = functools.partial(search_for_pod, state, pod, by_stage=named.stages)
            explanation = await self._searches.run(caller, run, PodSearch)
            explanation = self._add_hold(explanation, pod)
            how_far = PodState.FITS if explanation.fitting else how_far
        return PodExplanation(
            namespace=namespace,
            pod=name,
            state=how_far,
            scheduler=pod.spec.scheduler_name,
            leading=self._leadership.leading,
            node=pod.spec.node_name,
            claims=claims,
            message=explanation.message,
            fitting=explanation.fitting,
            reasons=explanation.reasons if sees_nodes else without_nodes(explanation.reasons),
            nodes=explanation.nodes if sees_nodes else (),
            stages=_visible(explanation.stages, sees_nodes=sees_nodes),
            quotas=tuple(describe_quotas(state, namespace)),
            transitions=tuple(
                Transition(round(seconds, 1), step.event, step.state)
                for seconds, step in state.records.last_steps(pod.metadata.uid)
            ),
        )

    def _add_hold(self, explanation: PodSearch, pod: Pod) -> PodSearch:
        """Say first of a pod that fits on no node why devices that look free are not.

        An administrator holds them for it, or containers of vanished pods may use them.
        """
        kept = self._state.decisions.preemptors.find(pod.metadata.uid)
        if explanation.fitting:
            return explanation
        if kept is not None and kept.planned is not None:
            return _begin_with(is_held_for(kept, kept.planned), explanation)
        vanished = self._state.decisions.state.vanished.find_reason()
        return explanation if vanished is None else _begin_with(vanished, explanation)

    async def simulate(self, caller: Caller, body: bytes) -> SimulationReply:
        """Return where pods would go if they were created now. Reserves nothing."""
        request = decode_request(body, SimulationRequest)
        for namespace in namespaces_of(request):
            await self._access.require(caller, Action("create", "pods", namespace=namespace))
        sees_nodes = await self._access.is_allowed(caller, Action("list", "nodes"))
        if request.preempt and (problem := self._preemption.find_problem()):
            raise ApiFailureError(FailureCode.NOT_READY, problem, "preempt", retry_after=1)
        run = functools.partial(_read_and_simulate, self._current(), request, self._preemption)
        done = await self._searches.run(caller, run, _Simulation)
        if done.failure is not None:
            failure = done.failure
            raise ApiFailureError(failure.code, failure.message, failure.path)
        victims = {name.partition("/")[0] for each in done.pods for name in each.preempted}
        readable = await self.readable_of(caller, victims)
        placed = tuple(without_victims(each, readable) for each in done.pods)
        if not sees_nodes:
            placed = tuple(
                replace(
                    each,
                    reasons=without_nodes(each.reasons),
                    stages=_visible(each.stages, sees_nodes=False),
                )
                for each in placed
            )
        return SimulationReply(pods=placed, leading=self._leadership.leading)

    async def defrag(self, caller: Caller, body: bytes) -> DefragReply:
        """Return which few pods would have to move so that a pod fits. Changes nothing."""
        request = decode_request(body, DefragRequest)
        for action in (Action("list", "pods"), _list_claims(""), Action("list", "nodes")):
            await self._access.require(caller, action)
        pod = self._find_waiting(request)
        if problem := self._preemption.find_problem():
            raise ApiFailureError(FailureCode.NOT_READY, problem, retry_after=1)
        decisions = self._state.decisions
        run = functools.partial(plan_for_pod, decisions, pod, self._preemption, request)
        reply = await self._searches.run(caller, run, DefragReply, PLAN_LIMITS)
        return replace(reply, leading=self._leadership.leading)

    def _find_waiting(self, request: DefragRequest) -> Pod:
        """Return the pod that a plan is for; raises ApiFailureError."""
        self._current()
        name = f"{request.namespace}/{request.name}"
        pod = self._state.find_pod(request.namespace, request.name)
        if pod is None:
            raise ApiFailureError(FailureCode.NOT_FOUND, f"pod {name} does not exist", "name")
        problem = ""
        if pod.spec.node_name or pod.status.phase in FINISHED:
            problem = "does not wait for a node"
        elif not pod.is_of_our_scheduler:
            problem = f"has scheduler {pod.spec.scheduler_name}, which asks another allocator"
        elif request.hold_seconds and pod.group is not None and pod.group.is_gang:
            problem = "is a member of a gang, and devices are held for one pod"
        if problem:
            raise ApiFailureError(FailureCode.BAD_REQUEST, f"pod {name} {problem}", "name")
        return pod

    async def adjust(self, caller: Caller, body: bytes) -> AdjustReply:
        """Return whether a claim could have more, and what would have to go. Changes nothing."""
        request = decode_request(body, AdjustRequest)
        action = Action("get", _CLAIMS, _GROUP, request.namespace, request.name)
        await self._access.require(caller, action)
        growth = read_growth(request)
        if isinstance(growth, InvalidGrowth):
            raise ApiFailureError(FailureCode.BAD_REQUEST, growth.message, growth.path)
        sees_nodes = await self._access.is_allowed(caller, Action("list", "nodes"))
        run = functools.partial(adjust_claim, self._current(), request, growth, self._preemption)
        answer = await self._searches.run(caller, run, Adjusted)
        if answer.reply is None:
            raise ApiFailureError(FailureCode.BAD_REQUEST, answer.problem, "name")
        reply = answer.reply
        readable = await self.readable_of(caller, {e.partition("/")[0] for e in reply.without})
        named = tuple(each for each in reply.without if each.partition("/")[0] in readable)
        reply = replace(
            reply,
            leading=self._leadership.leading,
            without=named,
            other_without=len(reply.without) - len(named),
        )
        if sees_nodes:
            return reply
        return replace(reply, node="", elsewhere_nodes=(), reasons=without_nodes(reply.reasons))

    async def readable_of(self, caller: Caller, namespaces: Collection[str]) -> Collection[str]:
        """Return the namespaces in which a caller may list claims."""
        if not namespaces or await self._access.is_allowed(caller, _list_claims("")):
            return namespaces
        reviewed = sorted(namespaces)[:MAX_REVIEWED]
        return [
            namespace
            for namespace in reviewed
            if await self._access.is_allowed(caller, _list_claims(namespace))
        ]

    def _current(self) -> AllocatorState:
        """Return the state; raises ApiFailureError before the caches are synced."""
        if not self._state.ready:
            reasons = self._state.find_problems() or ["the caches are not synced"]
            text = f"this replica is not ready: {reasons[0]}"
            raise ApiFailureError(FailureCode.NOT_READY, text, retry_after=1)
        return self._state.decisions.state


class _Simulation(msgspec.Struct):
    """What a copy of the process returns: the pods, or what is wrong with the request."""

    pods: tuple[SimulatedPod, ...] = ()
    failure: ApiFailure | None = None


def _read_and_simulate(
    state: AllocatorState, request: SimulationRequest, preemption: PreemptionView
) -> _Simulation:
    try:
        given = read_simulation(request)
    except ApiFailureError as error:
        return _Simulation(failure=error.failure)
    return _Simulation(simulate_pods(state, given, preemption))


def _begin_with(reason: Reason, explanation: PodSearch) -> PodSearch:
    message = shorten_message(f"{reason.message}; {explanation.message}")
    reasons = (*describe_reasons((reason,)), *explanation.reasons)
    return replace(explanation, message=message, reasons=reasons)


def _visible(stages: PodStages | None, *, sees_nodes: bool) -> PodStages | None:
    return stages if stages is None or sees_nodes else without_names_of_nodes(stages)


def _list_claims(namespace: str) -> Action:
    return Action("list", _CLAIMS, _GROUP, namespace)


def _parse_page(query: Mapping[str, str]) -> PageRequest:
    namespace = query.get("namespace", "")
    if namespace:
        check_name(namespace, "namespace", 63)
    limit = _parse_limit(query)
    return PageRequest(namespace, limit, parse_position(query.get("continue", "")))


def _parse_limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", f"{DEFAULT_ITEMS}")
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= MAX_ITEMS:
        message = f"{text[:16]!r} is not a number from 1 to {MAX_ITEMS}"
        raise ApiFailureError(FailureCode.BAD_REQUEST, message, "limit")
    return int(text)
