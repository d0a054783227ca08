"""Scenarios: claims and device plugins that use the same hardware."""

from e2e.nodes.plugin import replicas
from e2e.scenarios import forged
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
NAME = "nvidia.com/gpu"


@scenario("smoke")
def a_gpu_allocated_twice_by_claim_and_plugin_is_recorded(stage: Stage) -> None:
    """Kubernetes allows a claim and a plugin to allocate the same GPU."""
    uuids = tuple(gpu.uuid for gpu in stage.hardware("a", "lab-2g2n").gpus)
    machine = stage.node("a", "lab-2g2n", {GPU: "full"}, {NAME: uuids})
    stage.run_pod("old", limits={NAME: "1"})
    # The plugin gives the first one, and a driver publishes in any order.
    same = f"device.attributes['{GPU}'].uuid == '{uuids[0]}'"
    stage.template("gpu", claim_spec(request("gpu", GPU, same)))
    stage.pod("new", templates={"gpu": "gpu"})
    stage.wait("the driver notices", stage.fleet.record.violations)
    recorded = stage.violations()
    assert [(one.code, one.by, one.device) for one in recorded] == [
        ("HandedOutTwice", GPU, "gpu-0")
    ]
    stage.delete_pod("old")
    stage.wait_running("new")
    stage.violations()  # what the driver saw again before the plugin had let go
    stage.run_pod("old", limits={NAME: "1"})
    recorded = stage.violations()
    assert [(one.code, one.by) for one in recorded] == [("HandedOutTwice", "device-plugin")]
    assert machine.gpus[0].uuid == recorded[0].device


@scenario("smoke")
def a_plugin_with_replicas_shares_its_gpus(stage: Stage) -> None:
    """With time-slicing replicas, more pods than GPUs run."""
    uuids = tuple(gpu.uuid for gpu in stage.hardware("a", "lab-2g2n").gpus)
    name = "nvidia.com/gpu.shared"
    stage.node("a", "lab-2g2n", plugins={name: replicas(uuids, 2)})
    for number in range(4):
        stage.pod(f"pod-{number}", limits={name: "1"})
    for number in range(4):
        stage.wait_running(f"pod-{number}")


@scenario("smoke")
def a_pod_bound_beyond_the_capacity_of_a_plugin_fails(stage: Stage) -> None:
    """The scenario binds two pods to a node with one GPU. The second pod fails."""
    uuid = stage.hardware("a", "lab-2g2n").gpus[0].uuid
    machine = stage.node("a", "lab-2g2n", plugins={NAME: (uuid,)})
    for name in ("first", "second"):
        stage.pod(name, limits={NAME: "1"}, schedulerName=forged.NOBODY)
    forged.bind(stage, "first", machine.name)
    stage.wait_running("first")
    forged.bind(stage, "second", machine.name)
    stage.wait(
        "the second fails",
        lambda: stage.get_pod("second")["status"].get("reason") == "UnexpectedAdmissionError",
    )
    assert [one.code for one in stage.violations()] == ["PluginExhausted"]


@scenario("smoke", since="1.36")
def the_driver_counts_groups_that_the_scheduler_ignores(stage: Stage) -> None:
    """1.36 drops compatibility groups and allocates incompatible devices. The driver refuses."""
    machine = stage.node("a", "lab-2g2n", {GPU: "groups"})
    for name, profile in (("small", "1g.5gb"), ("large", "2g.10gb")):
        parent = f"device.attributes['{GPU}'].parentUUID == '{machine.gpus[0].uuid}'"
        wanted = f"{parent} && device.attributes['{GPU}'].profile == '{profile}'"
        stage.template(name, claim_spec(request("gpu", "mig.nvidia.com", wanted)))
    stage.run_pod("small", templates={"gpu": "small"})
    stage.pod("large", templates={"gpu": "large"})
    stage.wait("the driver notices", stage.fleet.record.violations)
    assert {one.code for one in stage.violations()} == {"GroupsIncompatible"}
    stage.delete_pod("large")
    stage.violations()
