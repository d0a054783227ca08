"""Scenarios: thousands of nodes."""

from e2e.nodes.fleet import NodePlan
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import LABEL, Stage

GPU = "gpu.nvidia.com"
NODES = 2000


@scenario("full")
def one_device_on_two_thousand_nodes_is_found(stage: Stage) -> None:
    """A selector that matches one GPU of 16,000 is allocated that GPU."""
    plans = [
        NodePlan(f"{stage.name}-{number}", "dgx-a100", {GPU: "full"}, {LABEL: stage.name})
        for number in range(NODES)
    ]
    stage.fleet.add_all(plans)
    target = stage.fleet.machines[f"{stage.name}-{NODES - 1}"]
    wanted = f"device.attributes['{GPU}'].uuid == '{target.gpus[7].uuid}'"
    stage.template("needle", claim_spec(request("gpu", GPU, wanted)))
    stage.pod("worker", templates={"gpu": "needle"})
    stage.wait("the pod is bound", lambda: stage.get_pod("worker")["spec"].get("nodeName"), 180)
    pod = stage.wait_running("worker")
    assert stage.fleet.held_by(pod) == [f"{GPU}/{target.name}/gpu-7"]
