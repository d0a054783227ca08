"""Scenario: gangs of many sizes contend for devices while the leading pair is killed."""

import random
import time
from collections import deque
from itertools import count

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.runner import print_line
from e2e.scenarios.bridge_gangs import GPU, RIG, create_gang
from e2e.scenarios.objects import JSON, claim_spec, request

GANGS, AT_ONCE, NODES = 100, 25, 8
SIZES = range(2, 17)
KILL_SECONDS, SINGLE_SECONDS, LIMIT_SECONDS = 30.0, 10.0, 3600.0
# A hold lasts this long at most, and a pair that was killed takes this long to lead again.
PARTIAL_SECONDS, RECOVERY_SECONDS = 60.0, 90.0


class Storm:
    """The gangs that wait and run, and what was seen of them."""

    def __init__(self, stage: BridgeStage) -> None:
        self.stage = stage
        self.random = random.Random(1)  # not a secret
        self.left = deque((f"g{number}", self.random.choice(SIZES)) for number in range(GANGS))
        self.active: dict[str, list[str]] = {}
        self.partial: dict[str, float] = {}
        self.killed = time.monotonic()
        self.kills = 0
        self.longest_partial = 0.0
        self.single: tuple[str, float] | None = None
        self.waits: list[float] = []
        self.numbers = count()

    def play(self) -> None:
        """Play until every gang has run."""
        end = time.monotonic() + LIMIT_SECONDS
        while self.left or self.active:
            assert time.monotonic() < end, f"gangs are left: {sorted(self.active)}"
            self._create()
            pods = {
                each["metadata"]["name"]: each
                for each in self.stage.client.get(self.stage.pod_path())["items"]
                if "deletionTimestamp" not in each["metadata"]
            }
            for name, members in tuple(self.active.items()):
                self._look(name, [pods[each] for each in members if each in pods])
            self._follow_single(pods)
            if time.monotonic() - self.killed > KILL_SECONDS:
                self._kill()

    def _create(self) -> None:
        while self.left and len(self.active) < AT_ONCE:
            name, size = self.left.popleft()
            self.active[name] = create_gang(self.stage, name, size)

    def _look(self, name: str, members: list[JSON]) -> None:
        """Delete a gang that runs; note how long a part of one is bound."""
        now, bound = time.monotonic(), sum(bool(each["spec"].get("nodeName")) for each in members)
        if bound not in (0, len(members)):
            since = self.partial.setdefault(name, now)
            self.longest_partial = max(self.longest_partial, now - since)
            # A gang that a kill has interrupted is completed after the recovery.
            late = now - max(since, self.killed + RECOVERY_SECONDS if self.kills else since)
            assert late < PARTIAL_SECONDS, f"{name}: {bound} of {len(members)} are bound"
            return
        self.partial.pop(name, None)
        if members and all(each["status"].get("phase") == "Running" for each in members):
            for each in self.active.pop(name):
                self.stage.client.delete(self.stage.pod_path(each), grace=0)

    def _follow_single(self, pods: dict[str, JSON]) -> None:
        """Follow one pod after the other that is no member and requests a device."""
        now = time.monotonic()
        if self.single is None:
            name = f"single-{next(self.numbers)}"
            self.stage.pod(name, templates={"gpu": "gpu"})
            self.single = (name, now)
            return
        name, since = self.single
        if name in pods and pods[name]["spec"].get("nodeName"):
            self.waits.append(now - since)
            self.stage.client.delete(self.stage.pod_path(name), grace=0)
            self.single = None

    def _kill(self) -> None:
        """Kill the leading pair, or its allocator alone."""
        pair = self.stage.placement.find_leader()
        self.killed = time.monotonic()
        if pair is None:
            return
        self.kills += 1
        if self.kills % 2:
            pair.restart_allocator()
        else:
            pair.allocator.kill()
            pair.running_scheduler().kill()
            self.stage.placement.start()


@bridge_scenario("chaos", since="1.35", rig=RIG)
def a_hundred_gangs_contend_under_kills(stage: BridgeStage) -> None:
    """Each gang runs, none stays partly bound, and pods alone get devices as well."""
    for number in range(NODES):
        stage.node(f"n{number}", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    storm = Storm(stage)
    started = time.monotonic()
    storm.play()
    took = time.monotonic() - started
    waits = sorted(storm.waits)
    assert waits, "no pod alone got a device"
    print_line(f"      {GANGS} gangs ran in {took:.0f} s with {storm.kills} kills")
    print_line(f"      one was partly bound for {storm.longest_partial:.1f} s, the others for less")
    print_line(
        f"      {len(waits)} pods alone waited {waits[len(waits) // 2]:.1f} s (median), at most "
        f"{waits[-1]:.1f} s"
    )
