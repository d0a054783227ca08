"""Refuses pods that a device quota has no room for, before and after the search for devices.

The ledger decides when devices are reserved. What is asked here keeps pods from searches, from
victims and from nodes that they could not use.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from allocator.decisions.node_searches import request_key
from allocator.decisions.shortlist import FittingNode, NodeSearch, Shortlist
from allocator.state.cluster_state import AllocatorState
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.claim import Claim
from drawbridge.dra.device_quotas import QuotaExcess, QuotaKey
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.quota_room import (
    find_excess_with,
    find_least_excess,
    narrow_claims,
    quota_reason,
)
from drawbridge.solver.reasons import Reason

T = TypeVar("T")
MAX_REFUSED: Final = 65536
# No other key of a request begins so; a namespace has no space.
_IN: Final = b"in "


class _Refused(NamedTuple):
    """The state in which requests with a key were refused; any, if devices do not matter."""

    revision: int
    epoch: int | None


class QuotaChecks:
    """The quotas that apply to the pods of an allocator, and who was refused by them."""

    def __init__(self, state: AllocatorState) -> None:
        self._state = state
        self._refused: BoundedCache[bytes, _Refused] = BoundedCache(MAX_REFUSED)

    # --- the keys of waiting pods ---

    def key_of(self, search: NodeSearch) -> bytes:
        """Return the key of a request, which depends on the namespace if it has quotas."""
        key, namespace = request_key(search), search.pod.namespace
        quotas = self._state.ledger.quotas
        if not quotas or not quotas.selecting(namespace):
            return key
        return b"%s%s %s" % (_IN, namespace.encode(), key)

    def split(self, key: bytes) -> tuple[bool, bytes]:
        """Return whether a quota refuses a key, and the key without the namespace."""
        if not key.startswith(_IN):
            return False, key
        refused = self._refused.get(key)
        quotas, epoch = self._state.ledger.quotas, self._state.epoch()
        holds = refused is not None and refused.revision == quotas.revision
        is_refused = holds and refused is not None and refused.epoch in (None, epoch)
        return is_refused, key.split(b" ", 2)[2]

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
        self._refused.put(self.key_of(search), _Refused(quotas.revision, None))
        return quota_reason(excess)

    def drop_exceeding(self, search: NodeSearch, shortlist: Shortlist) -> None:
        """Remove the nodes whose devices a pod may not have.

        If none is left, the pod waits until devices change.
        """
        quotas = self._state.ledger.quotas
        if not quotas or not shortlist.fitting or not quotas.selecting(search.pod.namespace):
            return
        if not any(quotas.depends_on_devices(each.spec) for each in search.unallocated):
            return
        checked = [(each, self._find_excess_on(each, search)) for each in shortlist.fitting]
        shortlist.fitting = [each for each, excess in checked if excess is None]
        reasons = [quota_reason(excess) for _, excess in checked if excess is not None]
        if reasons and not shortlist.fitting:
            shortlist.reasons.append(reasons[0])
            shortlist.candidates = shortlist.examined
            refused = _Refused(quotas.revision, self._state.epoch())
            self._refused.put(self.key_of(search), refused)

    def _find_excess_on(self, fit: FittingNode, search: NodeSearch) -> QuotaExcess | None:
        allocations = fit.solution.allocations if fit.solution else ()
        quotas, namespace = self._state.ledger.quotas, search.pod.namespace
        return find_excess_with(quotas, namespace, search.claims, allocations)

    # --- the members of a group ---

    def select(
        self, members: Iterable[T], claims_of: Callable[[T], Sequence[Claim]]
    ) -> tuple[list[T], Reason | None]:
        """Return the members that have room in the quota together, in order, and what stops others.

        What is promised to them counts once.
        """
        quotas = self._state.ledger.quotas
        if not quotas:
            return list(members), None
        selected: list[T] = []
        before: dict[QuotaKey, Quantity] = {}
        stops: QuotaExcess | None = None
        for member in members:
            claims = claims_of(member)
            own = {uid_of(each): quotas.least_charge(each.spec) for each in claims}
            namespace = claims[0].metadata.namespace if claims else ""
            excess = quotas.find_excess(namespace, own, before=before)
            if excess is None:
                quotas.add_to(before, own)
                selected.append(member)
            stops = stops or excess
        return selected, None if stops is None else quota_reason(stops)
