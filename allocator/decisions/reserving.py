"""Reserves devices for a pod on a node: what a search finds there."""

from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.shortlist import NodeSearch
from allocator.scheduler.replies import summarize
from allocator.state.record_states import RecordEvent
from allocator.state.records import PodRequest
from drawbridge.solver.reasons import Reason


def find_excess(basis: Basis, search: NodeSearch) -> Reason | None:
    """Return which quota a pod exceeds on every node; others get what is kept for it."""
    reason = basis.quotas.find_reason(search)
    if reason is not None:
        nothing = {"kept": None, "paired": None}
        basis.state.records.change(search.pod.uid, RecordEvent.NOT_KEPT, **nothing)
    return reason


def reserve_on(
    basis: Basis, request: PodRequest, node: str, now: float, *, promised: bool = False
) -> str:
    """Reserve devices on a node; return why that is not possible, or ""."""
    uid, reserved = request.pod.uid, basis.reserved
    reservation = reserved.find(uid)
    if reservation is not None and reservation.node == node:
        reserved.confirm(uid, now)
        return ""
    if reserved.is_writing(uid) and reservation is not None:
        return f"the pod is being bound to node {reservation.node}"
    reserved.release(uid)
    if problem := basis.requests.find_problem(request):
        return problem
    search = replace(basis.requests.search(request, 1), only=frozenset({node}))
    if (excess := find_excess(basis, search)) is not None:
        return excess.message
    shortlist = basis.searches.run(search, now)
    if not shortlist.fitting:
        return f"the devices on node {node} are not free any more: {summarize(shortlist)}"
    fit = basis.strategy.with_devices(search, shortlist.fitting[0], now)
    refusal = reserved.reserve_found(request, fit, search, now, promised=promised)
    return f"cannot reserve devices on node {node}: {refusal}" if refusal else ""
