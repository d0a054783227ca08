"""Finds what the allocation of one claim contradicts, when that claim changes.

Another scheduler or a person wrote such an allocation: the fence keeps others from owned pools, and
where it is missing a conflict cannot be prevented, only reported. Most drivers prepare it without
a word. The audit looks at everything; this looks at the devices of one claim.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from drawbridge.dra.device import Device
from drawbridge.dra.inventory import PoolID, PublishedPool
from drawbridge.dra.nodes import named_nodes
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.audit import (
    MAX_NAMES,
    find_exceeded_capacity,
    find_overdrawn_counters,
    is_allocated,
    name_claims,
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
    held: dict[DeviceID, list[Hold]] = {}
    for hold in record.holds:
        held.setdefault(hold.device_id, []).append(hold)
    for device, own in held.items():
        yield from _held_by_others(ledger, device, own)
    for pool in dict.fromkeys(hold.pool for hold in record.holds):
        current = find_pool(pool)
        if current is not None:
            yield from _elsewhere(record, pool, current)
            yield from _overcommitted(ledger, record, pool, current)


def _held_by_others(ledger: Ledger, device: DeviceID, own: Sequence[Hold]) -> Iterator[Finding]:
    """Compare with the other claims on a device: the whole device, or the claim's own shares of it.

    A device can have thousands of holders, of which the first few are looked at.
    """
    about = f"Device/{device.pool.driver}/{device.pool.name}/{device.name}"
    for what, uids in _competing(ledger, device, own):
        users = [*islice((uid for uid in uids if is_allocated(ledger, uid)), MAX_NAMES + 1)]
        if len(users) > 1:
            message = f"{what}held by {name_claims(ledger, users)}"
            yield codes.DEVICE_HELD_TWICE.at(_PATH, message, object=about)


def _competing(
    ledger: Ledger, device: DeviceID, own: Sequence[Hold]
) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the claims of which only one may exist, with the start of a message about them."""
    holders = ledger.holders_in(device.pool).get(device.name, {})
    if not all(hold.shared for hold in own) or _is_held_whole(ledger, device, holders):
        yield "", holders
        return
    for share in sorted({hold.share for hold in own}):
        yield f"share {share} is ", ledger.users_of_share(device, share)


def _is_held_whole(ledger: Ledger, device: DeviceID, holders: Mapping[str, Sequence[Hold]]) -> bool:
    """Return whether a claim has the whole device allocated; looks at all only if one holds it."""
    return device.name in ledger.view().use(device.pool).dedicated and any(
        is_allocated(ledger, uid) and not all(hold.shared for hold in holds)
        for uid, holds in holders.items()
    )


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
    shared = {hold.device for hold in record.holds if hold.shared}
    for device in (each for each in mine if each.name in shared):
        yield from find_exceeded_capacity(ledger, pool, device)
    drawn = {use.counter_set for device in mine for use in device.consumes_counters}
    if drawn:
        # Only what the claim's own devices draw on: a node has a counter set for each of its GPUs.
        own = replace(
            current,
            devices={each.name: each for each in _allocated_devices(ledger, pool, current)},
            counter_sets={
                name: each for name, each in current.counter_sets.items() if name in drawn
            },
        )
        # A GPU under its partition overdraws a dozen counters, which is one event.
        yield from islice(find_overdrawn_counters(pool, own, own.devices), 1)


def _allocated_devices(ledger: Ledger, pool: PoolID, current: PublishedPool) -> Iterator[Device]:
    for name, holders in ledger.holders_in(pool).items():
        if name in current.devices and any(is_allocated(ledger, uid) for uid in holders):
            yield current.devices[name]
