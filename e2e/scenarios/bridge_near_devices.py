"""Scenarios: which devices pods get whose strategy is by nearness, or has weights of their own.

The strategy is that of the configuration, of annotations that admission reads, or of the rules of a
claim. The devices are read from the books of the drivers.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.nodes.family import CLASSES
from e2e.nodes.machine import Machine
from e2e.scenarios.bridge_strategies import configured
from e2e.scenarios.objects import JSON, RESOURCE, claim_spec, device_class, request

GPU: Final = "gpu.nvidia.com"
OWN: Final = "drawbridge.dev/strategy"
RULES: Final = "drawbridge.dev/rules"


def _occupy(stage: BridgeStage, machine: Machine, numbers: Iterable[int]) -> None:
    """Let one pod have these GPUs."""
    chosen = [
        request(f"gpu-{number}", GPU, f"device.attributes['{GPU}'].uuid == '{gpu.uuid}'")
        for number in numbers
        for gpu in (machine.gpus[number],)
    ]
    stage.template("occupied", claim_spec(*chosen))
    stage.run_pod("occupied", templates={"gpus": "occupied"})


def _legacy_pod(
    stage: BridgeStage, name: str, count: int, annotations: Mapping[str, str] = {}
) -> JSON:
    pod = stage.legacy_pod(name, count)
    pod["metadata"]["annotations"] = dict(annotations)
    return pod


def _gpus_of(stage: BridgeStage, name: str) -> list[str]:
    """Wait until a pod runs, and return its GPUs."""
    held = stage.fleet.held_by(stage.wait_running(name))
    return sorted(each.rpartition("/")[2] for each in held)


@bridge_scenario("full", since="1.36")
def annotations_choose_near_devices(stage: BridgeStage) -> None:
    """Annotations of HAMi and of Drawbridge on legacy pods keep near GPUs together."""
    # Two GPUs are a partition of their links, and four share a NUMA node.
    machine = stage.node("a", "hgx-h100", {GPU: "links"})
    set_mode(stage, "enforce")
    probe = _legacy_pod(stage, "probe", 1)
    wait_for_facts(stage, stage.placement.cluster, probe, machine.product["name"])
    stage.leader()
    _occupy(stage, machine, (1, 4, 7))
    for name, count, annotation, value, expected in (
        ("single", 1, OWN, "topology-aware", (["gpu-5"], ["gpu-6"])),
        ("pair", 2, "hami.io/gpu-scheduler-policy", "topology-aware", (["gpu-2", "gpu-3"],)),
    ):
        pod = _legacy_pod(stage, name, count, {annotation: value})
        stage.client.create(stage.pod_path(), pod)
        held = _gpus_of(stage, name)
        assert held in expected, f"{name}: {held} instead of {expected}"


@bridge_scenario("full", since="1.36")
def the_strategy_numa_takes_gpus_of_one_numa_node(stage: BridgeStage) -> None:
    """Of three free GPUs, two are of one NUMA node, wherever the driver lists them."""
    machine = stage.node("a", "aws-p4d", {GPU: "full"})
    _occupy(stage, machine, (1, 2, 3, 6, 7))
    stage.template("pair", claim_spec(request("gpu", GPU, count=2)))
    with configured(stage, {"strategy": {"default": "numa"}}):
        stage.leader()
        stage.pod("next", templates={"gpu": "pair"})
        held = _gpus_of(stage, "next")
        assert held == ["gpu-4", "gpu-5"], held


@bridge_scenario("full", since="1.36")
def the_weights_of_a_claim_decide_what_is_packed(stage: BridgeStage) -> None:
    """One GPU has most of its memory in use and the other most of its shares."""
    _use_unequally(stage)
    for name, expected in (("memory", "gpu-0"), ("shares", "gpu-1")):
        _template_with_weights(stage, name, {name: 1})
        stage.pod(f"by-{name}", templates={"gpu": name})
        held = _gpus_of(stage, f"by-{name}")
        assert held == [expected], f"{held} by {name}"


@bridge_scenario("full", since="1.36")
def the_weights_of_a_class_come_before_those_of_the_configuration(stage: BridgeStage) -> None:
    """One GPU has most of its memory in use and the other most of its shares."""
    by_shares, small = "e2e-packed-by-shares", {"requests": {"shares": "1", "memory": "1Gi"}}
    stage.cluster_object(f"{RESOURCE}/deviceclasses", device_class(by_shares, CLASSES[GPU]))
    _use_unequally(stage)
    weights = {"weights": {"memory": 1}, "classWeights": {by_shares: {"shares": 1}}}
    with configured(stage, {"strategy": {"default": "packed", **weights}}):
        stage.leader()
        for name, cls, expected in (("memory", GPU, "gpu-0"), ("shares", by_shares, "gpu-1")):
            stage.template(name, claim_spec(request("gpu", cls, capacity=small)))
            stage.pod(f"by-{name}", templates={"gpu": name})
            held = _gpus_of(stage, f"by-{name}")
            assert held == [expected], f"{held} by {name}"


def _use_unequally(stage: BridgeStage) -> None:
    """Let pods have most of the memory of one GPU, and most of the shares of the other."""
    machine = stage.node("a", "lab-2g2n", {GPU: "shares-8"})
    stage.leader()
    for number, amounts in enumerate(((1, "30Gi"), (4, "4Gi"))):
        uuid = machine.gpus[number].uuid
        capacity = {"requests": {"shares": f"{amounts[0]}", "memory": amounts[1]}}
        only = f"device.attributes['{GPU}'].uuid == '{uuid}'"
        stage.template(f"of-{number}", claim_spec(request("gpu", GPU, only, capacity=capacity)))
        stage.run_pod(f"first-{number}", templates={"gpu": f"of-{number}"})


def _template_with_weights(stage: BridgeStage, name: str, weights: Mapping[str, int]) -> None:
    """Create a template for a small part of a GPU, with weights in the rules of its claims."""
    strategy = {"name": "packed", "weights": dict(weights)}
    rules = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules", "strategy": strategy}
    capacity = {"requests": {"shares": "1", "memory": "1Gi"}}
    body = {
        "metadata": {"name": name},
        "spec": {
            "metadata": {"annotations": {RULES: json.dumps(rules)}},
            "spec": claim_spec(request("gpu", GPU, capacity=capacity)),
        },
    }
    stage.client.create(stage.path("resourceclaimtemplates", "", RESOURCE), body)
