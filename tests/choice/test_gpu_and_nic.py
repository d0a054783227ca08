"""What the bench on GPUs and NICs counts as stranded, and its bound, on small nodes."""

from itertools import count
from random import Random

from bench._gpu_and_nic import (
    NIC,
    PUBLISHED,
    copies_on,
    least_stranded,
    pairs_on,
    read_jobs,
    room_of,
    shape,
    stranded_with,
)
from drawbridge.choice.amounts import WHOLE, AskedOthers, NodeRoom, Task, suits, take
from drawbridge.choice.options import options
from tests.tables import every_row
from tests.thorough import drawn


def _node(random: Random) -> NodeRoom:
    of_shape = shape(random.choice((2, 4)), 96, 512)
    free = tuple(random.choice((0, WHOLE)) for _ in range(of_shape.devices))
    nics = tuple(random.choice((0, 250, 400, 500, 750, WHOLE)) for _ in of_shape.others[0].groups)
    cpu, memory = random.choice((8_000, 40_000, 96_000)), random.choice((80_000, 524_288))
    return NodeRoom(of_shape, cpu, memory, free, others=(nics,))


def _task(random: Random) -> Task:
    others = (AskedOthers(NIC, 1, random.choice((100, 250, 500, 750)), random.random() < 0.7),)
    return Task(1, WHOLE, random.choice((2_000, 12_000)), random.choice((0, 40_960)), others=others)


def _placed(node: NodeRoom, task: Task) -> int:
    """Return how many copies of a task fit one after the other."""
    for number in count():
        taken = next(options(node, task), None)
        if taken is None or not suits(node, task):
            return number
        node = take(node, task, taken)
    raise AssertionError


@every_row("seed", range(drawn(200, 5_000)))
def test_as_many_copies_are_counted_as_fit_one_after_the_other(seed: int) -> None:
    random = Random(seed)
    node, task = _node(random), _task(random)
    assert copies_on(node, task, pairs_on(node, task.others[0])) == _placed(node, task)


@every_row("seed", range(drawn(50, 1_000)))
def test_no_nodes_strand_less_than_the_bound(seed: int) -> None:
    random = Random(seed)
    nodes = [_node(random) for _ in range(random.randint(1, 4))]
    tasks = {_task(random): random.randint(1, 9) for _ in range(3)}
    stranded = sum(map(stranded_with(tasks), nodes))
    assert least_stranded(room_of(nodes), tasks) <= stranded + 1e-9


def test_the_trace_has_the_instances_that_were_published() -> None:
    jobs = read_jobs(PUBLISHED, near=True)
    assert sum(jobs.values()) == 7_386
    quarters = sum(n for job, n in jobs.items() if job.task.others[0].share == 250)
    assert quarters == 6_668
    assert len({job.application for job in jobs}) == 156
