"""The devices that a task can take, compared with all sets of devices of small nodes."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from random import Random
from typing import Any

from drawbridge.choice.amounts import (
    WHOLE,
    AskedOthers,
    NodeRoom,
    OtherDevices,
    Shape,
    Taken,
    Task,
    give_back,
    left_of,
    take,
)
from drawbridge.choice.fragmentation import FragmentationDescent
from drawbridge.choice.options import options
from drawbridge.choice.typical import TypicalTasks
from drawbridge.choice.usable import Usable
from tests.tables import every_row
from tests.thorough import drawn

_SHARES = (0, 250, 500, 750, WHOLE)


def _draw(random: Random) -> tuple[NodeRoom, Task]:
    """Return a node with two NICs a group, or devices without a group, and a task."""
    gpus = random.randint(1, 6)
    groups = tuple(number // 2 for number in range(random.randint(1, 6)))
    of_gpus = tuple(random.choice((-1, 0, 0, 1, 2)) for _ in range(gpus))
    shape = Shape("a", 9, 9, gpus, others=(OtherDevices("nic", groups, of_gpus),))
    free = tuple(random.choice((WHOLE, WHOLE, 500)) for _ in range(gpus))
    left = tuple(random.choice(_SHARES) for _ in groups)
    asked = AskedOthers("nic", random.randint(1, 3), random.choice(_SHARES), random.random() < 0.7)
    task = Task(random.randint(1, 4), random.choice((500, WHOLE)), 1, 1, others=(asked,))
    return NodeRoom(shape, 9, 9, free, others=(left,)), task


def _all(node: NodeRoom, task: Task) -> Iterator[Taken]:
    """Yield all sets of GPUs and NICs with enough left, as the task says."""
    (asked,), (others,) = task.others, node.shape.others
    gpus = [number for number, left in enumerate(node.free) if left >= task.share]
    nics = [number for number, left in enumerate(node.others[0]) if left >= asked.share]
    for chosen in combinations(gpus, task.devices):
        groups = {others.of_devices[each] for each in chosen}
        for beside in combinations(nics, asked.devices):
            theirs = {others.groups[each] for each in beside}
            if not asked.near or (groups == theirs and -1 not in groups):
                yield (*chosen, *(len(node.free) + each for each in beside))


@every_row("seed", range(drawn(300, 30_000)))
def test_options_are_sets_that_suit_the_task_and_exist_where_one_does(seed: int) -> None:
    node, task = _draw(Random(seed))
    offered, every = list(options(node, task)), set(_all(node, task))
    assert set(offered) <= every
    if task.devices == 1 or not task.others[0].near:
        assert bool(offered) == bool(every)
    assert len({*offered}) == len(offered)


@every_row("seed", range(drawn(100, 3_000)))
def test_what_a_task_takes_of_all_kinds_is_given_back(seed: int) -> None:
    node, task = _draw(Random(seed))
    for taken in options(node, task):
        after = take(node, task, taken)
        for number in range(len(node.free) + len(node.others[0])):
            asked = task.share if number < len(node.free) else task.others[0].share
            expected = left_of(node, number) - asked * (number in taken)
            assert left_of(after, number) == expected >= 0
        assert give_back(after, task, taken) == node


def test_several_devices_are_in_as_many_groups_as_there_are_nics() -> None:
    roots = (0, 0, 1, 1, 2, 2, 3, 3)
    shape = Shape("a", 9, 9, 8, others=(OtherDevices("nic", (0, 1, 2, 3), roots),))
    node = NodeRoom(shape, 9, 9, (WHOLE,) * 8, others=((WHOLE,) * 4,))
    for devices, nics in ((2, 1), (4, 2), (4, 3), (4, 4), (8, 4), (3, 2)):
        task = Task(devices, WHOLE, 1, 1, others=(AskedOthers("nic", nics, WHOLE, near=True),))
        offered = list(options(node, task))
        assert offered
        for taken in offered:
            groups = {roots[each] for each in taken[:devices]}
            assert groups == {each - 8 for each in taken[devices:]}
    none = Task(5, WHOLE, 1, 1, others=(AskedOthers("nic", 2, WHOLE, near=True),))
    assert list(options(node, none)) == []


class _Counted(tuple[int, ...]):
    """Counts how many of its values are read."""

    __slots__ = ()
    reads = 0

    def __iter__(self) -> Iterator[int]:
        for value in super().__iter__():
            _Counted.reads += 1
            yield value

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401  # as that of a tuple
        _Counted.reads += 1
        return super().__getitem__(at)


@every_row("strategy", ("usable", "fgd"))
@every_row("gpus", (8, 1000))
def test_what_a_judgement_reads_grows_with_the_devices_of_a_node(gpus: int, strategy: str) -> None:
    count, lefts = 1000, (250, 500, 750, WHOLE)
    roots = tuple(range(count))
    shape = _with_own_roots(gpus, roots)
    left = _Counted(lefts[each % 4] for each in range(count))
    task = Task(1, WHOLE, 1, 1, others=(AskedOthers("nic", 1, 250, near=True),))
    typical = TypicalTasks({task: 1}, 1)
    chosen = Usable(typical, {shape: 1}) if strategy == "usable" else FragmentationDescent(typical)
    room = NodeRoom(shape, 9, 9, (WHOLE,) * gpus, others=(left,))
    _Counted.reads = 0
    judged = chosen.judge(room, task)
    # The first ones, without comparing them to others.
    assert judged is not None
    assert judged.taken == (0, gpus)
    assert len([*options(room, task)]) == 1
    assert _Counted.reads <= 20 * count
    both = Task(8, WHOLE, 1, 1, others=(AskedOthers("nic", 8, 250, near=True),))
    assert [*options(room, both)] == [(*range(8), *range(gpus, gpus + 8))]
    assert _Counted.reads <= 40 * count


def test_groups_of_devices_are_compared_up_to_a_size_of_nodes() -> None:
    for gpus, number in ((128, 2), (129, 1)):
        shape = _with_own_roots(gpus, range(128))
        others = ((250,) + (WHOLE,) * 127,)
        room = NodeRoom(shape, 9, 9, (WHOLE,) * gpus, others=others)
        task = Task(1, WHOLE, 1, 1, others=(AskedOthers("nic", 1, 250, near=True),))
        assert len([*options(room, task)]) == number


def _with_own_roots(gpus: int, roots: Sequence[int]) -> Shape:
    of_gpus = tuple(roots[each % len(roots)] for each in range(gpus))
    return Shape("a", 9, 9, gpus, others=(OtherDevices("nic", tuple(roots), of_gpus),))


def test_a_kind_that_the_node_does_not_have_leaves_no_options() -> None:
    node = NodeRoom(Shape("a", 9, 9, 2), 9, 9, (WHOLE, WHOLE))
    for near in (False, True):
        task = Task(1, WHOLE, 1, 1, others=(AskedOthers("nic", 1, 250, near),))
        assert list(chain(options(node, task))) == []
