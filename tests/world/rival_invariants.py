"""What must hold when others allocate devices of ours, as far as our processes can know it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from allocator.process import _Parts
from allocator.writes.cluster_writes import Check
from drawbridge.dra.allocation import Allocation, Consumer
from drawbridge.dra.claim import Claim
from drawbridge.ledger.codes import CAPACITY_EXCEEDED, COUNTER_OVERDRAWN, DEVICE_HELD_TWICE
from drawbridge.ledger.conflicts import ConflictLine
from drawbridge.ledger.ledger import Ledger, Reservation, ReservationRefusal
from tests.cluster.fake.kinds import JSON, named
from tests.world.nodes import Device, claim_names, consumers_of, held_by, holds_of
from tests.world.objects import ALL_NODES
from tests.world.opened_fences import is_seen_open
from tests.world.team_quota import note_promise
from tests.world.waiting_pods import name_of, namespace_of

if TYPE_CHECKING:
    from tests.world.world import World

Assume = Callable[..., ReservationRefusal | None]


# --- what an allocator promises and binds ---


def note_promises(world: "World") -> Assume:
    """Return what replaces `Ledger.assume`, and notes what is promised beside a rival.

    As soon as the cache of an allocator has the claim of a rival, nobody is promised its device,
    nor one that needs the counters that it takes.
    """
    assume = Ledger.assume

    def note(
        ledger: Ledger,
        reservations: Mapping[str, Reservation],
        **options: Any,  # noqa: ANN401  # passed on
    ) -> ReservationRefusal | None:
        before = frozenset(ledger.reservations)
        refusal = assume(ledger, reservations, **options)
        parts = next((each for each in _running(world) if _ledger_of(each) is ledger), None)
        for uid in () if refusal or parts is None else sorted(reservations.keys() - before):
            if parts is not None and (active := ledger.reservations.get(uid)) is not None:
                note_promise(world, parts, uid)
                own = {(hold.pool.name, hold.device) for hold in active.holds}
                if met := _find_met(own, _find_cached(world, parts), _list_published(parts)):
                    world.rivals.beside.append(f"{uid} is promised {met}, which {_RIVAL_HAS}")
                for node in sorted({node for node, _ in own if is_seen_open(parts, node)}):
                    world.rivals.beside.append(f"{uid} is promised a device of {node}, {_OPEN}")
        return refusal

    return note


_RIVAL_HAS, _OPEN = "is seen to be of a rival", "which is seen without a fence"


def _running(world: "World") -> Iterator[_Parts]:
    for pair in world.pairs.values():
        if pair.parts is not None and pair.parts.state.ready:
            yield pair.parts


def _ledger_of(parts: _Parts) -> Ledger:
    return parts.state.decisions.state.ledger


def _find_cached(world: "World", parts: _Parts) -> dict[Device, bool]:
    """Return the devices of rivals that the cache of an allocator has, and that they still have.

    The value says whether they have the whole device, and not a share of it. A list of all claims
    can have told it of the end of an allocation, which the cache has later.
    """
    names = [name for _, name in world.holders if world.rivals.has(name)]
    theirs = {each.name: each.value for each in parts.caches.claims.all()} if names else {}
    allocations = (theirs[name].status.allocation for name in names if name in theirs)
    held: dict[Device, bool] = {}
    for result in (result for each in allocations if each for result in each.devices.results):
        device = result.pool, result.device
        held[device] = held.get(device, False) or not result.share_id
    return held


def _list_published(parts: _Parts) -> set[Device]:
    """Return the devices of the newest generation of each pool; nobody knows what others take."""
    slices = [each.value for each in parts.caches.slices.all()]
    newest: dict[tuple[str, str], int] = {}
    for slice_ in slices:
        pool = slice_.driver, slice_.pool
        newest[pool] = max(slice_.generation, newest.get(pool, 0))
    return {
        (each.pool, device.name)
        for each in slices
        if each.generation == newest[each.driver, each.pool]
        for device in each.devices
    }


def _find_met(
    own: Collection[Device], others: Mapping[Device, bool], published: Collection[Device]
) -> str:
    """Return a device that others have, or that does not fit beside what they have; else ""."""
    for node, device in sorted(own):
        if others.get((node, device)):
            return f"{node}/{device}"
        shape, elsewhere = ALL_NODES[node], others.keys() - {(node, device)}
        held = [name for pool, name in elsewhere if pool == node and (node, name) in published]
        needed = shape.devices[device]
        if needed and needed + sum(shape.devices[name] for name in held) > shape.units:
            return f"{node}/{device}"
    return ""


def watch_writes(world: "World", parts: _Parts) -> None:
    """Note what an allocator sends, also once more, although it sees that it must not."""
    _watch_bindings(world, parts)
    writes = parts.binder._writes  # noqa: SLF001
    allocate = writes.allocate

    def note(
        claim: Claim, allocation: Allocation, consumers: Sequence[Consumer], check: Check
    ) -> Any:  # noqa: ANN401  # awaited by the caller
        def judge() -> None:
            check()
            if not _is_stored(world, claim):
                return  # it is sent once more, and refused
            for node in sorted({each.pool for each in allocation.devices.results}):
                if is_seen_open(parts, node):
                    name = claim.metadata.name
                    world.rivals.beside.append(f"{name} is allocated devices of {node}, {_OPEN}")

        return allocate(claim, allocation, consumers, judge)

    writes.allocate = note  # type: ignore[method-assign]


def _is_stored(world: "World", claim: Claim) -> bool:
    """Whether the storage has this version of a claim."""
    about = claim.metadata
    stored = world.network.store.find(named("resourceclaims"), about.namespace, about.name)
    return stored is not None and stored["metadata"]["resourceVersion"] == about.resource_version


def _watch_bindings(world: "World", parts: _Parts) -> None:
    """Note what an allocator binds although it sees that a rival has a device of the pod.

    The pod uses the claims that it names, as they are stored: a watch tells of what an allocator
    has given back later than the response. A binding that was sent before may have bound the pod,
    and who shares a claim may use it.
    """
    writes, sent = parts.binder._writes, world.rivals.sent  # noqa: SLF001
    bind = writes.bind

    def judge(pod: Any) -> None:  # noqa: ANN401  # as it is bound
        cached = _find_cached(world, parts)
        for claim in _list_claims(world, pod.uid) if cached and pod.uid not in sent else ():
            name = name_of(claim)
            if consumers_of(claim) != [pod.uid] or world.rivals.has(name) or name in world.forged:
                continue
            for met in sorted(filter(cached.get, held_by(claim))):
                world.rivals.beside.append(f"{pod.name} is bound with {met}, which {_RIVAL_HAS}")
        sent.add(pod.uid)

    def note(pod: Any, node: str, version: str, check: Check) -> Any:  # noqa: ANN401  # passed on
        def check_and_judge() -> None:
            check()
            judge(pod)

        return bind(pod, node, version, check_and_judge)

    writes.bind = note  # type: ignore[method-assign]


def _list_claims(world: "World", uid: str) -> list[JSON]:
    """Return the claims that a pod uses and that have devices."""
    pods = (pod for pod in world.all("pods") if pod["metadata"]["uid"] == uid)
    keys = ((namespace_of(pod), name) for pod in pods for name in claim_names(pod))
    return [world.holders[key] for key in keys if key in world.holders]


def nobody_gets_what_others_are_seen_to_have(world: "World") -> Iterator[str]:
    """From the moment at which an allocator sees a claim of others, or that a node has no fence.

    It promises and binds nothing beside such a claim, and allocates nothing on such a node.
    """
    yield from world.rivals.beside


def no_allocator_writes_claims_of_rivals(world: "World") -> Iterator[str]:
    """What others have allocated stays theirs, unless pods of ours came to share it."""
    for who, method, path in world.network.written[world.checked_writes :]:
        name = path.removesuffix("/status").rpartition("/")[2]
        is_ours = who.startswith("allocator") and "/resourceclaims/" in path
        if is_ours and world.rivals.has(name) and name not in world.rivals.joined | world.forged:
            yield f"{who}: {method} {path}"


# --- what is left in the end ---


def _list_holders(world: "World") -> dict[Device, list[JSON]]:
    holders: dict[Device, list[JSON]] = {}
    for claim in world.holders.values():
        for device in held_by(claim):
            holders.setdefault(device, []).append(claim)
    return holders


def _is_ours(world: "World", claim: JSON) -> bool:
    """Whether our allocator has allocated a claim, and its mark is as it wrote it."""
    return world.uses.is_ours(claim) and name_of(claim) not in world.forged


def _find_overdrawn(holders: Iterable[Device]) -> set[str]:
    """Return the nodes of which more is given than their counters have."""
    units: dict[str, int] = {}
    for node, device in holders:
        units[node] = units.get(node, 0) + ALL_NODES[node].devices[device]
    return {node for node, count in units.items() if count > ALL_NODES[node].units}


def no_pod_that_waits_keeps_what_a_rival_has(world: "World") -> Iterator[str]:
    """An allocation of ours yields to that of a rival while no pod that uses it has a node.

    Shares that fit beside each other contradict nobody.
    """
    holders = _list_holders(world)
    pods = {pod["metadata"]["uid"]: pod for pod in world.all("pods")}
    for device, claims in holders.items():
        if not _is_held_twice(device, claims):
            continue
        for claim in filter(lambda each: _is_ours(world, each), claims):
            users = [pods.get(uid) for uid in consumers_of(claim)]
            is_waiting = all(user and "nodeName" not in user["spec"] for user in users)
            if users and is_waiting and any(world.rivals.has(name_of(each)) for each in claims):
                yield f"{name_of(claim)} waits with {'/'.join(device)}, which a rival has"


def _is_held_twice(device: Device, claims: Iterable[JSON]) -> bool:
    """Whether claims hold more of a device than it has; some hold shares of it."""
    holds = (hold for claim in claims for hold in holds_of(claim) if hold.device == device)
    return sum(hold.amount for hold in holds) > ALL_NODES[device[0]].size(device[1])


def what_two_claims_hold_is_reported(world: "World") -> Iterator[str]:
    """As long as two claims hold a device or overdraw a counter, and not after that.

    Of claims of others only, an allocator that starts knows no conflict.
    """
    holders = _list_holders(world)
    twice = {device for device, claims in holders.items() if _is_held_twice(device, claims)}
    overdrawn = _find_overdrawn(holders)
    with_ours = {
        device
        for device, claims in holders.items()
        if any(_is_ours(world, claim) for claim in claims)
    }
    # Only the pools of this driver have counters.
    nodes_with_ours = {node for node, name in with_ours if name not in ALL_NODES[node].nics}
    about = {
        f"Device/{ALL_NODES[node].driver_of(name)}/{node}/{name}": (node, name)
        for node, name in holders
    }
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.state.ready:
            continue
        lines = [*pair.parts.state.list_conflicts()]
        # Only shares that are too many exceed the capacity.
        codes = (DEVICE_HELD_TWICE.name, CAPACITY_EXCEEDED.name)
        told = {about.get(e.object) for e in lines if e.code in codes}
        of_counters = {
            e.object.rpartition("/")[2] for e in lines if e.code == COUNTER_OVERDRAWN.name
        }
        for missing in sorted(twice & with_ours - told):
            yield f"{pair.host} does not report that two claims hold {'/'.join(missing)}"
        for node in sorted(overdrawn & nodes_with_ours - of_counters):
            yield f"{pair.host} does not report that the counters of {node} are overdrawn"
        for line in lines:
            if problem := _find_mistake(line, about, holders, overdrawn):
                yield f"{pair.host} reports {line}, {problem}"


def _find_mistake(
    line: ConflictLine,
    about: Mapping[str, Device],
    holders: Mapping[Device, list[JSON]],
    overdrawn: Collection[str],
) -> str:
    """Return what is wrong with what is told of a conflict, or ""."""
    if line.code == COUNTER_OVERDRAWN.name:
        return "" if line.object.rpartition("/")[2] in overdrawn else "and no counter is overdrawn"
    if line.code != DEVICE_HELD_TWICE.name:
        return ""
    claims = holders[about[line.object]] if line.object in about else ()
    names = {f"{namespace_of(claim)}/{name_of(claim)}" for claim in claims}
    named = {line.holder, line.other}
    return "" if named <= names and len(named) > 1 else f"and {sorted(names)} hold it"


def count_uses(world: "World") -> None:
    """Count the devices that pods of ours and of a rival use at the same time."""
    uses = [*world.uses.all()]
    theirs = {device for use in uses if world.rivals.has(use.claim) for device in use.devices}
    for use in uses:
        for device in sorted(use.devices & theirs if not world.rivals.has(use.claim) else ()):
            if (key := (use.pod, device)) not in world.rivals.shared:
                world.rivals.shared.add(key)
                world.network.count("device that a pod uses beside a rival")
