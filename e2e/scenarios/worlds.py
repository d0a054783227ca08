"""Two worlds on one machine: device plugins and DRA, and features that only the driver enforces."""

from e2e.nodes.plugin import replicas
from e2e.scenarios import forged
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
NAME = "nvidia.com/gpu"


@scenario("smoke")
def a_claim_and_a_plugin_hand_out_one_gpu(stage: Stage) -> None:
    """Where both publish a machine nothing in Kubernetes prevents it: the second is recorded."""
    uuids = tuple(gpu.uuid for gpu in stage.hardware("a", "lab-2g2n").gpus)
    machine = stage.node("a", "lab-2g2n", {GPU: "full"}, {NAME: uuids})
    stage.pod("old", limits={NAME: "1"})
    stage.running("old")
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.pod("new", templates={"gpu": "gpu"})
    stage.wait("the driver notices", stage.fleet.record.violations)
    recorded = stage.violations()
    assert [(one.code, one.by, one.device) for one in recorded] == [
        ("HandedOutTwice", GPU, "gpu-0")
    ]
    stage.delete_pod("old")
    stage.running("new")
    stage.violations()  # what the driver saw again before the plugin had let go
    stage.pod("old", limits={NAME: "1"})
    stage.running("old")
    recorded = stage.violations()
    assert [(one.code, one.by) for one in recorded] == [("HandedOutTwice", "device-plugin")]
    assert machine.gpus[0].uuid == recorded[0].device


@scenario("smoke")
def a_plugin_with_replicas_shares_its_gpus(stage: Stage) -> None:
    """Time-slicing by replicas: more pods than GPUs, on hardware that pods share."""
    uuids = tuple(gpu.uuid for gpu in stage.hardware("a", "lab-2g2n").gpus)
    name = "nvidia.com/gpu.shared"
    stage.node("a", "lab-2g2n", plugins={name: replicas(uuids, 2)})
    for number in range(4):
        stage.pod(f"pod-{number}", limits={name: "1"})
    for number in range(4):
        stage.running(f"pod-{number}")


@scenario("smoke")
def a_pod_bound_beyond_what_a_plugin_has_fails(stage: Stage) -> None:
    """Two pods are bound by hand to a node with one GPU: the second fails for good."""
    uuid = stage.hardware("a", "lab-2g2n").gpus[0].uuid
    machine = stage.node("a", "lab-2g2n", plugins={NAME: (uuid,)})
    for name in ("first", "second"):
        stage.pod(name, limits={NAME: "1"}, schedulerName=forged.NOBODY)
    forged.bind(stage, "first", machine.name)
    stage.running("first")
    forged.bind(stage, "second", machine.name)
    stage.wait(
        "the second fails",
        lambda: stage.get_pod("second")["status"].get("reason") == "UnexpectedAdmissionError",
    )
    assert [one.code for one in stage.violations()] == ["PluginExhausted"]


@scenario("smoke", since="1.36")
def groups_that_the_scheduler_does_not_know_are_kept_by_the_driver(stage: Stage) -> None:
    """1.36 drops compatibility groups and allocates what does not fit; the driver refuses."""
    machine = stage.node("a", "lab-2g2n", {GPU: "groups"})
    for name, profile in (("small", "1g.5gb"), ("large", "2g.10gb")):
        parent = f"device.attributes['{GPU}'].parentUUID == '{machine.gpus[0].uuid}'"
        wanted = f"{parent} && device.attributes['{GPU}'].profile == '{profile}'"
        stage.template(name, claim_spec(request("gpu", "mig.nvidia.com", wanted)))
    stage.pod("small", templates={"gpu": "small"})
    stage.running("small")
    stage.pod("large", templates={"gpu": "large"})
    stage.wait("the driver notices", stage.fleet.record.violations)
    assert {one.code for one in stage.violations()} == {"GroupsIncompatible"}
    stage.delete_pod("large")
    stage.violations()
