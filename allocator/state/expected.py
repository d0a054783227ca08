"""What pods that wait get of claims, once these are released.

A pod gets devices or shares that its own search has chosen, and not the claims: others can expect
the rest, or partitions that take the place of a device.
"""

from collections.abc import Collection
from typing import NamedTuple

from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import Hold


class ExpectedDevices(NamedTuple):
    """The claims that pods wait for, and what they get instead of what the ledger has.

    Of `promised` claims they get all devices as a whole, which the claims can as well hold until
    then. The ledger has under `keys` a part of what they get.
    """

    claims: frozenset[str]
    promised: frozenset[str]
    keys: frozenset[str]
    holds: tuple[Hold, ...]


def expected_by_others(
    state: AllocatorState, own: Collection[str], priority: int
) -> ExpectedDevices:
    """Return what pods of at least a priority expect that are not among the `own` ones, by UID."""
    claims, keys, holds = set[str](), set[str](), list[Hold]()
    for record in (*state.records.having("kept"), *state.records.having("paired")):
        kept, paired = record.kept, record.paired
        if record.uid in own:
            continue
        if kept is not None and kept.priority >= priority:
            # Who evicts nobody for a claim cannot tell that it will be released.
            claims |= kept.pending if kept.victims else kept.pending & state.pods.releasing
            if kept.held != kept.holds:
                keys |= {kept.key} if kept.held else set()
                holds += kept.holds
        if paired is not None and paired.priority >= priority:
            claims |= paired.claims
            holds += paired.holds
    # A pod can wait for the same in both ways. Only shares have a name.
    once = {(hold.pool, hold.device, hold.share): hold for hold in holds}
    promised, devices = set[str](), set[tuple[PoolID, str, str]]()
    for uid in claims:
        own_holds = state.ledger.holds_of(uid)
        if not any(hold.shared or (hold.pool, hold.device, "") not in once for hold in own_holds):
            promised.add(uid)
            devices.update((hold.pool, hold.device, "") for hold in own_holds)
    beside = tuple(hold for key, hold in once.items() if key not in devices)
    return ExpectedDevices(
        frozenset(claims - promised), frozenset(promised), frozenset(keys), beside
    )
