"""Reserves devices for a pod on a node: what a search finds there."""

from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.shortlist import NodeSearch
from allocator.scheduler.replies import summarize
from allocator.state.awaited_claims import find_awaited
from allocator.state.record_states import RecordEvent
from allocator.state.records import PodRequest
from drawbridge.ledger.ledger import uid_of
from drawbridge.solver.reasons import Reason


def find_refusal(basis: Basis, search: NodeSearch) -> Reason | None:
    """Return why a pod can use no node, whatever is free; others get what is kept for it.

    It exceeds a quota, or has to wait for a claim.
    """
    pod, state = search.pod, basis.state
    reason = find_awaited(map(uid_of, search.claims), pod.priority, state)
    reason = reason or basis.quotas.find_reason(search)
    if reason is not None:
        state.records.change(pod.uid, RecordEvent.NOT_KEPT, kept=None, paired=None)
    return reason


def reserve_on(
    basis: Basis, request: PodRequest, node: str, now: float, *, promised: bool = False
) -> str:
    """Reserve devices on a node; return why that is not possible, or ""."""
    uid, reserved = request.pod.uid, basis.reserved
    reservation, is_writing = reserved.find(uid), reserved.is_writing(uid)
    waits = None if is_writing else find_awaited(request.claims, request.pod.priority, basis.state)
    if reservation is not None and reservation.node == node and waits is None:
        reserved.confirm(uid, now)
        return ""
    if is_writing and reservation is not None:
        return f"the pod is being bound to node {reservation.node}"
    reserved.release(uid)
    if problem := basis.requests.find_problem(request):
        return problem
    search = replace(basis.requests.search(request, 1), only=frozenset({node}))
    if (refusal := find_refusal(basis, search)) is not None:
        return refusal.message
    shortlist = basis.searches.run(search, now)
    if not shortlist.fitting:
        return f"the devices on node {node} are not free any more: {summarize(shortlist)}"
    fit = basis.strategy.with_devices(search, shortlist.fitting[0], now)
    lost = reserved.reserve(request, fit, search, now, promised=promised)
    return f"cannot reserve devices on node {node}: {lost}" if lost else ""
