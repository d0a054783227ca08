"""Counts joint asks for bridge placement, where the claim carries the joint rule itself.

The rule requires the devices of the other asks in exactly the locations of the primary devices. How
many locations there are depends on the free devices of the node, so a request lists every number
that can be needed, the smallest first. Only the largest possible numbers depend on node shapes.
"""

import functools
from collections.abc import Mapping, Sequence

import msgspec

from drawbridge.dra.attributes import NUMA_NODE, PCIE_ROOT
from drawbridge.facts.model import Facts, Neighbourhood, NodeShape
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.joint import (
    ALL_DEVICES,
    OTHER_ALIGNMENT,
    CannotRequireError,
    choose_attribute,
    find_shapes,
    format_devices,
)
from drawbridge.translate.targets.plan import make_finding
from drawbridge.translate.targets.requests import MAX_ALTERNATIVES, MAX_RESULTS
from drawbridge.translate.targets.vocabulary import FEWER_DEVICES, NotExpressibleError

# For each number of locations, the most other devices in as many locations with room for the
# primary devices.
_Room = Mapping[int, int]


class LinkedCounts(msgspec.Struct, frozen=True):
    """The numbers of devices to request; of each other ask, the numbers to try in this order."""

    primary: int
    others: tuple[tuple[int, ...], ...]
    attribute: str
    findings: tuple[Finding, ...] = ()


def count_linked(
    primary: Ask, others: Sequence[Ask], drivers: tuple[str, str], facts: Facts | None
) -> LinkedCounts | None:
    """Count joint asks and choose the attribute of their locations; None if no rule applies.

    No rule applies to derived attributes: the API server refuses one that no constraint names.
    """
    joint = primary.joint or JointAllocation("", primary.kind)
    takes_all = primary.count is None or any(each.count is None for each in others)
    if joint.scope is TopologyScope.NODE or (takes_all and not joint.required):
        return None
    if takes_all:
        raise NotExpressibleError(ALL_DEVICES, "Request a number of devices.")
    count = primary.count or 1
    shapes = find_shapes(facts, drivers) if facts else []
    counted_rooms = _find_rooms(primary, joint, shapes)
    if counted_rooms is None:
        return None
    attribute, rooms, findings = counted_rooms
    counted = []
    for other in others:
        numbers, more = _limit(other, _find_counts(primary, other, rooms, joint), count, facts)
        counted.append(numbers)
        findings += more
    return LinkedCounts(count, tuple(counted), attribute, findings)


def _find_rooms(
    primary: Ask, joint: JointAllocation, shapes: Sequence[NodeShape]
) -> tuple[str, list[_Room], tuple[Finding, ...]] | None:
    """Return the attribute, and the room of each shape that it relates devices in.

    None if only derived attributes relate devices that must be near each other.
    """
    count = min(primary.count or 1, MAX_RESULTS)
    standard = NUMA_NODE if joint.scope is TopologyScope.NUMA else PCIE_ROOT
    if not shapes:
        return standard, [dict.fromkeys(range(1, count + 1), MAX_RESULTS)], ()
    try:
        relation = choose_attribute(primary, joint, shapes)
    except CannotRequireError as reason:
        if joint.required:
            raise NotExpressibleError(f"{reason}", OTHER_ALIGNMENT) from None
        return standard, [], ()
    if relation.derived:
        return None if joint.required else (standard, [], ())
    attribute, related = relation.attribute, relation.shapes
    layouts = [each.pcie if attribute == PCIE_ROOT else each.numa for each in related]
    rooms = [_count_room(count, each) for each in dict.fromkeys(layouts)]
    if joint.required and not any(rooms):
        most = max(sum(row.gpus * row.times for row in rows if row.nics) for rows in layouts)
        raise NotExpressibleError(
            f"{format_devices(primary.count, primary.kind)} requested, but no node has more than "
            f"{most} near the other requested devices",
            OTHER_ALIGNMENT,
        )
    return attribute, rooms, relation.findings


@functools.lru_cache(maxsize=256)
def _count_room(count: int, rows: tuple[Neighbourhood, ...]) -> _Room:
    """Return the most other devices for each number of locations that hold the primary devices.

    Remembered, because a pod can have many requests for the same number of devices.
    """
    # By the number of locations and of primary devices in them.
    most: dict[tuple[int, int], int] = {(0, 0): 0}
    for row in rows:
        for _ in range(min(row.times, count) if row.gpus and row.nics else 0):
            for (locations, held), nics in list(most.items()):
                key = (locations + 1, min(count, held + row.gpus))
                if locations < count:
                    most[key] = max(most.get(key, 0), nics + row.nics)
    return {at: nics for (at, held), nics in sorted(most.items()) if held == count}


def _find_counts(
    primary: Ask, other: Ask, rooms: Sequence[_Room], joint: JointAllocation
) -> list[int]:
    """Return the numbers of other devices that an allocation can need, in ascending order."""
    own = other.joint or joint
    wanted = (other.count or 1) if own.explicit_count else 1
    # Koordinator gives more NICs than requested if the GPUs are in more locations, never more GPUs.
    raised = other.kind is not Kind.GPU
    pairs = [(at, nics) for room in rooms for at, nics in room.items() if raised or at <= wanted]
    counts = {max(wanted, at) for at, nics in pairs if nics >= max(wanted, at)}
    if not joint.required:
        return sorted(counts | {wanted})
    if counts:
        return sorted(counts)
    if not pairs:
        fewest = min(at for room in rooms for at in room)
        raise NotExpressibleError(
            f"{format_devices(primary.count, primary.kind)} span {fewest} locations: request "
            f"{format_devices(fewest, other.kind)}, not {wanted}",
            FEWER_DEVICES,
        )
    most = max(nics for _, nics in pairs)
    raise NotExpressibleError(
        f"request at most {format_devices(most, other.kind)} with "
        f"{format_devices(primary.count, primary.kind)}, not {wanted}",
        FEWER_DEVICES,
    )


def _limit(
    other: Ask, counts: Sequence[int], primary: int, facts: Facts | None
) -> tuple[tuple[int, ...], tuple[Finding, ...]]:
    """Return the numbers that fit in a request, and a finding about the others."""
    fitting = [each for each in counts if each <= MAX_RESULTS - primary] or counts[:1]
    if facts and not facts.keeps_field("firstAvailable"):
        kept, why = fitting[:1], f"this API server ({facts.cluster.version}) drops firstAvailable"
    else:
        kept, why = fitting[:MAX_ALTERNATIVES], f"{MAX_ALTERNATIVES} numbers fit in the request"
    if len(kept) == len(fitting):
        return tuple(kept), ()
    message = (
        f"at most {format_devices(kept[-1], other.kind)} requested, because {why}; devices in more "
        "locations do not satisfy the claim"
    )
    return tuple(kept), (make_finding(codes.SHAPE_CHOSEN, other, message),)
