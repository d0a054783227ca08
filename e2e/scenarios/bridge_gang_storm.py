"""Scenario: gangs of many sizes contend for devices while the scheduler is killed.

The same is played with the scheduler and the allocator of Kubernetes, for comparison.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import count

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.runner import print_line
from e2e.scenarios.bridge_gangs import GPU, RIG, create_gang
from e2e.scenarios.bridge_preemption import create_priority, run_all
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GANGS, AT_ONCE, NODES = 100, 25, 8
SIZES = range(2, 17)
# These pods have a lower priority than the gangs, which may evict them.
FILLERS = 12
# The scheduler is killed whenever so many gangs have run, however fast the machine is.
GANGS_PER_KILL = 12
LOOK_SECONDS, LIMIT_SECONDS, STALL_SECONDS = 0.5, 3600.0, 300.0
# A hold lasts this long at most, and a pair that was killed takes this long to lead again.
PARTIAL_SECONDS, RECOVERY_SECONDS = 60.0, 90.0


class Storm:
    """The gangs that wait and run, and what was seen of them. `kill` kills what schedules."""

    def __init__(
        self, stage: Stage, kill: Callable[[int], None], fillers: int, priority: str
    ) -> None:
        self.stage, self.kill, self.priority = stage, kill, priority
        self.may_stall = False
        chosen = random.Random(1)  # not a secret
        self.sizes = {f"g{number}": chosen.choice(SIZES) for number in range(GANGS)}
        self.left = deque(self.sizes.items())
        self.active: dict[str, list[str]] = {}
        self.partial: dict[str, float] = {}
        self.fillers = fillers
        self.numbers = count()
        self.started = self.killed = self.ran = time.monotonic()
        self.kills = 0
        self.longest_partial, self.longest_partial_kill = 0.0, 0.0
        self.single: tuple[str, float] | None = None
        self.waits: list[float] = []

    def play(self) -> None:
        """Play until every gang has run, or until none runs any more where they may stall."""
        self._fill({})
        running = run_all(self.stage, "filler-", self.fillers)
        self.stage.wait("the pods with a lower priority run", running, RECOVERY_SECONDS)
        self.started = self.ran = time.monotonic()
        while self.left or self.active:
            now = time.monotonic()
            assert now - self.started < LIMIT_SECONDS, f"gangs are left: {sorted(self.active)}"
            if now - self.ran > STALL_SECONDS and self.may_stall:
                return
            assert now - self.ran < STALL_SECONDS, f"no gang runs: {sorted(self.active)}"
            self._create()
            pods = {
                each["metadata"]["name"]: each
                for each in self.stage.client.get(self.stage.pod_path())["items"]
                if "deletionTimestamp" not in each["metadata"]
            }
            for name, members in tuple(self.active.items()):
                self._look(name, [pods[each] for each in members if each in pods])
            self._follow_single(pods)
            self._fill(pods)
            done = GANGS - len(self.left) - len(self.active)
            if done // GANGS_PER_KILL > self.kills:
                self.kills += 1
                self.kill(self.kills)
                self.killed = time.monotonic()
            time.sleep(LOOK_SECONDS)

    def _create(self) -> None:
        while self.left and len(self.active) < AT_ONCE:
            name, size = self.left.popleft()
            self.active[name] = create_gang(self.stage, name, size, priorityClassName=self.priority)

    def _look(self, name: str, members: list[JSON]) -> None:
        """Delete a gang that runs; note how long a part of one is bound."""
        now, bound = time.monotonic(), sum(bool(each["spec"].get("nodeName")) for each in members)
        if bound not in (0, len(members)):
            since = self.partial.setdefault(name, now)
            if self.killed > since or (now - self.killed < RECOVERY_SECONDS and self.kills):
                self.longest_partial_kill = max(self.longest_partial_kill, now - since)
            else:
                self.longest_partial = max(self.longest_partial, now - since)
            # A gang that a kill has interrupted is completed after the recovery.
            late = now - max(since, self.killed + RECOVERY_SECONDS if self.kills else since)
            assert late < PARTIAL_SECONDS, f"{name}: {bound} of {len(members)} are bound"
            return
        self.partial.pop(name, None)
        if members and all(each["status"].get("phase") == "Running" for each in members):
            self.ran = now
            for each in self.active.pop(name):
                self.stage.client.delete(self.stage.pod_path(each), grace=None)

    def _follow_single(self, pods: dict[str, JSON]) -> None:
        """Follow one pod after the other that is no member and requests a device."""
        now = time.monotonic()
        if self.single is None:
            name = f"single-{next(self.numbers)}"
            self.stage.pod(name, templates={"gpu": "gpu"}, priorityClassName=self.priority)
            self.single = (name, now)
            return
        name, since = self.single
        if name in pods and pods[name]["spec"].get("nodeName"):
            self.waits.append(now - since)
            self.stage.client.delete(self.stage.pod_path(name), grace=None)
            self.single = None

    def _fill(self, pods: dict[str, JSON]) -> None:
        """Create pods of a lower priority in place of those that were evicted."""
        alive = sum(name.startswith("filler-") for name in pods)
        for _ in range(self.fillers - alive):
            self.stage.pod(f"filler-{next(self.numbers)}", templates={"gpu": "gpu"})

    def victims(self) -> Counter[str]:
        """Return how many pods were evicted for each gang or other pod."""
        path = self.stage.path("events", "", "/apis/events.k8s.io/v1")
        events: Counter[str] = Counter()
        for event in self.stage.client.get(path)["items"]:
            if event["reason"] == "Preempted":
                assert event["regarding"]["name"].startswith("filler-"), event
                # Some of these events name no preemptor.
                events[event.get("related", {}).get("name", "").partition("-")[0]] += 1
        return events

    def report(self) -> None:
        """Print what was seen."""
        took, waits, victims = time.monotonic() - self.started, sorted(self.waits), self.victims()
        gangs = {name: number for name, number in victims.items() if name in self.sizes}
        ran = GANGS - len(self.left) - len(self.active)
        print_line(f"      {ran} of {GANGS} gangs ran in {took:.0f} s with {self.kills} kills")
        if ran < GANGS:
            print_line(f"      no gang ran in the last {time.monotonic() - self.ran:.0f} s")
        print_line(
            f"      partly bound: {self.longest_partial:.1f} s at most, and "
            f"{self.longest_partial_kill:.1f} s where a kill had interrupted the gang"
        )
        most = max(gangs, key=lambda name: gangs[name] - self.sizes[name], default="")
        worst = f"; {gangs[most]} for a gang of {self.sizes[most]} at most" if most else ""
        print_line(
            f"      {sum(victims.values())} pods were evicted, for {len(gangs)} gangs "
            f"that then ran, {victims['single']} times for a pod alone, {victims['']} times by "
            f"events that name no preemptor{worst}"
        )
        if waits:
            print_line(
                f"      {len(waits)} pods alone waited {waits[len(waits) // 2]:.1f} s (median), at "
                f"most {waits[-1]:.1f} s"
            )


def _play(
    stage: Stage, kill: Callable[[int], None], fillers: int, *, may_stall: bool = False
) -> None:
    for number in range(NODES):
        stage.node(f"n{number}", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    storm = Storm(stage, kill, fillers, high)
    storm.may_stall = may_stall
    try:
        storm.play()
    finally:
        storm.report()


@bridge_scenario("chaos", rig=RIG)
def a_hundred_gangs_contend_under_kills(stage: BridgeStage) -> None:
    """Each gang runs, none stays partly bound, and pods alone get devices as well."""

    def kill(number: int) -> None:
        """Kill the leading pair, or its allocator alone."""
        pair = stage.leader()
        if number % 2:
            pair.restart_allocator()
        else:
            pair.allocator.kill()
            pair.running_scheduler().kill()
            stage.placement.start()

    _play(stage, kill, FILLERS)


@scenario("chaos", rig=RIG, needs=("processes",))
def a_hundred_gangs_contend_in_tree(stage: Stage) -> None:
    """The same with devices that Kubernetes allocates; it evicts no pod for them.

    Before 1.36, members wait at Permit one by one. Each gang then holds a part of the devices.
    """
    plane = stage.plane
    assert plane is not None

    def kill(number: int) -> None:
        del number
        plane.processes["kube-scheduler"].kill()
        plane.start_scheduler("kube-scheduler", plane.options.schedulers["kube-scheduler"])

    _play(stage, kill, 0, may_stall=plane.options.version in ("1.35", "1.34"))
    # It takes a reservation back where it did not hear that its binding was written.
    left = stage.violations()
    assert {(each.code, each.by) for each in left} <= {("NotReserved", "kubelet")}, left
