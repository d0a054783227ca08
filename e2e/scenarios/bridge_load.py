"""Scenarios: many nodes and pods in bridge placement, and devices that change meanwhile."""

import itertools
import json
from collections.abc import Iterator
from functools import partial

from e2e.bridge.placement import OWNED, BridgeStage, bridge_scenario
from e2e.nodes.fleet import NodePlan
from e2e.scenarios.bridge import running
from e2e.scenarios.chaos import burst
from e2e.scenarios.objects import RESOURCE, claim_spec, request
from e2e.scenarios.stage import LABEL

GPU = "gpu.nvidia.com"
PATIENCE_SECONDS = 240.0


def play_on_nodes(stage: BridgeStage, nodes: int, pods: int) -> None:
    """Create nodes and, without a pause, pods of one GPU each."""
    labels = {LABEL: stage.name, **OWNED}
    names = [stage.node_name(str(number)) for number in range(nodes)]
    stage.fleet.add_all([NodePlan(name, "dgx-a100", {GPU: "full"}, labels) for name in names])
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    burst(stage, 0, pods)
    stage.wait("all pods run", partial(running, stage, pods), PATIENCE_SECONDS)
    assert stage.check_allocations() == pods


@bridge_scenario("smoke")
def pods_start_on_a_hundred_nodes(stage: BridgeStage) -> None:
    """Each has a GPU of its node."""
    play_on_nodes(stage, nodes=100, pods=20)


@bridge_scenario("full")
def pods_start_on_five_hundred_nodes(stage: BridgeStage) -> None:
    """Five hundred pods get different GPUs, each of its node."""
    play_on_nodes(stage, nodes=500, pods=500)


@bridge_scenario("full")
def slices_change_while_pods_start(stage: BridgeStage) -> None:
    """Drivers publish new generations, first halves of them, while pods are allocated."""
    nodes = [stage.node(str(number), "dgx-a100", {GPU: "full"}).name for number in range(8)]
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for number, node in zip(range(60), itertools.cycle(nodes), strict=False):
        layout = stage.fleet.layout(GPU, node)
        stage.fleet.publish(layout, whole=False)
        stage.pod(f"pod-{number}", templates={"gpu": "gpu"})
        stage.fleet.publish(layout)
    stage.wait("all pods run", partial(running, stage, 60), PATIENCE_SECONDS)
    assert stage.check_allocations() == 60


@bridge_scenario("full", since="1.36")
def groups_that_a_slice_declares_are_enforced(stage: BridgeStage) -> None:
    """The API server drops the field of 1.37. The annotation of the slice says the same."""
    machine = stage.node("a", "lab-2g2n", {GPU: "groups"})
    for path in _slices(stage, machine.name):
        declared = [
            {"selector": _profile(name), "groups": [f"vgpu-{name}"]}
            for name in ("1g.5gb", "2g.10gb")
        ]
        annotations = {"drawbridge.dev/compatibility": json.dumps(declared)}
        stage.client.patch(path, {"metadata": {"annotations": annotations}})
    for name, profile in (("small", "1g.5gb"), ("large", "2g.10gb")):
        parent = f"device.attributes['{GPU}'].parentUUID == '{machine.gpus[0].uuid}'"
        wanted = f"{parent} && {_profile(profile)}"
        stage.template(name, claim_spec(request("gpu", "mig.nvidia.com", wanted)))
    for name in ("small", "another"):
        stage.run_pod(name, templates={"gpu": "small"})
    stage.pod("large", templates={"gpu": "large"})
    stage.wait_unschedulable("large")
    for name in ("small", "another"):
        stage.delete_pod(name)
    stage.wait_running("large")


def _profile(name: str) -> str:
    return f"device.attributes['{GPU}'].?profile.orValue('') == '{name}'"


def _slices(stage: BridgeStage, node: str) -> Iterator[str]:
    for item in stage.client.get(f"{RESOURCE}/resourceslices")["items"]:
        if item["spec"].get("nodeName") == node:
            yield f"{RESOURCE}/resourceslices/{item['metadata']['name']}"
