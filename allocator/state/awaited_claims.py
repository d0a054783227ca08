"""Claims that are being released for a pod, and that no pod with a lower priority begins to use.

Whoever uses such a claim keeps it from being released. A pod that replaces an evicted one would
else join it, and be evicted as well, and so would each one after it.
"""

from collections.abc import Iterable, Iterator

from allocator.state.cluster_state import AllocatorState
from allocator.state.records import Preemptor
from drawbridge.agreement import allocator_codes as codes
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.solver.reasons import Reason


def find_awaited(claims: Iterable[str], priority: int, state: AllocatorState) -> Reason | None:
    """Return which of some claims a pod with this priority cannot begin to use yet."""
    for uid in claims:
        waiting = _waiting_for(uid, state)
        if any(each.priority > priority for each in waiting) and _is_being_left(uid, state):
            name = name_of(state.claims[uid]) if uid in state.claims else uid
            text = f"ResourceClaim {name} is being released for a pod with a higher priority"
            return make_reason(codes.CLAIM_BEING_RELEASED, "claims", text)
    return None


def _waiting_for(claim: str, state: AllocatorState) -> Iterator[Preemptor]:
    records = map(state.records.get, state.records.awaited.get(claim))
    return (each.kept for each in records if each.kept is not None)


def _is_being_left(claim: str, state: AllocatorState) -> bool:
    """Whether all pods that use a claim are evicted or leave."""
    pods = state.pods
    staying = {uid for uid in pods.consumers(claim) if not pods.is_leaving(uid)}
    preempting = (each.kept for each in state.records.having("kept")) if staying else ()
    return not staying.difference(*(each.victims for each in preempting if each is not None))
