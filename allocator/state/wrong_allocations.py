"""Has persons told what is wrong with allocations, a few that changed in each turn of the loop."""

from collections.abc import Callable, Iterable

from allocator.state.cluster_state import AllocatorState
from allocator.state.reports import ClaimFinding
from allocator.state.turns import NextTurn
from drawbridge.ledger.audit import MAX_NAMES, find_excessive_marks
from drawbridge.ledger.conflicts import Conflict, abridge_finding


class WrongAllocations:
    """Searches what is wrong with the allocations of the cluster that `find_cluster` returns."""

    def __init__(
        self, find_cluster: Callable[[], AllocatorState], report: Callable[[ClaimFinding], None]
    ) -> None:
        self._find_cluster, self._report = find_cluster, report
        self._next = NextTurn(self._search)

    def begin(self) -> None:
        """Search in the next turns if a claim or a pool has changed."""
        if self._find_cluster().conflicts.has_changed:
            self._next.begin()

    def search_again(self, uids: Iterable[str]) -> None:
        """Find and report what is wrong with the allocations of these claims now."""
        for uid in uids:
            self._find_cluster().conflicts.note_change(uid)
        self.begin()

    def _search(self) -> None:
        state = self._find_cluster()
        try:
            for uid, conflicts in state.conflicts.take_changed():
                for conflict in conflicts:
                    self._report_conflict(conflict, uid, state)
                record, claim = state.ledger.claims.get(uid), state.claims.get(uid)
                if record is not None and claim is not None:
                    for finding in find_excessive_marks(record, state.planner.world().inventory):
                        self._report(ClaimFinding(finding, claim))
        finally:
            # A bug for one claim must not keep the others from their turn.
            self.begin()

    def _report_conflict(self, conflict: Conflict, uid: str, state: AllocatorState) -> None:
        """Report a conflict on the claim that changed, and on those of ours that take part."""
        ours = [each for each in conflict.holders if state.ledger.claims[each].ours]
        for reported in dict.fromkeys((uid, *ours[:MAX_NAMES])):
            claim = state.claims[reported]
            told = abridge_finding(conflict, state.ledger, claim.metadata.namespace)
            self._report(ClaimFinding(told, claim, conflict.finding.message))
