"""Does it hold? Every invariant of a ledger, by itself and against what is published.

What the ledger got wrong is a bug of ours; what claims got wrong is somebody else's allocation, or
a driver that changed its slices. Both are only told here, nothing is mended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dra.compatibility import EMPTY_STATE, GroupState, PlacedDevice, Peer, UnsetGroups, find_incompatibility
from dra.counters import available_counters
from dra.finding import Finding
from dra.inventory import PoolID
from ledger import codes
from ledger.holdings import Hold
from ledger.ledger import DeviceID, Ledger
from ledger.published_pools import PublishedPool, find_published_pool
from solver.candidates import Candidate, CandidateCache, rule_evaluator
from solver.expressions import ExpressionEvaluator
from solver.world import View, World

_Holders = Mapping[str, tuple[Hold, ...]]


def audit(ledger: Ledger, world: World | None = None) -> tuple[Finding, ...]:
    """Check every invariant; without a world only those that need none.

    A pool whose newest generation is not complete is passed over: its driver is at work.
    """
    return tuple(_audit(ledger, world))


def _audit(ledger: Ledger, world: World | None) -> Iterator[Finding]:
    yield from _remembered(ledger)
    yield from (each.unreadable for each in ledger.claims.values() if each.unreadable is not None)
    pools: dict[PoolID, dict[str, _Holders]] = {}
    for device in ledger.devices():
        holders = ledger.holders(device)
        pools.setdefault(device.pool, {})[device.name] = holders
        yield from _exclusive(ledger, device, holders)
    if world is None:
        return
    candidates = CandidateCache(world, expressions := ExpressionEvaluator(world.gates))
    members: dict[tuple[str, str], list[PlacedDevice]] = {}
    for pool, held in pools.items():
        current = find_published_pool(world.inventory, pool)
        if current is not None:
            several = (each for one in current.slices for each in candidates.of_slice(one))
            known = {each.name: each for each in several if each.name in held}
            yield from _devices(ledger, pool, current, held)
            yield from _drawn(pool, current, known, world.unset_groups)
            for name, each in known.items():
                member = _member(each)
                # What cannot be shared and is held twice is told of as that.
                count = sum(map(len, held[name].values())) if each.shared else 1
                members.setdefault((pool.driver, member.node), []).extend([member] * count)
    for together in members.values():
        yield from _company(together, rule_evaluator(expressions))


def _member(each: Candidate) -> PlacedDevice:
    node = each.slice.node_name or each.device.node_name or ""
    return PlacedDevice(node, Peer(each.pool, each.device), each.rule)


def _company(members: Sequence[PlacedDevice], ask: Callable[[str, Peer], bool]) -> Iterator[Finding]:
    """Check rules between the devices of one driver on one node."""
    if all(each.rule is None for each in members):
        return
    for number, each in enumerate(members):
        found = find_incompatibility(each, members[:number], ask)
        if found is not None:
            message = f"it is allocated beside {found.refused} and does not go with it"
            if found.error:
                message += f": {found.error}"
            yield codes.COMPANY_REFUSED.at("", message, object=f"Device/{found.refusing}")


def _remembered(ledger: Ledger) -> Iterator[Finding]:
    """Compare the index and the view with what claims and promises say."""
    told: dict[DeviceID, dict[str, list[Hold]]] = {}
    sources = [(uid, each.holds) for uid, each in ledger.claims.items()]
    sources += [(uid, each.holds) for uid, each in ledger.promises.items()]
    for uid, held in sources:
        for each in held:
            told.setdefault(DeviceID(each.pool, each.device), {}).setdefault(uid, []).append(each)
    view = ledger.view()
    for device in sorted({*told, *ledger.devices()}):
        remembered = {uid: list(held) for uid, held in ledger.holders(device).items()}
        if remembered != told.get(device, {}):
            message = (
                f"remembered are {sorted(remembered)}, claims say {sorted(told.get(device, {}))}"
            )
            yield codes.LEDGER_INCONSISTENT.at("", message, object=_named(device))
        if not view.use(device.pool).holds(device.name):
            message = "it is held, and the view says that it is free"
            yield codes.LEDGER_INCONSISTENT.at("", message, object=_named(device))
    yield from _viewed(view, told)
    for uid in ledger.promises:
        known = ledger.claims.get(uid)
        if known is None or known.allocation is not None:
            message = f"claim {uid} has a promise and no need of one"
            yield codes.LEDGER_INCONSISTENT.at("", message, object=f"ResourceClaim/{uid}")


def _viewed(view: View, told: Mapping[DeviceID, object]) -> Iterator[Finding]:
    for pool, use in view.pools.items():
        for name in sorted({*use.dedicated, *use.shares, *use.snapshots}):
            if DeviceID(pool, name) not in told:
                message = "it is free, and the view says that it is held"
                yield codes.LEDGER_INCONSISTENT.at("", message, object=_named(DeviceID(pool, name)))


def _exclusive(ledger: Ledger, device: DeviceID, holders: _Holders) -> Iterator[Finding]:
    held = [each for several in holders.values() for each in several]
    if len(held) > 1 and not all(each.shared for each in held):
        message = f"it is held by {_names(ledger, holders)}"
        yield codes.HELD_TWICE.at("", message, object=_named(device))


def _devices(
    ledger: Ledger, pool: PoolID, current: PublishedPool, held: Mapping[str, _Holders]
) -> Iterator[Finding]:
    for name, holders in held.items():
        about = _named(DeviceID(pool, name))
        device = current.devices.get(name)
        if device is None:
            message = (
                f"{_names(ledger, holders)} holds it,"
                f" generation {current.generation} of its pool has it not"
            )
            yield codes.DEVICE_LOST.at("", message, object=about)
            continue
        shared = any(each.shared for several in holders.values() for each in several)
        if shared and not device.allow_multiple_allocations:
            message = f"{_names(ledger, holders)} hold shares of it"
            yield codes.NOT_SHARED.at("", message, object=about)
        consumed = ledger.view().use(pool).shares.get(name, {})
        for capacity, amount in consumed.items():
            has = device.capacity.get(capacity)
            if has is not None and has.value < amount:
                message = f"claims consume {amount} of {capacity}, it has {has.value}"
                yield codes.CAPACITY_EXCEEDED.at("", message, object=about)


def _drawn(
    pool: PoolID, current: PublishedPool, held: Mapping[str, Candidate], unset: UnsetGroups
) -> Iterator[Finding]:
    """Check counters and groups by what is published; marks only make the solver stricter."""
    about = f"Pool/{pool.driver}/{pool.name}"
    counters = available_counters(current.counter_sets, current.devices.values(), held)
    for counter_set, counter in sorted(counters.overdrawn):
        has = current.counter_sets[counter_set].counters[counter].value
        over = -counters.remaining[counter_set, counter]
        message = (
            f"devices draw more {counter} than {counter_set} has, which is {has},"
            f" by {over / 10**9:g}"
        )
        yield codes.COUNTER_EXCEEDED.at("", message, object=about)
    apart: dict[str, None] = {}
    companies: dict[str, GroupState] = {}
    for name in sorted(held):
        for each in held[name].counter_uses:
            company = companies.get(each.counter_set, EMPTY_STATE)
            if not company.admits(each.compatibility_groups, unset):
                apart[each.counter_set] = None
            companies[each.counter_set] = company.with_member(each.compatibility_groups, unset)
    for counter_set in apart:
        message = f"devices on {counter_set} have no group in common"
        yield codes.GROUPS_CONTRADICT.at("", message, object=about)


def _named(device: DeviceID) -> str:
    return f"Device/{device.pool.driver}/{device.pool.name}/{device.name}"


def _names(ledger: Ledger, uids: Iterable[str]) -> str:
    claims = ledger.claims
    return " and ".join(claims[uid].name if uid in claims else uid for uid in uids)
