"""Checks the invariants of a ledger, internally and against the published slices.

An inconsistent ledger is a bug in Drawbridge. Inconsistent claims come from another allocator, or
from a driver that changed its slices. The audit reports both and changes nothing.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from drawbridge.dra.claim import CLAIM, Claim
from drawbridge.dra.compatibility import (
    EMPTY_STATE,
    GroupState,
    Peer,
    PlacedDevice,
    UnsetGroups,
    find_incompatibility,
)
from drawbridge.dra.counters import available_counters, consumed_counters
from drawbridge.dra.device import Device
from drawbridge.dra.inventory import Inventory, PoolID, PublishedPool, find_published_pool
from drawbridge.dra.quantity import format_nanos
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.holdings import DeviceID, Hold
from drawbridge.ledger.ledger import ClaimRecord, Ledger
from drawbridge.ledger.rule_audit import RuleAudit
from drawbridge.names import ALLOCATION_ANNOTATION
from drawbridge.solver.candidates import Candidate, CandidateCache, rule_evaluator
from drawbridge.solver.expressions import ExpressionEvaluator
from drawbridge.solver.world import View, World

_Holders = Mapping[str, tuple[Hold, ...]]
MAX_NAMES: Final = 4


def audit(
    ledger: Ledger, world: World | None = None, claims: Iterable[Claim] = ()
) -> tuple[Finding, ...]:
    """Check every invariant; without a world only the internal ones.

    The rules of `claims` count if our allocator allocated them. Skips pools whose newest
    generation is incomplete, because their driver is updating them.
    """
    return tuple(_audit(ledger, world, claims))


def is_allocated(ledger: Ledger, uid: str) -> bool:
    """Return whether a claim has an allocation."""
    record = ledger.claims.get(uid)
    return record is not None and record.allocation is not None


def _audit(ledger: Ledger, world: World | None, claims: Iterable[Claim]) -> Iterator[Finding]:
    yield from _check_index(ledger)
    yield from (each.unreadable for each in ledger.claims.values() if each.unreadable is not None)
    pools: dict[PoolID, dict[str, _Holders]] = {}
    for device in ledger.devices():
        # What a mark names is not allocated.
        holders = {
            uid: holds
            for uid, holds in ledger.holders(device).items()
            if uid not in ledger.claims or uid in ledger.reservations or is_allocated(ledger, uid)
        }
        if not holders:
            continue
        pools.setdefault(device.pool, {})[device.name] = holders
        yield from _check_exclusive(ledger, device, holders)
    if world is None:
        return
    candidates = CandidateCache(world, expressions := ExpressionEvaluator(world.gates))
    yield from RuleAudit(world, candidates, expressions).check(claims)
    for record in ledger.claims.values():
        yield from find_excessive_marks(record, world.inventory)
    members: dict[tuple[str, str], list[PlacedDevice]] = {}
    for pool, held in pools.items():
        current = find_published_pool(world.inventory, pool)
        if current is not None:
            several = (each for one in current.slices for each in candidates.of_slice(one))
            candidate_of = {each.name: each for each in several if each.name in held}
            yield from _check_devices(ledger, pool, current, held)
            yield from _check_counters_and_groups(pool, current, candidate_of, world.unset_groups)
            for name, candidate in candidate_of.items():
                member = _placed_device(candidate)
                # An exclusive device that is held twice has a finding already.
                count = sum(map(len, held[name].values())) if candidate.shared else 1
                members.setdefault((pool.driver, member.node), []).extend([member] * count)
    for together in members.values():
        yield from _check_rules(together, rule_evaluator(expressions))


def find_excessive_marks(record: ClaimRecord, inventory: Inventory) -> Iterator[Finding]:
    """Report where the mark of a claim records more counters than its device consumes.

    The message has no counter: a forged mark that changes again and again is one finding.
    """
    for hold in record.holds:
        published = find_published_pool(inventory, hold.pool) if hold.marked_draw else None
        device = published.devices.get(hold.device) if published else None
        if device is None:
            continue
        consumed = consumed_counters(device)
        recorded = consumed_counters(Device(hold.device, consumes_counters=hold.marked_draw))
        if any(recorded[key] > consumed.get(key, 0) for key in recorded):
            name = _device_name(hold.device_id)
            message = (
                f"claim {record.name}: the mark of {name} records counters that the device does "
                "not consume, or more of one than it consumes"
            )
            path = f"metadata.annotations[{ALLOCATION_ANNOTATION}]"
            yield codes.MARK_EXCEEDS_DEVICE.at(path, message, object=f"{CLAIM}/{record.name}")


def _placed_device(candidate: Candidate) -> PlacedDevice:
    node = candidate.slice.node_name or candidate.device.node_name or ""
    return PlacedDevice(node, Peer(candidate.pool, candidate.device), candidate.rule)


def _check_rules(
    members: Sequence[PlacedDevice], ask: Callable[[str, Peer], bool]
) -> Iterator[Finding]:
    """Check rules between the devices of one driver on one node."""
    if all(each.rule is None for each in members):
        return
    for number, device in enumerate(members):
        incompatibility = find_incompatibility(device, members[:number], ask)
        if incompatibility is not None:
            message = f"allocated together with {incompatibility.refused}, but not compatible"
            if incompatibility.error:
                message += f": {incompatibility.error}"
            yield codes.COMPANY_REFUSED.at("", message, object=f"Device/{incompatibility.refusing}")


def _check_index(ledger: Ledger) -> Iterator[Finding]:
    """Compare the index and the view with the claims and reservations."""
    expected: dict[DeviceID, dict[str, list[Hold]]] = {}
    sources = [(uid, each.holds) for uid, each in ledger.claims.items()]
    sources += [(uid, each.holds) for uid, each in ledger.reservations.items()]
    sources += ledger.kept.items()
    for uid, held in sources:
        for holding in held:
            expected.setdefault(holding.device_id, {}).setdefault(uid, []).append(holding)
    view = ledger.view()
    for device in sorted({*expected, *ledger.devices()}):
        indexed = {uid: list(held) for uid, held in ledger.holders(device).items()}
        if indexed != expected.get(device, {}):
            holders = sorted(expected.get(device, {}))
            message = f"the index has holders {sorted(indexed)}, the claims {holders}"
            yield codes.LEDGER_INCONSISTENT.at("", message, object=_device_name(device))
        if not view.use(device.pool).holds(device.name):
            message = "held, but free in the view"
            yield codes.LEDGER_INCONSISTENT.at("", message, object=_device_name(device))
    yield from _check_view(view, expected)
    for uid in ledger.reservations:
        record = ledger.claims.get(uid)
        if record is None or record.allocation is not None:
            message = f"claim {uid} has a reservation that it does not need"
            yield codes.LEDGER_INCONSISTENT.at("", message, object=f"ResourceClaim/{uid}")


def _check_view(view: View, expected: Mapping[DeviceID, object]) -> Iterator[Finding]:
    for pool, use in view.pools.items():
        for name in sorted({*use.dedicated, *use.shares, *use.snapshots}):
            if DeviceID(pool, name) not in expected:
                message = "free, but held in the view"
                yield codes.LEDGER_INCONSISTENT.at(
                    "", message, object=_device_name(DeviceID(pool, name))
                )


def _check_exclusive(ledger: Ledger, device: DeviceID, holders: _Holders) -> Iterator[Finding]:
    held = [each for several in holders.values() for each in several]
    of_claims = [h for uid, several in holders.items() if uid not in ledger.kept for h in several]
    # What is kept can also close a device to more shares.
    only_shares = all(each.shared for each in of_claims or held)
    if len(held) > 1 and not only_shares:
        message = f"held by {name_claims(ledger, holders)}"
        yield codes.DEVICE_HELD_TWICE.at("", message, object=_device_name(device))


def _check_devices(
    ledger: Ledger, pool: PoolID, current: PublishedPool, held: Mapping[str, _Holders]
) -> Iterator[Finding]:
    for name, holders in held.items():
        about = _device_name(DeviceID(pool, name))
        device = current.devices.get(name)
        if device is None:
            message = (
                f"held by {name_claims(ledger, holders)}, but not published in"
                f" generation {current.generation} of its pool"
            )
            yield codes.DEVICE_LOST.at("", message, object=about)
            continue
        shared = any(each.shared for several in holders.values() for each in several)
        if shared and not device.allow_multiple_allocations:
            message = f"{name_claims(ledger, holders)} hold shares of an exclusive device"
            yield codes.DEVICE_NOT_SHARED.at("", message, object=about)
        yield from find_exceeded_capacity(ledger, pool, device)


def find_exceeded_capacity(ledger: Ledger, pool: PoolID, device: Device) -> Iterator[Finding]:
    """Yield one finding for each capacity of which shares consume more than the device has."""
    consumed = ledger.view().use(pool).shares.get(device.name, {})
    for capacity, amount in consumed.items():
        has = device.capacity.get(capacity)
        if has is not None and has.value < amount:
            message = f"claims consume {amount} of {capacity}, but the device has {has.value}"
            about = _device_name(DeviceID(pool, device.name))
            yield codes.CAPACITY_EXCEEDED.at("", message, object=about)


def find_overdrawn_counters(
    pool: PoolID, current: PublishedPool, held: Container[str]
) -> Iterator[Finding]:
    """Yield one finding for each counter of which held devices consume more than its total."""
    counters = available_counters(current.counter_sets, current.devices.values(), held)
    for counter_set, counter in sorted(counters.over_committed):
        has = current.counter_sets[counter_set].counters[counter].value
        over = format_nanos(-counters.remaining[counter_set, counter])
        message = (
            f"allocated devices consume {over} more of counter {counter} of "
            f"{counter_set} than its total of {has}"
        )
        about = f"Pool/{pool.driver}/{pool.name}"
        yield codes.COUNTER_OVERDRAWN.at("", message, object=about)


def _check_counters_and_groups(
    pool: PoolID, current: PublishedPool, held: Mapping[str, Candidate], unset: UnsetGroups
) -> Iterator[Finding]:
    """Check counters and groups against the slices; marks affect only the solver."""
    yield from find_overdrawn_counters(pool, current, held)
    about = f"Pool/{pool.driver}/{pool.name}"
    conflicting_sets: dict[str, None] = {}
    group_states: dict[str, GroupState] = {}
    for name in sorted(held):
        for counter_use in held[name].counter_uses:
            state = group_states.get(counter_use.counter_set, EMPTY_STATE)
            if not state.admits(counter_use.compatibility_groups, unset):
                conflicting_sets[counter_use.counter_set] = None
            group_states[counter_use.counter_set] = state.with_member(
                counter_use.compatibility_groups, unset
            )
    for counter_set in conflicting_sets:
        message = f"allocated devices on {counter_set} have no compatibility group in common"
        yield codes.GROUPS_CONTRADICT.at("", message, object=about)


def _device_name(device: DeviceID) -> str:
    return f"Device/{device.pool.driver}/{device.pool.name}/{device.name}"


def name_claims(ledger: Ledger, uids: Iterable[str], namespace: str | None = None) -> str:
    """Name the first claims; a tenant can write thousands that hold one device.

    For persons who may read only one `namespace`, claims of others are counted. The message does
    not count those behind the first ones, so that it stays equal while they come and go.
    """
    first = [*islice(uids, MAX_NAMES + 1)]
    records = {uid: ledger.claims[uid] for uid in first if uid in ledger.claims}
    shown = first[:MAX_NAMES]
    if namespace is not None:
        shown = [uid for uid in shown if uid in records and records[uid].namespace == namespace]
    names = sorted(records[uid].name if uid in records else uid for uid in shown)
    if (others := min(len(first), MAX_NAMES) - len(shown)) > 0:
        several = f"{others} claims of other namespaces"
        names.append("a claim of another namespace" if others == 1 else several)
    if len(first) > MAX_NAMES:
        return f"{', '.join(names)} and more claims"
    return " and ".join(names)
