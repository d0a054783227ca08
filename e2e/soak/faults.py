"""The faults of a soak: a table, and the schedule that begins and ends them by the seed."""

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from e2e.soak import object_faults, process_faults
from e2e.soak.cluster import SoakCluster
from e2e.soak.journal import AWAY
from e2e.soak.process_faults import (
    Begin,
    a_pair,
    a_scheduler,
    all_allocators,
    an_allocator,
    kill,
    suspend,
)

Undo = Callable[[], None]
# Seconds between the beginnings of two faults.
GAP = (1.0, 12.0)
TICK_SECONDS, AGAIN_SECONDS, PATIENCE_SECONDS = 0.25, 1.0, 120.0


@dataclass(frozen=True)
class Fault:
    """One kind of fault; it lasts for a drawn time between two bounds.

    A fault without time is over when it has begun.
    """

    name: str
    weight: int
    begin: Begin
    seconds: tuple[float, float] = (0.0, 0.0)


FAULTS = (
    Fault("allocator killed", 20, kill(an_allocator), (0, 20)),
    Fault("scheduler killed", 10, kill(a_scheduler), (0, 20)),
    Fault("pair killed", 6, kill(a_pair), (0, 20)),
    Fault("both allocators killed", 3, kill(all_allocators), (0, 10)),
    Fault("allocator stopped", 6, suspend(an_allocator), (1, 25)),
    Fault("scheduler stopped", 5, suspend(a_scheduler), (1, 40)),
    Fault("pair stopped", 4, suspend(a_pair), (1, 70)),
    Fault("webhook or controller killed", 3, process_faults.kill_replica, (0, 5)),
    Fault("API server stopped", 4, process_faults.suspend_apiserver),
    Fault("API server slow", 4, process_faults.slow_apiserver),
    Fault("API server killed", 2, process_faults.kill_apiserver),
    Fault("controller manager killed", 2, process_faults.kill_controller_manager),
    Fault("drivers and kubelets restarted", 3, process_faults.restart_node_side),
    Fault("Lease taken away", 3, object_faults.take_lease, (5, 30)),
    Fault("node vanishes", 5, object_faults.remove_node, (5, 45)),
    Fault("node cordoned", 6, object_faults.cordon, (10, 60)),
    Fault("pool vanishes", 6, object_faults.withdraw_pool, (3, 40)),
    Fault("pool half published", 6, object_faults.publish_half, (3, 40)),
    Fault("pools published again", 8, object_faults.publish_again),
    Fault("device tainted", 5, object_faults.taint_device, (10, 60)),
    Fault("fence removed", 6, object_faults.remove_fence),
    Fault("node that cannot be tainted", 4, object_faults.freeze_node, (15, 60)),
    Fault("claims that cannot be written", 6, object_faults.freeze_claims, (10, 60)),
    Fault("finalizers stay", 6, object_faults.keep_pods, (20, 90)),
    Fault("claims deleted", 6, object_faults.delete_claims),
    Fault("pods deleted at once", 6, object_faults.delete_pods),
)


class FaultSchedule:
    """Begins faults at drawn times and ends them; call `turn` from the thread of the processes."""

    def __init__(self, cluster: SoakCluster) -> None:
        self.cluster = cluster
        self.steps = 0
        self.played: Counter[str] = Counter()
        self._next = time.monotonic()
        self._due: list[tuple[float, int, str, Undo]] = []
        self._order = itertools.count()

    def turn(self) -> None:
        """End what is due, and begin the next fault if its time has come."""
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, name, undo = heapq.heappop(self._due)
            self._end(name, undo)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self.cluster.random.uniform(*GAP)
            self._begin()
        self.cluster.supervise()
        time.sleep(TICK_SECONDS)

    def _begin(self) -> None:
        draw = self.cluster.random
        (fault,) = draw.choices(FAULTS, [fault.weight for fault in FAULTS])
        seconds = draw.uniform(*fault.seconds)
        active = {name for _, _, name, _ in self._due}
        if fault.name in active:
            return
        self.steps += 1
        try:
            what, undo = fault.begin(self.cluster)
        except AWAY as problem:
            self.cluster.journal.count(f"fault {fault.name}", problem)
            return
        self.played[fault.name] += 1
        journal = self.cluster.journal
        journal.step = f"step {self.steps}, {fault.name}"
        journal.note(f"{journal.step}: {what} for {seconds:.1f} s")
        entry = (time.monotonic() + seconds, next(self._order), fault.name, undo)
        heapq.heappush(self._due, entry)

    def _end(self, name: str, undo: Undo) -> None:
        try:
            undo()
        except AWAY as problem:
            self.cluster.journal.count(f"end of {name}", problem)
            again = time.monotonic() + AGAIN_SECONDS
            heapq.heappush(self._due, (again, next(self._order), name, undo))

    def end_all(self) -> None:
        """End every fault now."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._due:
            for _, _, name, undo in [self._due.pop() for _ in range(len(self._due))]:
                self._end(name, undo)
            if time.monotonic() > deadline:
                self.cluster.journal.fail(f"faults do not end: {self._due}")
                return
            time.sleep(TICK_SECONDS)
        self.cluster.supervise()
