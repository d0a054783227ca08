"""Scenarios: an etcd is restored, and Drawbridge forgets what it knew, in bridge placement.

Nobody restarts Drawbridge's processes: one that ends is started again as a kubelet does. The
processes of Kubernetes are restarted, as its documentation requires.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.backup import back_up, restore
from e2e.controlplane.client import ApiError
from e2e.controlplane.processes import suspended
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.installed.judge import judged
from e2e.installed.replica import Replica
from e2e.installed.supervision import Supervisor
from e2e.runner import print_line
from e2e.scenarios.bridge_preemption import create_pods, run_all
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.page import opened
from e2e.scenarios.registry import RIGS, default_options

GPU = "gpu.nvidia.com"
RIG = "restored"
RIGS[RIG] = default_options
DEVICES, OLD = 8, 2
NEW, LEGACY = 6, 2  # of which two wait until the old pods are deleted
REVISIONS = 600
PATIENCE_SECONDS = 120.0
T = TypeVar("T")


class Restoration:
    """One node of 8 devices, a backup with two pods on it, and what happened since."""

    def __init__(self, stage: BridgeStage) -> None:
        self.stage = stage
        self.plane = stage.processes
        cluster = stage.placement.cluster
        judge = stage.enter(judged(stage, cluster)).running()
        allocators = [pair.allocator for pair in stage.placement.pairs]
        self.supervisor = Supervisor(self.plane, [*cluster.replicas, judge, *allocators])
        # Its caches have no object that is lost, or changes again, with a restore.
        self.webhooks = {each.name for each in cluster.webhooks}
        environment, access = cluster.environment(), cluster.kubectl.access
        self.page = stage.enter(opened(environment, access, stage.namespace))
        self.legacy = stage.legacy_pod("legacy", 1)
        self.copy = self._back_up()
        self.version = self._go_on()

    def _back_up(self) -> Path:
        stage = self.stage
        stage.node("a", "dgx-a100", {GPU: "full"})
        stage.template("gpu", claim_spec(request("gpu", GPU)))
        stage.claim("writes", claim_spec(request("gpu", GPU)))
        set_mode(stage, "enforce")
        wait_for_facts(stage, stage.placement.cluster, self.legacy)
        create_pods(stage, "old", OLD)
        stage.wait("the old pods run", run_all(stage, "old", OLD), PATIENCE_SECONDS)
        return back_up(self.plane, stage.name)

    def _go_on(self) -> int:
        """Delete the old pods, use all devices for others, and return the version after it."""
        stage = self.stage
        for number in range(OLD):
            stage.delete_pod(f"old-{number}")
        self.create_legacy("lost-legacy")
        create_pods(stage, "lost", DEVICES - 1)
        stage.wait("the lost pods run", run_all(stage, "lost", DEVICES), PATIENCE_SECONDS)
        for number in range(REVISIONS):
            self.write(number)
        return self.current_version()

    def current_version(self) -> int:
        """Return the version of the API server."""
        listed = self.stage.client.get("/api/v1/namespaces", limit="1")
        return int(listed["metadata"]["resourceVersion"])

    def write(self, number: int) -> None:
        """Write an object of which the caches of the allocator get an event."""
        change: JSON = {"metadata": {"labels": {"written": f"{number}"}}}
        self.stage.client.patch(self.stage.claim_path("writes"), change)

    def create_legacy(self, name: str) -> None:
        """Create a pod that admission translates, with a template of its own name."""
        metadata = {**self.legacy["metadata"], "name": name}
        self.stage.client.create(self.stage.pod_path(), {**self.legacy, "metadata": metadata})

    def restore(self) -> None:
        """Put the backup back; the kube-schedulers of the pairs are restarted as well."""
        pairs = self.stage.placement.pairs
        names = [pair.running_scheduler().name for pair in pairs]
        restore(self.plane, self.copy, names)
        for pair in pairs:
            pair.start_scheduler()
        restored = self.current_version()
        assert restored < self.version, (restored, self.version)
        print_line(f"      version {self.version} before, {restored} after the restore")

    def pass_version(self) -> None:
        """Write until the version is past the one before the restore."""
        count = 0
        while self.current_version() <= self.version:
            for _ in range(20):
                self.write(count)
                count += 1
        print_line(f"      {count} writes until the version {self.version} is passed")

    # --- afterwards ----------------------------------------------------------------------------

    def wait(self, what: str, question: Callable[[], T]) -> T:
        """Wait for something while processes that end are started again."""

        def ask() -> T:
            self.supervisor.restart_ended()
            self.stage.placement.cluster.connect()
            return question()

        return self.stage.wait(what, ask, PATIENCE_SECONDS)

    def check(self) -> None:
        """Check that new pods run on the free devices, and the old ones keep theirs."""
        began = time.monotonic()
        makers = [partial(self._pod, f"new-{number}") for number in range(NEW)]
        makers += [partial(self.create_legacy, f"new-legacy-{n}") for n in range(LEGACY)]
        for make in makers:
            self.wait("a pod is admitted", partial(_succeeds, make))
        admitted = time.monotonic() - began
        free = DEVICES - OLD
        self.wait(f"{free} of the new pods run", run_all(self.stage, "new", free))
        took = time.monotonic() - began
        print_line(f"      pods admitted after {admitted:.1f} s, {free} run after {took:.1f} s")
        self.wait("the old pods run", run_all(self.stage, "old", OLD))
        self.check_holders()
        for number in range(OLD):
            self.stage.client.delete(self.stage.pod_path(f"old-{number}"), grace=None)
        self.wait("the others run as well", run_all(self.stage, "new", NEW + LEGACY))
        self.check_holders()
        self.check_page()
        self.check_processes()
        self.stage.placement.ignore_denials()

    def check_processes(self) -> None:
        """Check that each process that knows claims or pods has started again, once."""
        names = {each.name for each in self.supervisor.replicas} - self.webhooks
        self.wait("they start again", lambda: names <= {*self.supervisor.restarts})
        for ending in self.supervisor.endings:
            print_line(f"      {ending.name} ended with {ending.code}: {ending.messages[-1:]}")
        assert set(self.supervisor.restarts.values()) == {1}, self.supervisor.endings

    def check_page(self) -> None:
        """Check that the page, which is open all the time, shows the pods that exist now."""
        claims = [each["metadata"]["name"] for each in self.stage.allocated_claims()]
        node = self.stage.node_name("a")
        self.wait("the page", lambda: all(each in self.page.part_of_node(node) for each in claims))
        assert "lost-" not in self.page.read()

    def _pod(self, name: str) -> None:
        self.stage.pod(name, templates={"gpu": "gpu"})

    def check_holders(self) -> None:
        """Check that no device is allocated twice."""
        held = Counter(
            (result["pool"], result["device"])
            for claim in self.stage.allocated_claims()
            for result in claim["status"]["allocation"]["devices"]["results"]
        )
        print_line(f"      {sum(held.values())} allocations of {len(held)} devices")
        assert set(held.values()) == {1}, held


def _succeeds(make: Callable[[], None]) -> bool:
    """Whether an object is created; the webhook may be starting again."""
    try:
        make()
    except ApiError as problem:
        if problem.code < 500:
            raise
        return False
    return True


def _suspend(stack: contextlib.ExitStack, replica: Replica) -> None:
    stack.enter_context(suspended(replica.started_process()))


@bridge_scenario("full", rig=RIG)
def a_restored_etcd_stops_no_new_pod(stage: BridgeStage) -> None:
    """Its version stays behind the one before, and everything after the backup is forgotten."""
    restoration = Restoration(stage)
    restoration.restore()
    restoration.check()


@bridge_scenario("full", rig=RIG)
def a_restored_etcd_that_passes_the_version_gives_no_device_twice(stage: BridgeStage) -> None:
    """The processes of Drawbridge see the writes that pass it."""
    restoration = Restoration(stage)
    restoration.restore()
    restoration.pass_version()
    restoration.check()


@bridge_scenario("full", rig=RIG)
def a_restored_etcd_that_nobody_saw_before_it_passed_gives_no_device_twice(
    stage: BridgeStage,
) -> None:
    """The processes of Drawbridge are suspended from before the restore until after the writes."""
    restoration = Restoration(stage)
    with contextlib.ExitStack() as stack:
        for replica in restoration.supervisor.replicas:
            _suspend(stack, replica)
        restoration.restore()
        restoration.pass_version()
    restoration.check()
