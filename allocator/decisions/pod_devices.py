"""Decides which devices a pod gets: the answers to the calls of the scheduler, in memory.

A decision is made on the current state and reserved before anybody else can ask. The caller passes
the time. All memories are bounded.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from msgspec.structs import replace

from allocator.decisions.node_searches import UNLIMITED, NodeSearches, request_key
from allocator.decisions.pod_requests import PodRequest, check_claim, check_claims, read_claims
from allocator.decisions.preemption import DevicePreemption
from allocator.decisions.scores import NodeStrategy, score_nodes
from allocator.decisions.shortlist import FittingNode, NodeSearch, Shortlist, never
from allocator.scheduler.protocol import (
    PreemptReply,
    PreemptRequest,
    PreFilterReply,
    PreFilterRequest,
    ReserveReply,
    shorten_message,
)
from allocator.scheduler.replies import fit_on, node_reason, refuse_nodes, refuse_pod, summarize
from allocator.state.cluster_state import AllocatorState
from allocator.state.reserved_pods import DEFAULT_LIMITS, HoldLimits, ReservedPods
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.claim import Claim
from drawbridge.ledger.ledger import ReservationRefusal, uid_of
from drawbridge.solver.expressions import PostponedEvaluation

MAX_REQUESTS: Final = 65536
_RESTARTED: Final = "the allocator has restarted since the pod was filtered"


class Promise(NamedTuple):
    """Whether a waiting pod got devices on a node, and if not, whether it can.

    The search is `unfinished` while it has not examined all nodes. If it is `postponed`, it can
    continue when this evaluation is done. It is `impossible` for a pod whose claims it cannot use.
    """

    node: str = ""
    unfinished: bool = False
    impossible: bool = False
    postponed: PostponedEvaluation | None = None


class PodDecisions:
    """The decisions for the pods of one scheduler. `ids` returns a new share ID at each call."""

    def __init__(
        self,
        state: AllocatorState,
        ids: Callable[[], str],
        *,
        strategy: NodeStrategy = NodeStrategy.NONE,
        nodes_per_call: int = UNLIMITED,
        limits: HoldLimits = DEFAULT_LIMITS,
    ) -> None:
        self.state = state
        self._ids = ids
        self._strategy = strategy
        self._searches = NodeSearches(state, ids, nodes_per_call)
        self.reservations = ReservedPods(state, limits)
        self._preemption = DevicePreemption(state, self.reservations, ids)
        self._requests: BoundedCache[str, PodRequest] = BoundedCache(MAX_REQUESTS)
        self._postponed: PostponedEvaluation | None = None

    # --- the calls of the scheduler ---

    def prefilter(
        self, request: PreFilterRequest, now: float, out_of_time: Callable[[], bool] = never
    ) -> PreFilterReply:
        """Return nodes on which the claims of a pod can be allocated; raises ProtocolError.

        A search that is `out_of_time`, or that needs an evaluation that takes long, continues with
        the next call for an equal request.
        """
        received = read_claims(request)
        for claim, _ in received:
            self.state.observe_claim(claim)
        reason = check_claims(request.pod, received, self.state)
        if reason is not None:
            self.forget(request.pod.uid)
            return refuse_pod((reason,))
        uids = tuple(dict.fromkeys(uid_of(claim) for claim, _ in received))
        pod_request = PodRequest(request.pod, uids)
        self._remember(pod_request)
        return self._decide(pod_request, request.max_nodes, now, out_of_time)

    def _decide(
        self, request: PodRequest, limit: int, now: float, out_of_time: Callable[[], bool]
    ) -> PreFilterReply:
        uid = request.pod.uid
        reservation = self.reservations.find(uid)
        if reservation is not None and self.reservations.is_writing(uid):
            # The write decides; every other node would need other devices.
            return fit_on(reservation.node)
        self.reservations.release(uid)
        first = reservation.node if reservation else ""
        search = replace(self._search(request, limit), first=first, out_of_time=out_of_time)
        self._preemption.preemptors.settle(now)
        if (kept := self._preemption.find_kept(uid, search)) is not None:
            return fit_on(kept.name, preemptible=True)
        shortlist = self._searches.run(search, now)
        if shortlist.fitting:
            self._preemption.waits_no_more(uid)
            if reservation is not None:
                self._keep(request, reservation.node, search, shortlist, now)
            return self._fitting_reply(shortlist, search)
        if (taken := self._preemption.take_over(search)) is not None:
            self._reserve_found(request, taken, search, now, promised=True)
            return fit_on(taken.name, preemptible=True)
        return self._wait(refuse_nodes(shortlist), shortlist, search, now)

    def reserve(self, pod_uid: str, node: str, now: float) -> ReserveReply:
        """Reserve devices for a pod on a node until the pod is bound or a time has passed."""
        request = self._requests.get(pod_uid)
        if request is None:
            return ReserveReply(reserved=False, message=_RESTARTED)
        self._preemption.preemptors.settle(now)
        # No other call is handled before the devices that were kept for the pod are reserved.
        self._preemption.forget(pod_uid)
        problem = self._reserve(request, node, now)
        return ReserveReply(reserved=not problem, message=shorten_message(problem))

    def unreserve(self, pod_uid: str) -> None:
        """Give the reservation of a pod back, unless it is being written."""
        self.reservations.release(pod_uid)

    def preempt(
        self, request: PreemptRequest, now: float, out_of_time: Callable[[], bool] = never
    ) -> PreemptReply:
        """Return the victims for a pod that fits nowhere, and keep their devices."""
        pod_request = self._requests.get(request.pod_uid)
        if pod_request is None:
            return PreemptReply(message=_RESTARTED)
        for uid in pod_request.claims:
            if problem := self._check(uid, request.pod_uid):
                return PreemptReply(message=problem)
        self._preemption.preemptors.settle(now)
        search = self._search(pod_request, 1)
        # An evaluation that is postponed would look like a node that does not fit.
        search = replace(search, out_of_time=out_of_time, postpone=None)
        return self._preemption.choose(request, search, now, out_of_time)

    def is_victim(self, pod_uid: str) -> bool:
        """Whether a pod must go for another one."""
        return self._preemption.preemptors.is_victim(pod_uid)

    # --- waking ---

    def promise(
        self,
        pod_uid: str,
        now: float,
        without: Collection[str] = (),
        out_of_time: Callable[[], bool] = never,
    ) -> Promise:
        """Reserve devices for a waiting pod for a short time.

        The pod asks again, and its promise becomes a reservation then.
        """
        request = self._requests.get(pod_uid)
        if request is None or any(self._check(uid, pod_uid) for uid in request.claims):
            return Promise(impossible=True)
        if self.reservations.find(pod_uid) is not None:
            return Promise()
        search = replace(self._search(request, 1), without=without, out_of_time=out_of_time)
        self._take_postponed()
        self._preemption.preemptors.settle(now)
        kept = self._preemption.preemptors.find(pod_uid)
        if kept is not None and not kept.pending:
            own = self._preemption.find_kept(pod_uid, replace(search, without=()))
            if own is not None:
                return Promise(node=own.name)  # its devices are kept already
        shortlist = self._searches.run(search, now)
        for fit in shortlist.fitting:
            if not self._reserve(request, fit.name, now, promised=True):
                return Promise(node=fit.name)
        if (postponed := self._take_postponed()) is not None:
            return Promise(unfinished=True, postponed=postponed)
        return Promise(unfinished=not (shortlist.has_ended or shortlist.fitting or without))

    def forget(self, pod_uid: str) -> None:
        """Forget a pod that is bound or deleted."""
        self.reservations.release(pod_uid)
        self._preemption.forget(pod_uid)
        self._requests.pop(pod_uid)

    # --- the write path ---

    def claims_of(self, pod_uid: str) -> tuple[Claim, ...]:
        """Return the claims of a pod, as last seen."""
        request = self._requests.get(pod_uid)
        if request is None:
            return self.state.claims_of(pod_uid)
        claims = self.state.claims
        return tuple(claims[uid] for uid in request.claims if uid in claims)

    def begin_term(self) -> None:
        """Forget all reservations."""
        self.reservations.clear()
        self._preemption.preemptors.clear()

    def expire(self, now: float) -> tuple[str, ...]:
        """Remove reservations whose time is over; return the UIDs of their pods."""
        self._preemption.expire(now)
        return self.reservations.expire(now)

    def take_pods_to_retry(self) -> tuple[str, ...]:
        """Return the pods that lost kept devices since the last call, and can preempt again."""
        return self._preemption.preemptors.take_to_retry()

    # --- one decision ---

    def request_key(self, pod_uid: str) -> bytes | None:
        """Return a key that is equal for pods that ask the same."""
        request = self._requests.get(pod_uid)
        if request is None or any(uid not in self.state.claims for uid in request.claims):
            return None
        key = request_key(self._search(request, 0))
        # What is kept for a pod fits no other one.
        kept = self._preemption.preemptors.find(pod_uid)
        return key if kept is None else key + kept.key.encode()

    def is_refused(self, key: bytes) -> bool:
        """Whether no node fits for the pods with this key, in the current state."""
        return self._searches.is_refused(key)

    def namespace_of(self, pod_uid: str) -> str:
        """Return the namespace of a pod; empty if it is not known."""
        request = self._requests.get(pod_uid)
        return request.pod.namespace if request else ""

    def _remember(self, request: PodRequest) -> None:
        self._requests.put(request.pod.uid, request)

    def _search(self, request: PodRequest, limit: int) -> NodeSearch:
        return NodeSearch(
            pod=request.pod,
            claims=tuple(map(self._current_claim, request.claims)),
            limit=limit,
            postpone=self._postpone,
        )

    def _postpone(self, evaluation: PostponedEvaluation) -> None:
        self._postponed = evaluation

    def _take_postponed(self) -> PostponedEvaluation | None:
        """Return what the last search postponed."""
        postponed, self._postponed = self._postponed, None
        return postponed

    def _current_claim(self, uid: str) -> Claim:
        """Return a claim with its allocation, written or reserved by a pod that shares it."""
        claim = self.state.claims[uid]
        reserved = self.reservations.allocation_of(uid)
        if claim.status.allocation is not None or reserved is None:
            return claim
        return replace(claim, status=replace(claim.status, allocation=reserved))

    def _reserve(
        self, request: PodRequest, node: str, now: float, *, promised: bool = False
    ) -> str:
        """Reserve devices; return why that is not possible, or ""."""
        uid = request.pod.uid
        reservation = self.reservations.find(uid)
        if reservation is not None and reservation.node == node:
            self.reservations.confirm(uid, now)
            return ""
        if self.reservations.is_writing(uid) and reservation is not None:
            return f"the pod is being bound to node {reservation.node}"
        self.reservations.release(uid)
        for claim_uid in request.claims:
            if problem := self._check(claim_uid, uid):
                return problem
        search = replace(self._search(request, 1), only=frozenset({node}))
        shortlist = self._searches.run(search, now)
        if not shortlist.fitting:
            return f"the devices on node {node} are not free any more: {summarize(shortlist)}"
        fit = shortlist.fitting[0]
        refusal = self._reserve_found(request, fit, search, now, promised=promised)
        return f"cannot reserve devices on node {node}: {refusal}" if refusal else ""

    def _reserve_found(
        self,
        request: PodRequest,
        fitting: FittingNode,
        search: NodeSearch,
        now: float,
        *,
        promised: bool,
    ) -> ReservationRefusal | None:
        """Reserve what a search has found on a node."""
        allocations = fitting.solution.allocations if fitting.solution else ()
        needed = [uid_of(each) for each in search.unallocated]
        solved = dict(zip(needed, allocations, strict=True))
        return self.reservations.reserve(request, fitting.name, solved, now, promised=promised)

    def _keep(
        self, request: PodRequest, node: str, search: NodeSearch, shortlist: Shortlist, now: float
    ) -> None:
        """Keep the devices of a pod on its node until it is reserved, so that none else is woken.

        Otherwise they are free between two calls of the scheduler.
        """
        for fit in shortlist.fitting:
            if fit.name == node:
                self._reserve_found(request, fit, search, now, promised=True)

    def _check(self, claim_uid: str, pod_uid: str) -> str:
        claim = self.state.claims.get(claim_uid)
        if claim is None:
            return "a claim of the pod was deleted"
        reason = check_claim(pod_uid, claim, self.state)
        return reason.message if reason else ""

    # --- replies ---

    def _fitting_reply(self, shortlist: Shortlist, search: NodeSearch) -> PreFilterReply:
        limit = search.limit
        scored = score_nodes(shortlist.fitting, search.unallocated, self._strategy, self.state)
        kept = scored[:limit] if limit else scored
        complete = shortlist.complete and len(kept) == len(scored)
        return PreFilterReply(fit=tuple(kept), complete=complete, preemptible=True)

    def _wait(
        self, reply: PreFilterReply, shortlist: Shortlist, search: NodeSearch, now: float
    ) -> PreFilterReply:
        """Tell a pod that it waits for devices that are being released, and keep them for it."""
        reason = self._preemption.wait(search.pod.uid, search, now)
        if reason is None:
            return replace(reply, preemptible=shortlist.complete)
        message = shorten_message(f"{reason.message}; {reply.message}")
        return replace(reply, message=message, reasons=(node_reason(reason), *reply.reasons))
