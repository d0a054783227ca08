"""Nodes as a person would draw them after a placement: each device, and who holds it.

Who holds what is handed in as text; where it comes from is not known here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from dra.counters import Counters, available, charged, draw
from dra.device import Device
from dra.inventory import Inventory, Memo, Pool, PoolID, device_selected
from dra.nodes import Node, NodeSelectorError
from report.tables import Branch

_NUMBER: Final = re.compile(r"[0-9]+$")
FREE: Final = "free"
# Nobody holds it, and what it would draw from counters is held by others.
BLOCKED: Final = "blocked by what others draw"


class Held(NamedTuple):
    """Who holds a device or a share of it, how much of it, and whether it was just given."""

    by: str
    amount: str = ""
    new: bool = False


# What is held of each pool, by device.
Holders: TypeAlias = Mapping[PoolID, Mapping[str, tuple[Held, ...]]]


def node(inventory: Inventory, of: Node, holders: Holders, memo: Memo | None = None) -> Branch:
    """Draw the devices of one node by pool; those in one state and row are one line."""
    try:
        pools = inventory.pools_for(of, memo)
        drawn = [branch for pool in pools if (branch := _pool(pool, of, holders)) is not None]
    except NodeSelectorError as error:
        return Branch(f"node {of.name}", below=(Branch(f"no device can be allocated: {error}"),))
    return Branch(f"node {of.name}", below=tuple(drawn) or (Branch("no devices"),))


def _pool(pool: Pool, of: Node, holders: Holders) -> Branch | None:
    label = f"pool {pool.id.name} of {pool.id.driver}"
    if not pool.usable:
        why = f"invalid, {pool.invalid}" if pool.invalid else "incomplete"
        return Branch(f"{label}: {why}")
    held = holders.get(pool.id, {})
    left = _left(pool, held)
    here = [device for each, device in pool.devices() if device_selected(each, device, of)]
    lines = tuple(_lines(here, held, lambda device: _state(device, left)))
    return Branch(label, below=lines) if lines else None


def _left(pool: Pool, held: Mapping[str, tuple[Held, ...]]) -> Counters:
    published = (device for each in (*pool.slices, *pool.elsewhere) for device in each.devices)
    return available(pool.counter_sets, published, held)


def _state(device: Device, left: Counters) -> str:
    if not device.consumes_counters:
        return FREE
    return FREE if isinstance(charged(left, draw(device)), Counters) else BLOCKED


def _lines(
    devices: list[Device],
    held: Mapping[str, tuple[Held, ...]],
    state: Callable[[Device], str],
) -> Iterator[Branch]:
    def alike(device: Device) -> tuple[str, str]:
        if held.get(device.name):
            return device.name, ""
        return _NUMBER.sub("", device.name), state(device)

    for (stem, said), run in groupby(devices, alike):
        names = [device.name for device in run]
        if said:
            many = f"{names[0]}..{names[-1].removeprefix(stem)} ({len(names)})"
            yield Branch(names[0] if len(names) == 1 else many, (said,))
            continue
        for name in names:
            first, *others = (_holder(each) for each in held[name])
            yield Branch(name, first)
            yield from (Branch("", other) for other in others)


def _holder(each: Held) -> tuple[str, ...]:
    return ("NEW" if each.new else "held", each.by, each.amount)
