"""The devices that a task can take on a node, without those that differ only in their number."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

from drawbridge.choice.amounts import AskedOthers, NodeRoom, Taken, Task

# Of more devices that differ, the first ones are compared.
_MAX_OPTIONS: Final = 32


def options(node: NodeRoom, task: Task) -> Iterator[Taken]:
    """Yield the devices that a task can take.

    For parts of several devices these are the fullest and the emptiest ones only; so it is with
    the devices of other kinds beside them.
    """
    if not task.others:
        return _alone(node, task)
    taken = chain.from_iterable(
        (each + others for others in _others_beside(node, task, each))
        for each in _devices(node, task)
    )
    return islice(taken, _MAX_OPTIONS)


def with_others(node: NodeRoom, task: Task, taken: Taken) -> Taken | None:
    """Return devices and those of other kinds beside them, the first ones; None if they lack."""
    others = next(_others_beside(node, task, taken), None)
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
    kinds = (at for at, each in enumerate(node.shape.others) if each.kind == asked.kind)
    return next(kinds, None)


def _alone(node: NodeRoom, task: Task) -> Iterator[Taken]:
    if not task.devices:
        yield ()
    elif task.devices == 1:
        seen = set[int]()
        for number, left in enumerate(node.free):
            if left >= task.share and left not in seen:
                seen.add(left)
                yield (number,)
                if len(seen) == _MAX_OPTIONS:
                    return
    else:
        able = [number for number, left in enumerate(node.free) if left >= task.share]
        yield from _first_of(able, task.devices, node.free)


def _devices(node: NodeRoom, task: Task) -> Iterator[Taken]:
    """Yield the devices of a task with what it takes of other kinds near them."""
    able = able_devices(node, task)
    if len(able) < task.devices:
        return
    places = [place_of(node, each) for each in task.others if each.near]
    near = [at for at in places if at is not None]
    if task.devices == 1:
        seen = set[tuple[object, ...]]()
        for number in able:
            state = (node.free[number], *(_left_near(node, at, number) for at in near))
            if state not in seen:
                seen.add(state)
                yield (number,)
        return
    if near:
        most = min(each.devices for each in task.others if each.near)
        yield from _in_groups(able, node.shape.others[near[0]].of_devices, task.devices, most)
    else:
        yield from _first_of(able, task.devices, node.free)


def _in_groups(
    able: Sequence[int], of_devices: Sequence[int], count: int, most: int
) -> Iterator[Taken]:
    """Yield devices in each number of groups up to `most`: in small groups, and in large ones."""
    groups: dict[int, list[int]] = {}
    for number in able:
        groups.setdefault(of_devices[number], []).append(number)
    by_size = sorted(groups.values(), key=len)
    for size in range(1, 1 + min(count, most, len(by_size))):
        chosen = [by_size[first:][:size] for first in range(1 + len(by_size) - size)]
        enough = [each for each in chosen if sum(map(len, each)) >= count]
        taken = (tuple(sorted(_in_turn(each)[:count])) for each in (*enough[:1], *enough[-1:]))
        yield from dict.fromkeys(taken)


def _in_turn(groups: Iterable[Iterable[int]]) -> list[int]:
    """Return one device of each group, then a second one, and so on."""
    return [each for turn in zip_longest(*groups) for each in turn if each is not None]


def _left_near(node: NodeRoom, place: int, number: int) -> tuple[int, ...]:
    """Return what is left of devices of another kind near a device."""
    others = node.shape.others[place]
    own = others.of_devices[number]
    pairs = zip(others.groups, node.others[place], strict=True)
    return tuple(sorted(left for group, left in pairs if group == own))


def _first_of(able: Sequence[int], count: int, free: Sequence[int]) -> Iterator[Taken]:
    """Yield the fullest devices, and the emptiest ones."""
    if len(able) < count:
        return
    orders = (sorted(able, key=free.__getitem__, reverse=last) for last in (False, True))
    yield from dict.fromkeys(tuple(sorted(order[:count])) for order in orders)


def _others_beside(node: NodeRoom, task: Task, taken: Taken) -> Iterator[Taken]:
    """Yield the first devices of other kinds that a task takes, the fullest and the emptiest."""
    in_orders = (_take_others(node, task, taken, sign) for sign in (0, 1, -1))
    return iter(dict.fromkeys(each for each in in_orders if each is not None))


def _take_others(node: NodeRoom, task: Task, taken: Taken, sign: int) -> Taken | None:
    """Return devices of other kinds, ordered by the sign times what is left of them."""
    numbers: list[int] = []
    for asked in task.others:
        place = place_of(node, asked)
        if place is None:
            return None
        others, left = node.shape.others[place], node.others[place]
        able = [at for at, free in enumerate(left) if free >= asked.share]
        able.sort(key=[sign * free for free in left].__getitem__)
        if asked.near:
            groups = dict.fromkeys(others.of_devices[each] for each in taken)
            able = _spread(able, others.groups, groups, asked.devices)
        if len(able) < asked.devices:
            return None
        first = len(node.free) + sum(map(len, node.others[:place]))
        numbers += (first + each for each in able[: asked.devices])
    return tuple(sorted(numbers))


def _spread(
    able: Sequence[int], groups: Sequence[int], wanted: Iterable[int], count: int
) -> list[int]:
    """Return devices of the wanted groups in turn, one of each first; none if a group has none."""
    in_groups = [[each for each in able if groups[each] == group] for group in wanted]
    if len(in_groups) > count or not all(in_groups):
        return []
    return _in_turn(in_groups)
