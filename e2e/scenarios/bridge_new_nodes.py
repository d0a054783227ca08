"""Scenarios: a pod in bridge placement waits for a new node before it evicts others.

The scenario stands in for the autoscaler: it adds a node with devices while the pod waits, or none.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.scenarios.bridge import told
from e2e.scenarios.bridge_failures import other_leader
from e2e.scenarios.bridge_preemption import create_pods, create_priority, phases, run_all
from e2e.scenarios.bridge_strategies import configured
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.stage import Stage

GPU: Final = "gpu.nvidia.com"
DELAY_SECONDS: Final = 45
DELAYED: Final = "evicts no pod for another"


@contextmanager
def full_node(stage: BridgeStage) -> Iterator[str]:
    """Fill a node with less important pods, and yield the class of the more important ones."""
    high = create_priority(stage, "high", 1000)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    create_pods(stage, "low", 2)
    stage.wait("the node is full", run_all(stage, "low", 2))
    with configured(stage, {"preemption": {"delaySeconds": DELAY_SECONDS}}):
        yield high


def waits(stage: BridgeStage, name: str) -> float:
    """Wait until a pod is told that it waits for a node; return since when."""
    stage.wait("it waits for a node", partial(told, stage, name, DELAYED))
    conditions = stage.get_pod(name)["status"]["conditions"]
    (since,) = (each["lastTransitionTime"] for each in conditions if each["type"] == "PodScheduled")
    return datetime.fromisoformat(since).timestamp()


def wait_evicted(stage: Stage) -> float:
    """Wait until a less important pod terminates or is gone; return when that was seen."""
    stage.wait("a pod is evicted", lambda: len(phases(stage, "low")) < 2, 2 * DELAY_SECONDS)
    return time.time()


@bridge_scenario("full")
def a_pod_takes_the_node_that_an_autoscaler_adds(stage: BridgeStage) -> None:
    """Nobody is evicted. Once the new node is full too and none comes, the delay ends."""
    with full_node(stage) as high:
        create_pods(stage, "high", 1, priorityClassName=high)
        waits(stage, "high-0")
        assert len(phases(stage, "low")) == 2
        stage.node("b", "lab-2g2n", {GPU: "full"})
        stage.wait_running("high-0")
        assert stage.get_pod("high-0")["spec"]["nodeName"] == stage.node_name("b")
        create_pods(stage, "next", 1, priorityClassName=high)
        stage.wait_running("next-0")
        assert len(phases(stage, "low")) == 2
        create_pods(stage, "last", 1, priorityClassName=high)
        since = waits(stage, "last-0")
        waited = wait_evicted(stage) - since
        assert waited >= DELAY_SECONDS, waited
        stage.wait_running("last-0")
        assert len(phases(stage, "low")) == 1


@bridge_scenario("full")
def an_autoscaler_takes_empty_nodes_away_while_pods_come(stage: BridgeStage) -> None:
    """A pod that comes between the cordon and the end of a node runs on the next one.

    No claim keeps devices of a node that is gone.
    """
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for turn in range(5):
        create_pods(stage, f"asks-{turn}", 1)
        stage.wait_unschedulable(f"asks-{turn}-0")
        node = stage.node(f"n{turn}", "lab-2g2n", {GPU: "full"}).name
        running = [f"asks-{turn}-0", *([f"late-{turn - 1}-0"] if turn else [])]
        for name in running:
            assert stage.wait_running(name)["spec"]["nodeName"] == node
        for name in running:
            stage.delete_pod(name)
        stage.client.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        create_pods(stage, f"late-{turn}", 1)
        time.sleep(turn * 0.5)
        stage.fleet.remove([node])
        left = stage.client.get(stage.claim_path())["items"]
        assert not [each for each in left if "allocation" in each.get("status", {})], left
    stage.node("last", "lab-2g2n", {GPU: "full"})
    stage.wait_running(f"late-{turn}-0")


@bridge_scenario("full")
def the_wait_for_a_new_node_goes_on_when_another_scheduler_leads(stage: BridgeStage) -> None:
    """A pod that was gated waits anew: its condition has the time of its creation."""
    with full_node(stage) as high:
        gates = [{"name": "rig.drawbridge.dev/quota"}]
        create_pods(stage, "gated", 1, priorityClassName=high, schedulingGates=gates)
        create_pods(stage, "high", 1, priorityClassName=high)
        since = waits(stage, "high-0")
        leader = stage.leader()
        leader.running_scheduler().kill()
        other_leader(stage, leader)
        leads = datetime.now(tz=UTC).timestamp()
        evicted = wait_evicted(stage)
        assert evicted - since >= DELAY_SECONDS, evicted - since
        assert evicted < leads + DELAY_SECONDS, "the delay has begun again"
        stage.wait_running("high-0")
        assert len(phases(stage, "low")) == 1

        stage.client.patch(stage.pod_path("gated-0"), {"spec": {"schedulingGates": []}})
        assert waits(stage, "gated-0") <= since + 1
        assert len(phases(stage, "low")) == 1
