"""The strategy of Drawbridge: a task goes where most of what stays free can still be used.

For a typical task, a node can be used as far as copies of it fit: one on each free part that is
large enough, and no more than the CPU and the memory beside the devices allow. What a copy leaves
of its device counts as far as further tasks are likely to use it (`_further`). The value of a node
is the sum over the typical tasks by how common they are; the score is the change of the value.

So it sees what the gradient of fragmentation does not: a node with eight free devices and CPU for
one task has room for one task only, a part that fills a device is worth more than one that leaves a
remainder, and what few nodes can serve is worth most. For the last, the weight of a typical task is
divided by the part of the cluster that it could use if all nodes were idle.

A task for several devices waits for a node where enough of what runs ends. It counts as often as it
asks for devices, and a node where some of them are in use is still worth something to it: nine
tenths for each device that it lacks, or whose CPU or memory it lacks. So large tasks keep nodes
that are nearly idle, and others fill the nodes that are in use most.

Tasks that take parts of devices of other kinds, such as NICs, use no more devices than these allow:
near ones those of each group, such as a PCIe root, others those of the node.

That nobody has asked lately for a whole device, or for all devices of a node, does not mean that
nobody will. Such tasks are always a little typical, so that of choices that are equal otherwise,
the one counts that leaves the most whole.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from drawbridge.bounded_cache import BoundedCache
from drawbridge.choice.amounts import (
    WHOLE,
    AskedOthers,
    NodeRoom,
    Shape,
    Taken,
    Task,
    idle,
    suits,
    take,
)
from drawbridge.choice.options import is_large, near_enough, options, place_of
from drawbridge.choice.strategy import MAX_REMEMBERED, JudgedNode, Part
from drawbridge.choice.typical import TaskKind, TypicalTasks

# The weights are multiplied by this, so that little is lost when they are rounded.
_PRECISION: Final = 1000
# The most common shapes say how much of the cluster a task could use.
_MAX_SHAPES: Final = 16
# No task counts as if less than this part of the cluster could serve it.
_SCARCEST: Final = 1000
# Each number of whole devices that nodes have counts as if one task of so many had asked for it.
_WHOLE_EVERY: Final = 300
# What a node is worth to a task for several devices, in thousandths, by how many of them it lacks.
_LACKING: Final = tuple(WHOLE * 9**number // 10**number for number in range(66))


class _Kind(NamedTuple):
    """Typical tasks that are alike but for CPU and memory; those with least CPU first."""

    devices: int
    share: int
    members: tuple[tuple[int, int, int], ...]
    cpus: tuple[int, ...]  # of the members
    weights: tuple[int, ...]  # of all members before each one, and of all
    memory: int  # the most that a member asks for
    amount: int  # the thousandths of devices that each of the tasks takes
    others: tuple[AskedOthers, ...]


class _Parts(NamedTuple):
    """What the free parts of a node are for a kind of task."""

    worth: int
    lacking: int  # devices with too little, of those that a task takes


# What a free part is worth to each kind of tasks, by the thousandths that are free.
_Worths: TypeAlias = tuple[tuple[int, ...], ...]


class _InGroup(NamedTuple):
    """What the free parts of a group are for a kind of task, and how many are large enough."""

    worth: int
    able: int


_NOTHING: Final = _InGroup(0, 0)


class _Label(NamedTuple):
    """What can run on the nodes with one label; which kinds take devices of other kinds."""

    kinds: tuple[_Kind, ...]
    worth: _Worths
    with_others: tuple[int, ...]


class Usable:
    """The most that typical tasks could still use, after this task."""

    name: Final = "usable"
    draws: Final = False

    def __init__(self, typical: TypicalTasks, shapes: Mapping[Shape, int]) -> None:
        """Look ahead with typical tasks on so many nodes of each shape."""
        self._asked = typical
        self._typical = _with_whole_devices(typical, {each.devices for each in shapes})
        self._worths: dict[tuple[TaskKind, ...], _Worths] = {}
        common = sorted(shapes, key=lambda each: (-shapes[each], each))[:_MAX_SHAPES]
        self._weighted = self._by_scarcity({each: shapes[each] for each in common})
        # By their typical tasks, before and after the weights are divided.
        self._alike: dict[tuple[tuple[TaskKind, ...], ...], _Label] = {}
        # Nodes can get other labels than those of the shapes.
        self._labels: BoundedCache[str, _Label] = BoundedCache(MAX_REMEMBERED)
        self._values: BoundedCache[NodeRoom, int] = BoundedCache(MAX_REMEMBERED)
        # What free parts are for each kind, by label and parts, and those of a group by what is
        # near them.
        self._parts: BoundedCache[tuple[str, Taken], Sequence[_Parts]]
        self._parts = BoundedCache(MAX_REMEMBERED)
        self._in_groups: BoundedCache[tuple[str, str, Taken, Taken], Sequence[_InGroup]]
        self._in_groups = BoundedCache(MAX_REMEMBERED)

    def judge(self, node: NodeRoom, task: Task) -> JudgedNode | None:
        """Return the devices after which most can be used."""
        if not suits(node, task):
            return None
        best: JudgedNode | None = None
        for taken in options(node, task):
            value = sum(self._of_kinds(take(node, task, taken)))
            if best is None or value > best.score:
                best = JudgedNode(value, taken)
        return best and JudgedNode(best.score - self._before(node), best.taken)

    def parts(self, node: NodeRoom, task: Task, taken: Taken) -> tuple[Part, ...]:
        """Return the change for each kind of typical task."""
        after, label = take(node, task, taken), self._of_label(node.shape.label)
        changes = zip(label.kinds, self._of_kinds(node), self._of_kinds(after), strict=True)
        return tuple(
            Part(f"tasks of {kind.devices} x {kind.share}", new - old) for kind, old, new in changes
        )

    def _before(self, node: NodeRoom) -> int:
        value = self._values.get(node)
        if value is None:
            value = sum(self._of_kinds(node))
            self._values.put(node, value)
        return value

    def _of_kinds(self, node: NodeRoom) -> list[int]:
        """Return what each kind of typical tasks could use of a node, times its weight."""
        label = self._of_label(node.shape.label)
        values = []
        for kind, parts in zip(label.kinds, self._parts_for(label, node), strict=True):
            if kind.devices > 1:
                values.append(_value_of_several(kind, parts, node))
            else:
                values.append(_value_now(kind, parts.worth, node.cpu, node.memory))
        return values

    def _parts_for(self, label: _Label, node: NodeRoom) -> Sequence[_Parts]:
        """Return what the free parts are for each kind, if CPU and memory did not matter."""
        free = tuple(sorted(node.free))
        key = (node.shape.label, free)
        parts = self._parts.get(key)
        if parts is None:
            worths = [label.worth[left] for left in free] or [label.worth[0]]
            sums = map(sum, zip(*worths, strict=True))
            parts = [
                _Parts(worth, _lacking_devices(kind, free))
                for kind, worth in zip(label.kinds, sums, strict=True)
            ]
            self._parts.put(key, parts)
        has_others = label.with_others and not is_large(node)
        return self._with_others(label, node, parts) if has_others else parts

    def _with_others(
        self, label: _Label, node: NodeRoom, parts: Sequence[_Parts]
    ) -> Sequence[_Parts]:
        """Return parts as far as devices of other kinds are there for them."""
        limited = list(parts)
        by_kind = {each.kind: place for place, each in enumerate(node.shape.others)}
        summed: dict[str, Sequence[_InGroup]] = {}
        for number in label.with_others:
            kind = label.kinds[number]
            asked = kind.others[0]
            if len(kind.others) > 1 or not asked.near or asked.kind not in by_kind:
                limited[number] = _parts_beside(kind, node, label, number)
                continue
            if asked.kind not in summed:
                summed[asked.kind] = self._of_groups(label, node, by_kind[asked.kind])
            worth, able = summed[asked.kind][number]
            limited[number] = _Parts(worth, max(0, kind.devices - able))
        return limited

    def _of_groups(self, label: _Label, node: NodeRoom, place: int) -> Sequence[_InGroup]:
        """Return what the groups of a node are for each kind; few groups differ in a cluster."""
        others = node.shape.others[place]
        in_groups: dict[int, tuple[list[int], list[int]]] = {}
        for group, free in zip(others.of_devices, node.free, strict=True):
            in_groups.setdefault(group, ([], []))[0].append(free)
        for group, left in zip(others.groups, node.others[place], strict=True):
            in_groups.setdefault(group, ([], []))[1].append(left)
        in_groups.pop(-1, None)
        groups = [
            self._of_group(label, others.kind, node.shape.label, tuple(sorted(free)), left)
            for free, left in in_groups.values()
        ]
        totals = (tuple(map(sum, zip(*each, strict=True))) for each in zip(*groups, strict=True))
        return [_InGroup(*each) for each in totals] or [_NOTHING] * len(label.kinds)

    def _of_group(
        self, label: _Label, other: str, name: str, free: Taken, left: Sequence[int]
    ) -> Sequence[_InGroup]:
        key = (name, other, free, tuple(sorted(left)))
        in_group = self._in_groups.get(key)
        if in_group is None:
            in_group = [
                _in_group(kind, other, [label.worth[each][number] for each in free], free, left)
                for number, kind in enumerate(label.kinds)
            ]
            self._in_groups.put(key, in_group)
        return in_group

    def _of_label(self, label: str) -> _Label:
        read = self._labels.get(label)
        if read is None:
            kinds = self._typical.kinds(label), self._weighted.kinds(label)
            read = self._alike.get(kinds)
            if read is None:
                worths = self._worths_of(label, kinds[0])
                with_others = (number for number, each in enumerate(kinds[1]) if each.others)
                read = _Label(_with_totals(kinds[1]), worths, tuple(with_others))
                self._alike[kinds] = read
            self._labels.put(label, read)
        return read

    def _by_scarcity(self, shapes: Mapping[Shape, int]) -> TypicalTasks:
        """Divide the weight of each task by what it could use of an idle cluster."""
        total = sum(WHOLE * shape.devices * count for shape, count in shapes.items())
        worths = {shape.label: self._worths_of_whole(shape.label) for shape in shapes}
        usable = {
            task: sum(
                count * _usable_by(task, shape, worths[shape.label])
                for shape, count in shapes.items()
            )
            for task in self._typical.weights
        }
        weights = {
            task: weight * total // max(usable[task], total // _SCARCEST, 1)
            for task, weight in self._typical.weights.items()
        }
        return TypicalTasks(weights, self._typical.total)

    def _worths_of_whole(self, label: str) -> Mapping[tuple[int, int], int]:
        """Return what a whole device is worth to each kind, by devices and share."""
        kinds = self._typical.kinds(label)
        worths = self._worths_of(label, kinds)[WHOLE]
        return {(kind.devices, kind.share): w for kind, w in zip(kinds, worths, strict=True)}

    def _worths_of(self, label: str, kinds: tuple[TaskKind, ...]) -> _Worths:
        if kinds not in self._worths:
            further = _further(self._asked.kinds(label))
            of_kinds = [_worth(kind, further) for kind in kinds]
            self._worths[kinds] = tuple(zip(*of_kinds, strict=True)) or ((),) * (WHOLE + 1)
        return self._worths[kinds]


def _usable_by(task: Task, shape: Shape, worths: Mapping[tuple[int, int], int]) -> int:
    """Return what copies of a task could use of an idle node."""
    if not task.devices or task.devices > shape.devices or not suits(idle(shape), task):
        return 0
    most = shape.devices * worths[task.devices, task.share]
    if task.others:
        whole = [worths[task.devices, task.share]] * shape.devices
        most = _worth_beside(idle(shape), task.others, whole, task.amount)
    return _usable(most, task.amount, (shape.cpu, shape.memory), (task.cpu, task.memory))


def _with_whole_devices(typical: TypicalTasks, numbers: Iterable[int]) -> TypicalTasks:
    """Return typical tasks with some for one whole device, and for so many of one node.

    Each counts as often as it asks for devices.
    """
    weights = {t: _PRECISION * weight * t.devices for t, weight in typical.weights.items()}
    more = max(1, _PRECISION * typical.total // _WHOLE_EVERY)
    whole = {Task(number, WHOLE, 0, 0) for number in {1, *numbers} if number}
    weights |= {task: weights.get(task, 0) + more * task.devices for task in whole}
    return TypicalTasks(weights, sum(weights.values()))


def _with_totals(kinds: Sequence[TaskKind]) -> tuple[_Kind, ...]:
    return tuple(
        _Kind(
            *kind[:3],
            cpus=tuple(cpu for cpu, _, _ in kind.members),
            weights=(0, *accumulate(weight for _, _, weight in kind.members)),
            memory=max(memory for _, memory, _ in kind.members),
            amount=kind.devices * kind.share,
            others=kind.others,
        )
        for kind in kinds
    )


def _value_now(kind: _Kind, most: int, cpu: int, memory: int) -> int:
    """Return what tasks of a kind could use of a node times their weights.

    The free parts are worth `most` to them, with enough CPU and memory.
    """
    if not most:
        return 0
    of_cpu, of_memory = cpu * kind.amount, memory * kind.amount
    able = bisect_right(kind.cpus, cpu)
    first = value = 0
    if kind.memory * most <= of_memory:
        # The members that nothing limits are the first ones.
        first = bisect_right(kind.cpus, of_cpu // most)
        value = most * kind.weights[first]
    for asked_cpu, asked_memory, weight in kind.members[first:able]:
        if asked_memory <= memory:
            by_cpu = of_cpu // asked_cpu if asked_cpu else most
            by_memory = of_memory // asked_memory if asked_memory else most
            value += weight * min(most, by_cpu, by_memory)
    return value


def _value_of_several(kind: _Kind, parts: _Parts, node: NodeRoom) -> int:
    """Return the value for tasks for several devices, some of which lack something now."""
    (_, all_cpu, all_memory, all_devices, *_), left_cpu, left_memory, *_ = node
    value, devices = 0, kind.devices
    if devices > all_devices:
        return 0
    if not parts.lacking and kind.cpus[-1] <= left_cpu and kind.memory <= left_memory:
        return _value_now(kind, parts.worth, left_cpu, left_memory)
    for cpu, memory, weight in kind.members:
        if cpu > all_cpu:
            break
        if memory > all_memory:
            continue
        lacking = parts.lacking
        # What lacks of CPU and memory counts in devices, rounded up.
        if cpu > left_cpu:
            lacking = max(lacking, -((left_cpu - cpu) * devices // cpu))
        if memory > left_memory:
            lacking = max(lacking, -((left_memory - memory) * devices // memory))
        if not lacking:
            left = (left_cpu, left_memory)
            value += weight * _usable(parts.worth, kind.amount, left, (cpu, memory))
        elif lacking < len(_LACKING):
            value += weight * kind.amount * _LACKING[lacking] // WHOLE
    return value


def _lacking_devices(kind: _Kind, free: Sequence[int]) -> int:
    """Return how many of the devices of a task lack a free part that is large enough."""
    return max(0, kind.devices - len(free) + bisect_left(free, kind.share))


def _in_group(
    kind: _Kind, other: str, worths: Sequence[int], free: Sequence[int], left: Sequence[int]
) -> _InGroup:
    """Return what a group is for a kind that takes devices of one other kind near its own."""
    asked = next((each for each in kind.others if each.kind == other), None)
    if asked is None or all(each < asked.share for each in left):
        return _NOTHING
    worth = sum(worths)
    if asked.share and asked.devices:
        copies = sum(each // asked.share for each in left)
        worth = min(worth, copies * kind.amount // asked.devices)
    return _InGroup(worth, sum(each >= kind.share for each in free))


def _parts_beside(kind: _Kind, node: NodeRoom, label: _Label, place: int) -> _Parts:
    """Return what the free parts of a node are for a kind that takes devices of other kinds."""
    free = near_enough(node, kind.others)
    worths = [label.worth[max(0, left)][place] for left in free]
    lacking = _lacking_devices(kind, sorted(free))
    return _Parts(_worth_beside(node, kind.others, worths, kind.amount), lacking)


def _worth_beside(
    node: NodeRoom, others: Iterable[AskedOthers], worths: Sequence[int], amount: int
) -> int:
    """Return what devices are worth, as far as what is left of other kinds is enough for copies.

    Each device has its worth; near ones share what is left in their group.
    """
    most = sum(worths)
    for asked in others:
        place = place_of(node, asked)
        if place is None:
            return 0
        beside, left = node.shape.others[place], node.others[place]
        if not asked.share or not asked.devices:
            continue
        if not asked.near:
            most = min(most, sum(each // asked.share for each in left) * amount // asked.devices)
            continue
        in_groups, copies = Counter[int](), Counter[int]()
        for worth, group in zip(worths, beside.of_devices, strict=True):
            in_groups[group] += worth
        for each, group in zip(left, beside.groups, strict=True):
            copies[group] += each // asked.share
        most = min(
            most,
            sum(
                min(worth, copies[group] * amount // asked.devices)
                for group, worth in in_groups.items()
                if group >= 0
            ),
        )
    return most


def _usable(most: int, amount: int, left: tuple[int, int], asked: tuple[int, int]) -> int:
    """Return how much copies of a task use that CPU and memory are left for."""
    for of_node, of_task in zip(left, asked, strict=True):
        if of_task:
            most = min(most, of_node * amount // of_task)
    return most


def _further(kinds: Sequence[TaskKind]) -> tuple[int, ...]:
    """Return how much of a free part further tasks use, by its size.

    The next typical task takes what it asks if it fits, and the one behind it may take some of the
    rest. If it does not fit, the part counts as lost.
    """
    weights = [sum(each[2] for each in kind.members) for kind in kinds]
    single = [
        (kind.share, weight)
        for kind, weight in zip(kinds, weights, strict=True)
        if kind.devices == 1 and kind.share
    ]
    total, used = max(1, sum(weights)), list[int]()
    for size in range(WHOLE + 1):
        fitting = [(share, weight) for share, weight in single if share <= size]
        taken = sum(weight * (share + used[size - share]) for share, weight in fitting)
        used.append(taken // total)
    return tuple(used)


def _worth(kind: TaskKind, further: Sequence[int]) -> tuple[int, ...]:
    too_small = (0,) * kind.share
    if kind.devices > 1:
        return (*too_small, *range(kind.share, WHOLE + 1))
    return (*too_small, *(kind.share + further[size] for size in range(WHOLE - kind.share + 1)))
