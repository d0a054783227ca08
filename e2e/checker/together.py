"""Checks devices that are in use at the same time, in the order of allocation."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from e2e.checker.asked import devices_of
from e2e.checker.chosen import Chosen, Cluster, amounts, shareable
from e2e.checker.pools import Pool, listed, name_of, section, spec_of
from e2e.checker.quantities import Json, quantity
from e2e.checker.violation import BrokenRule

Key = tuple[str, str, str]


@dataclass
class DevicesInUse:
    """Who holds what: `dedicated` and `shares` from before, the rest grows with the replay.

    Results with admin access hold nothing afterwards. During its search upstream lets them draw
    counters; that refuses more than the hardware does and is no rule here.
    """

    dedicated: set[Key] = field(default_factory=set)
    shares: set[Key] = field(default_factory=set)
    consumed: dict[Key, dict[str, Fraction]] = field(default_factory=dict)
    taken: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))
    drawn: list[tuple[Pool, Json]] = field(default_factory=list)


def held(claims: list[Json], *, shares: bool) -> DevicesInUse:
    """Sum up the claims that are allocated already."""
    out = DevicesInUse()
    for claim in claims:
        allocation = section(section(claim, "status"), "allocation")
        for result in listed(section(allocation, "devices"), "results"):
            if result.get("adminAccess"):
                continue
            key = (str(result["driver"]), str(result["pool"]), str(result["device"]))
            if shares and result.get("shareID"):
                out.shares.add(key)
                consume(out, key, section(result, "consumedCapacity"))
            else:
                out.dedicated.add(key)
    return out


def consume(state: DevicesInUse, key: Key, consumed: Json) -> None:
    """Add a share's amounts."""
    sums = state.consumed.setdefault(key, {})
    for name, value in consumed.items():
        sums[name] = sums.get(name, Fraction(0)) + quantity(value)


def check_use(
    cluster: Cluster, state: DevicesInUse, chosen: Chosen, claim: int
) -> Iterator[BrokenRule]:
    """A device is free for this result, and gives it its amounts."""
    key, shared, admin = chosen.key, shareable(cluster, chosen.device), chosen.asked.admin
    yield from check_free(state, chosen, claim)
    if cluster.gates["DRAConsumableCapacity"]:
        yield from check_amounts(cluster, state, chosen, shared=shared)
    elif chosen.result.get("shareID") or chosen.result.get("consumedCapacity"):
        yield BrokenRule("ShareOff", f"{chosen.label}: shares are switched off")
    if not admin and not (shared and key in state.shares):
        yield from check_groups(cluster, state, chosen)
        state.drawn.append((chosen.pool, chosen.device))
    if not shared:
        state.taken[key].add(claim)
    elif not admin:
        state.shares.add(key)


def check_free(state: DevicesInUse, chosen: Chosen, claim: int) -> Iterator[BrokenRule]:
    """Nobody else has the device; with admin access only the claim itself is somebody else."""
    if chosen.asked.admin:
        if claim in state.taken[chosen.key]:
            yield BrokenRule("TakenTwice", f"{chosen.label}: already in this claim")
    elif chosen.key in state.dedicated:
        yield BrokenRule("Held", f"{chosen.label}: allocated to another claim")
    elif state.taken[chosen.key]:
        yield BrokenRule("TakenTwice", f"{chosen.label}: already taken for this pod")


def check_amounts(
    cluster: Cluster, state: DevicesInUse, chosen: Chosen, *, shared: bool
) -> Iterator[BrokenRule]:
    """Capacity: the policy's amount, written down for shares, within what is left."""
    consumed = amounts(cluster, chosen.asked, chosen.device)
    if isinstance(consumed, BrokenRule):
        yield consumed
        return
    if bool(chosen.result.get("shareID")) != shared:
        yield BrokenRule("WrongShare", f"{chosen.label}: shareID does not fit the device")
    told = section(chosen.result, "consumedCapacity")
    if {name: quantity(value) for name, value in told.items()} != (consumed if shared else {}):
        yield BrokenRule("WrongAmount", f"{chosen.label}: {told} instead of {consumed}")
    sums = state.consumed.get(chosen.key, {})
    for name, capacity in section(chosen.device, "capacity").items():
        wanted = consumed[name]
        assert isinstance(wanted, Fraction)
        if sums.get(name, Fraction(0)) + wanted > quantity(capacity["value"]):
            yield BrokenRule("CapacityExceeded", f"{chosen.label}: {name}")
    if shared:
        consume(state, chosen.key, told)


def check_groups(cluster: Cluster, state: DevicesInUse, chosen: Chosen) -> Iterator[BrokenRule]:
    """On a counter set all devices have a group in common, or none has any."""
    if not cluster.gates["DRADeviceCompatibilityGroups"]:
        return
    for use in listed(chosen.device, "consumesCounters"):
        members = [*before(state, chosen.pool), *(d for p, d in state.drawn if p is chosen.pool)]
        others = [
            set(listed(other, "compatibilityGroups"))
            for member in members
            for other in listed(member, "consumesCounters")
            if other["counterSet"] == use["counterSet"]
        ]
        mine = set(listed(use, "compatibilityGroups"))
        if not others:
            continue
        # A member with groups beside one without is somebody else's mistake; the first counts.
        common = set.intersection(*([each for each in others if each] if others[0] else [set()]))
        if bool(mine) != bool(others[0]) or (mine and not mine & common):
            yield BrokenRule("GroupsClash", f"{chosen.label} on {use['counterSet']}")


def before(state: DevicesInUse, pool: Pool) -> list[Json]:
    """Devices of a pool that were allocated from the start: those for this node, then others."""
    here = sorted(pool.here, key=name_of)
    rest = [entry for entry in pool.all if entry not in pool.here]
    drawn = {str(device["name"]) for owner, device in state.drawn if owner is pool}
    return [
        device
        for entry in [*here, *rest]
        for device in listed(spec_of(entry), "devices")
        if (pool.driver, pool.name, str(device["name"])) in state.dedicated | state.shares
        and device["name"] not in drawn
    ]


def check_counters(state: DevicesInUse) -> Iterator[BrokenRule]:
    """What all devices of a pool draw from a set that was drawn from now is within the set."""
    for pool in {id(pool): pool for pool, _ in state.drawn}.values():
        now = [device for owner, device in state.drawn if owner is pool]
        left: dict[tuple[object, str], Fraction] = {}
        for entry in pool.all:
            for counters in listed(spec_of(entry), "sharedCounters"):
                for name, counter in section(counters, "counters").items():
                    left[counters["name"], name] = quantity(counter["value"])
        touched = {use["counterSet"] for one in now for use in listed(one, "consumesCounters")}
        for device in [*before(state, pool), *now]:
            for use in listed(device, "consumesCounters"):
                for name, counter in section(use, "counters").items():
                    # Unknown counters make the pool invalid, where the gate is on.
                    key = use["counterSet"], name
                    left[key] = left.get(key, Fraction(0)) - quantity(counter["value"])
        for (counter_set, name), value in left.items():
            if value < 0 and counter_set in touched:
                yield BrokenRule(
                    "CountersExceeded", f"{pool.name}: {counter_set}/{name} by {-value}"
                )


def constraints_of(claim: Json) -> list[Json]:
    """The constraints of a claim."""
    return listed(devices_of(claim), "constraints")
