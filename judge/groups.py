"""Do compatibility groups say what they should? Per counter set of a pool, over its slices.

Groups that have no effect, a device that its groups keep from every other, devices with groups
beside others without, and groups that agree two by two but not together. What expressions say is
asked elsewhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from dra.compatibility import UnsetGroups, read_declarations
from dra.counters import ConsumedCounters, CounterKey, consumed_counters
from dra.device import CounterUse, Device
from dra.finding import Finding
from dra.slices import KIND, Slice
from judge import codes
from judge.pools import Pools

MOST_COMPARED, MOST_KINDS = 32, 48


class _Member(NamedTuple):
    """A device on a counter set."""

    about: str
    path: str
    device: Device
    use: CounterUse

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self.use.compatibility_groups)


def check_groups(pools: Pools, unset: UnsetGroups) -> Iterator[Finding]:
    """Tell of groups that cannot mean what they say."""
    for members in pools.values():
        for name, drawing in _sets(members).items():
            totals = {
                (each.name, counter): amount.value.nanos()
                for member in members
                for each in member.shared_counters
                for counter, amount in each.counters.items()
            }
            yield from _mixed(name, drawing, unset)
            yield from _alone(name, drawing, totals, unset)
            yield from _pairwise(name, drawing)


def check_declarations(slices: Sequence[Slice]) -> Iterator[Finding]:
    """Tell of what slices declare beyond the API: fields that are dropped, annotations misread."""
    for each in slices:
        for i, device in enumerate(each.devices):
            if device.compatible_only_with is not None:
                message = (
                    f"device {device.name} has compatibleOnlyWith, which the API server drops and "
                    "the stock scheduler does not know"
                )
                path = f"spec.devices[{i}].compatibleOnlyWith"
                yield codes.FIELD_DROPPED.at(path, message, object=f"{KIND}/{each.name}")
        yield from read_declarations(each)[1]


def _sets(members: Sequence[Slice]) -> dict[str, list[_Member]]:
    sets: dict[str, list[_Member]] = {}
    for member in members:
        for i, device in enumerate(member.devices):
            for j, use in enumerate(device.consumes_counters):
                path = f"spec.devices[{i}].consumesCounters[{j}].compatibilityGroups"
                drawing = _Member(f"{KIND}/{member.name}", path, device, use)
                sets.setdefault(use.counter_set, []).append(drawing)
    return sets


def _mixed(name: str, drawing: Sequence[_Member], unset: UnsetGroups) -> Iterator[Finding]:
    without = [member for member in drawing if not member.groups]
    if unset is UnsetGroups.ALL or not without or len(without) == len(drawing):
        return
    grouped = next(member for member in drawing if member.groups)
    message = (
        f"device {without[0].device.name} has no group on counter set {name} and goes only with "
        f"others without ({len(without)} of {len(drawing)}); {grouped.device.name} has "
        f"{', '.join(sorted(grouped.groups))}"
    )
    yield codes.GROUPS_MIXED.at(without[0].path, message, object=without[0].about)


def _alone(
    name: str, drawing: Sequence[_Member], totals: Mapping[CounterKey, int], unset: UnsetGroups
) -> Iterator[Finding]:
    """Tell of a device that groups keep from every other one that counters would let it join."""
    holders: dict[str, set[int]] = {}
    for member in drawing:
        for group in member.groups:
            holders.setdefault(group, set()).add(id(member.device))
    devices = {id(member.device): (member.device.name, consumed_counters(member.device)) for member in drawing}
    everyone = unset is UnsetGroups.ALL and any(not member.groups for member in drawing)
    for member in drawing:
        if not member.groups:
            continue
        if len(devices) == 1:
            message = (
                f"no other device of the pool draws from counter set {name}: groups do nothing"
            )
            yield codes.GROUPS_IDLE.at(member.path, message, object=member.about)
        elif not everyone and all(len(holders[group]) == 1 for group in member.groups):
            yield from _kept_apart(name, member, devices, totals)


def _kept_apart(
    name: str, member: _Member, devices: Mapping[int, tuple[str, ConsumedCounters]], totals: Mapping[CounterKey, int]
) -> Iterator[Finding]:
    own = id(member.device)
    # A hostile pool of thousands on one set must not cost their square.
    others = islice((each for key, each in devices.items() if key != own), MOST_COMPARED)
    mine = devices[own][1]
    fitting = next((other for other, draws in others if _fit(mine, draws, totals)), None)
    if fitting is not None:
        message = (
            f"device {member.device.name} goes with no other on counter set {name}; without its "
            f"groups there would be room beside {fitting}"
        )
        yield codes.GROUPS_ALONE.at(member.path, message, object=member.about)


def _fit(one: ConsumedCounters, other: ConsumedCounters, totals: Mapping[CounterKey, int]) -> bool:
    return all(
        one.get(key, 0) + other.get(key, 0) <= totals.get(key, 0) for key in {**one, **other}
    )


def _pairwise(name: str, drawing: Sequence[_Member]) -> Iterator[Finding]:
    kinds = {member.groups: member for member in drawing if member.groups}
    for three in combinations(islice(kinds, MOST_KINDS), 3):
        if all(one & other for one, other in combinations(three, 2)) and not (
            three[0] & three[1] & three[2]
        ):
            names = ", ".join(kinds[each].device.name for each in three)
            message = (
                f"{names} share a group two by two on counter set {name}, but no group is common "
                "to the three, which the scheduler asks for"
            )
            last = kinds[three[2]]
            yield codes.GROUPS_PAIRWISE.at(last.path, message, object=last.about)
            return
