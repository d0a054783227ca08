"""Runs searches for nodes in parts, and remembers which nodes cannot fit.

A call of the scheduler has a time limit, so that a search examines a limited number of nodes. The
next one for the same request continues behind it. When all nodes were examined in one state of the
cluster, the result holds for every pod that asks the same: until much changes, only the nodes that
fitted, and those that have changed since, can fit.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.decisions.shortlist import NodeSearch, Shortlist, find_nodes
from allocator.state.cluster_state import AllocatorState
from drawbridge.bounded_cache import BoundedCache
from drawbridge.digest import digest
from drawbridge.ledger.ledger import name_of, uid_of
from drawbridge.solver.answer_cache import claims_key
from drawbridge.solver.reasons import merge_reasons

UNLIMITED: Final = 1 << 62
# With fewer nodes, all are examined after a change that does not help, so that the reasons have
# current numbers.
FEW_NODES: Final = 400
# If at least one of this many nodes has changed, all of them are examined.
NODES_PER_CHANGE: Final = 4
# If one of this many nodes came or went, too: the reasons count the nodes as they were before.
NODES_PER_LISTED: Final = 64
MAX_REMEMBERED: Final = 4096
# Their reasons, of which nodes can have different ones.
MAX_REASONS: Final = 65_536
# A search that found more nodes than this is not worth remembering: the next one ends early.
MAX_FITTING: Final = 64


class _Scan(msgspec.Struct, frozen=True):
    """What was examined so far in one state of the cluster; all nodes if some are `fitting`.

    The shortlist is about the other nodes. `claims` are the names of the claims that they were
    examined for. Where nodes exceed quotas, it holds for this `revision` of their use.
    """

    epoch: int
    lists: int  # which list of nodes was examined
    revision: int
    start: int
    shortlist: Shortlist
    claims: tuple[str, ...]
    fitting: frozenset[str] = frozenset()

    def shortlist_for(self, search: NodeSearch) -> Shortlist:
        """Return what was examined; the error names no claim that only asks the same."""
        error = self.shortlist.error
        if error is None or self.claims == _names_of(search):
            return self.shortlist
        text = "an expression of an equal claim fails"
        if error.of_node:
            text = "an equal claim cannot have all devices of the node"
        reasons = tuple(replace(each, message=text) for each in error.reasons)
        return replace(self.shortlist, error=replace(error, reasons=reasons))


class NodeSearches:
    """The searches of one allocator."""

    def __init__(self, state: AllocatorState, nodes_per_call: int = UNLIMITED) -> None:
        self._state = state
        self._nodes_per_call = nodes_per_call
        self._start = 0
        # Searches that found few nodes or none, in a state of the cluster.
        self._scans: BoundedCache[bytes, _Scan] = BoundedCache(MAX_REMEMBERED, MAX_REASONS, 1)
        # Searches that go on behind a node on which they were cut.
        self._behind_cuts: BoundedCache[bytes, bool] = BoundedCache(MAX_REMEMBERED)

    def is_refused(self, key: bytes) -> bool:
        """Whether no node fits for the requests with this key, in the current state."""
        scan = self._scans.get(key)
        if scan is None or scan.fitting or not scan.shortlist.has_ended:
            return False
        return scan.epoch == self._state.epoch()

    def exceeds_quota(self, key: bytes) -> bool:
        """Whether a refusal of the requests with this key is due to a quota, on some nodes."""
        scan = self._scans.get(key)
        return scan is not None and bool(scan.shortlist.exceeding) and self.is_refused(key)

    def run(self, search: NodeSearch, now: float) -> Shortlist:
        """Examine the next nodes, first without penalised devices, then with them."""
        if search.only is not None:
            return self._run_part(replace(search, start=self._start), now)
        key = answer_key(search, self._state)
        scan, changed = self._earlier_scan(key, complete=bool(search.without))
        hopeful = changed | scan.fitting if scan is not None else changed
        part = self._run_part(replace(search, only=hopeful), now) if hopeful else Shortlist()
        if part.examined < part.candidates and not part.fitting:
            # Which of these nodes are left is not kept: all nodes are examined again.
            self._scans.pop(key)
            self._goes_behind_cut(key, part)
            return part
        if scan is not None and (part.fitting or search.without):
            part.candidates += scan.shortlist.candidates - scan.shortlist.examined
            self._remember_fitting(key, search, part, scan)
            return part
        if scan is not None and scan.fitting:
            scan = self._with_reasons(scan, search, now)
        few = scan is not None and scan.shortlist.candidates - FEW_NODES <= len(changed)
        start, lists = self._start, self._state.changes.lists
        if scan is None or part.exceeding or (changed and few):
            shortlist = self._run_part(replace(search, start=start), now)
        else:
            start, lists = scan.start, scan.lists
            shortlist = self._continue(search, scan, now)
        if self._goes_behind_cut(key, shortlist):
            self._scans.pop(key)
            return shortlist
        scan = self._new_scan(search, shortlist, start, lists)
        if shortlist.fitting or search.without:
            self._remember_fitting(key, search, shortlist, scan)
        else:
            self._remember(key, scan)
        return shortlist

    def _goes_behind_cut(self, key: bytes, shortlist: Shortlist) -> bool:
        """Whether the next search begins behind a node on which this one was cut.

        Nobody is charged then. If that is cut too, a copy has to decide.
        """
        behind = self._behind_cuts.pop(key)
        if behind or not shortlist.goes_behind_cut:
            return False
        self._behind_cuts.put(key, value=True)
        self._state.planner.forget_cut()
        return True

    def _new_scan(self, search: NodeSearch, shortlist: Shortlist, start: int, lists: int) -> _Scan:
        # What is kept does not grow with the nodes.
        shortlist.reasons = list(merge_reasons(shortlist.reasons))
        shortlist.exceeding = list(merge_reasons(shortlist.exceeding))
        epoch, revision = self._state.epoch(), self._state.ledger.quotas.revision
        shortlist, claims = replace(shortlist, fitting=[]), _names_of(search)
        return _Scan(epoch, lists, revision, start, shortlist, claims)

    def _remember(self, key: bytes, scan: _Scan) -> None:
        reasons = len(scan.shortlist.reasons) + len(scan.shortlist.exceeding)
        self._scans.put(key, scan, cost=reasons)

    def _remember_fitting(
        self, key: bytes, search: NodeSearch, shortlist: Shortlist, scan: _Scan
    ) -> None:
        """Remember which nodes fit, if they are few and no other node can; `scan` has the others.

        Those that fitted before stay, because the others are counted without them. A node that
        exceeds a quota can fit without any change of devices.
        """
        fitting = scan.fitting.union(search.without, (each.name for each in shortlist.fitting))
        if shortlist.complete and not shortlist.exceeding and len(fitting) <= MAX_FITTING:
            self._remember(key, replace(scan, epoch=self._state.epoch(), fitting=fitting))

    def _with_reasons(self, scan: _Scan, search: NodeSearch, now: float) -> _Scan:
        """Return a scan with the reasons of the nodes that do not fit any more."""
        lost = self._run_part(replace(search, only=scan.fitting), now)
        examined, candidates = scan.shortlist.examined, scan.shortlist.candidates
        joined = replace(_joined(scan.shortlist, lost), examined=examined, candidates=candidates)
        return replace(scan, fitting=frozenset(), shortlist=joined)

    def _earlier_scan(self, key: bytes, *, complete: bool) -> tuple[_Scan | None, frozenset[str]]:
        """Return what was examined before, and which nodes have changed since.

        Beside these, only those that fitted can fit. Returns no scan if much has changed, or if it
        is not `complete` but has to be.
        """
        scan = self._scans.get(key)
        if scan is None or (complete and not scan.shortlist.complete):
            return None, frozenset()
        if scan.epoch == self._state.epoch():
            return scan, frozenset()
        if scan.shortlist.exceeding and scan.revision != self._state.ledger.quotas.revision:
            return None, frozenset()
        others = self._state.changes.lists - scan.lists
        if others and not scan.shortlist.complete:
            return None, frozenset()  # the nodes behind have other places in the list
        changed = self._state.changes.changed_since(scan.epoch)
        few = changed is not None and scan.shortlist.candidates > max(
            NODES_PER_CHANGE * len(changed), NODES_PER_LISTED * others
        )
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
            shortlist = find_nodes(search, self._state, preferred)
            shortlist.excludes_devices = True
        if not shortlist.fitting:
            shortlist = find_nodes(search, self._state, self._state.ledger.view())
        if search.only is None:
            stays = search.stays and bool(shortlist.fitting)
            self._start = search.start + shortlist.visited - stays
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
        goes_behind_cut=after.goes_behind_cut,
    )


def _names_of(search: NodeSearch) -> tuple[str, ...]:
    """Return the names of the claims, as messages have them."""
    return tuple(map(name_of, search.unallocated))


def answer_key(search: NodeSearch, state: AllocatorState) -> bytes:
    """Return a short key that is equal for searches with equal results in the same quotas.

    A pod that waits for devices which others release is charged for them, so that it has room
    where others have none, and as much as those that are charged the same. No request decides how
    much memory the caches of answers take.
    """
    namespace, quotas = search.pod.namespace, state.ledger.quotas
    limited: tuple[object, ...] = ()
    if quotas.limits(namespace):
        charges = [quotas.charge_of(uid_of(each)) for each in search.unallocated]
        limited = namespace, [sorted((*key, f"{each[key]}") for key in each) for each in charges]
    return digest(msgspec.json.encode(limited) + request_key(search)).hex().encode()


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
    return msgspec.json.encode(constraints) + claims_key(search.unallocated)
