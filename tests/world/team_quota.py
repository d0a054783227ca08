"""What the team may have by the quota of the configuration, and what it has.

The quota limits devices, and in some seeds their memory: a share counts with what it consumes, a
device that is given as a whole with all that it publishes.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tests.cluster.fake.kinds import JSON
from tests.world.nodes import Device, holds_of
from tests.world.objects import ALL_NODES, TEAM, TEAM_DEVICES

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


def claims_of_team(world: "World") -> Iterator[JSON]:
    """Yield the claims of the team that have devices."""
    return (e for e in world.holders.values() if e["metadata"]["namespace"] == TEAM)


def count_of_team(world: "World") -> Amounts:
    """Return what the team has, also by others."""
    return count_amounts(claims_of_team(world))


def count_amounts(claims: Iterable[JSON], unknown: Collection[Device] = ()) -> Amounts:
    """Return what a quota counts for claims: nothing of the devices of another class.

    The memory of whole devices can be `unknown`.
    """
    holds = [
        hold
        for claim in claims
        for hold in holds_of(claim)
        if hold.device[1] not in ALL_NODES[hold.device[0]].nics
    ]
    shares = sum(hold.amount for hold in holds if hold.share)
    whole = {hold.device for hold in holds if not hold.share}.difference(unknown)
    memory = sum(ALL_NODES[pool].memory.get(name, 0) for pool, name in whole)
    return Amounts(len(holds), shares + memory)


def room_of_team(world: "World") -> Amounts:
    """Return what the team can still get."""
    limits, used = limits_of(world), count_of_team(world)
    return Amounts(limits.devices - used.devices, limits.memory - used.memory)


def a_quota_is_never_exceeded(world: "World") -> Iterator[str]:
    """Claims of a team get no more than its quota allows; others can allocate beside it.

    An allocator that starts while a driver is away does not know the memory of its whole devices.
    """
    published = {
        (slice_["spec"]["pool"]["name"], device["name"])
        for slice_ in world.all("resourceslices")
        for device in slice_["spec"].get("devices", ())
    }
    held = {hold.device for claim in claims_of_team(world) for hold in holds_of(claim)}
    world.uses.unknown_memory |= held - published
    ours = filter(world.uses.is_ours, claims_of_team(world))
    used, limits = count_amounts(ours, world.uses.unknown_memory), limits_of(world)
    if not used.is_within(limits):
        yield f"{TEAM} has {used}, and its limits are {limits}"


def list_charges(world: "World") -> Iterator[str]:
    """Yield which leading allocators charge the team something else than it has."""
    used = count_of_team(world)
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.term.leading:
            continue
        lines = pair.parts.state.decisions.state.ledger.quotas.lines(TEAM)
        for line in lines:
            if int(f"{line.used}") != getattr(used, line.key.amount):
                yield f"the ledger of {pair.host} charges {TEAM} {line.used} {line.key.amount}"
