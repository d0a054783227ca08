"""Measures the work that evictions lose: bench `strategies.goodput`.

The nodes are a quarter of those that Alibaba published in 2026 (4,278 nodes, 10,412 GPUs of six
products), as counts. Its jobs are not published, so they are drawn from the fields that its README
names: product, GPUs of a worker, number of workers, duration, and high priority or spot. Each
product gets jobs of high priority for 60 % of its GPUs, and spot for 50 %. The numbers are assumed:
durations from an hour to four days, and for spot to one day; up to 16 workers. Of the spot jobs,
four fifths write checkpoints, every ten minutes to two hours. All workers of a job start together,
and end together if one is evicted: the job then waits again, for the rest of its work since the
last checkpoint, and a restart takes ten minutes. CPU and memory are not counted.

A job of high priority that fits nowhere evicts spot, worker by worker, if that is enough for all.
*Lost* are the GPU-hours since the last checkpoints and of the restarts, in per cent of all
GPU-hours; *bound* is what at least had to be lost for the GPUs that each of these jobs lacked, if
parts of jobs could be evicted anywhere. *Goodput* is the part of all GPU-hours with work that was
not lost. Victims by *age alone* are chosen by lost work, too, but no pod says that it writes
checkpoints.
"""

import heapq
import math
import random
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from bench._scale import scaled
from drawbridge.choice.amounts import WHOLE, NodeRoom, Shape, Taken, Task, give_back, idle
from drawbridge.choice.catalog import ChosenStrategy, make_strategy
from drawbridge.choice.cluster import NodeChooser
from drawbridge.choice.typical import typical_tasks
from drawbridge.ledger.lost_work import lost_seconds
from drawbridge.ledger.victims import NodeVictims, RunningPod, choose_victims, find_victims

PUBLISHED: Final = Path(__file__).parent / "data" / "spot_nodes.json"
PART: Final = scaled(4, 60)
SEEDS: Final = scaled(5, 1)
STEPS: Final = scaled(7 * 144, 160)
FIRST_DAYS: Final = scaled(288, 40)
STEP: Final = 600  # seconds
HIGH, SPOT = 0.60, 0.50
RESTART: Final = 1  # steps
KUBE_SCHEDULER, AGE, LOST_WORK = "kube-scheduler", "age alone", "lost work"
# The strategies of nodes, and what victims are chosen by.
RULES: Final = (
    ("upstream", KUBE_SCHEDULER),
    ("usable", KUBE_SCHEDULER),
    ("usable", AGE),
    ("upstream", LOST_WORK),
    ("usable", LOST_WORK),
)
INTERVALS: Final = (1, 3, 6, 12, None)  # of checkpoints, in steps


class Job(msgspec.Struct, eq=False):
    """A job, with what is left of its steps; `interval` is that of its checkpoints."""

    number: int
    high: bool
    product: str
    gpus: int
    workers: int
    left: int
    interval: int | None = None
    since: int = 0

    @property
    def task(self) -> Task:
        """What a worker asks for."""
        return Task(self.gpus, WHOLE, 0, 0, frozenset({self.product}))

    @property
    def all_gpus(self) -> int:
        """The GPUs of all workers."""
        return self.gpus * self.workers


class Running(NamedTuple):
    """A job that runs, and where its workers are."""

    job: Job
    started: int
    workers: tuple[tuple[str, Taken], ...]

    def lost_steps(self, now: int) -> int:
        """Return how many steps of each GPU an eviction costs."""
        ran = now - self.started
        return (ran % self.job.interval if self.job.interval else ran) + RESTART

    def expected_loss(self, now: int, rule: str) -> int:
        """Return the GPU-seconds of work that a rule expects to be lost."""
        if rule == KUBE_SCHEDULER:
            return 0
        interval = STEP * self.job.interval if self.job.interval and rule == LOST_WORK else None
        return lost_seconds(STEP * (now - self.started), interval) * self.job.all_gpus


class Figures(NamedTuple):
    """Per cent of all GPU-hours, and mean hours."""

    lost: float
    bound: float
    evictions: float
    goodput: float
    high_waits: float
    spot_waits: float


class Cluster:
    """Nodes, what runs on them, and what evictions have cost."""

    def __init__(self, shapes: Mapping[Shape, int], strategy: str, rule: str) -> None:
        nodes = [idle(shape) for shape, count in shapes.items() for _ in range(count)]
        states: dict[str, NodeRoom] = {f"node-{n:05}": room for n, room in enumerate(nodes)}
        tasks = {
            Task(gpus, WHOLE, 0, 0, frozenset({shape.label})): 1
            for shape in shapes
            for gpus in sizes_of(shape.devices)
        }
        chosen = make_strategy(ChosenStrategy(strategy), shapes, typical_tasks(tasks.items()))
        self.chooser = NodeChooser(states, chosen)
        self.running: dict[int, Running] = {}
        self.lost = self.evicted = 0
        self.bound = 0.0
        self._on_node: dict[str, set[int]] = {name: set() for name in states}
        self._rule = rule

    def start(self, job: Job, now: int) -> list[Job] | None:
        """Start all workers of a job; return the jobs that it evicts, None if it cannot start."""
        before = self._least_loss(job, now) if job.high else 0.0
        workers: list[tuple[str, Taken]] = []
        evicted: list[Running] = []
        for number in range(job.workers):
            chosen = self.chooser.choose(job.task, f"job-{job.number}-{number}")
            if chosen is None and job.high:
                victims = self._choose_victims(job, now)
                gone = [self.running[each] for each in victims]
                for each in gone:
                    self._remove(each)
                evicted += gone
                chosen = self.chooser.choose(job.task, "") if gone else None
            if chosen is None:
                self._undo(job, workers, evicted)
                return None
            self.chooser.place(job.task, chosen.node, chosen.judged.taken)
            workers.append((chosen.node, chosen.judged.taken))
        self._add(Running(job, now, tuple(workers)))
        self.bound += before if evicted else 0.0
        return [self._count_eviction(each, now) for each in evicted]

    def end(self, number: int) -> None:
        """End a job."""
        self._remove(self.running[number])

    def _count_eviction(self, gone: Running, now: int) -> Job:
        job, steps = gone.job, gone.lost_steps(now)
        self.lost += steps * job.all_gpus
        self.evicted += 1
        return msgspec.structs.replace(job, left=job.left - (now - gone.started) + steps, since=now)

    def _undo(
        self, job: Job, workers: Iterable[tuple[str, Taken]], evicted: Iterable[Running]
    ) -> None:
        for node, taken in workers:
            self.chooser.change(node, give_back(self.chooser.nodes[node], job.task, taken))
        for stopped in evicted:
            for node, taken in stopped.workers:
                self.chooser.place(stopped.job.task, node, taken)
            self._add(stopped)

    def _add(self, started: Running) -> None:
        self.running[started.job.number] = started
        for node, _ in started.workers:
            self._on_node[node].add(started.job.number)

    def _remove(self, gone: Running) -> None:
        del self.running[gone.job.number]
        for node, taken in gone.workers:
            self._on_node[node].discard(gone.job.number)
            room = give_back(self.chooser.nodes[node], gone.job.task, taken)
            self.chooser.change(node, room)

    def _choose_victims(self, job: Job, now: int) -> Collection[int]:
        """Return the jobs to evict so that a worker fits on a node; none if that is impossible."""
        choices: list[NodeVictims] = []
        for node, numbers in self._on_node.items():
            room = self.chooser.nodes[node]
            if room.shape.label != job.product or room.shape.devices < job.gpus:
                continue
            spot = [self.running[each] for each in numbers if not self.running[each].job.high]
            pods = [pod for each in spot for pod in self._pods(each, node, now)]
            fits = partial(self._fits_without, node, job.gpus)
            victims = find_victims(node, pods, (), fits) if pods else None
            if victims is not None:
                choices.append(victims)
        best = choose_victims(choices)
        return {int(pod.group) for pod in best.pods} if best else ()

    def _pods(self, running: Running, node: str, now: int) -> Iterable[RunningPod]:
        job, lost = running.job, running.expected_loss(now, self._rule)
        for place, (of_worker, _) in enumerate(running.workers):
            if of_worker == node:
                yield RunningPod(
                    "", f"{job.number}-{place}", node, 0, f"{running.started:06}",
                    lost=lost, group=f"{job.number}",
                )  # fmt: skip

    def _fits_without(self, node: str, gpus: int, removed: Collection[RunningPod]) -> bool:
        gone = {int(each.group) for each in removed}
        freed = sum(
            self.running[number].job.gpus
            for number in gone
            for place, _ in self.running[number].workers
            if place == node
        )
        return self.chooser.nodes[node].free.count(WHOLE) + freed >= gpus

    def _least_loss(self, job: Job, now: int) -> float:
        """Return what must be lost at least for the GPUs that a job lacks, wherever they are."""
        free = sum(
            room.free.count(WHOLE)
            for room in self.chooser.nodes.values()
            if room.shape.label == job.product
        )
        lacking, loss = job.all_gpus - free, 0.0
        spot = [
            each
            for each in self.running.values()
            if each.job.product == job.product and not each.job.high
        ]
        for cheapest in sorted(spot, key=lambda running: running.lost_steps(now)):
            if lacking <= 0:
                break
            loss += min(lacking, cheapest.job.all_gpus) * cheapest.lost_steps(now)
            lacking -= cheapest.job.all_gpus
        return loss


def sizes_of(gpus: int) -> Sequence[int]:
    """Return the numbers of GPUs that workers on such nodes ask for."""
    return [each for each in (1, 2, 4, 8) if each <= gpus]


def read_shapes() -> dict[Shape, int]:
    """Read how many nodes of each product and size there are, of a part of the cluster."""
    nodes = msgspec.json.decode(PUBLISHED.read_bytes(), type=_Content).nodes
    return {Shape(e.product, 0, 0, e.gpus): -(-e.count // PART) for e in nodes}


_Number = Annotated[int, msgspec.Meta(ge=1)]


class _Nodes(msgspec.Struct):
    """Nodes that are alike."""

    product: str
    gpus: _Number
    count: _Number


class _Content(msgspec.Struct):
    """What the file has."""

    nodes: tuple[_Nodes, ...]


def arrivals(shapes: Mapping[Shape, int], seed: int) -> list[list[Job]]:
    """Return the jobs that arrive in each step."""
    drawn = random.Random(seed)  # not a secret
    gpus: dict[str, int] = {}
    largest: dict[str, int] = {}
    for shape, count in shapes.items():
        gpus[shape.label] = gpus.get(shape.label, 0) + shape.devices * count
        largest[shape.label] = max(largest.get(shape.label, 0), shape.devices)
    owed = dict.fromkeys(((product, high) for product in gpus for high in (True, False)), 0.0)
    steps, number = [], 0
    for step in range(STEPS):
        arrived = []
        for product, high in owed:
            owed[product, high] += gpus[product] * (HIGH if high else SPOT)
            while owed[product, high] > 0:
                number += 1
                job = _draw_job(drawn, number, product, largest[product], high=high)
                job.workers = min(job.workers, max(1, gpus[product] // (4 * job.gpus)))
                job.since = step
                owed[product, high] -= job.all_gpus * job.left
                arrived.append(job)
        steps.append(arrived)
    return steps


def _draw_job(drawn: random.Random, number: int, product: str, largest: int, *, high: bool) -> Job:
    longest = 4 * 144 if high else 144
    left = round(math.exp(drawn.uniform(math.log(6), math.log(longest))))
    gpus = drawn.choice(sizes_of(largest))
    workers = drawn.choices((1, 2, 4, 8, 16), (60, 15, 10, 10, 5))[0]
    interval = None if high else drawn.choice(INTERVALS)
    return Job(number, high, product, gpus, workers, left, interval)


def play(shapes: Mapping[Shape, int], strategy: str, rule: str, seed: int) -> Figures:
    """Play a week."""
    cluster = Cluster(shapes, strategy, rule)
    total = sum(shape.devices * count for shape, count in shapes.items()) * (STEPS - FIRST_DAYS)
    ends: list[tuple[int, int, int]] = []
    waiting: list[Job] = []
    waits: dict[bool, list[int]] = {True: [], False: []}
    used = 0
    before = (0, 0.0, 0)
    for step, arrived in enumerate(arrivals(shapes, seed)):
        if step == FIRST_DAYS:
            before = (cluster.lost, cluster.bound, cluster.evicted)
        while ends and ends[0][0] <= step:
            _, number, started = heapq.heappop(ends)
            running = cluster.running.get(number)
            if running is not None and running.started == started:
                cluster.end(number)
        waiting = _start(cluster, sorted([*waiting, *arrived], key=_order), step, ends, waits)
        if step >= FIRST_DAYS:
            used += sum(each.job.all_gpus for each in cluster.running.values())
    for job in waiting:
        waits[job.high].append(STEPS - job.since)
    if any(min(room.free) < 0 for room in cluster.chooser.nodes.values()):
        raise SystemExit(f"{strategy}: a node has more workers than fit")
    lost, bound, evicted = cluster.lost - before[0], cluster.bound - before[1], cluster.evicted
    high, spot = (statistics.mean(waits[each] or [0]) / 6 for each in (True, False))
    percent = 100 / total
    return Figures(
        percent * lost,
        percent * bound,
        evicted - before[2],
        percent * (used - lost),
        high,
        spot,
    )


def _order(job: Job) -> tuple[bool, int, int]:
    return (not job.high, job.since, job.number)


def _start(
    cluster: Cluster,
    waiting: Sequence[Job],
    step: int,
    ends: list[tuple[int, int, int]],
    waits: Mapping[bool, list[int]],
) -> list[Job]:
    """Start what can start, in order; return the jobs that wait."""
    still: list[Job] = []
    failed = set[tuple[bool, str, int]]()
    for job in waiting:
        kind = (job.high, job.product, job.gpus)
        evicted = None if kind in failed else cluster.start(job, step)
        if evicted is None:
            failed.add(kind)
            still.append(job)
            continue
        waits[job.high].append(step - job.since)
        heapq.heappush(ends, (step + job.left, job.number, step))
        still += evicted
    return still


def run() -> None:
    """Print a row for each strategy of nodes and rule for victims."""
    shapes, started = read_shapes(), time.process_time()
    gpus = sum(shape.devices * count for shape, count in shapes.items())
    print(f"{sum(shapes.values())} nodes, {gpus} GPUs, {STEPS // 6} hours, {SEEDS} weeks")
    print("nodes by    victims by      lost (dev.)   bound  of first  evictions  goodput  waits, h")
    first = 0.0
    for strategy, rule in RULES:
        weeks = [play(shapes, strategy, rule, seed) for seed in range(SEEDS)]
        if any(each.lost < each.bound - 1e-9 for each in weeks):
            raise SystemExit(f"{strategy}: less is lost than possible")
        means = Figures(*map(statistics.mean, zip(*weeks, strict=True)))
        deviation = statistics.pstdev(each.lost for each in weeks)
        first = first or means.lost
        print(
            f"{strategy:10}  {rule:14} {means.lost:6.2f} ({deviation:4.2f})  {means.bound:6.2f}"
            f"  {means.lost / (first or 1):8.2f}  {means.evictions:9.1f}  {means.goodput:7.2f}"
            f"  {means.high_waits:.2f}, {means.spot_waits:.2f}",
            flush=True,
        )
    print(f"{(time.process_time() - started) / 60:.1f} minutes of CPU")
