"""The cluster of a soak, and its processes, which are started again as a kubelet does."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from e2e.bridge.pair import Pair
from e2e.bridge.placement import BridgeStage
from e2e.controlplane.client import JSON, ApiError
from e2e.controlplane.processes import Process
from e2e.installed.replica import Replica
from e2e.nodes.layout import Layout
from e2e.soak import memory
from e2e.soak.journal import AWAY, Journal
from e2e.soak.waits import Waits

# A kube-scheduler ends by design when it loses the Lease, or when its allocator stays away.
BY_DESIGN = ("leaderelection lost", "Leaderelection lost", "the allocator is not ready for")
TAIL_LINES = 40
GONE = 404


@dataclass(frozen=True)
class Part:
    """One process of Drawbridge."""

    name: str
    process: Callable[[], Process]
    start: Callable[[], object]
    scheduler: bool = False

    @property
    def alive(self) -> bool:
        """Return whether it runs."""
        return self.process().child.poll() is None


def tolerant(call: Callable[[], object], *codes: int) -> None:
    """Call, and ignore that an object is gone, and these responses."""
    try:
        call()
    except ApiError as problem:
        if problem.code not in (GONE, *codes):
            raise


class SoakCluster:
    """What faults and checks act on."""

    def __init__(
        self,
        stage: BridgeStage,
        journal: Journal,
        waits: Waits,
        namespaces: tuple[str, ...],
        judge: Replica,
    ) -> None:
        self.stage = stage
        self.client = stage.client
        self.journal = journal
        self.waits = waits
        self.judge = judge
        self.namespaces = namespaces
        self.random = random.Random(f"{journal.seed}/faults")
        self.nodes = sorted(stage.fleet.machines)
        self.layouts: dict[tuple[str, str], Layout] = dict(stage.fleet.published)
        self.pairs = stage.placement.pairs
        self.parts = {part.name: part for part in self._parts()}
        self.down: set[str] = set()  # of these a fault decides when they run again
        self.spared: set[str] = set()  # nobody kills these any more: their memory is compared
        self.touched: set[str] = set()  # nodes under a fault: another one takes other nodes
        self.gave_up: Counter[str] = Counter()
        self.led: set[int] = set()  # processes that lead, or did

    def _parts(self) -> Iterator[Part]:
        plane = self.stage.processes
        replicas = [*self.stage.placement.cluster.replicas, self.judge]
        for pair in self.pairs:
            start = partial(_start_allocator, pair)
            yield Part(pair.allocator.name, pair.allocator.started_process, start)
            name = pair.running_scheduler().name
            yield Part(name, pair.running_scheduler, pair.start_scheduler, scheduler=True)
        for replica in replicas:
            begin = partial(_start_replica, plane.processes, replica)
            yield Part(replica.name, replica.started_process, begin)

    def pids(self) -> dict[str, int]:
        """Return the processes whose memory counts.

        A pair that leads keeps more than another, and memory that a process has used stays its own.
        """
        leader = self.stage.placement.find_leader()
        leading = {leader.allocator.name, leader.running_scheduler().name} if leader else set()
        alive = self._alive()
        self.led.update(pid for name, pid in alive.items() if name in leading)
        return {
            memory.name_role(name, leads=name in leading, has_led=pid in self.led): pid
            for name, pid in alive.items()
        }

    def copies(self) -> list[str]:
        """List the processes of which copies have not ended."""
        counts = {name: len(memory.children(pid)) for name, pid in self._alive().items()}
        return [f"{name} has {count} copies" for name, count in counts.items() if count]

    def _alive(self) -> dict[str, int]:
        """Return the process IDs of what runs."""
        return {n: part.process().child.pid for n, part in self.parts.items() if part.alive}

    def pair_names(self, number: int) -> tuple[str, str]:
        """Return the names of the processes of a pair."""
        pair = self.pairs[number]
        return pair.allocator.name, pair.running_scheduler().name

    def supervise(self) -> None:
        """Start processes again that ended, and record the ends that nobody caused."""
        for name, part in self.parts.items():
            if name in self.down or part.alive:
                continue
            process = part.process()
            # Bindings in progress log many lines after the reason.
            if part.scheduler and any(reason in process.text() for reason in BY_DESIGN):
                self.gave_up[name] += 1
            else:
                code, tail = process.child.returncode, process.tail(TAIL_LINES)
                self.journal.fail(f"{name} ended by itself with {code}\n{tail}")
            part.start()

    def kill(self, *names: str) -> Callable[[], None]:
        """Kill processes; returns what starts them again."""
        self.down.update(names)
        for name in names:
            self.parts[name].process().kill()

        def start() -> None:
            for name in names:
                if not self.parts[name].alive:
                    self.parts[name].start()
                self.down.discard(name)

        return start

    def suspend(self, *names: str) -> Callable[[], None]:
        """Stop processes with SIGSTOP; returns what continues them."""
        self.down.update(names)
        children = [self.parts[name].process().child for name in names]
        for child in children:
            child.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            for child in children:
                child.send_signal(signal.SIGCONT)
            self.down.difference_update(names)

        return go_on

    def suspend_apiserver(self, seconds: float, times: int = 1, between: float = 0.1) -> None:
        """Stop the API server, some times."""
        child = self.stage.processes.processes["kube-apiserver"].child
        for _ in range(times):
            child.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            child.send_signal(signal.SIGCONT)
            time.sleep(between)

    def attempt(self, change: Callable[[], object]) -> None:
        """Change something that is changed back anyway, also if it was changed in part."""
        try:
            change()
        except AWAY as problem:
            self.journal.count("attempt", problem)

    def take_nodes(self, count: int) -> list[str]:
        """Draw nodes that no other fault has."""
        free = [name for name in self.nodes if name not in self.touched]
        names = self.random.sample(free, min(count, len(free)))
        self.touched.update(names)
        return names

    def some_pair(self) -> Pair:
        """Return the leading pair twice out of three times, else any."""
        leader = self.stage.placement.find_leader() if self.random.random() < 2 / 3 else None
        return leader or self.random.choice(self.pairs)

    def some_pods(self, count: int, *, bound: bool) -> list[JSON]:
        """Draw pods of the namespaces of teams."""
        namespace = self.random.choice(self.namespaces)
        pods = self.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        fitting = [pod for pod in pods if bool(pod["spec"].get("nodeName")) == bound]
        return self.random.sample(fitting, min(count, len(fitting)))

    def release_pods(self) -> list[str]:
        """Remove the finalizers of all pods; nothing is left."""
        for pod in self.client.get("/api/v1/pods")["items"]:
            if pod["metadata"].get("finalizers"):
                metadata = pod["metadata"]
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                tolerant(partial(self.client.patch, path, {"metadata": {"finalizers": None}}))
        return []


def _start_allocator(pair: Pair) -> None:
    pair.plane.processes[pair.allocator.name] = pair.allocator.start()


def _start_replica(processes: dict[str, Process], replica: Replica) -> None:
    processes[replica.name] = replica.start()
