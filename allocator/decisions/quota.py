"""Refuses pods that a device quota has no room for whatever devices they get, before any search.

A search finds no devices that a pod may not have (`fit_solution` in `shortlist.py`), also when it
looks for victims. The ledger decides when devices are reserved.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from allocator.decisions.node_searches import answer_key
from allocator.decisions.shortlist import FittingNode, NodeSearch
from allocator.state.cluster_state import AllocatorState
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.claim import Claim
from drawbridge.dra.device_quotas import (
    Charge,
    DeviceQuota,
    QuotaKey,
    add_charges,
    find_impossible,
)
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.quota_room import (
    find_least_excess,
    narrow_claims,
    quota_reason,
)
from drawbridge.solver.answers import Solution
from drawbridge.solver.reasons import Reason

MAX_REFUSED: Final = 65536
_ZERO: Final = Quantity.of(0)


class QuotaChecks:
    """The quotas that apply to the pods of an allocator, and who was refused by them."""

    def __init__(self, state: AllocatorState) -> None:
        self._state = state
        # Requests that a quota refused, with the revision of its use.
        self._refused: BoundedCache[bytes, int] = BoundedCache(MAX_REFUSED)

    def is_refused(self, key: bytes) -> bool:
        """Whether the quotas refuse the pods with this key, in the current state."""
        return self._refused.get(key) == self._state.ledger.quotas.revision

    # --- one pod ---

    def narrow(self, search: NodeSearch) -> NodeSearch:
        """Return a search without the alternatives that a quota has no room for."""
        quotas = self._state.ledger.quotas
        claims = narrow_claims(quotas, search.pod.namespace, search.claims)
        return search if claims is search.claims else replace(search, claims=claims)

    def find_reason(self, search: NodeSearch) -> Reason | None:
        """Return which quota a pod would exceed on every node."""
        quotas = self._state.ledger.quotas
        excess = find_least_excess(quotas, search.pod.namespace, search.claims)
        if excess is None:
            return None
        self._refused.put(answer_key(search, self._state), quotas.revision)
        return quota_reason(excess)


class QuotaRoom:
    """What quotas leave to the members of a group, of which some can fit on each of several nodes.

    What the members have by now counts no more, because they get something else in its place.
    """

    def __init__(self, state: AllocatorState, members: Collection[str]) -> None:
        self._quotas = state.ledger.quotas
        requests = (state.records.get(uid).request for uid in members)
        own = {uid for request in requests if request for uid in request.claims}
        # What is allocated to them stays.
        claims = ((uid, state.claims.get(uid)) for uid in own)
        self._own = [uid for uid, claim in claims if claim and not claim.status.allocation]
        self._revision = -1
        self._selecting: Collection[DeviceQuota] = ()
        self._room: Mapping[QuotaKey, Quantity] = {}

    def fits(self, claims: Sequence[Claim], solution: Solution) -> bool:
        """Whether there is room for a solution for claims of members alone."""
        if not self._quotas or not claims:
            return True
        namespace = claims[0].metadata.namespace or "default"
        if self._quotas.revision != self._revision:
            self._revision = self._quotas.revision
            self._selecting = self._quotas.selecting(namespace)
            self._room = self._find_room(namespace)
        both = zip(claims, solution.allocations, strict=True)
        charges = [self._quotas.read_charge(claim.spec, each) for claim, each in both]
        # No pod has more than its claims; which ones those are is judged at the end.
        if any(find_impossible(self._selecting, namespace, each) for each in charges):
            return False
        needed = add_charges(charges)
        return all(
            amount.sign() <= 0 or amount <= self._room[key]
            for key, amount in needed.items()
            if key in self._room
        )

    def _find_room(self, namespace: str) -> Mapping[QuotaKey, Quantity]:
        own = add_charges(map(self._quotas.charge_of, self._own))
        room: dict[QuotaKey, Quantity] = {}
        for line in self._quotas.lines(namespace):
            left = line.limit + own.get(line.key, _ZERO) - line.used
            room[line.key] = min(room.get(line.key, left), left)
        return room


class QuotaSelection:
    """Selects members of a group that have room in the quotas together, one after the other.

    Each is charged what was found for it, or else the least. What is promised to members counts
    once, as does a claim of several. `reason` says what stops the first one that has no room.
    """

    def __init__(self, state: AllocatorState) -> None:
        self._quotas = state.ledger.quotas
        self._before: dict[QuotaKey, Quantity] = {}
        self._counted: set[str] = set()
        self.reason: Reason | None = None

    def admits(self, search: NodeSearch, fit: FittingNode | None = None) -> bool:
        """Whether a member has room beside those before it, which counts it in."""
        if not self._quotas:
            return True
        charges = self._charges(search, fit)
        own = {uid: each for uid, each in charges.items() if uid not in self._counted}
        also = [charges[uid] for uid in charges.keys() & self._counted]
        namespace = search.pod.namespace
        excess = self._quotas.find_excess(namespace, own, also=also, before=self._before)
        if excess is not None:
            # Other devices than those that were found can have less.
            never_fits = excess.never_fits and fit is None
            self.reason = self.reason or quota_reason(excess._replace(never_fits=never_fits))
            return False
        self._quotas.add_to(self._before, own)
        self._counted.update(own)
        return True

    def _charges(self, search: NodeSearch, fit: FittingNode | None) -> dict[str, Charge]:
        """Return what the claims without devices are charged, by UID."""
        claims = search.unallocated
        if fit is None or fit.solution is None:
            return {uid_of(each): self._quotas.least_charge(each.spec) for each in claims}
        both = zip(claims, fit.solution.allocations, strict=True)
        return {uid_of(claim): self._quotas.read_charge(claim.spec, each) for claim, each in both}
