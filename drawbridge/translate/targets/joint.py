"""Divides joint asks into device groups, by the published shapes of nodes.

A claim can require devices to be equal in one attribute, but not that the locations of some devices
cover those of others. So joint asks are divided into groups, one for each location of the shape
that most nodes have. If PCIe roots relate no devices, NUMA nodes do, and a finding reports that.
With `placement: bridge` the claim carries the rule itself; `linked` counts the devices then.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.dra.attributes import NUMA_NODE, PCIE_ROOT
from drawbridge.dra.counted import count_noun
from drawbridge.facts.model import DERIVED_FIELD, Facts, Neighbourhood, NodeShape
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, JointAllocation, Kind, TopologyScope
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.plan import make_finding
from drawbridge.translate.targets.vocabulary import FEWER_DEVICES, NotExpressibleError

ALL_DEVICES: Final = "a request for all devices cannot be grouped with other devices"
_NOUNS: Final = {Kind.GPU: "GPU", Kind.NIC: "NIC"}


class DeviceGroup(msgspec.Struct, frozen=True):
    """The devices in one location: the count of the primary ask, and of each other ask."""

    primary: int
    others: tuple[int, ...]


class Grouping(msgspec.Struct, frozen=True):
    """The groups; without an attribute, no constraint relates their devices."""

    groups: tuple[DeviceGroup, ...]
    attribute: str = ""
    separate: bool = False  # two groups could share one location
    findings: tuple[Finding, ...] = ()
    derived: bool = False  # requests derive the attribute


class Relation(msgspec.Struct, frozen=True):
    """The attribute that relates devices, and the shapes in which it does."""

    attribute: str
    shapes: tuple[NodeShape, ...]
    findings: tuple[Finding, ...] = ()
    derived: bool = False  # from the attributes of each driver


OTHER_ALIGNMENT: Final = (
    "Request fewer devices, or remove from the pod that the devices must be near each other."
)


class CannotRequireError(Exception):
    """Raised if the groups cannot be required; the message is the reason."""


def group_asks(
    primary: Ask, others: Sequence[Ask], drivers: tuple[str, str], facts: Facts | None
) -> Grouping:
    """Divide joint asks into groups; `drivers` are of the primary ask and of the others."""
    joint = primary.joint or JointAllocation("", primary.kind)
    if primary.count is None or any(each.count is None for each in others):
        reason = ALL_DEVICES
        return _report_or_refuse(primary, others, joint, reason)
    if joint.scope is TopologyScope.NODE:
        return _single_group(primary, others)
    try:
        return _group_by_shapes(primary, others, joint, drivers, facts)
    except CannotRequireError as reason:
        return _report_or_refuse(primary, others, joint, f"{reason}")


def _single_group(
    primary: Ask, others: Sequence[Ask], findings: tuple[Finding, ...] = ()
) -> Grouping:
    """Return one group without an attribute."""
    counts = tuple(each.count or 1 for each in others)
    return Grouping((DeviceGroup(primary.count or 1, counts),), findings=findings)


def _report_or_refuse(
    primary: Ask, others: Sequence[Ask], joint: JointAllocation, reason: str
) -> Grouping:
    if joint.required:
        raise NotExpressibleError(reason, OTHER_ALIGNMENT)
    lost = make_finding(codes.ALIGNMENT_LOST, primary, reason, annotation=joint.annotation)
    if primary.count is None or any(each.count is None for each in others):
        return Grouping((), findings=(lost,))
    return _single_group(primary, others, (lost,))


def _group_by_shapes(
    primary: Ask,
    others: Sequence[Ask],
    joint: JointAllocation,
    drivers: tuple[str, str],
    facts: Facts | None,
) -> Grouping:
    count = primary.count or 1
    if facts is None or not (shapes := find_shapes(facts, drivers)):
        return _group_without_shapes(primary, others, joint)
    relation = choose_attribute(primary, joint, shapes)
    attribute, related, findings = relation.attribute, relation.shapes, relation.findings
    holding = _shapes_with_room(count, joint, related, attribute)
    shape = holding[0]  # of most nodes
    packed = _pack(count, _locations(shape, attribute)) or []
    groups = _distribute(primary, others, joint, packed)
    sizes = [size for size, _ in packed]
    if left := [each for each in related if _primary_counts(each, count, attribute) != sizes]:
        nodes = sum(each.nodes for each in left)
        message = _describe_shape(len(groups), shape.nodes, nodes)
        findings = (*findings, make_finding(codes.SHAPE_CHOSEN, primary, message))
    if _takes_all_devices(shape, groups):
        return _single_group(*_with_counts(primary, others, groups), findings)
    mergeable = any(each.nics > 1 for one in related for each in _locations(one, attribute))
    separate = mergeable and len(groups) > 1
    return Grouping(groups, attribute, separate, findings, relation.derived)


def _shapes_with_room(
    count: int, joint: JointAllocation, related: Sequence[NodeShape], attribute: str
) -> list[NodeShape]:
    """Return the shapes with room for the primary ask; raise if there are none."""
    holding = [each for each in related if _pack(count, _locations(each, attribute)) is not None]
    if not holding:
        rows = (_locations(each, attribute) for each in related)
        most = max(sum(each.gpus * each.times for each in row) for row in rows)
        raise CannotRequireError(
            f"{format_devices(count, joint.primary)} requested, but no node has more than {most} "
            "near the other requested devices"
        )
    if not joint.required and not all(_covered(each, attribute) for each in holding):
        raise CannotRequireError(
            "not every device has another requested device near it, and the pod does not require it"
        )
    return holding


def find_shapes(facts: Facts, drivers: tuple[str, str]) -> list[NodeShape]:
    """Return the shapes with devices of both drivers, those of most nodes first."""
    shapes = (*facts.shapes_of(*drivers), *map(_swap, facts.shapes_of(*reversed(drivers))))
    derives = facts.keeps_field(DERIVED_FIELD)
    return [each if derives else replace(each, derived=()) for each in shapes]


def _swap(shape: NodeShape) -> NodeShape:
    """Return the shape with GPUs and network devices swapped."""

    def swap_rows(rows: tuple[Neighbourhood, ...]) -> tuple[Neighbourhood, ...]:
        return tuple(Neighbourhood(each.nics, each.gpus, each.times) for each in rows)

    return NodeShape(
        shape.nic,
        shape.gpu,
        gpus=shape.nics,
        nics=shape.gpus,
        pcie=swap_rows(shape.pcie),
        numa=swap_rows(shape.numa),
        derived=swap_rows(shape.derived),
        nodes=shape.nodes,
    )


def _group_without_shapes(primary: Ask, others: Sequence[Ask], joint: JointAllocation) -> Grouping:
    """Group single devices without shapes; several devices need a known shape."""
    most = max(primary.count or 1, *(each.count or 1 for each in others))
    if most > 1:
        raise CannotRequireError(f"no node has a known topology of {most} devices")
    if not joint.required:
        raise CannotRequireError("no node has a known topology of these devices")
    attribute = NUMA_NODE if joint.scope is TopologyScope.NUMA else PCIE_ROOT
    return Grouping((DeviceGroup(1, tuple(1 for _ in others)),), attribute)


def choose_attribute(primary: Ask, joint: JointAllocation, shapes: Sequence[NodeShape]) -> Relation:
    """Choose the attribute that relates the devices, and the shapes in which it does."""
    by_root = tuple(each for each in shapes if each.pcie_relates)
    if by_root and joint.scope is not TopologyScope.NUMA:
        return Relation(PCIE_ROOT, by_root)
    by_numa = tuple(each for each in shapes if each.numa_relates)
    derived = tuple(replace(each, numa=each.derived) for each in shapes if each.derived_relates)
    if not by_numa and not derived:
        raise CannotRequireError("no published attribute relates these devices on any node")
    findings: tuple[Finding, ...] = ()
    if joint.scope is not TopologyScope.NUMA:
        message = "no PCIe root has both kinds of devices, so they share a NUMA node instead"
        changed = codes.NEIGHBOURHOOD_CHANGED
        findings = (make_finding(changed, primary, message, annotation=joint.annotation),)
    return Relation(NUMA_NODE, by_numa or derived, findings, derived=not by_numa)


def _locations(shape: NodeShape, attribute: str) -> list[Neighbourhood]:
    """Return the locations with both kinds of devices, those with most primary devices first."""
    rows = shape.pcie if attribute == PCIE_ROOT else shape.numa
    return sorted((each for each in rows if each.gpus and each.nics), key=lambda e: -e.gpus)


def _covered(shape: NodeShape, attribute: str) -> bool:
    rows = shape.pcie if attribute == PCIE_ROOT else shape.numa
    return all(each.nics for each in rows if each.gpus)


def _pack(count: int, locations: Sequence[Neighbourhood]) -> list[tuple[int, int]] | None:
    """Fill locations in order; returns the primary count and the other devices of each."""
    packed: list[tuple[int, int]] = []
    left = count
    for location in locations:
        for _ in range(location.times):
            if not left:
                return packed
            packed.append((min(left, location.gpus), location.nics))
            left -= packed[-1][0]
    return None if left else packed


def _primary_counts(shape: NodeShape, count: int, attribute: str) -> list[int]:
    """Return the number of primary devices in each location of a shape."""
    return [size for size, _ in _pack(count, _locations(shape, attribute)) or []]


def _distribute(
    primary: Ask, others: Sequence[Ask], joint: JointAllocation, packed: list[tuple[int, int]]
) -> tuple[DeviceGroup, ...]:
    """Distribute the devices of the other asks over the groups, as evenly as possible."""
    columns = []
    for other in others:
        counted = other.joint.explicit_count if other.joint else joint.explicit_count
        wanted = other.count if counted and other.count is not None else len(packed)
        if wanted < len(packed):
            raise NotExpressibleError(
                f"{format_devices(primary.count, primary.kind)} span {len(packed)} locations: "
                f"request {format_devices(len(packed), other.kind)}, not {wanted}",
                FEWER_DEVICES,
            )
        base, more = divmod(wanted, len(packed))
        shares = [base + (number < more) for number in range(len(packed))]
        if any(share > room for share, (_, room) in zip(shares, packed, strict=True)):
            room = sum(others for _, others in packed)
            raise NotExpressibleError(
                f"request at most {format_devices(room, other.kind)} with "
                f"{format_devices(primary.count, primary.kind)}, not {wanted}",
                FEWER_DEVICES,
            )
        columns.append(shares)
    rows: Iterator[tuple[int, ...]] = zip(*columns, strict=True) if columns else iter(())
    return tuple(DeviceGroup(size, row) for (size, _), row in zip(packed, rows, strict=True))


def _takes_all_devices(shape: NodeShape, groups: Sequence[DeviceGroup]) -> bool:
    """Whether the groups take all devices of a node, so that they need no constraint."""
    others = sum(sum(each.others) for each in groups)
    return (
        len(groups) > 1
        and sum(each.primary for each in groups) == shape.gpus
        and others == shape.nics
        and all(len(each.others) == 1 for each in groups)
    )


def _with_counts(
    primary: Ask, others: Sequence[Ask], groups: Sequence[DeviceGroup]
) -> tuple[Ask, list[Ask]]:
    totals = [sum(column) for column in zip(*(each.others for each in groups), strict=True)]
    return primary, [replace(ask, count=total) for ask, total in zip(others, totals, strict=True)]


def _plural(kind: Kind) -> str:
    return f"{_NOUNS.get(kind, 'device')}s"


def format_devices(count: int | None, kind: Kind) -> str:
    """Format a number of devices of a kind."""
    return f"1 {_NOUNS.get(kind, 'device')}" if count == 1 else f"{count} {_plural(kind)}"


def _describe_shape(count: int, nodes: int, other_nodes: int) -> str:
    others = "1 other node has" if other_nodes == 1 else f"{other_nodes} other nodes have"
    groups, alike = count_noun(count, "group"), count_noun(nodes, "node")
    return f"{groups}, as on {alike}; {others} a different shape"


def find_primary(asks: Sequence[Ask]) -> Ask:
    """Return the ask whose locations count."""
    kind: Kind | None = asks[0].joint.primary if asks[0].joint else None
    return next((each for each in asks if each.kind is kind), asks[0])
