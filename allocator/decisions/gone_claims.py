"""Finds claims whose pods are gone for the scheduler, which has seen that before the allocator.

Or the allocator has started after their end.
"""

from collections.abc import Collection, Iterable

from allocator.scheduler.protocol import PreemptRequest
from allocator.state.cluster_state import AllocatorState
from allocator.state.seen_pods import UNSEEN
from drawbridge.dra.inventory import PoolID


class GoneClaims:
    """The claims whose pods are gone from the nodes of a request, which lists the pods there.

    A node is looked at only when it is asked for: a request can name thousands.
    """

    def __init__(self, state: AllocatorState, request: PreemptRequest) -> None:
        self._state = state
        self._nodes = {each.node: each for each in request.nodes or ()}

    def find(self, name: str) -> set[str]:
        """Return the claims with devices of a node whose pods are gone."""
        gone, node = set[str](), self._nodes.get(name)
        if node is None or node.running is None:
            return gone
        listed = {*node.running, *(each.uid for each in node.pods or ())}
        pools = frozenset(self._state.planner.pools_for(name))
        for uid in self._state.pods.claims_unlisted(name, pools, listed):
            users = self._state.pods.consumers(uid)
            is_gone = all(self._can_be_on(name, each, listed) for each in users)
            if is_gone and not pools.isdisjoint(self._pools_of(uid)):
                gone.add(uid)
        return gone

    def _pools_of(self, claim_uid: str) -> Iterable[PoolID]:
        record = self._state.ledger.claims.get(claim_uid)
        return (hold.pool for hold in record.holds) if record else ()

    def _can_be_on(self, node: str, user: str, listed: Collection[str]) -> bool:
        """Whether a pod that is not listed is bound to a node, or was not seen; "" is not a pod."""
        seen = self._state.pods.get(user)
        return bool(user) and user not in listed and (seen is UNSEEN or seen.node == node)
