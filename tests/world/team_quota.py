"""What the team may have by the quota of the configuration, and what it has.

The quota limits devices, and in some seeds their memory: a share counts with what it consumes, a
device that is given as a whole with all that it publishes.
"""

import math
from collections.abc import Collection, Container, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from allocator.process import _Parts
from tests.cluster.fake.kinds import JSON
from tests.world.asks import asks_of
from tests.world.nodes import Device, Hold, held_by, holds_of
from tests.world.objects import ALL_NODES, SECOND, TEAM, TEAM_DEVICES
from tests.world.preemptions import Held, read_held, read_holds

if TYPE_CHECKING:
    from tests.world.world import World


class Amounts(NamedTuple):
    """A number of devices, and their memory."""

    devices: float
    memory: float

    def is_within(self, room: "Amounts") -> bool:
        """Whether there is room for it."""
        return self.devices <= room.devices and self.memory <= room.memory


EVERYTHING = Amounts(math.inf, math.inf)


def limits_of(world: "World") -> Amounts:
    """Return what the team may have; without a limit of memory, that is infinite."""
    memory = world.conditions.team_memory
    return Amounts(TEAM_DEVICES, math.inf if memory is None else memory)


def claims_in(world: "World", spaces: Collection[str]) -> Iterator[JSON]:
    """Yield the claims of some namespaces that have devices."""
    return (e for e in world.holders.values() if e["metadata"]["namespace"] in spaces)


def count_amounts(claims: Iterable[JSON]) -> Amounts:
    """Return what a quota counts for claims: nothing of the devices of another class."""
    return add(count_holds(holds_of(claim)) for claim in claims)


def count_holds(held: Iterable[Hold], unknown: Container[Device] = ()) -> Amounts:
    """Return what a quota counts of what is held; the memory of whole devices can be `unknown`."""
    holds = [hold for hold in held if hold.device[1] not in ALL_NODES[hold.device[0]].nics]
    shares = sum(hold.amount for hold in holds if hold.share)
    whole = (hold.device for hold in holds if not hold.share and hold.device not in unknown)
    return Amounts(len(holds), shares + sum(ALL_NODES[e[0]].memory.get(e[1], 0) for e in whole))


def count_least(claim: JSON) -> Amounts:
    """Return what a quota counts at least of a claim, whatever devices it gets."""
    choices = [
        [(0, 0) if each.of_nics or each.is_admin else (1, each.memory) for each in ask.choices]
        for ask in asks_of(claim)
    ]
    return add(Amounts(*map(min, zip(*each, strict=True))) for each in choices)


def add(several: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts."""
    devices, memory = zip((0.0, 0.0), *several, strict=True)
    return Amounts(sum(devices), sum(memory))


def find_room(world: "World", space: str) -> Amounts:
    """Return what a namespace can still get."""
    together = world.spaces.counted_with(space, world.spaces.list_chosen())
    if not together:
        return EVERYTHING
    limits, used = limits_of(world), count_amounts(claims_in(world, together))
    return Amounts(limits.devices - used.devices, limits.memory - used.memory)


def a_quota_is_never_exceeded(world: "World") -> Iterator[str]:
    """Claims of a team get no more than its quota allows; others can allocate beside it.

    What an allocator did not know when it promised devices is not judged. A quota that selects
    other namespaces by now takes nothing from who has more; what its allocator knew of labels says
    whether a promise exceeds it.
    """
    yield from world.spaces.beyond
    if world.spaces.selects:
        return
    ours = filter(world.uses.is_ours, claims_in(world, world.spaces.limited))
    used, limits = add(_count_known(world, claim) for claim in ours), limits_of(world)
    if not used.is_within(limits):
        yield f"{TEAM} has {used}, and its limits are {limits}"


def _count_known(world: "World", claim: JSON) -> Amounts:
    """Return what all allocators have counted for a claim that promised devices to others."""
    uid, uses = claim["metadata"]["uid"], world.uses
    if (uid, held_by(claim)) in uses.under_way:
        return count_least(claim)
    return count_holds(holds_of(claim), {each for key, each in uses.unknown_memory if key == uid})


def note_promise(world: "World", parts: _Parts, uid: str) -> None:
    """Note a promise for a claim for which a quota has no room, by the labels that are seen.

    What the ledger holds for claims counts, and nothing that is kept for pods: that is less than
    what the allocator counts.
    """
    spaces = world.spaces
    space = spaces.of_claim(uid)
    together = spaces.counted_with(space, spaces.list_seen(parts))
    if not together:
        return
    held, promised = read_held(parts), parts.state.decisions.state.ledger.reservations
    used = add(
        count_held(world, parts, key, of_claim)
        for key, of_claim in held.items()
        if spaces.of_claim(key) in together
    )
    limits, own = limits_of(world), count_holds(read_holds(promised[uid].holds))
    is_beyond = own.devices and used.devices > limits.devices
    if is_beyond or (own.memory and used.memory > limits.memory):
        spaces.beyond.append(f"{uid} of {space} is promised devices: {used} of {limits}")


def count_held(world: "World", parts: _Parts, uid: str, held: Held) -> Amounts:
    """Return what an allocator has to count of a claim, and note what it cannot know.

    A claim whose allocation goes has that and the promise, and the quota counts the promise. Of
    what another allocator was writing, the mark does not say what is for which request. A whole
    device whose driver is away since the allocator saw it allocated has no memory.
    """
    ledger, uses = parts.state.decisions.state.ledger, world.uses
    if (active := ledger.reservations.get(uid)) is not None:
        return count_holds(read_holds(active.holds))
    if (record := ledger.claims.get(uid)) is not None and record.allocation is None:
        uses.under_way.add((uid, frozenset(hold.device for hold in held.holds)))
        return count_least(world.spaces.claims[uid])
    pair = next(each for each in world.pairs.values() if each.parts is parts)
    unknown = {hold.device for hold in held.holds if (uid, hold.device) in pair.unpublished}
    uses.unknown_memory |= {(uid, device) for device in unknown}
    return count_holds(held.holds, unknown)


def list_charges(world: "World") -> Iterator[str]:
    """Yield which leading allocators charge a namespace something else than it has.

    A claim whose pod waits for what others release has the least that it asks for.
    """
    chosen = world.spaces.list_chosen()
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.term.leading:
            continue
        ledger = pair.parts.state.decisions.state.ledger
        quotas = ledger.quotas
        waiting = [
            claim
            for claim in world.all("resourceclaims")
            if claim["metadata"]["uid"] in ledger._expected and not holds_of(claim)  # noqa: SLF001
        ]
        for space in sorted({*world.spaces.limited, SECOND, "default"}):
            together = world.spaces.counted_with(space, chosen)
            if bool(lines := quotas.lines(space)) != bool(together):
                yield f"the ledger of {pair.host} has limits of {space}: {bool(lines)}"
            least = [count_least(e) for e in waiting if e["metadata"]["namespace"] in together]
            used = add((count_amounts(claims_in(world, together)), *least))
            for line in lines if together else ():
                if int(f"{line.used}") != getattr(used, line.key.amount):
                    told = f"{line.used} {line.key.amount}"
                    yield f"the ledger of {pair.host} charges {space} {told}, and it has {used}"
