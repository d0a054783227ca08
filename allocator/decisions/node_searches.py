"""Runs searches for nodes in parts, and remembers those that found nothing.

A call of the scheduler has a time limit, so that a search examines a limited number of nodes. The
next one for the same request continues behind it. When all nodes were examined in one state of the
cluster, the result holds for every pod that asks the same, until the state changes.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.decisions.shortlist import NodeSearch, Shortlist, find_nodes
from allocator.state.cluster_state import AllocatorState
from drawbridge.bounded_cache import BoundedCache
from drawbridge.ledger.ledger import name_of, uid_of
from drawbridge.solver.answer_cache import demand_key
from drawbridge.solver.reasons import merge_reasons

UNLIMITED: Final = 1 << 62
# With fewer nodes, all are examined after a change that does not help, so that the reasons have
# current numbers.
FEW_NODES: Final = 400
# If at least one of this many nodes has changed, all of them are examined.
NODES_PER_CHANGE: Final = 4
MAX_REMEMBERED: Final = 4096
# No tenant finds two requests with the same key.
_KEY_BYTES: Final = 32


class _Scan(msgspec.Struct, frozen=True):
    """What was examined so far, without a result, in one state of the cluster.

    `claims` are the names of the claims that it was examined for. Where nodes exceed quotas, it
    holds for this `revision` of their use.
    """

    epoch: int
    revision: int
    start: int
    shortlist: Shortlist
    claims: tuple[str, ...]

    def shortlist_for(self, search: NodeSearch) -> Shortlist:
        """Return what was examined; the error names no claim that only asks the same."""
        error = self.shortlist.error
        if error is None or self.claims == _names_of(search):
            return self.shortlist
        reasons = tuple(
            replace(each, message="an expression of an equal claim fails") for each in error.reasons
        )
        return replace(self.shortlist, error=replace(error, reasons=reasons))


class NodeSearches:
    """The searches of one allocator. `ids` returns a new share ID at each call."""

    def __init__(
        self, state: AllocatorState, ids: Callable[[], str], nodes_per_call: int = UNLIMITED
    ) -> None:
        self._state = state
        self._ids = ids
        self._nodes_per_call = nodes_per_call
        self._start = 0
        # Searches without a result, in a state of the cluster.
        self._scans: BoundedCache[bytes, _Scan] = BoundedCache(MAX_REMEMBERED)

    def is_refused(self, key: bytes) -> bool:
        """Whether no node fits for the requests with this key, in the current state."""
        scan = self._scans.get(key)
        return scan is not None and scan.shortlist.has_ended and scan.epoch == self._state.epoch()

    def run(self, search: NodeSearch, now: float) -> Shortlist:
        """Examine the next nodes, first without penalised devices, then with them."""
        if search.without or search.only is not None:
            return self._run_part(replace(search, start=self._start), now)
        key = answer_key(search, self._state)
        scan, changed = self._earlier_scan(key)
        shortlist = self._run_part(replace(search, only=changed), now) if changed else Shortlist()
        if shortlist.fitting:
            if scan is not None:
                shortlist.candidates += scan.shortlist.candidates - scan.shortlist.examined
            return shortlist
        if shortlist.examined < shortlist.candidates:
            # Which of the changed nodes are left is not kept: all nodes are examined again.
            self._scans.pop(key)
            return shortlist
        few = scan is not None and scan.shortlist.candidates - FEW_NODES <= len(changed)
        if scan is None or shortlist.exceeding or (changed and few):
            start = self._start
            shortlist = self._run_part(replace(search, start=start), now)
        else:
            start = scan.start
            shortlist = self._continue(search, scan, now)
        if not shortlist.fitting:
            epoch, revision = self._state.epoch(), self._state.ledger.quotas.revision
            scan = _Scan(epoch, revision, start, shortlist, _names_of(search))
            self._scans.put(key, scan)
        return shortlist

    def _earlier_scan(self, key: bytes) -> tuple[_Scan | None, frozenset[str]]:
        """Return what was examined before, and which nodes have changed since; only these can fit.

        Returns no scan if much has changed.
        """
        scan = self._scans.get(key)
        if scan is None or scan.epoch == self._state.epoch():
            return scan, frozenset()
        if scan.shortlist.exceeding and scan.revision != self._state.ledger.quotas.revision:
            return None, frozenset()
        changed = self._state.changes.changed_since(scan.epoch)
        few = changed is not None and scan.shortlist.candidates > NODES_PER_CHANGE * len(changed)
        if changed is None or not few or (changed and scan.shortlist.has_failed):
            return None, frozenset()
        return scan, changed

    def _continue(self, search: NodeSearch, scan: _Scan, now: float) -> Shortlist:
        """Examine the nodes behind those of a scan."""
        examined = scan.shortlist_for(search)
        left = examined.candidates - examined.examined
        if left <= 0 or examined.has_failed:
            return examined
        behind = scan.start + examined.examined
        visits = min(left, self._nodes_per_call)
        shortlist = self._run_part(replace(search, start=behind, visits=visits, first=""), now)
        return shortlist if shortlist.fitting else _joined(examined, shortlist)

    def _run_part(self, search: NodeSearch, now: float) -> Shortlist:
        search = replace(search, visits=min(search.visits, self._nodes_per_call))
        preferred = self._state.preferred_view(now)
        shortlist = Shortlist()
        if preferred is not None:
            shortlist = find_nodes(search, self._state, preferred, self._ids)
            shortlist.excludes_devices = True
        if not shortlist.fitting:
            shortlist = find_nodes(search, self._state, self._state.ledger.view(), self._ids)
        if search.only is None:
            self._start += shortlist.examined - (search.stays and bool(shortlist.fitting))
        return shortlist


def _joined(before: Shortlist, after: Shortlist) -> Shortlist:
    """Return the result of two parts of one search."""
    reasons = list(merge_reasons((*before.reasons, *after.reasons)))
    exceeding = list(merge_reasons((*before.exceeding, *after.exceeding)))
    examined = before.examined + after.examined
    return Shortlist(
        reasons=reasons,
        exceeding=exceeding,
        examined=examined,
        candidates=after.candidates,
        error=before.error or after.error,
        errors=before.errors + after.errors,
    )


def _names_of(search: NodeSearch) -> tuple[str, ...]:
    """Return the names of the claims, as messages have them."""
    return tuple(map(name_of, search.unallocated))


def answer_key(search: NodeSearch, state: AllocatorState) -> bytes:
    """Return a short key that is equal for searches with equal results in the same quotas.

    No request decides how much memory the caches of answers take.
    """
    namespace = search.pod.namespace
    own = namespace if state.ledger.quotas.limits(namespace) else ""
    digest = hashlib.blake2b(b"%s %s" % (own.encode(), request_key(search)), digest_size=_KEY_BYTES)
    return digest.hexdigest().encode()


def request_key(search: NodeSearch) -> bytes:
    """Return a key that is equal for searches with equal results, apart from limits and quotas."""
    pod = search.pod
    allocated = [
        (uid_of(claim), claim.status.allocation.node_selector)
        for claim in search.claims
        if claim.status.allocation is not None
    ]
    constraints = (
        pod.node_name,
        sorted((pod.node_selector or {}).items()),
        pod.node_affinity,
        pod.tolerations,
        allocated,
    )
    return msgspec.json.encode(constraints) + demand_key(search.unallocated)
