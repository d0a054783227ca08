"""Nodes of tables: devices by what they have and what is in use of slots, compute and memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from drawbridge.choice.amounts import WHOLE, NodeRoom, Shape
from drawbridge.choice.levels import ByLevels, ChosenWeights

SLOTS: Final = "shares"
AMOUNTS: Final = (SLOTS, "cores", "memory")
# The names of the tables, and what they are called here. HAMi compares all amounts alike, and
# tensor-fusion memory more than compute.
_ALIKE: Final = (1, 1, 1)
_MEMORY_FIRST: Final = (0, 3, 7)
_NAMES: Final[Mapping[str, tuple[str, Sequence[int]]]] = {
    "CompactFirst": ("packed", _MEMORY_FIRST),
    "LowLoadFirst": ("spread", _MEMORY_FIRST),
    "NodeCompactGPULowLoad": ("packed-nodes", _MEMORY_FIRST),
    "binpack": ("packed", _ALIKE),
    "spread": ("spread", _ALIKE),
    "numa": ("numa", _ALIKE),
    "topology-aware": ("topology-aware", _ALIKE),
}


def weights_of(amounts: Sequence[int]) -> ChosenWeights:
    """Return weights by name."""
    return tuple(sorted(zip(AMOUNTS, amounts, strict=True)))


def strategy_of(name: str, weights: Sequence[int] | None = None) -> ByLevels:
    """Return the strategy of a table."""
    ours, own = _NAMES[name]
    return ByLevels(ours, weights_of(own if weights is None else weights))


def room(devices: Mapping[str, Mapping[str, Any]], asked: Sequence[int], name: str) -> NodeRoom:
    """Return a node with devices; a device is free for what is asked, or not at all.

    `used` is by the capacities with a weight, in the order of a strategy.
    """
    free = tuple(_free(each, asked) for each in devices.values())
    in_order = [AMOUNTS.index(each) for each, weight in weights_of(_NAMES[name][1]) if weight]
    used = tuple(
        tuple(_part(each["total"][place], each.get("used", (0, 0, 0))[place]) for place in in_order)
        for each in devices.values()
    )
    shape = Shape("", 0, 0, len(devices), _groups(devices))
    return NodeRoom(shape, 0, 0, free, used)


def _free(device: Mapping[str, Any], asked: Sequence[int]) -> int:
    amounts = zip(device["total"], device.get("used", (0, 0, 0)), asked, strict=True)
    return WHOLE if all(total - used >= amount for total, used, amount in amounts) else 0


def _part(total: int, used: int) -> int:
    return used * WHOLE // total if total else 0


def _groups(devices: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of a table: of the NUMA node, and of the roots."""
    levels = [[each.get(name) for each in devices.values()] for name in ("root", "numa")]
    return tuple(
        tuple(-1 if each is None else each for each in level)
        for level in levels
        if any(each is not None for each in level)
    )
