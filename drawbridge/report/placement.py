"""Draws nodes as trees of devices after a placement, with the claims that hold each device."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from drawbridge.dra.counters import Counters, available_counters, charge, consumed_counters
from drawbridge.dra.device import Device
from drawbridge.dra.inventory import Inventory, Pool, PoolCache, PoolID, is_device_for_node
from drawbridge.dra.nodes import Node, NodeSelectorError
from drawbridge.report.tables import Branch

_NUMBER: Final = re.compile(r"[0-9]+$")
FREE: Final = "free"
# Not allocated, but other devices hold the counters that it consumes.
BLOCKED: Final = "counters in use"


class DeviceHolder(NamedTuple):
    """The claim that holds a device or a share of it; `new` if this placement allocated it."""

    claim: str
    amount: str = ""
    new: bool = False


# The holders of the devices of each pool, by device name.
HoldersByPool: TypeAlias = Mapping[PoolID, Mapping[str, tuple[DeviceHolder, ...]]]


def draw_node(
    inventory: Inventory, of: Node, holders: HoldersByPool, memo: PoolCache | None = None
) -> Branch:
    """Draw the devices of one node by pool; adjacent free devices share a line."""
    try:
        pools = inventory.pools_for(of, memo)
        drawn = [branch for pool in pools if (branch := _pool(pool, of, holders)) is not None]
    except NodeSelectorError as error:
        return Branch(f"node {of.name}", below=(Branch(f"no device can be allocated: {error}"),))
    return Branch(f"node {of.name}", below=tuple(drawn) or (Branch("no devices"),))


def _pool(pool: Pool, of: Node, holders: HoldersByPool) -> Branch | None:
    label = f"pool {pool.id.name} of {pool.id.driver}"
    if not pool.usable:
        reason = f"invalid, {pool.invalid}" if pool.invalid else "incomplete"
        return Branch(f"{label}: {reason}")
    held = holders.get(pool.id, {})
    left = _available_counters(pool, held)
    on_node = [device for each, device in pool.devices() if is_device_for_node(each, device, of)]
    lines = tuple(_lines(on_node, held, lambda device: _state(device, left)))
    return Branch(label, below=lines) if lines else None


def _available_counters(pool: Pool, held: Mapping[str, tuple[DeviceHolder, ...]]) -> Counters:
    published = (device for each in (*pool.slices, *pool.other_slices) for device in each.devices)
    return available_counters(pool.counter_sets, published, held)


def _state(device: Device, left: Counters) -> str:
    if not device.consumes_counters:
        return FREE
    return FREE if isinstance(charge(left, consumed_counters(device)), Counters) else BLOCKED


def _lines(
    devices: list[Device],
    held: Mapping[str, tuple[DeviceHolder, ...]],
    state: Callable[[Device], str],
) -> Iterator[Branch]:
    def group_key(device: Device) -> tuple[str, str]:
        if held.get(device.name):
            return device.name, ""
        return _NUMBER.sub("", device.name), state(device)

    for (stem, text), run in groupby(devices, group_key):
        names = [device.name for device in run]
        if text:
            numbered = f"{names[0]}..{names[-1].removeprefix(stem)} ({len(names)})"
            yield Branch(names[0] if len(names) == 1 else numbered, (text,))
            continue
        for name in names:
            first, *others = (_holder(each) for each in held[name])
            yield Branch(name, first)
            yield from (Branch("", other) for other in others)


def _holder(holder: DeviceHolder) -> tuple[str, ...]:
    return ("NEW" if holder.new else "held", holder.claim, holder.amount)
