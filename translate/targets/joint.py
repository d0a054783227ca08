"""Devices of several asks near each other: groups by the shapes of nodes that are published.

A claim can say that devices are equal in one attribute, not that one set of places covers another.
So what goes together is cut into groups, one for each neighbourhood of the shape that most nodes
have. Where PCIe roots relate nothing NUMA nodes are taken, and that is told. In bridge placement
the rule itself is printed, so that only the numbers are taken from the shapes.
"""

from collections.abc import Iterator, Sequence

import msgspec

from dra.attributes import NUMA_NODE, PCIE_ROOT
from dra.finding import Finding
from facts.model import Facts, Neighbourhood, Shape
from translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope
from translate.targets import codes
from translate.targets.plan import make_finding
from translate.targets.vocabulary import NotExpressibleError


class DeviceGroup(msgspec.Struct, frozen=True):
    """What stands in one neighbourhood: so many of the primary's, so many of each other ask."""

    primary: int
    others: tuple[int, ...]


class Grouping(msgspec.Struct, frozen=True):
    """The groups; without an attribute nothing relates their devices."""

    groups: tuple[DeviceGroup, ...]
    attribute: str = ""
    apart: bool = False  # two groups could come to stand in one neighbourhood
    findings: tuple[Finding, ...] = ()


class _Loose(Exception):  # noqa: N818  # not an error: what is only preferred need not be
    """The groups cannot be required; says why."""


def count_linked(
    primary: Ask, others: Sequence[Ask], drivers: tuple[str, str], facts: Facts | None
) -> Grouping:
    """Count asks with one joint: one group of them all, and the attribute that tells places."""
    joint = primary.joint or JointAllocation("", primary.kind)
    unequal = primary.count is None or any(each.count is None for each in others)
    if joint.scope is TopologyScope.NODE or (unequal and not joint.required):
        return group_asks(primary, others, drivers, facts)
    if unequal:
        raise NotExpressibleError("all there are of a device cannot be grouped")
    shapes = _shapes(facts, drivers) if facts else []
    try:
        return _counted_by(primary, others, joint, shapes)
    except _Loose as reason:
        return _loose(primary, others, joint, f"{reason}")


def _counted_by(
    primary: Ask, others: Sequence[Ask], joint: JointAllocation, shapes: Sequence[Shape]
) -> Grouping:
    count = primary.count or 1
    if not shapes:
        open_ = [each.kind for each in others if not (each.joint and each.joint.explicit_count)]
        if open_ and joint.required and count > 1:
            raise NotExpressibleError(
                f"no node is known that shows how {count} devices lie to each other: ask for as "
                f"many of {open_[0]} as there are places for them"
            )
        attribute = NUMA_NODE if joint.scope is TopologyScope.NUMA else PCIE_ROOT
        return msgspec.structs.replace(_apart(primary, others), attribute=attribute)
    attribute, related, findings = _scope(primary, joint, shapes)
    holding = [each for each in related if _packed(count, _places(each, attribute)) is not None]
    if not holding and not joint.required:
        return msgspec.structs.replace(_apart(primary, others, findings), attribute=attribute)
    holding = holding or _holding(count, joint, related, attribute)
    shape = max(holding, key=lambda each: (each.nodes, each.gpus))
    groups = _shared_out(primary, others, joint, _packed(count, _places(shape, attribute)) or [])
    whole = _apart(*_counted(primary, others, groups), findings)
    left = [each for each in related if _fewest(each, count, attribute) != len(groups)]
    if left and not all(each.joint and each.joint.explicit_count for each in others):
        nodes = sum(each.nodes for each in left)
        message = f"{len(groups)} places as on {shape.nodes} nodes; {nodes} other nodes differ"
        more = (*findings, make_finding(codes.SHAPE_CHOSEN, primary, message))
        whole = msgspec.structs.replace(whole, findings=more)
    return msgspec.structs.replace(whole, attribute=attribute)


def _fewest(shape: Shape, count: int, attribute: str) -> int:
    return len(_packed(count, _places(shape, attribute)) or [])


def group_asks(
    primary: Ask, others: Sequence[Ask], drivers: tuple[str, str], facts: Facts | None
) -> Grouping:
    """Cut asks with one joint into groups; `drivers` are of the primary and of the others."""
    joint = primary.joint or JointAllocation("", primary.kind)
    if primary.count is None or any(each.count is None for each in others):
        reason = "all there are of a device cannot be grouped"
        return _loose(primary, others, joint, reason)
    if joint.scope is TopologyScope.NODE:
        return _apart(primary, others)
    try:
        return _grouped(primary, others, joint, drivers, facts)
    except _Loose as reason:
        return _loose(primary, others, joint, f"{reason}")


def _apart(primary: Ask, others: Sequence[Ask], findings: tuple[Finding, ...] = ()) -> Grouping:
    """One group that nothing relates."""
    counts = tuple(each.count or 1 for each in others)
    return Grouping((DeviceGroup(primary.count or 1, counts),), findings=findings)


def _loose(primary: Ask, others: Sequence[Ask], joint: JointAllocation, reason: str) -> Grouping:
    if joint.required:
        raise NotExpressibleError(reason)
    if primary.count is None or any(each.count is None for each in others):
        return Grouping((), findings=(make_finding(codes.ALIGNMENT_LOST, primary, reason),))
    return _apart(primary, others, (make_finding(codes.ALIGNMENT_LOST, primary, reason),))


def _grouped(
    primary: Ask,
    others: Sequence[Ask],
    joint: JointAllocation,
    drivers: tuple[str, str],
    facts: Facts | None,
) -> Grouping:
    count = primary.count or 1
    if facts is None or not (shapes := _shapes(facts, drivers)):
        return _unknown(primary, others, joint)
    attribute, related, findings = _scope(primary, joint, shapes)
    holding = _holding(count, joint, related, attribute)
    shape = max(holding, key=lambda each: (each.nodes, each.gpus))
    cut = _packed(count, _places(shape, attribute)) or []
    groups = _shared_out(primary, others, joint, cut)
    sizes = [size for size, _ in cut]
    if left := [each for each in related if _sizes(each, count, attribute) != sizes]:
        nodes = sum(each.nodes for each in left)
        message = f"{len(groups)} groups as on {shape.nodes} nodes; {nodes} other nodes differ"
        findings = (*findings, make_finding(codes.SHAPE_CHOSEN, primary, message))
    if _everything(shape, groups):
        return _apart(*_counted(primary, others, groups), findings)
    mergeable = any(each.nics > 1 for one in related for each in _places(one, attribute))
    return Grouping(groups, attribute, mergeable and len(groups) > 1, findings)


def _holding(
    count: int, joint: JointAllocation, related: Sequence[Shape], attribute: str
) -> list[Shape]:
    """The shapes that have room for so many; refuse where there are none."""
    holding = [each for each in related if _packed(count, _places(each, attribute)) is not None]
    if not holding:
        rows = (_places(each, attribute) for each in related)
        most = max(sum(each.gpus * each.times for each in row) for row in rows)
        raise _Loose(f"{count} are asked for, at most {most} stand beside others on one node")
    if not joint.required and not all(_covered(each, attribute) for each in holding):
        raise _Loose("not every one has another beside it, and the pod does not require it")
    return holding


def _shapes(facts: Facts, drivers: tuple[str, str]) -> list[Shape]:
    found = []
    for each in facts.shapes:
        if (each.gpu, each.nic) == drivers:
            found.append(each)
        elif (each.nic, each.gpu) == drivers:
            found.append(_turned(each))
    return found


def _turned(shape: Shape) -> Shape:
    """The same shape seen from the network devices."""

    def turn(rows: tuple[Neighbourhood, ...]) -> tuple[Neighbourhood, ...]:
        return tuple(Neighbourhood(each.nics, each.gpus, each.times) for each in rows)

    return Shape(
        shape.nic,
        shape.gpu,
        gpus=shape.nics,
        nics=shape.gpus,
        pcie=turn(shape.pcie),
        numa=turn(shape.numa),
        nodes=shape.nodes,
    )


def _unknown(primary: Ask, others: Sequence[Ask], joint: JointAllocation) -> Grouping:
    """Without a shape one device can still be near its own; more cannot be cut."""
    most = max(primary.count or 1, *(each.count or 1 for each in others))
    if most > 1:
        raise _Loose(f"no node is known that shows how {most} devices lie to each other")
    if not joint.required:
        raise _Loose("no node is known that shows how devices lie to each other")
    attribute = NUMA_NODE if joint.scope is TopologyScope.NUMA else PCIE_ROOT
    return Grouping((DeviceGroup(1, tuple(1 for _ in others)),), attribute)


def _scope(
    primary: Ask, joint: JointAllocation, shapes: Sequence[Shape]
) -> tuple[str, list[Shape], tuple[Finding, ...]]:
    """Choose the attribute that relates anything, and the shapes in which it does."""
    if joint.scope is not TopologyScope.NUMA and (by_root := [s for s in shapes if s.pcie_relates]):
        return PCIE_ROOT, by_root, ()
    by_numa = [each for each in shapes if each.numa_relates]
    if not by_numa:
        raise _Loose("no published attribute relates these devices on any node")
    if joint.scope is TopologyScope.NUMA:
        return NUMA_NODE, by_numa, ()
    message = "no PCIe root holds both kinds of devices: they share a NUMA node instead"
    return NUMA_NODE, by_numa, (make_finding(codes.NEIGHBOURHOOD_CHANGED, primary, message),)


def _places(shape: Shape, attribute: str) -> list[Neighbourhood]:
    """The neighbourhoods that hold both, those with the most of the primary's first."""
    rows = shape.pcie if attribute == PCIE_ROOT else shape.numa
    return sorted((each for each in rows if each.gpus and each.nics), key=lambda e: -e.gpus)


def _covered(shape: Shape, attribute: str) -> bool:
    rows = shape.pcie if attribute == PCIE_ROOT else shape.numa
    return all(each.nics for each in rows if each.gpus)


def _packed(count: int, places: Sequence[Neighbourhood]) -> list[tuple[int, int]] | None:
    """Fill neighbourhoods one after the other: how many in each, and how many others it has."""
    cut: list[tuple[int, int]] = []
    left = count
    for each in places:
        for _ in range(each.times):
            if not left:
                return cut
            cut.append((min(left, each.gpus), each.nics))
            left -= cut[-1][0]
    return None if left else cut


def _sizes(shape: Shape, count: int, attribute: str) -> list[int]:
    """How many of the primary's stand in each place of a shape."""
    return [size for size, _ in _packed(count, _places(shape, attribute)) or []]


def _shared_out(
    primary: Ask, others: Sequence[Ask], joint: JointAllocation, cut: list[tuple[int, int]]
) -> tuple[DeviceGroup, ...]:
    """Give every group its share of the others, as evenly as possible."""
    columns = []
    for each in others:
        counted = each.joint.explicit_count if each.joint else joint.explicit_count
        wanted = each.count if counted and each.count is not None else len(cut)
        if wanted < len(cut):
            raise NotExpressibleError(
                f"{primary.count} devices stand in {len(cut)} places: ask for {len(cut)} of"
                f" {each.kind}, not {wanted}"
            )
        base, more = divmod(wanted, len(cut))
        shares = [base + (number < more) for number in range(len(cut))]
        if any(share > room for share, (_, room) in zip(shares, cut, strict=True)):
            room = sum(place for _, place in cut)
            raise NotExpressibleError(
                f"ask for at most {room} of {each.kind} beside {primary.count} of {primary.kind}, "
                f"not {wanted}"
            )
        columns.append(shares)
    rows: Iterator[tuple[int, ...]] = zip(*columns, strict=True) if columns else iter(())
    return tuple(DeviceGroup(size, row) for (size, _), row in zip(cut, rows, strict=True))


def _everything(shape: Shape, groups: Sequence[DeviceGroup]) -> bool:
    """Whether the groups are all the devices a node has: then nothing needs to be said."""
    others = sum(sum(each.others) for each in groups)
    return (
        len(groups) > 1
        and sum(each.primary for each in groups) == shape.gpus
        and others == shape.nics
        and all(len(each.others) == 1 for each in groups)
    )


def _counted(
    primary: Ask, others: Sequence[Ask], groups: Sequence[DeviceGroup]
) -> tuple[Ask, list[Ask]]:
    totals = [sum(column) for column in zip(*(each.others for each in groups), strict=True)]
    return primary, [
        msgspec.structs.replace(each, count=total)
        for each, total in zip(others, totals, strict=True)
    ]


def find_primary(asks: Sequence[Ask]) -> Ask:
    """The ask whose neighbourhoods count."""
    kind: Kind | None = asks[0].joint.primary if asks[0].joint else None
    return next((each for each in asks if each.kind is kind), asks[0])
