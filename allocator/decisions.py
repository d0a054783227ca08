"""Decides which devices a pod gets: the answers to the calls of the scheduler, in memory.

A decision is made on the current state and reserved before anybody else can ask. The caller passes
the time. All memories are bounded.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.pod_requests import PodRequest, check_claim, check_claims, read_claims
from allocator.protocol import (
    NodeReason,
    NodeScore,
    PreFilterReply,
    PreFilterRequest,
    ReserveReply,
    shorten_message,
)
from allocator.releases import Releases
from allocator.reservations import PodReservation
from allocator.reserved_pods import ReservedPods
from allocator.scores import MAX_SCORE, NodeStrategy, score_nodes
from allocator.shortlist import NodeSearch, Shortlist, find_nodes
from allocator.state import AllocatorState, Epoch
from dra.claim import Claim
from ledger.ledger import uid_of
from ledger.node_fit import make_reason
from registration import allocator_codes as codes
from solver.answer_cache import demand_key
from solver.reasons import Reason, merge_reasons, summarize_reasons

RESERVATION_SECONDS: Final = 30.0
# How long a pod that is woken can count on the devices that were found for it.
PROMISE_SECONDS: Final = 2.0
# A call has a time limit of 300 ms; `WaitingPods` continues a search that reaches this limit.
MAX_NODES_PER_CALL: Final = 1000
MAX_REQUESTS: Final = 65536
MAX_REFUSALS: Final = 4096
MAX_REASONS: Final = 32


class _Refusal(msgspec.Struct, frozen=True):
    """A complete search without a result, for all pods that ask the same."""

    epoch: Epoch
    reply: PreFilterReply


class PodDecisions:
    """The decisions for the pods of one scheduler. `ids` returns a new share ID at each call."""

    def __init__(
        self,
        state: AllocatorState,
        ids: Callable[[], str],
        *,
        strategy: NodeStrategy = NodeStrategy.NONE,
        nodes_per_call: int = MAX_NODES_PER_CALL,
    ) -> None:
        self.state = state
        self._ids = ids
        self._strategy = strategy
        self._nodes_per_call = nodes_per_call
        self._reserved = ReservedPods(state)
        self._releases = Releases(state)
        self._requests: OrderedDict[str, PodRequest] = OrderedDict()
        self._refusals: OrderedDict[bytes, _Refusal] = OrderedDict()
        self._start = 0

    # --- the calls of the scheduler ---

    def prefilter(self, request: PreFilterRequest, now: float) -> PreFilterReply:
        """Return nodes on which the claims of a pod can be allocated; raises ProtocolError."""
        received = read_claims(request)
        for each, _ in received:
            self.state.observe_claim(each)
        reason = check_claims(request.pod, received, self.state)
        if reason is not None:
            self.forget(request.pod.uid)
            return _refuse((reason,))
        uids = tuple(dict.fromkeys(uid_of(claim) for claim, _ in received))
        pod_request = PodRequest(request.pod, uids)
        self._remember(pod_request)
        return self.decide(pod_request, request.max_nodes, now)

    def decide(self, request: PodRequest, limit: int, now: float) -> PreFilterReply:
        """Answer a request that was checked."""
        uid = request.pod.uid
        reservation = self._reserved.find(uid)
        if reservation is not None and self._reserved.is_writing(uid):
            # The write decides; every other node would need other devices.
            return _fit_on(reservation.node)
        self._reserved.release(uid)
        search = self._search(request, limit, first=reservation.node if reservation else "")
        key = _request_key(search)
        refusal = self._refusals.get(key)
        if refusal is not None and refusal.epoch.is_current(self.state):
            self._refusals.move_to_end(key)
            return self._with_releases(refusal.reply, request, search)
        found = self._find(search, now)
        if found.fitting:
            self._releases.forget(uid)
            return self._fitting_reply(found, limit)
        reply = _refusal_reply(found)
        if found.error is None and found.complete:
            self._remember_refusal(key, reply)
        return self._with_releases(reply, request, search)

    def reserve(self, pod_uid: str, node: str, now: float) -> ReserveReply:
        """Reserve devices for a pod on a node until the pod is bound or a time has passed."""
        request = self._requests.get(pod_uid)
        if request is None:
            message = "the allocator has restarted since the pod was filtered"
            return ReserveReply(reserved=False, message=message)
        problem = self._reserve(request, node, now, RESERVATION_SECONDS)
        return ReserveReply(reserved=not problem, message=shorten_message(problem))

    def unreserve(self, pod_uid: str) -> None:
        """Give the reservation of a pod back, unless it is being written."""
        self._reserved.release(pod_uid)

    # --- waking ---

    def promise(self, pod_uid: str, now: float, without: Collection[str] = ()) -> str | None:
        """Reserve devices for a waiting pod for a short time; return their node.

        The pod asks again, and its promise becomes a reservation then.
        """
        request = self._requests.get(pod_uid)
        if request is None or self._reserved.find(pod_uid) is not None:
            return None
        if any(self._check(uid, pod_uid) for uid in request.claims):
            return None
        search = replace(self._search(request, 1), without=without)
        found = self._find(search, now)
        if not found.fitting and not without and found.complete and found.error is None:
            self._remember_refusal(_request_key(search), _refusal_reply(found))
        for each in found.fitting:
            if not self._reserve(request, each.name, now, PROMISE_SECONDS):
                return each.name
        return None

    def forget(self, pod_uid: str) -> None:
        """Forget a pod that is bound or deleted."""
        self._reserved.release(pod_uid)
        self._releases.forget(pod_uid)
        self._requests.pop(pod_uid, None)

    # --- the write path ---

    def reservation_of(self, pod_uid: str) -> PodReservation | None:
        """Return the reservation of a pod."""
        return self._reserved.find(pod_uid)

    def claims_of(self, pod_uid: str) -> tuple[Claim, ...]:
        """Return the claims of a pod, as last seen."""
        request = self._requests.get(pod_uid)
        if request is None:
            return self.state.claims_of(pod_uid)
        claims = self.state.claims
        return tuple(claims[uid] for uid in request.claims if uid in claims)

    def begin_write(self, pod_uid: str) -> str:
        """Keep a reservation from expiring; return why it cannot be written, or ""."""
        return self._reserved.begin_write(pod_uid)

    def end_write(self, pod_uid: str, *, written: bool) -> None:
        """End a write; without `written`, remove what is reserved and not allocated."""
        self._reserved.end_write(pod_uid, written=written)

    def observe_claim(self, claim: Claim) -> None:
        """Take over a claim from a response."""
        self.state.observe_claim(claim)

    def is_reserved(self, claim_uid: str) -> bool:
        """Whether devices are reserved for a claim."""
        return claim_uid in self.state.ledger.reservations

    def begin_term(self) -> None:
        """Forget all reservations."""
        self._reserved.clear()

    def expire(self, now: float) -> tuple[str, ...]:
        """Remove reservations whose time is over; return the UIDs of their pods."""
        return self._reserved.expire(now)

    # --- one decision ---

    def request_key(self, pod_uid: str) -> bytes | None:
        """Return a key that is equal for pods that ask the same."""
        request = self._requests.get(pod_uid)
        if request is None or any(uid not in self.state.claims for uid in request.claims):
            return None
        return _request_key(self._search(request, 0))

    def is_refused(self, key: bytes) -> bool:
        """Whether no node fits for the pods with this key, in the current state."""
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.epoch.is_current(self.state)

    def _remember(self, request: PodRequest) -> None:
        self._requests[request.pod.uid] = request
        self._requests.move_to_end(request.pod.uid)
        if len(self._requests) > MAX_REQUESTS:
            self._requests.popitem(last=False)

    def _remember_refusal(self, key: bytes, reply: PreFilterReply) -> None:
        self._refusals[key] = _Refusal(self.state.epoch(), reply)
        self._refusals.move_to_end(key)
        if len(self._refusals) > MAX_REFUSALS:
            self._refusals.popitem(last=False)

    def _search(self, request: PodRequest, limit: int, first: str = "") -> NodeSearch:
        return NodeSearch(
            pod=request.pod,
            claims=tuple(map(self._current_claim, request.claims)),
            limit=limit,
            visits=self._nodes_per_call,
            start=self._start,
            first=first,
        )

    def _current_claim(self, uid: str) -> Claim:
        """Return a claim with its allocation, written or reserved by a pod that shares it."""
        claim = self.state.claims[uid]
        reserved = self._reserved.allocation_of(uid)
        if claim.status.allocation is not None or reserved is None:
            return claim
        return replace(claim, status=replace(claim.status, allocation=reserved))

    def _find(self, search: NodeSearch, now: float) -> Shortlist:
        """Search without penalised devices, then with them."""
        preferred = self.state.preferred_view(now)
        found = Shortlist()
        if preferred is not None:
            found = find_nodes(search, self.state, preferred, self._ids)
            found.excludes_devices = True
        if not found.fitting:
            found = find_nodes(search, self.state, self.state.ledger.view(), self._ids)
        self._start += found.examined
        return found

    def _reserve(self, request: PodRequest, node: str, now: float, seconds: float) -> str:
        """Reserve devices; return why that is not possible, or ""."""
        uid = request.pod.uid
        reservation = self._reserved.find(uid)
        if reservation is not None and reservation.node == node:
            self._reserved.extend(uid, now + seconds)
            return ""
        if self._reserved.is_writing(uid) and reservation is not None:
            return f"the pod is being bound to node {reservation.node}"
        self._reserved.release(uid)
        for claim_uid in request.claims:
            if problem := self._check(claim_uid, uid):
                return problem
        search = replace(self._search(request, 1), only=frozenset({node}))
        found = self._find(search, now)
        if not found.fitting:
            return f"the devices on node {node} are not free any more: {_summary(found)}"
        solution = found.fitting[0].solution
        allocations = solution.allocations if solution else ()
        needed = [uid_of(each) for each in search.unallocated]
        solved = dict(zip(needed, allocations, strict=True))
        refusal = self._reserved.reserve(request, node, solved, now + seconds)
        return f"cannot reserve devices on node {node}: {refusal}" if refusal else ""

    def _check(self, claim_uid: str, pod_uid: str) -> str:
        claim = self.state.claims.get(claim_uid)
        if claim is None:
            return "a claim of the pod was deleted"
        reason = check_claim(pod_uid, claim, self.state)
        return reason.message if reason else ""

    # --- replies ---

    def _fitting_reply(self, found: Shortlist, limit: int) -> PreFilterReply:
        scored = score_nodes(found.fitting, self._strategy, self.state)
        kept = scored[:limit] if limit else scored
        complete = found.complete and len(kept) == len(scored)
        return PreFilterReply(fit=tuple(kept), complete=complete)

    def _with_releases(
        self, reply: PreFilterReply, request: PodRequest, search: NodeSearch
    ) -> PreFilterReply:
        """Tell a pod that waits for devices which are being released so, and keep them for it."""
        reason = self._releases.pair(request.pod.uid, search, self._ids)
        if reason is None:
            return reply
        message = shorten_message(f"{reason.message}; {reply.message}")
        return replace(reply, message=message, reasons=(_node_reason(reason), *reply.reasons))


def _request_key(search: NodeSearch) -> bytes:
    """Return a key that is equal for searches with equal results, apart from their limits."""
    pod = search.pod
    allocated = [
        (uid_of(each), each.status.allocation.node_selector)
        for each in search.claims
        if each.status.allocation is not None
    ]
    constraints = (
        pod.node_name,
        sorted((pod.node_selector or {}).items()),
        pod.node_affinity,
        pod.tolerations,
        allocated,
    )
    return msgspec.json.encode(constraints) + demand_key(search.unallocated)


def _fit_on(node: str) -> PreFilterReply:
    return PreFilterReply(fit=(NodeScore(node=node, score=MAX_SCORE),), complete=True)


def _refusal_reply(found: Shortlist) -> PreFilterReply:
    reasons = _reasons(found)
    return PreFilterReply(
        complete=found.complete,
        message=shorten_message(summarize_reasons(reasons)),
        reasons=tuple(map(_node_reason, reasons[:MAX_REASONS])),
    )


def _reasons(found: Shortlist) -> tuple[Reason, ...]:
    if found.error is not None:
        return found.error.reasons
    reasons = merge_reasons(found.reasons)
    if found.complete:
        return reasons
    text = f"examined {found.examined} of {found.candidates} nodes; the search continues"
    more = make_reason(codes.SEARCH_CONTINUES, "nodes", text, nodes=found.examined)
    return (more, *reasons)


def _summary(found: Shortlist) -> str:
    return summarize_reasons(_reasons(found))


def _node_reason(each: Reason) -> NodeReason:
    return NodeReason(code=each.code, message=shorten_message(each.message), nodes=each.nodes)


def _refuse(reasons: tuple[Reason, ...]) -> PreFilterReply:
    message = shorten_message("; ".join(each.message for each in reasons))
    return PreFilterReply(message=message, reasons=tuple(map(_node_reason, reasons)))
