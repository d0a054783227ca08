"""Scenarios: volumes that bind slowly, or never, of pods with devices."""

import math
import time
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.nodes.provisioner import Provisioner
from e2e.runner import print_line
from e2e.scenarios.bridge_conditions import allocator_options
from e2e.scenarios.bridge_failures import other_leader
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
# A reservation without renewal ends after 30 s.
SLOW_SECONDS = 40.0
HOLD_SECONDS = 45
PATIENCE_SECONDS = 90.0
HELD = "drawbridge_allocator_held_devices"


def start_slow_pod(stage: Stage, seconds: float) -> Provisioner:
    """Create a node, and a pod that needs all its GPUs and a volume that takes so long."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("both", claim_spec(request("gpu", GPU, count=2)))
    stage.template("one", claim_spec(request("gpu", GPU)))
    provisioner = Provisioner(stage.client, stage.namespace, stage.name, lambda _: seconds)
    stage.enter(provisioner)
    stage.pod("slow", templates={"gpu": "both"}, volumes=provisioner.claim("data"))
    stage.wait("the scheduler selects a node", partial(provisioner.selected_node, "data"))
    return provisioner


def a_pod_keeps_its_devices_while_its_volume_binds(stage: Stage) -> None:
    """Another pod waits for them meanwhile."""
    start_slow_pod(stage, SLOW_SECONDS)
    began = time.monotonic()
    stage.pod("rival", templates={"gpu": "one"})
    stage.wait_unschedulable("rival")
    stage.wait("the slow pod runs", partial(runs, stage, "slow"), PATIENCE_SECONDS)
    print_line(f"      {time.monotonic() - began:.0f} s until the pod with the slow volume runs")
    assert "nodeName" not in stage.get_pod("rival")["spec"]
    stage.delete_pod("slow")
    stage.wait_running("rival")


@bridge_scenario("full")
def a_pod_whose_volume_never_binds_loses_its_devices_at_the_limit(stage: BridgeStage) -> None:
    """If the volume binds later, the pod runs as soon as the devices are free again."""
    leader = stage.leader()
    with allocator_options(leader, f"--hold-timeout={HOLD_SECONDS}"):
        stage.wait("it leads", lambda: '"leading":true' in leader.allocator_status())
        provisioner = start_slow_pod(stage, math.inf)
        began = time.monotonic()
        stage.pod("rival", templates={"gpu": "one"})
        stage.wait_unschedulable("rival")
        held = partial(leader.allocator.metric, HELD)
        stage.wait("the devices are held", lambda: held() == 2, SLOW_SECONDS)
        stage.wait("the rival runs", partial(runs, stage, "rival"), PATIENCE_SECONDS)
        waited = time.monotonic() - began
        print_line(f"      {waited:.0f} s until the devices of the other pod are free")
        assert waited > SLOW_SECONDS
        stage.wait("nothing is held", lambda: held() == 0)
        provisioner.provision("data")
        stage.wait_unschedulable("slow")
        stage.delete_pod("rival")
        stage.wait_running("slow")


@bridge_scenario("chaos")
def after_a_restart_of_the_allocator_a_slow_volume_still_binds(stage: BridgeStage) -> None:
    """The scheduler still holds the pod, but nothing is reserved any more, so it is tried again."""
    provisioner = start_slow_pod(stage, math.inf)
    stage.leader().restart_allocator()
    provisioner.provision("data")
    stage.wait("the slow pod runs", partial(runs, stage, "slow"), PATIENCE_SECONDS)


@bridge_scenario("chaos")
def after_a_change_of_the_leader_a_slow_volume_still_binds(stage: BridgeStage) -> None:
    """The next scheduler holds it in turn, while another pod waits."""
    provisioner = start_slow_pod(stage, math.inf)
    leader = stage.leader()
    leader.running_scheduler().child.kill()
    leader.allocator.kill()
    other = other_leader(stage, leader)
    stage.wait("the devices are held", partial(other.allocator.metric, HELD), PATIENCE_SECONDS)
    stage.pod("rival", templates={"gpu": "one"})
    stage.wait_unschedulable("rival")
    provisioner.provision("data")
    stage.wait("the slow pod runs", partial(runs, stage, "slow"), PATIENCE_SECONDS)
    stage.delete_pod("slow")
    stage.wait_running("rival")


def runs(stage: Stage, name: str) -> bool:
    """Whether a pod runs."""
    return bool(stage.get_pod(name)["status"].get("phase") == "Running")


scenario("full")(a_pod_keeps_its_devices_while_its_volume_binds)
bridge_scenario("full")(a_pod_keeps_its_devices_while_its_volume_binds)
