"""Measures GPUs that are free and of no use with the NICs near them: bench `strategies.nics`.

The tasks are the 7,386 GPU instances of the trace that Alibaba published in 2025, as counts: one
GPU, a part of a NIC (mostly a quarter), CPU, memory, an application, and how many instances of it a
node may have. Disks are not counted. The trace says nothing of its nodes, so these are assumed and
varied: eight GPUs with two or four NICs each, on as many PCIe roots, with much or little CPU and
memory. A task takes its part of a NIC on the root of its GPU, or anywhere on the node.

Tasks are drawn so that they keep 90 % of the GPUs busy, or 90 % of those that the NICs, the CPU and
the memory of all nodes together allow. They run an hour to a day. *Stranded* are the free GPUs
beyond those that copies of a typical task could take, whatever its application, in per cent of all
GPUs: the mean over the tasks of the trace and over the hours after the first day. *Bound* is what
the same running tasks would leave stranded if all free NICs, CPU and memory were on one node;
nothing can be below it. The ratios compare the stranded GPUs with those of first-fit and of fgd,
which counts a GPU without enough of a NIC near it as a fragment.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from bench import _week
from bench._scale import scaled
from bench._week import Arrival, Job
from drawbridge.choice.amounts import WHOLE, AskedOthers, NodeRoom, OtherDevices, Shape, Task, idle
from drawbridge.choice.catalog import ChosenStrategy, make_strategy
from drawbridge.choice.typical import typical_tasks

PUBLISHED: Final = Path(__file__).parent / "data" / "gpu_and_nic.json"
NAMES: Final = ("first-fit", "fgd", "best-fit", "packed", "usable")
COMPARED: Final = ("first-fit", "fgd")
GPUS: Final = 8
NODES: Final = scaled(120, 12)
SEEDS: Final = scaled(5, 1)
LOAD: Final = 90
# Steps of ten minutes.
STEPS: Final = scaled(7 * 144, 180)
FIRST_DAY: Final = 144
SHORTEST, LONGEST = 6, 144
NIC: Final = "nic"
_MAX_STATES: Final = 65_536


class Fleet(NamedTuple):
    """Nodes that are assumed: how many of each shape; and whether tasks need a near NIC."""

    name: str
    shapes: Mapping[Shape, int]
    near: bool = True


def shape(nics: int, cpu: int, memory: int) -> Shape:
    """Return a node with NICs, each on the PCIe root of as many GPUs; cores and GiB."""
    roots = tuple(number * nics // GPUS for number in range(GPUS))
    others = (OtherDevices(NIC, tuple(range(nics)), roots),)
    return Shape(f"{nics} NICs", 1000 * cpu, 1024 * memory, GPUS, others=others)


def fleets() -> Iterable[Fleet]:
    """Yield the assumptions about nodes."""
    few, many = shape(2, 128, 1024), shape(4, 128, 1024)
    lean_few, lean_many = shape(2, 96, 512), shape(4, 96, 512)
    half = NODES // 2
    yield Fleet("4 NICs", {many: NODES})
    yield Fleet("4 NICs, lean", {lean_many: NODES})
    yield Fleet("2 or 4 NICs", {few: half, many: half})
    yield Fleet("2 or 4, lean", {lean_few: half, lean_many: half})
    yield Fleet("2 or 4, anywhere", {few: half, many: half}, near=False)
    yield Fleet("2 NICs", {few: NODES})


def read_jobs(path: Path, *, near: bool) -> dict[Job, int]:
    """Read how many jobs of each kind there are."""
    pods = msgspec.json.decode(path.read_bytes(), type=_Content).pods
    jobs = Counter[Job]()
    for pod in pods:
        others = (AskedOthers(NIC, 1, pod.nic_milli, near),)
        task = Task(1, WHOLE, pod.cpu_milli, pod.memory_mib, others=others)
        jobs[Job(task, pod.app, pod.most_on_node)] += pod.count
    return dict(jobs)


_Number = Annotated[int, msgspec.Meta(ge=0)]


class _Pods(msgspec.Struct):
    """Pods of an application that ask for the same; 0 `most_on_node` for any number."""

    app: _Number
    cpu_milli: _Number
    memory_mib: _Number
    nic_milli: Annotated[int, msgspec.Meta(ge=1, le=WHOLE)]
    most_on_node: _Number
    count: _Number


class _Content(msgspec.Struct):
    """What the file has."""

    pods: tuple[_Pods, ...]


class Room(NamedTuple):
    """What nodes have left together: whole GPUs, thousandths of NICs, CPU and memory."""

    gpus: int
    nics: int
    cpu: int
    memory: int

    def copies(self, task: Task) -> int:
        """Return how many copies of a task would fit if all this were on one root."""
        amounts = zip(self, (1, task.others[0].share, task.cpu, task.memory), strict=True)
        return min(left // asked for left, asked in amounts if asked)


def room_of(nodes: Iterable[NodeRoom]) -> Room:
    """Add up what nodes have left."""
    left = [(node.free.count(WHOLE), sum(node.others[0]), node.cpu, node.memory) for node in nodes]
    return Room(*map(sum, zip(*left, strict=True)))


def pairs_on(node: NodeRoom, asked: AskedOthers) -> int:
    """Return how many free GPUs of a node can have their parts of NICs at once."""
    nics = zip(node.shape.others[0].groups, node.others[0], strict=True)
    if not asked.near:
        return min(node.free.count(WHOLE), sum(left // asked.share for _, left in nics))
    parts, free = Counter[int](), Counter[int]()
    for root, left in nics:
        parts[root] += left // asked.share
    for root, left in zip(node.shape.others[0].of_devices, node.free, strict=True):
        free[root] += left == WHOLE
    return sum(min(free[root], parts[root]) for root in free)


def copies_on(node: NodeRoom, task: Task, pairs: int) -> int:
    """Return how many copies of a task fit on a node with so many pairs."""
    amounts = ((node.cpu, task.cpu), (node.memory, task.memory))
    return min(pairs, *(left // asked if asked else pairs for left, asked in amounts))


def stranded_with(tasks: Mapping[Task, int]) -> Callable[[NodeRoom], float]:
    """Return how many free GPUs of a node a typical task cannot use, on average."""
    total, kinds = sum(tasks.values()), {task.others[0] for task in tasks}

    @lru_cache(_MAX_STATES)
    def stranded(node: NodeRoom) -> float:
        free = node.free.count(WHOLE)
        if not free:
            return 0
        pairs = {asked: pairs_on(node, asked) for asked in kinds}
        copies = (
            count * copies_on(node, task, pairs[task.others[0]]) for task, count in tasks.items()
        )
        return free - sum(copies) / total

    return stranded


def least_stranded(room: Room, tasks: Mapping[Task, int]) -> float:
    """Return how many free GPUs are of no use, wherever they and the rest are."""
    total = sum(tasks.values())
    return room.gpus - sum(count * room.copies(task) for task, count in tasks.items()) / total


def most_busy(fleet: Fleet, tasks: Mapping[Task, int]) -> float:
    """Return how many tasks can run at most, of those in the mix of the trace."""
    total = sum(tasks.values())
    room = room_of(idle(shape) for shape, count in fleet.shapes.items() for _ in range(count))
    asked = Room(
        total,
        sum(count * task.others[0].share for task, count in tasks.items()),
        sum(count * task.cpu for task, count in tasks.items()),
        sum(count * task.memory for task, count in tasks.items()),
    )
    return min(left * total / each for left, each in zip(room, asked, strict=True))


class Week(NamedTuple):
    """Means of a week: per cent of the GPUs, and hours."""

    stranded: float
    bound: float
    allocated: float
    waits: float


def play(fleet: Fleet, jobs: Mapping[Job, int], name: str, seed: int) -> Week:
    """Play a week with a strategy."""
    tasks = Counter[Task]()
    for job, count in jobs.items():
        tasks[job.task] += count
    drawn = random.Random(seed)  # not a secret
    shapes = [shape for shape, count in fleet.shapes.items() for _ in range(count)]
    drawn.shuffle(shapes)
    nodes = {f"node-{number:05}": idle(shape) for number, shape in enumerate(shapes)}
    typical = typical_tasks(tasks.items())
    strategy = make_strategy(ChosenStrategy(name), fleet.shapes, typical)
    gpus, lost = GPUS * len(nodes), stranded_with(tasks)
    rows, step = list[tuple[float, float, float]](), 0

    def observe(states: Iterable[NodeRoom]) -> None:
        nonlocal step
        step += 1
        if step <= FIRST_DAY:
            return
        seen = list(states)
        if any(min((each.cpu, each.memory, *each.free, *each.others[0])) < 0 for each in seen):
            raise SystemExit(f"{name}: a node has more tasks than fit")
        room = room_of(seen)
        rows.append((sum(map(lost, seen)), least_stranded(room, tasks), gpus - room.gpus))

    arrivals = _arrivals(jobs, most_busy(fleet, tasks) * LOAD / 100, drawn)
    waited, _ = _week.play(nodes, strategy, arrivals, observe)
    stranded, bound, allocated = (
        100 * statistics.mean(each) / gpus for each in zip(*rows, strict=True)
    )
    waits = statistics.mean(steps for _, steps in waited) / 6
    return Week(stranded, bound, allocated, waits)


def _arrivals(
    jobs: Mapping[Job, int], busy: float, drawn: random.Random
) -> Sequence[Sequence[Arrival]]:
    """Return jobs by step that keep so many GPUs busy."""
    kinds, counts = list(jobs), list(jobs.values())
    steps, owed = [], 0.0
    for _ in range(STEPS):
        owed += busy / ((SHORTEST + LONGEST) / 2)
        number, owed = int(owed), owed % 1
        chosen = drawn.choices(kinds, counts, k=number)
        steps.append([Arrival(job, drawn.randint(SHORTEST, LONGEST)) for job in chosen])
    return steps


def _print(fleet: str, name: str, weeks: Sequence[Week], compared: Mapping[str, float]) -> None:
    means = Week(*map(statistics.mean, zip(*weeks, strict=True)))
    if any(each.stranded < each.bound - 1e-9 for each in weeks):
        raise SystemExit(f"{name}: less is stranded than possible")
    ratios = (f"{means.stranded / compared[e]:9.2f}" if compared.get(e) else "-" for e in COMPARED)
    deviation = statistics.pstdev(each.stranded for each in weeks)
    print(
        f"{fleet:16}  {name:10} {means.stranded:8.3f} ({deviation:5.3f}) {means.bound:8.3f}"
        f" {'  '.join(ratios)}  {means.allocated:9.1f} {means.waits:8.3f}",
        flush=True,
    )


def run() -> None:
    """Print a row for each assumption about nodes and each strategy."""
    started = time.process_time()
    print(f"{NODES} nodes, {NODES * GPUS} GPUs, {STEPS // 6} hours, {SEEDS} weeks at {LOAD} %")
    print(
        "nodes             strategy   stranded (dev.)     bound  of first-fit, fgd"
        "  allocated  waits, h"
    )
    for fleet in fleets():
        jobs = read_jobs(PUBLISHED, near=fleet.near)
        weeks = {name: [play(fleet, jobs, name, seed) for seed in range(SEEDS)] for name in NAMES}
        compared = {
            name: statistics.mean(each.stranded for each in weeks[name]) for name in COMPARED
        }
        for name in NAMES:
            _print(fleet.name, name, weeks[name], compared)
    print(f"{(time.process_time() - started) / 60:.1f} minutes of CPU")
