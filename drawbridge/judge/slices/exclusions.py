"""Checks that compatibleOnlyWith rules exclude devices in both directions.

A pair is two devices of one driver on one node, or in one pool without a node. The allocator checks
both directions, so one rule is enough to exclude a device. A rule on one side only is usually a
mistake. The caller passes the function that evaluates expressions.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from drawbridge.dra import codes as dra_codes
from drawbridge.dra.compatibility import (
    Declaration,
    Evaluate,
    Peer,
    PlacedDevice,
    check_direction,
    find_rule,
    read_declarations,
)
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes

# Far more than a node has; the number of pairs is quadratic.
MOST_COMPARED = 256


class _Device(NamedTuple):
    """A device, and where it is published."""

    about: str
    path: str
    member: PlacedDevice

    @property
    def name(self) -> str:
        return self.member.peer.device.name


def check_exclusions(
    slices: Iterable[Slice], declarations: Sequence[Declaration], ask: Evaluate
) -> Iterator[Finding]:
    """Report rules that are one-sided, cannot be evaluated, or forbid a second share."""
    for devices in _group_by_node(slices, declarations, ask).values():
        if any(each.member.rule for each in devices):
            for device in devices:
                yield from _check_itself(device, ask)
            for one, other in combinations(devices[:MOST_COMPARED], 2):
                yield from _check_pair(one, other, ask)


def _group_by_node(
    slices: Iterable[Slice], declarations: Sequence[Declaration], ask: Evaluate
) -> dict[tuple[str, str], list[_Device]]:
    together: dict[tuple[str, str], list[_Device]] = {}
    for slice_ in slices:
        declarations_of_slice, _ = read_declarations(slice_)
        pool = PoolID(slice_.driver, slice_.pool)
        for i, device in enumerate(slice_.devices):
            peer = Peer(pool, device)
            node = slice_.node_name or device.node_name or f"pool {slice_.pool}"
            member = PlacedDevice(
                node, peer, find_rule(peer, declarations, declarations_of_slice, ask)
            )
            published = _Device(f"{KIND}/{slice_.name}", f"spec.devices[{i}]", member)
            together.setdefault((slice_.driver, node), []).append(published)
    return together


def _check_itself(device: _Device, ask: Evaluate) -> Iterator[Finding]:
    if not device.member.peer.device.allow_multiple_allocations:
        return
    exclusion = check_direction(device.member, device.member, ask)
    if exclusion is not None and not exclusion.error:
        message = f"device {device.name} allows multiple allocations, but its rule excludes itself"
        yield codes.COMPATIBILITY_SELF.at(device.path, message, object=device.about)


def _check_pair(first: _Device, second: _Device, ask: Evaluate) -> Iterator[Finding]:
    answers = (
        check_direction(first.member, second.member, ask),
        check_direction(second.member, first.member, ask),
    )
    for device, exclusion in zip((first, second), answers, strict=True):
        if exclusion is not None and (finding := exclusion.finding()) is not None:
            yield dra_codes.COMPATIBILITY_ERROR.at(
                device.path, finding.message, object=device.about
            )
            return
    if (answers[0] is None) != (answers[1] is None):
        refusing, refused = (first, second) if answers[0] else (second, first)
        message = (
            f"device {refusing.name} excludes {refused.name}, but {refused.name} does not exclude "
            f"{refusing.name}"
        )
        yield codes.COMPATIBILITY_ASYMMETRIC.at(refusing.path, message, object=refusing.about)
