"""Reserves devices for pods: what a search has found, or what one finds on a node."""

from msgspec.structs import replace

from allocator.decisions.node_searches import NodeSearches
from allocator.decisions.pod_requests import ReceivedRequests
from allocator.decisions.quota import QuotaChecks
from allocator.decisions.shortlist import FittingNode, NodeSearch, Shortlist
from allocator.decisions.strategy import ConfiguredStrategy
from allocator.scheduler.replies import summarize
from allocator.state.pod_table import PodTable
from allocator.state.record_states import RecordEvent
from allocator.state.records import PodRequest
from allocator.state.reserved_pods import ReservedPods
from drawbridge.ledger.ledger import ReservationRefusal, uid_of
from drawbridge.solver.reasons import Reason


class PodReserver:
    """Makes the reservations of pods."""

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        reservations: ReservedPods,
        requests: ReceivedRequests,
        *,
        searches: NodeSearches,
        strategy: ConfiguredStrategy,
        quotas: QuotaChecks,
        records: PodTable,
    ) -> None:
        self._reservations = reservations
        self._requests = requests
        self._searches = searches
        self._strategy = strategy
        self._quotas = quotas
        self._records = records

    def find_excess(self, search: NodeSearch) -> Reason | None:
        """Return which quota a pod exceeds on every node; others get what is kept for it."""
        reason = self._quotas.find_reason(search)
        if reason is not None:
            uid = search.pod.uid
            self._records.change(uid, RecordEvent.NOT_KEPT, kept=None, paired=None)
        return reason

    def reserve_on(
        self, request: PodRequest, node: str, now: float, *, promised: bool = False
    ) -> str:
        """Reserve devices on a node; return why that is not possible, or ""."""
        uid = request.pod.uid
        reservation = self._reservations.find(uid)
        if reservation is not None and reservation.node == node:
            self._reservations.confirm(uid, now)
            return ""
        if self._reservations.is_writing(uid) and reservation is not None:
            return f"the pod is being bound to node {reservation.node}"
        self._reservations.release(uid)
        if problem := self._requests.find_problem(request):
            return problem
        search = replace(self._requests.search(request, 1), only=frozenset({node}))
        if (excess := self.find_excess(search)) is not None:
            return excess.message
        shortlist = self._searches.run(search, now)
        if not shortlist.fitting:
            return f"the devices on node {node} are not free any more: {summarize(shortlist)}"
        fit = self._strategy.with_devices(search, shortlist.fitting[0], now)
        refusal = self.reserve_found(request, fit, search, now, promised=promised)
        return f"cannot reserve devices on node {node}: {refusal}" if refusal else ""

    def reserve_found(
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
        return self._reservations.reserve(request, fitting.name, solved, now, promised=promised)

    def reserve_member(
        self, request: PodRequest, fitting: FittingNode, search: NodeSearch, now: float
    ) -> ReservationRefusal | None:
        """Reserve what a search has found for a member of a group."""
        return self.reserve_found(request, fitting, search, now, promised=True)

    def keep(
        self, request: PodRequest, node: str, search: NodeSearch, shortlist: Shortlist, now: float
    ) -> None:
        """Keep the devices of a pod on its node until it is reserved, so that none else is woken.

        Otherwise they are free between two calls of the scheduler.
        """
        for fit in shortlist.fitting:
            if fit.name == node:
                self.reserve_found(request, fit, search, now, promised=True)
