"""Whether the nodes of one node group are alike, as autoscalers assume.

Cluster Autoscaler expects of a new node what an existing one has, Karpenter what the instance type
has. Where nodes of a group publish different devices, the simulation can be of the wrong one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drawbridge.agreement.operation_codes import NODES_UNLIKE
from drawbridge.dra.attributes import split_name
from drawbridge.dra.counted import count_noun
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.families import Family
from drawbridge.dra.generations import current_slices
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts.fleet import find_node_group
from drawbridge.finding import Finding

_MAX_SHAPES: Final = 3
_MEMORY: Final = "memory"
# The devices of one driver on a node: how many of which kind, in words.
_Shape = tuple[tuple[str, int], ...]


def report_unlike_nodes(
    nodes: Iterable[Node], slices: Iterable[Slice], families: Mapping[str, Family]
) -> Iterator[Finding]:
    """Report node groups of which some nodes have other devices of a driver than others.

    A node that is not ready, or whose drivers publish nothing, can be about to have its devices.
    """
    grouped = [
        (group, each.name) for each in nodes if each.ready and (group := find_node_group(each))
    ]
    devices = _find_devices(slices) if grouped else {}
    groups: dict[str, dict[str, Mapping[str, list[Device]]]] = {}
    for group, name in grouped:
        if name in devices:
            groups.setdefault(group, {})[name] = devices[name]
    for group, members in sorted(groups.items()):
        for driver in sorted({each for published in members.values() for each in published}):
            shapes: dict[_Shape, list[str]] = {}
            for name, published in members.items():
                shape = _describe_shape(published.get(driver, ()), families.get(driver))
                shapes.setdefault(shape, []).append(name)
            if len(shapes) > 1:
                yield _report(group, driver, shapes)


def _find_devices(slices: Iterable[Slice]) -> Mapping[str, Mapping[str, list[Device]]]:
    """Return the devices of each node by driver."""
    pools: dict[tuple[str, str], list[Slice]] = {}
    for resource_slice in slices:
        pools.setdefault((resource_slice.driver, resource_slice.pool), []).append(resource_slice)
    devices: dict[str, dict[str, list[Device]]] = {}
    for members in pools.values():
        for member in current_slices(members):
            for device in member.devices:
                if node := member.node_name or device.node_name:
                    devices.setdefault(node, {}).setdefault(member.driver, []).append(device)
    return devices


def _describe_shape(devices: Iterable[Device], family: Family | None) -> _Shape:
    """Count the devices that are alike by what a selector of a translated claim reads."""
    return tuple(sorted(Counter(_describe(each, family) for each in devices).items()))


def _describe(device: Device, family: Family | None) -> str:
    names = (family.name, family.profile, family.type) if family else ()
    attributes = {split_name(name, "")[1]: each for name, each in device.attributes.items()}
    texts = [_text(attributes[name]) for name in names if name and name in attributes]
    if memory := device.capacity.get(_MEMORY):
        texts.append(f"{memory.value}")
    return " ".join(filter(None, texts))


def _text(attribute: Attribute) -> str:
    return attribute.string or ""


def _report(group: str, driver: str, shapes: Mapping[_Shape, list[str]]) -> Finding:
    ordered = sorted(shapes.items(), key=lambda each: (-len(each[1]), each))
    parts = [
        f"{_format(shape)} on {count_noun(len(names), 'node')} such as {min(names)}"
        for shape, names in ordered[:_MAX_SHAPES]
    ]
    if more := len(ordered) - _MAX_SHAPES:
        parts += [f"{more} more"] if more > 0 else []
    return NODES_UNLIKE.at(
        "", f"the nodes of group {group} have different devices of {driver}: {'; '.join(parts)}"
    )


def _format(shape: _Shape) -> str:
    return ", ".join(f"{number}x {what}".rstrip() for what, number in shape) or "none"
