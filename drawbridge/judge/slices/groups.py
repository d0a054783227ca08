"""Checks compatibility groups per counter set of a pool.

The checks find groups without effect, devices that are incompatible with every other device,
devices with groups beside devices without, and groups that match in pairs but not together.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from drawbridge.dra.compatibility import UnsetGroups, read_declarations
from drawbridge.dra.counters import ConsumedCounters, CounterKey, consumed_counters
from drawbridge.dra.device import CounterUse, Device
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes
from drawbridge.judge.slices.pools import Pools

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
    """Report groups that have no effect or an unintended one."""
    for members in pools.values():
        for name, drawing in _devices_by_set(members).items():
            totals = {
                (counter_set.name, counter): amount.value.nanos()
                for member in members
                for counter_set in member.shared_counters
                for counter, amount in counter_set.counters.items()
            }
            yield from _check_mixed(name, drawing, unset)
            yield from _check_alone(name, drawing, totals, unset)
            yield from _check_pairwise(name, drawing)


def check_declarations(slices: Sequence[Slice]) -> Iterator[Finding]:
    """Report declarations beyond the API: dropped fields and invalid annotations."""
    for slice_ in slices:
        for i, device in enumerate(slice_.devices):
            if device.compatible_only_with is not None:
                message = (
                    f"device {device.name} has compatibleOnlyWith, which the API server drops and "
                    "kube-scheduler does not know"
                )
                path = f"spec.devices[{i}].compatibleOnlyWith"
                yield codes.FIELD_DROPPED.at(path, message, object=f"{KIND}/{slice_.name}")
        yield from read_declarations(slice_)[1]


def _devices_by_set(members: Sequence[Slice]) -> dict[str, list[_Member]]:
    sets: dict[str, list[_Member]] = {}
    for member in members:
        for i, device in enumerate(member.devices):
            for j, use in enumerate(device.consumes_counters):
                path = f"spec.devices[{i}].consumesCounters[{j}].compatibilityGroups"
                drawing = _Member(f"{KIND}/{member.name}", path, device, use)
                sets.setdefault(use.counter_set, []).append(drawing)
    return sets


def _check_mixed(name: str, drawing: Sequence[_Member], unset: UnsetGroups) -> Iterator[Finding]:
    without = [member for member in drawing if not member.groups]
    if unset is UnsetGroups.ALL or not without or len(without) == len(drawing):
        return
    grouped = next(member for member in drawing if member.groups)
    message = (
        f"device {without[0].device.name} has no group on counter set {name} and is compatible "
        f"only with devices without a group ({len(without)} of {len(drawing)}); "
        f"{grouped.device.name} has {', '.join(sorted(grouped.groups))}"
    )
    yield codes.GROUPS_MIXED.at(without[0].path, message, object=without[0].about)


def _check_alone(
    name: str, drawing: Sequence[_Member], totals: Mapping[CounterKey, int], unset: UnsetGroups
) -> Iterator[Finding]:
    """Report devices whose groups exclude every other device although the counters suffice."""
    holders: dict[str, set[int]] = {}
    for member in drawing:
        for group in member.groups:
            holders.setdefault(group, set()).add(id(member.device))
    devices = {
        id(member.device): (member.device.name, consumed_counters(member.device))
        for member in drawing
    }
    everyone = unset is UnsetGroups.ALL and any(not member.groups for member in drawing)
    for member in drawing:
        if not member.groups:
            continue
        if len(devices) == 1:
            message = (
                f"no other device of the pool consumes counter set {name}, so groups have no effect"
            )
            yield codes.GROUPS_IDLE.at(member.path, message, object=member.about)
        elif not everyone and all(len(holders[group]) == 1 for group in member.groups):
            yield from _report_alone(name, member, devices, totals)


def _report_alone(
    name: str,
    member: _Member,
    devices: Mapping[int, tuple[str, ConsumedCounters]],
    totals: Mapping[CounterKey, int],
) -> Iterator[Finding]:
    own = id(member.device)
    # Limited, so that a hostile pool with thousands of devices does not cost quadratic time.
    others = islice((each for key, each in devices.items() if key != own), MOST_COMPARED)
    mine = devices[own][1]
    fitting = next(
        (other for other, draws in others if _counters_suffice(mine, draws, totals)), None
    )
    if fitting is not None:
        message = (
            f"device {member.device.name} is compatible with no other device on counter set "
            f"{name}; without its groups it could be allocated together with {fitting}"
        )
        yield codes.GROUPS_ALONE.at(member.path, message, object=member.about)


def _counters_suffice(
    uses: ConsumedCounters, other: ConsumedCounters, totals: Mapping[CounterKey, int]
) -> bool:
    return all(
        uses.get(key, 0) + other.get(key, 0) <= totals.get(key, 0) for key in {**uses, **other}
    )


def _check_pairwise(name: str, drawing: Sequence[_Member]) -> Iterator[Finding]:
    kinds = {member.groups: member for member in drawing if member.groups}
    for three in combinations(islice(kinds, MOST_KINDS), 3):
        if all(one & other for one, other in combinations(three, 2)) and not (
            three[0] & three[1] & three[2]
        ):
            names = ", ".join(kinds[each].device.name for each in three)
            message = (
                f"devices {names} share groups in pairs on counter set {name}, but no group is "
                "common to all three, so the scheduler never allocates all three"
            )
            last = kinds[three[2]]
            yield codes.GROUPS_PAIRWISE.at(last.path, message, object=last.about)
            return
