"""How near each other the devices of a node are, by the groups that they are in.

There are groups by several attributes, such as a PCIe root and a NUMA node. Two devices are the
nearer the more groups they share. The number of a group says nothing; a device in no group has -1.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final, TypeAlias

from drawbridge.choice.amounts import WHOLE, Taken

# For each attribute, the groups of the devices.
Groups: TypeAlias = tuple[tuple[int, ...], ...]
# More sets of devices than this are not compared: the set grows by the nearest device instead.
_MAX_SETS: Final = 128
# Sets grow from so many comparisons of devices on, and from one device at least.
_MAX_STEPS: Final = 1024
# Of more devices than this, the first ones are compared.
_MAX_ABLE: Final = 64


def nearest(groups: Groups, able: Sequence[int], count: int, *, keeps: bool) -> Taken:
    """Return the devices that are nearest each other; of equal sets, that of the first ones.

    With `keeps`, one device is the one that is least near to others, so that these stay for tasks
    with several.
    """
    able = able[: max(count, _MAX_ABLE)]
    if count == 1:
        if not keeps:
            return (able[0],)
        return (min(able, key=lambda each: _shared_with(groups, each, able)),)
    if comb(len(able), count) <= _MAX_SETS:
        best = max(combinations(able, count), key=lambda each: _shared(groups, each))
        return tuple(sorted(best))
    starts = max(1, _MAX_STEPS // (count * len(able)))
    # One device of a group stands for the others in it.
    alike = {tuple(level[each] for level in groups): each for each in reversed(able)}
    first = sorted(alike.values(), key=able.index)[:starts]
    grown = [_grow(groups, able, count, each) for each in first]
    return tuple(sorted(max(grown, key=lambda each: _shared(groups, each))))


def nearness_of(groups: Groups, taken: Sequence[int]) -> int:
    """Return how many of the groups the devices share, in thousandths; 0 for a device alone."""
    pairs = comb(len(taken), 2)
    return _shared(groups, taken) * WHOLE // (pairs * len(groups)) if pairs and groups else 0


def _grow(groups: Groups, able: Sequence[int], count: int, first: int) -> list[int]:
    """Return a set from one device on, each time with the nearest of the others."""
    chosen = [first]
    shared = {each: _shared_by(groups, first, each) for each in able if each != first}
    # Of equally near devices, one with many others near it lets the set grow on.
    sizes = [Counter(level[each] for each in able) for level in groups]
    room = {
        each: sum(
            size[level[each]] for level, size in zip(groups, sizes, strict=True) if level[each] >= 0
        )
        for each in able
    }
    while len(chosen) < count:
        best = max(shared, key=lambda each: (shared[each], room[each]))
        del shared[best]
        chosen.append(best)
        for each in shared:
            shared[each] += _shared_by(groups, best, each)
    return chosen


def _shared(groups: Groups, devices: Iterable[int]) -> int:
    return sum(_shared_by(groups, one, other) for one, other in combinations(devices, 2))


def _shared_with(groups: Groups, device: int, others: Iterable[int]) -> int:
    return sum(_shared_by(groups, device, each) for each in others if each != device)


def _shared_by(groups: Groups, device: int, other: int) -> int:
    return sum(level[device] == level[other] >= 0 for level in groups)
