"""Do devices exclude each other in both directions? What compatibleOnlyWith says of pairs.

Pairs are devices of one driver on one node, or in one pool where it is no node's. The scheduler's
side of it asks both ways, so a rule on one side is enough to exclude; that it is on one side only
is most often a mistake. Expressions are evaluated by whoever is handed in.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from dra import codes as dra_codes
from dra.compatibility import Declaration, Evaluate, PlacedDevice, Peer, read_declarations, check_direction, find_rule
from dra.finding import Finding
from dra.inventory import PoolID
from dra.slices import KIND, Slice
from judge import codes

# Many times what a node has; more cost their square.
MOST_COMPARED = 256


class _Device(NamedTuple):
    """A device that may be taken, and where it is published."""

    about: str
    path: str
    member: PlacedDevice

    @property
    def name(self) -> str:
        return self.member.peer.device.name


def check_exclusions(
    slices: Iterable[Slice], declarations: Sequence[Declaration], ask: Evaluate
) -> Iterator[Finding]:
    """Tell of rules that hold in one direction, cannot be evaluated, or forbid a second share."""
    for devices in _together(slices, declarations, ask).values():
        if any(each.member.rule for each in devices):
            for each in devices:
                yield from _itself(each, ask)
            for one, other in combinations(devices[:MOST_COMPARED], 2):
                yield from _pair(one, other, ask)


def _together(
    slices: Iterable[Slice], declarations: Sequence[Declaration], ask: Evaluate
) -> dict[tuple[str, str], list[_Device]]:
    together: dict[tuple[str, str], list[_Device]] = {}
    for each in slices:
        said, _ = read_declarations(each)
        pool = PoolID(each.driver, each.pool)
        for i, device in enumerate(each.devices):
            peer = Peer(pool, device)
            node = each.node_name or device.node_name or f"pool {each.pool}"
            member = PlacedDevice(node, peer, find_rule(peer, declarations, said, ask))
            published = _Device(f"{KIND}/{each.name}", f"spec.devices[{i}]", member)
            together.setdefault((each.driver, node), []).append(published)
    return together


def _itself(each: _Device, ask: Evaluate) -> Iterator[Finding]:
    if not each.member.peer.device.allow_multiple_allocations:
        return
    found = check_direction(each.member, each.member, ask)
    if found is not None and not found.error:
        message = f"device {each.name} allows multiple allocations and does not go with itself"
        yield codes.COMPATIBILITY_SELF.at(each.path, message, object=each.about)


def _pair(one: _Device, other: _Device, ask: Evaluate) -> Iterator[Finding]:
    answers = (check_direction(one.member, other.member, ask), check_direction(other.member, one.member, ask))
    for each, found in zip((one, other), answers, strict=True):
        if found is not None and (finding := found.finding()) is not None:
            yield dra_codes.COMPATIBILITY_ERROR.at(each.path, finding.message, object=each.about)
            return
    if (answers[0] is None) != (answers[1] is None):
        refusing, refused = (one, other) if answers[0] else (other, one)
        message = f"device {refusing.name} does not go with {refused.name}, which would go with it"
        yield codes.COMPATIBILITY_ASYMMETRIC.at(refusing.path, message, object=refusing.about)
