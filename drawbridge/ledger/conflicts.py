"""Finds what the allocation of one claim contradicts, when that claim changes.

Another scheduler or a person wrote such an allocation: the fence keeps others from owned pools, and
where it is missing a conflict cannot be prevented, only reported. Most drivers prepare it without
a word. The audit looks at everything; this looks at the devices of one claim.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from drawbridge.dra.inventory import PoolID, PublishedPool
from drawbridge.dra.nodes import named_nodes
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.audit import (
    find_exceeded_capacity,
    find_overdrawn_counters,
    is_allocated,
)
from drawbridge.ledger.holdings import DeviceID, Hold
from drawbridge.ledger.ledger import ClaimRecord, Ledger

FindPool = Callable[[PoolID], PublishedPool | None]
_PATH = "status.allocation"


def find_conflicts(ledger: Ledger, find_pool: FindPool, claim_uid: str) -> Iterator[Finding]:
    """Yield one finding for each conflict of a claim with other claims or with its pools.

    `find_pool` returns a pool as it is published, None while it is incomplete.
    """
    record = ledger.claims.get(claim_uid)
    if record is None or record.allocation is None:
        return
    distinct = {(hold.pool, hold.device, hold.share): hold for hold in record.holds}
    for hold in distinct.values():
        yield from _held_by_others(ledger, hold)
    for pool in dict.fromkeys(hold.pool for hold in record.holds):
        current = find_pool(pool)
        if current is not None:
            yield from _elsewhere(record, pool, current)
            yield from _overcommitted(ledger, record, pool, current)


def _held_by_others(ledger: Ledger, hold: Hold) -> Iterator[Finding]:
    """Compare with the other claims on a device: one whole device, or one share of it."""
    device = hold.device_id
    holders = {
        uid: holds for uid, holds in ledger.holders(device).items() if is_allocated(ledger, uid)
    }
    shared = all(each.shared for holds in holders.values() for each in holds)
    if shared:
        holders = {uid: holds for uid, holds in holders.items() if _has_share(holds, hold)}
    if len(holders) > 1:
        held = " and ".join(sorted(ledger.claims[uid].name for uid in holders))
        what = f"share {hold.share} is held by" if shared else "held by"
        about = f"Device/{device.pool.driver}/{device.pool.name}/{device.name}"
        yield codes.DEVICE_HELD_TWICE.at(_PATH, f"{what} {held}", object=about)


def _has_share(holds: tuple[Hold, ...], wanted: Hold) -> bool:
    return any(each.share == wanted.share for each in holds)


def _elsewhere(record: ClaimRecord, pool: PoolID, current: PublishedPool) -> Iterator[Finding]:
    """Compare the nodes of the allocation with the node of the pool."""
    selector = record.allocation.node_selector if record.allocation else None
    chosen = named_nodes(selector) if selector else None
    nodes = {each.node_name for each in current.slices}
    if chosen and None not in nodes and not chosen & nodes:
        message = (
            f"the claim is allocated for node {', '.join(sorted(chosen))}, but pool {pool.name} is "
            f"of node {', '.join(sorted(filter(None, nodes)))}"
        )
        yield codes.DEVICE_OF_OTHER_NODE.at(
            _PATH, message, object=f"Pool/{pool.driver}/{pool.name}"
        )


def _overcommitted(
    ledger: Ledger, record: ClaimRecord, pool: PoolID, current: PublishedPool
) -> Iterator[Finding]:
    """Compare what is allocated with the capacities and counters of the claim's own devices."""
    names = {hold.device for hold in record.holds if hold.pool == pool}
    mine = [current.devices[name] for name in sorted(names) if name in current.devices]
    for device in mine:
        yield from find_exceeded_capacity(ledger, pool, device)
    if any(device.consumes_counters for device in mine):
        held = {
            name
            for name in current.devices
            if any(is_allocated(ledger, uid) for uid in ledger.holders(DeviceID(pool, name)))
        }
        # A GPU under its partition overdraws a dozen counters, which is one event.
        yield from islice(find_overdrawn_counters(pool, current, held), 1)
