"""What the team may have by the quota of the configuration, and what it has.

The quota limits devices, and in some seeds their memory: a share counts with what it consumes, a
device that is given as a whole with all that it publishes.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from allocator.process import _Parts
from tests.cluster.fake.kinds import JSON
from tests.world.nodes import Device, Hold, holds_of
from tests.world.objects import ALL_NODES, SECOND, TEAM, TEAM_DEVICES
from tests.world.preemptions import read_held, read_holds

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


def count_amounts(claims: Iterable[JSON], unknown: Collection[Device] = ()) -> Amounts:
    """Return what a quota counts for claims: nothing of the devices of another class.

    The memory of whole devices can be `unknown`.
    """
    return count_holds((hold for claim in claims for hold in holds_of(claim)), unknown)


def count_holds(held: Iterable[Hold], unknown: Collection[Device] = ()) -> Amounts:
    """Return what a quota counts of what is held."""
    holds = [hold for hold in held if hold.device[1] not in ALL_NODES[hold.device[0]].nics]
    shares = sum(hold.amount for hold in holds if hold.share)
    whole = {hold.device for hold in holds if not hold.share}.difference(unknown)
    memory = sum(ALL_NODES[pool].memory.get(name, 0) for pool, name in whole)
    return Amounts(len(holds), shares + memory)


def find_room(world: "World", space: str) -> Amounts:
    """Return what a namespace can still get."""
    together = world.spaces.counted_with(space, world.spaces.list_chosen())
    if not together:
        return EVERYTHING
    limits, used = limits_of(world), count_amounts(claims_in(world, together))
    return Amounts(limits.devices - used.devices, limits.memory - used.memory)


def a_quota_is_never_exceeded(world: "World") -> Iterator[str]:
    """Claims of a team get no more than its quota allows; others can allocate beside it.

    An allocator that starts while a driver is away does not know the memory of its whole devices.
    A quota that selects other namespaces by now takes nothing from who has more; what its
    allocator knew of labels says whether a promise exceeds it.
    """
    published = {
        (slice_["spec"]["pool"]["name"], device["name"])
        for slice_ in world.all("resourceslices")
        for device in slice_["spec"].get("devices", ())
    }
    of_team = [*claims_in(world, world.spaces.limited)]
    held = {hold.device for claim in of_team for hold in holds_of(claim)}
    world.uses.unknown_memory |= held - published
    yield from world.spaces.beyond
    if world.spaces.selects:
        return
    ours = filter(world.uses.is_ours, of_team)
    used, limits = count_amounts(ours, world.uses.unknown_memory), limits_of(world)
    if not used.is_within(limits):
        yield f"{TEAM} has {used}, and its limits are {limits}"


def note_promise(world: "World", parts: _Parts, uid: str) -> None:
    """Note a promise for a claim for which a quota has no room, by the labels that are seen.

    What the ledger holds for claims counts, and nothing that is kept for pods: that is less than
    what the allocator counts.
    """
    spaces = world.spaces
    space = spaces.of_claims.get(uid, "")
    together = spaces.counted_with(space, spaces.list_seen(parts))
    if not together:
        return
    held, counted = read_held(parts), list[Hold]()
    # A claim whose allocation goes has that and the promise, and the quota counts the promise.
    promised = parts.state.decisions.state.ledger.reservations
    for key, of_claim in held.items():
        if spaces.of_claims.get(key) in together:
            counted += read_holds(promised[key].holds) if key in promised else of_claim.holds
    used, limits = count_holds(counted, world.uses.unknown_memory), limits_of(world)
    own = count_holds(read_holds(promised[uid].holds))
    is_beyond = own.devices and used.devices > limits.devices
    if is_beyond or (own.memory and used.memory > limits.memory):
        spaces.beyond.append(f"{uid} of {space} is promised devices: {used} of {limits}")


def list_charges(world: "World") -> Iterator[str]:
    """Yield which leading allocators charge a namespace something else than it has."""
    chosen = world.spaces.list_chosen()
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.term.leading:
            continue
        quotas = pair.parts.state.decisions.state.ledger.quotas
        for space in sorted({*world.spaces.limited, SECOND, "default"}):
            together = world.spaces.counted_with(space, chosen)
            if bool(lines := quotas.lines(space)) != bool(together):
                yield f"the ledger of {pair.host} has limits of {space}: {bool(lines)}"
            used = count_amounts(claims_in(world, together))
            for line in lines if together else ():
                if int(f"{line.used}") != getattr(used, line.key.amount):
                    told = f"{line.used} {line.key.amount}"
                    yield f"the ledger of {pair.host} charges {space} {told}, and it has {used}"
