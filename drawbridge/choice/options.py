"""The devices that a task can take on a node, without those that differ only in their number."""

import functools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, zip_longest
from typing import Final, TypeAlias

from drawbridge.choice.amounts import AskedOthers, NodeRoom, Taken, Task

# Of more devices that differ, the first ones are compared.
_MAX_OPTIONS: Final = 32
# On a node with more devices of all kinds, nothing is compared: a task takes the first ones, and
# what is free counts without the devices near it.
_MAX_COMPARED: Final = 256
# So many ways in which nodes group their devices are remembered.
_MAX_GROUPINGS: Final = 64
# By number, by what is left with the fullest first, and with the emptiest first.
_ORDERS: Final = (None, False, True)
# The devices of another kind by their groups, and those kinds by their place on the node.
_OtherGroups: TypeAlias = Mapping[int, Mapping[int, Sequence[int]]]


def options(node: NodeRoom, task: Task) -> Iterator[Taken]:
    """Yield the devices that a task can take.

    For parts of several devices these are the fullest and the emptiest ones only; so it is with
    the devices of other kinds beside them.
    """
    most = 1 if is_large(node) else _MAX_OPTIONS
    if not task.others:
        return islice(_alone(node, task), most)
    groups = _group_others(node, task)
    taken = chain.from_iterable(
        (each + others for others in _others_beside(node, task, each, groups))
        for each in _devices(node, task, groups)
    )
    return islice(taken, most)


def is_large(node: NodeRoom) -> bool:
    """Whether a node has too many devices to compare what a task can take."""
    return len(node.free) + sum(map(len, node.others)) > _MAX_COMPARED


def with_others(node: NodeRoom, task: Task, taken: Taken) -> Taken | None:
    """Return devices and those of other kinds beside them, the first ones; None if they lack."""
    others = next(_others_beside(node, task, taken, _group_others(node, task)), None)
    return None if others is None else taken + others


def able_devices(node: NodeRoom, task: Task) -> list[int]:
    """Return the devices with enough left, near enough of what the task takes of other kinds."""
    free = near_enough(node, task.others) if task.others else node.free
    return [number for number, left in enumerate(free) if left >= task.share]


def near_enough(node: NodeRoom, others: Iterable[AskedOthers]) -> Sequence[int]:
    """Return what is left of each device; -1 where too little is near of other kinds."""
    free: Sequence[int] = node.free
    for asked in others:
        place = place_of(node, asked)
        if place is None:
            return [-1] * len(free)
        beside, left = node.shape.others[place], node.others[place]
        if asked.near:
            able = {
                group
                for group, each in zip(beside.groups, left, strict=True)
                if group >= 0 and each >= asked.share
            }
            pairs = zip(free, beside.of_devices, strict=True)
            free = [each if group in able else -1 for each, group in pairs]
        elif sum(each >= asked.share for each in left) < asked.devices:
            return [-1] * len(free)
    return free


def place_of(node: NodeRoom, asked: AskedOthers) -> int | None:
    """Return the place of the kind among the other kinds of a node."""
    for place, others in enumerate(node.shape.others):
        if others.kind == asked.kind:
            return place
    return None


def _group_others(node: NodeRoom, task: Task) -> _OtherGroups:
    """Group the devices of the other kinds that a task takes near its own."""
    groups: dict[int, Mapping[int, Sequence[int]]] = {}
    for asked in task.others:
        place = place_of(node, asked) if asked.near else None
        if place is not None:
            groups[place] = _members(node.shape.others[place].groups)
    return groups


@functools.lru_cache(maxsize=_MAX_GROUPINGS)
def _members(groups: Sequence[int]) -> Mapping[int, Sequence[int]]:
    """Return the devices of each group."""
    members: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    return members


def _alone(node: NodeRoom, task: Task) -> Iterator[Taken]:
    if not task.devices:
        yield ()
    elif task.devices == 1:
        seen = set[int]()
        for number, left in enumerate(node.free):
            if left >= task.share and left not in seen:
                seen.add(left)
                yield (number,)
    else:
        able = [number for number, left in enumerate(node.free) if left >= task.share]
        yield from _first_of(able, task.devices, node.free)


def _devices(node: NodeRoom, task: Task, groups: _OtherGroups) -> Iterator[Taken]:
    """Yield the devices of a task with what it takes of other kinds near them."""
    able = able_devices(node, task)
    if len(able) < task.devices:
        return
    near = [each for each in task.others if each.near]
    if task.devices == 1:
        yield from _single(node, able, near, groups)
    elif groups:
        most = min(each.devices for each in near)
        of_devices = node.shape.others[next(iter(groups))].of_devices
        yield from _in_groups(able, of_devices, task.devices, most)
    else:
        yield from _first_of(able, task.devices, node.free)


def _single(
    node: NodeRoom, able: Iterable[int], near: Iterable[AskedOthers], groups: _OtherGroups
) -> Iterator[Taken]:
    """Yield one device of each state: what is left of it, and of enough devices near it."""
    states = [
        (node.shape.others[place].of_devices, _states_of(node, place, asked, groups[place]))
        for place, asked in zip(groups, near, strict=True)
    ]
    seen = set[tuple[int, ...]]()
    for number in able:
        near_it = [of_groups.get(of_devices[number], -1) for of_devices, of_groups in states]
        state = (node.free[number], *near_it)
        if -1 not in near_it and state not in seen:
            seen.add(state)
            yield (number,)


def _states_of(
    node: NodeRoom, place: int, asked: AskedOthers, members: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Return a number for each group with enough for one device; equal groups have the same."""
    left = node.others[place]
    numbers: dict[tuple[int, ...], int] = {}
    of_groups = {}
    for group, several in members.items():
        state = tuple(sorted(left[each] for each in several))
        if len(state) - bisect_left(state, asked.share) >= asked.devices:
            of_groups[group] = numbers.setdefault(state, len(numbers))
    return of_groups


def _in_groups(
    able: Sequence[int], of_devices: Sequence[int], count: int, most: int
) -> Iterator[Taken]:
    """Yield devices in each number of groups up to `most`: in small groups, and in large ones."""
    groups: dict[int, list[int]] = {}
    for number in able:
        groups.setdefault(of_devices[number], []).append(number)
    by_size = sorted(groups.values(), key=len)
    before = [0, *accumulate(map(len, by_size))]
    for size in range(1, 1 + min(count, most, len(by_size))):
        last = len(by_size) - size
        # The groups behind are larger.
        enough = (at for at in range(1 + last) if before[at + size] - before[at] >= count)
        first = next(enough, None)
        if first is not None:
            chosen = (by_size[at : at + size] for at in (first, last))
            taken = (tuple(sorted(islice(_in_turn(each), count))) for each in chosen)
            yield from dict.fromkeys(taken)


def _in_turn(groups: Iterable[Iterable[int]]) -> Iterator[int]:
    """Yield one device of each group, then a second one, and so on."""
    return (each for turn in zip_longest(*groups) for each in turn if each is not None)


def _first_of(able: Sequence[int], count: int, free: Sequence[int]) -> Iterator[Taken]:
    """Yield the fullest devices, and the emptiest ones."""
    if len(able) < count:
        return
    orders = (sorted(able, key=free.__getitem__, reverse=last) for last in (False, True))
    yield from dict.fromkeys(tuple(sorted(order[:count])) for order in orders)


def _others_beside(
    node: NodeRoom, task: Task, taken: Taken, groups: _OtherGroups
) -> Iterator[Taken]:
    """Yield the first devices of other kinds that a task takes, the fullest and the emptiest."""
    in_orders = (_take_others(node, task, taken, groups, order=each) for each in _ORDERS)
    return iter(dict.fromkeys(each for each in in_orders if each is not None))


def _take_others(
    node: NodeRoom, task: Task, taken: Taken, groups: _OtherGroups, *, order: bool | None
) -> Taken | None:
    """Return devices of other kinds in one of the orders."""
    numbers: list[int] = []
    for asked in task.others:
        place = place_of(node, asked)
        if place is None:
            return None
        of_devices, left = node.shape.others[place].of_devices, node.others[place]
        # In the groups of its devices, or anywhere.
        wanted: list[Sequence[int]] = [range(len(left))]
        if asked.near:
            own = dict.fromkeys(of_devices[each] for each in taken)
            wanted = [groups[place].get(each, ()) for each in own]
        able = [_ordered(members, left, asked.share, order=order) for members in wanted]
        chosen = list(islice(_in_turn(able), asked.devices))
        if len(able) > asked.devices or not all(able) or len(chosen) < asked.devices:
            return None
        first = len(node.free) + sum(map(len, node.others[:place]))
        numbers += (first + each for each in chosen)
    return tuple(sorted(numbers))


def _ordered(
    members: Iterable[int], left: Sequence[int], share: int, *, order: bool | None
) -> list[int]:
    """Return those with enough left in one of the orders."""
    able = [each for each in members if left[each] >= share]
    return able if order is None else sorted(able, key=left.__getitem__, reverse=order)
