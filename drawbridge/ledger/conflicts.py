"""Finds what the allocation of one claim contradicts, when that claim changes, and who yields.

Another scheduler or a person wrote such an allocation: the fence keeps others from owned pools, and
where it is missing a conflict cannot be prevented, only reported. Most drivers prepare it without
a word. The audit looks at everything; this looks at the devices of one claim.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

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
# Thousands of claims can have shares of one device.
MAX_HOLDERS: Final = 32


class Conflict(NamedTuple):
    """What is wrong with an allocation, and the claims that take part in it, by UID.

    The claims of other allocators come first. Without claims, the allocation contradicts its pool.
    `part` is what of the object of the finding is contested: a share, or a counter set. `named` are
    the claims that the message of the finding names.
    """

    finding: Finding
    pool: PoolID
    part: str = ""
    holders: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What is contested."""
        return (self.finding.code, self.finding.object, self.part)


class ConflictLine(NamedTuple):
    """A conflict and two of the claims that take part; the first one is ours if one of them is."""

    code: str
    object: str
    holder: str
    other: str


def describe_conflict(conflict: Conflict, ledger: Ledger) -> ConflictLine:
    """Name the claims of a conflict, if they still exist."""
    claims = [ledger.claims[uid] for uid in conflict.holders if uid in ledger.claims]
    ours = [each for each in claims if each.ours]
    # The claims of others come first.
    holder, *_ = names = [each.name for each in (*ours[-1:], *claims)] or [""]
    other = next((each for each in names if each != holder), "")
    return ConflictLine(conflict.finding.code, conflict.finding.object, holder, other)


def abridge_finding(conflict: Conflict, ledger: Ledger, namespace: str) -> Finding:
    """Return the finding of a conflict for persons who may read only one namespace."""
    if not conflict.named:
        return conflict.finding
    message = _say_held(ledger, conflict.part, conflict.named, namespace)
    return replace(conflict.finding, message=message)


def _say_held(ledger: Ledger, part: str, uids: Iterable[str], namespace: str | None = None) -> str:
    share = f"share {part} is " if part else ""
    return f"{share}held by {name_claims(ledger, uids, namespace)}"


def find_rival(
    conflict: Conflict,
    ledger: Ledger,
    uid: str,
    is_in_use: Callable[[str], bool],
    is_ours: Callable[[str], bool],
) -> str:
    """Return the claim for which one that our allocator allocated gives its devices back, or "".

    Only an allocation of ours yields, only to one of another allocator, whichever was written
    first, and not while a pod uses it: its node may have prepared the devices.
    """
    if uid not in conflict.holders or uid not in ledger.claims or not is_ours(uid):
        return ""
    others = (each for each in conflict.holders if each != uid and is_allocated(ledger, each))
    rival = next((each for each in others if not is_ours(each)), "")
    return "" if rival and is_in_use(uid) else rival


def find_conflicts(ledger: Ledger, find_pool: FindPool, claim_uid: str) -> Iterator[Conflict]:
    """Yield each conflict of a claim with other claims or with its pools.

    `find_pool` returns a pool as it is published, None while it is incomplete.
    """
    record = ledger.claims.get(claim_uid)
    if record is None or record.allocation is None:
        return
    held: dict[DeviceID, list[Hold]] = {}
    for hold in record.holds:
        held.setdefault(hold.device_id, []).append(hold)
    for device, own in held.items():
        yield from _held_by_others(ledger, claim_uid, device, own)
    for pool in dict.fromkeys(hold.pool for hold in record.holds):
        current = find_pool(pool)
        if current is not None:
            yield from _elsewhere(record, pool, current)
            yield from _overcommitted(ledger, claim_uid, pool, current)


def _list_holders(ledger: Ledger, own: str, uids: Iterable[str]) -> tuple[str, ...]:
    """Return claims with an allocation: those of others first, then the one that changed."""
    held = [uid for uid in dict.fromkeys((own, *uids)) if is_allocated(ledger, uid)]
    held.sort(key=lambda uid: ledger.claims[uid].ours)
    return tuple(held[:MAX_HOLDERS])


def _held_by_others(
    ledger: Ledger, uid: str, device: DeviceID, own: Sequence[Hold]
) -> Iterator[Conflict]:
    """Compare with the other claims on a device: the whole device, or the claim's own shares of it.

    A device can have thousands of holders, of which the first few are looked at.
    """
    about = f"Device/{device.pool.driver}/{device.pool.name}/{device.name}"
    for share, uids in _competing(ledger, device, own):
        users = [*islice((uid for uid in uids if is_allocated(ledger, uid)), MAX_NAMES + 1)]
        if len(users) > 1:
            message = _say_held(ledger, share, users)
            finding = codes.DEVICE_HELD_TWICE.at(_PATH, message, object=about)
            holders = _list_holders(ledger, uid, uids)
            yield Conflict(finding, device.pool, share, holders, tuple(users))


def _competing(
    ledger: Ledger, device: DeviceID, own: Sequence[Hold]
) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the claims of which only one may exist, with the share that they have."""
    holders = ledger.holders_in(device.pool).get(device.name, {})
    if not all(hold.shared for hold in own) or _is_held_whole(ledger, device, holders):
        yield "", holders
        return
    for share in sorted({hold.share for hold in own}):
        yield share, ledger.users_of_share(device, share)


def _is_held_whole(ledger: Ledger, device: DeviceID, holders: Mapping[str, Sequence[Hold]]) -> bool:
    """Return whether a claim has the whole device allocated; looks at all only if one holds it."""
    return device.name in ledger.view().use(device.pool).dedicated and any(
        is_allocated(ledger, uid) and not all(hold.shared for hold in holds)
        for uid, holds in holders.items()
    )


def _elsewhere(record: ClaimRecord, pool: PoolID, current: PublishedPool) -> Iterator[Conflict]:
    """Compare the nodes of the allocation with the node of the pool."""
    selector = record.allocation.node_selector if record.allocation else None
    chosen = named_nodes(selector) if selector else None
    nodes = {each.node_name for each in current.slices}
    if chosen and None not in nodes and not chosen & nodes:
        message = (
            f"the claim is allocated for node {', '.join(sorted(chosen))}, but pool {pool.name} is "
            f"of node {', '.join(sorted(filter(None, nodes)))}"
        )
        about = f"Pool/{pool.driver}/{pool.name}"
        yield Conflict(codes.DEVICE_OF_OTHER_NODE.at(_PATH, message, object=about), pool)


def _overcommitted(
    ledger: Ledger, uid: str, pool: PoolID, current: PublishedPool
) -> Iterator[Conflict]:
    """Compare what is allocated with the capacities and counters of the claim's own devices."""
    holds = [hold for hold in ledger.claims[uid].holds if hold.pool == pool]
    mine = _published(current, (hold.device for hold in holds))
    shared = {hold.device for hold in holds if hold.shared}
    for device in (each for each in mine if each.name in shared):
        for finding in find_exceeded_capacity(ledger, pool, device):
            holders = ledger.holders_in(pool).get(device.name, {})
            yield Conflict(finding, pool, holders=_list_holders(ledger, uid, holders))
    own = _select_drawn(current, mine, _allocated_devices(ledger, pool))
    if own is not None and any(find_overdrawn_counters(pool, own, own.devices)):
        yield from _overdrawn(ledger, uid, pool, own)


def find_exceeded(ledger: Ledger, find_pool: FindPool, uids: Iterable[str]) -> Finding | None:
    """Return what claims exceed by the devices that are reserved for them; None for nothing.

    Whatever else is held in their pools counts as well, also for pods and other reservations.
    """
    names: dict[PoolID, set[str]] = {}
    for reserved in filter(None, map(ledger.reservations.get, uids)):
        for hold in reserved.holds:
            names.setdefault(hold.pool, set()).add(hold.device)
    for pool, own in names.items():
        if (current := find_pool(pool)) is not None:
            mine = _published(current, own)
            findings = [find_exceeded_capacity(ledger, pool, device) for device in mine]
            if (drawn := _select_drawn(current, mine, ledger.holders_in(pool))) is not None:
                findings.append(find_overdrawn_counters(pool, drawn, drawn.devices))
            if (finding := next(chain(*findings), None)) is not None:
                return finding
    return None


def _published(current: PublishedPool, names: Iterable[str]) -> list[Device]:
    return [current.devices[name] for name in sorted({*names} & current.devices.keys())]


def _select_drawn(
    current: PublishedPool, mine: Iterable[Device], held: Iterable[str]
) -> PublishedPool | None:
    """Return the counter sets that devices draw on, with the devices that are held; None for none.

    A node has a counter set for each of its GPUs.
    """
    drawn = {use.counter_set for device in mine for use in device.consumes_counters}
    if not drawn:
        return None
    sets = {name: each for name, each in current.counter_sets.items() if name in drawn}
    devices = {each.name: each for each in _published(current, held)}
    return replace(current, devices=devices, counter_sets=sets)


def _overdrawn(ledger: Ledger, uid: str, pool: PoolID, own: PublishedPool) -> Iterator[Conflict]:
    """Yield one conflict for each counter set that is overdrawn.

    A GPU under its partition overdraws a dozen counters of a set, which is one event.
    """
    for name, counter_set in own.counter_sets.items():
        only = replace(own, counter_sets={name: counter_set})
        for finding in islice(find_overdrawn_counters(pool, only, own.devices), 1):
            consumers = (
                holder
                for device in own.devices.values()
                if any(use.counter_set == name for use in device.consumes_counters)
                for holder in ledger.holders_in(pool)[device.name]
            )
            yield Conflict(finding, pool, name, _list_holders(ledger, uid, consumers))


def _allocated_devices(ledger: Ledger, pool: PoolID) -> Iterator[str]:
    for name, holders in ledger.holders_in(pool).items():
        if any(is_allocated(ledger, uid) for uid in holders):
            yield name
