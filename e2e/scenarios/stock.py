"""Scenarios: Kubernetes without Drawbridge, as the reference for all other scenarios."""

import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial

from e2e.controlplane.client import ApiError
from e2e.nodes.family import CLASSES
from e2e.scenarios.objects import (
    RESOURCE,
    claim_spec,
    device_class,
    opaque,
    request,
    taint_rules_path,
)
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
RUNS = "Running"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


@scenario("smoke")
def a_claim_with_a_selector_is_allocated_prepared_and_released(stage: Stage) -> None:
    """The device that matches the selector is allocated, prepared, and released."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    wanted = f"device.attributes['{GPU}'].uuid == '{machine.gpus[1].uuid}'"
    stage.template("one-gpu", claim_spec(request("gpu", GPU, wanted)))
    pod = stage.run_pod("worker", templates={"gpu": "one-gpu"})
    claim = stage.generated_claim("worker")
    assert [result["device"] for result in stage.allocated(claim)] == ["gpu-1"]
    assert stage.fleet.held_by(pod) == [f"{GPU}/{machine.name}/gpu-1"]
    stage.delete_pod("worker")
    stage.wait_gone(stage.claim_path(claim))
    stage.wait("unprepared", lambda: not stage.fleet.prepared(GPU, machine.name))


@scenario("smoke")
def a_gpu_and_a_nic_of_one_pcie_root_are_allocated_together(stage: Stage) -> None:
    """With matchAttribute both devices share a PCIe root, although first fit would differ."""
    machine = stage.node("a", "aws-p4d", {GPU: "full", "dra.net": None})
    nic = machine.nics[2]
    wanted = f"device.attributes['dra.net'].rdmaDevice == '{nic.name}'"
    spec = claim_spec(
        request("gpu", GPU),
        request("nic", "dra.net", wanted),
        constraints=[{"requests": ["gpu", "nic"], "matchAttribute": PCIE_ROOT}],
    )
    stage.template("pair", spec)
    pod = stage.run_pod("worker", templates={"pair": "pair"})
    results = {one["request"]: one for one in stage.allocated(stage.generated_claim("worker"))}
    gpu = machine.gpus[int(results["gpu"]["device"].removeprefix("gpu-"))]
    assert gpu.root == nic.root
    assert len(stage.fleet.held_by(pod)) == 2


@scenario("smoke", since="1.36")
def claims_share_a_device_within_its_capacity(stage: Stage) -> None:
    """Two claims of 20Gi share a 40Gi device. The third waits until one of them is deleted."""
    machine = stage.node("a", "lab-2g2n", {GPU: "shares-unlimited"})
    only = f"device.attributes['{GPU}'].uuid == '{machine.gpus[0].uuid}'"
    capacity = {"requests": {"memory": "20Gi"}}
    stage.template("share", claim_spec(request("gpu", GPU, only, capacity=capacity)))
    for name in ("one", "two"):
        stage.run_pod(name, templates={"gpu": "share"})
    shares = [stage.allocated(stage.generated_claim(name))[0] for name in ("one", "two")]
    assert {share["device"] for share in shares} == {"gpu-0"}
    assert len({share["shareID"] for share in shares}) == 2
    assert [share["consumedCapacity"]["memory"] for share in shares] == ["20Gi", "20Gi"]
    stage.pod("three", templates={"gpu": "share"})
    stage.wait_unschedulable("three")
    stage.delete_pod("one")
    stage.wait_running("three")


@scenario("smoke", since="1.36")
def partitions_of_a_gpu_consume_its_counters(stage: Stage) -> None:
    """With dynamic MIG two halves fill a GPU. The whole GPU is free when both are deleted."""
    machine = stage.node("a", "lab-2g2n", {GPU: "dynamic-mig"})
    parent = f"device.attributes['{GPU}'].parentUUID == '{machine.gpus[0].uuid}'"
    profile = f"device.attributes['{GPU}'].profile == '3g.20gb'"
    whole = f"device.attributes['{GPU}'].uuid == '{machine.gpus[0].uuid}'"
    stage.template("half", claim_spec(request("gpu", "mig.nvidia.com", f"{parent} && {profile}")))
    stage.template("whole", claim_spec(request("gpu", GPU, whole)))
    for name in ("left", "right"):
        stage.run_pod(name, templates={"gpu": "half"})
    stage.pod("whole", templates={"gpu": "whole"})
    stage.wait_unschedulable("whole")
    stage.delete_pod("left")
    stage.delete_pod("right")
    stage.wait_running("whole")
    assert stage.allocated(stage.generated_claim("whole"))[0]["device"] == "gpu-0"


@scenario("smoke", since="1.36", needs=("processes",))
def a_device_taint_rule_prevents_allocation_until_deleted(stage: Stage) -> None:
    """A NoSchedule rule on a pool leaves its slices unchanged and its devices unallocated."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    rules = taint_rules_path(stage.version)
    rule = {
        "metadata": {"name": "fence"},
        "spec": {
            "deviceSelector": {"driver": GPU, "pool": machine.name},
            "taint": {"key": "example.com/fence", "value": "yes", "effect": "NoSchedule"},
        },
    }
    stage.cluster_object(rules, rule)
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    tolerated = request(
        "gpu", GPU, tolerations=[{"key": "example.com/fence", "operator": "Exists"}]
    )
    stage.template("tolerant", claim_spec(tolerated))
    fenced = stage.wait("the scheduler knows the rule", partial(_fenced, stage, itertools.count()))
    stage.run_pod("tolerant", templates={"gpu": "tolerant"})
    stage.client.delete(f"{rules}/fence")
    stage.wait_running(fenced)


def _fenced(stage: Stage, numbers: Iterator[int]) -> str:
    """Create a pod, and return its name if it is refused; empty if it runs.

    The scheduler reads rules and pods by two watches, so it may meet a pod before the rule.
    """
    name = f"fenced-{next(numbers)}"
    stage.pod(name, templates={"gpu": "gpu"})
    if stage.wait(f"{name} runs or is refused", partial(_is_placed, stage, name)) == RUNS:
        stage.delete_pod(name)
        return ""
    return name


def _is_placed(stage: Stage, name: str) -> str:
    """Return whether a pod runs, or is refused; empty as long as neither is known."""
    status = stage.get_pod(name).get("status", {})
    if status.get("phase") == RUNS:
        return RUNS
    reasons = [each.get("reason") for each in status.get("conditions", ())]
    return "Unschedulable" if "Unschedulable" in reasons else ""


@scenario("smoke")
def a_deployment_is_scaled_up_and_down(stage: Stage) -> None:
    """Each replica has its own GPU. Scaling down releases GPUs."""
    machine = stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    labels = {"app": "serving"}
    pod = {
        "metadata": {"labels": labels},
        "spec": stage.pod_object("serving", templates={"gpu": "gpu"})["spec"],
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    deployments = stage.path("deployments", group="/apis/apps/v1")
    stage.client.create(deployments, {"metadata": {"name": "serving"}, "spec": spec})
    path = f"{deployments}/serving"
    for replicas in (2, 8, 3):
        stage.client.patch(path, {"spec": {"replicas": replicas}})
        stage.wait(f"{replicas} replicas", partial(_settled, stage, path, replicas))
        stage.wait(f"{replicas} claims", partial(_prepared, stage, machine.name, replicas))
    stage.client.delete(path)


def _settled(stage: Stage, path: str, wanted: int) -> bool:
    status = stage.client.get(path).get("status", {})
    return bool(status.get("readyReplicas") == wanted == status.get("replicas"))


def _prepared(stage: Stage, node: str, wanted: int) -> bool:
    return len(stage.fleet.prepared(GPU, node)) == wanted


@scenario("smoke")
def a_device_plugin_serves_a_legacy_request(stage: Stage) -> None:
    """A pod with nvidia.com/gpu gets whole GPUs by UUID. The next pod waits on a full node."""
    uuids = tuple(gpu.uuid for gpu in stage.hardware("a", "lab-2g2n").gpus)
    stage.node("a", "lab-2g2n", plugins={"nvidia.com/gpu": uuids})
    first = stage.pod("first", limits={"nvidia.com/gpu": "2"})
    stage.wait_running("first")
    assert stage.fleet.kubelet.units[first["metadata"]["uid"]] == {"nvidia.com/gpu": uuids}
    stage.pod("second", limits={"nvidia.com/gpu": "1"})
    stage.wait_unschedulable("second")
    stage.delete_pod("first")
    stage.wait_running("second")


@scenario("smoke", since="1.36")
def a_class_serves_an_extended_resource_name(stage: Stage) -> None:
    """The scheduler creates a claim for a pod that requests the class's extendedResourceName."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    name = f"example.com/{stage.name[:20]}"
    body = device_class("e2e-extended", CLASSES[GPU], extendedResourceName=name)
    stage.cluster_object(f"{RESOURCE}/deviceclasses", body)
    pod = stage.run_pod("worker", limits={name: "2"})
    assert len(stage.fleet.held_by(pod)) == 2
    assert len(stage.fleet.prepared(GPU, machine.name)) == 1


@scenario("smoke")
def pods_of_one_claim_share_its_devices(stage: Stage) -> None:
    """A named claim is prepared once for two pods and unprepared after the last of them."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.claim("shared", claim_spec(request("gpu", GPU)))
    for name in ("one", "two"):
        stage.run_pod(name, claims={"gpu": "shared"})
    assert len(stage.fleet.prepared(GPU, machine.name)) == 1
    stage.delete_pod("one")
    assert len(stage.fleet.prepared(GPU, machine.name)) == 1
    stage.delete_pod("two")
    stage.wait("unprepared", lambda: not stage.fleet.prepared(GPU, machine.name))


@scenario("full")
def an_allocation_that_keeps_a_pod_from_every_node_is_taken_back(stage: Stage) -> None:
    """Nobody uses the claim, and its node is closed: the scheduler allocates it anew elsewhere."""
    closed, other = (stage.node(each, "lab-2g2n", {GPU: "full"}).name for each in "ab")
    stage.claim("kept", claim_spec(request("gpu", GPU)))
    result = {"request": "gpu", "driver": GPU, "pool": closed, "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [closed]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    path = stage.claim_path("kept")
    stage.client.patch(
        path, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    )
    stage.client.patch(f"{path}/status", {"status": {"allocation": allocation}})
    stage.client.patch(f"/api/v1/nodes/{closed}", {"spec": {"unschedulable": True}})
    stage.pod("worker", claims={"gpu": "kept"})
    assert stage.wait_running("worker")["spec"]["nodeName"] == other
    assert [each["pool"] for each in stage.allocated("kept")] == [other]


@scenario("smoke")
def opaque_parameters_are_compared_byte_for_byte(stage: Stage) -> None:
    """A claim whose parameters were sent with blanks can be changed by no one who reads it as JSON.

    The API server gives them back compact and then calls the spec changed: neither a patch nor a
    whole claim adds the finalizer, until the very bytes are sent that were sent at first.
    """
    spec = claim_spec(request("gpu", GPU), config=[opaque(GPU, {"kind": "Any"})])
    for name, separators, changeable in (("compact", (",", ":"), True), ("blanks", None, False)):
        body = {"metadata": {"name": name}, "spec": spec}
        sent = json.dumps(body, separators=separators).encode()
        stage.client.call("POST", stage.claim_path(), sent)
        path = stage.claim_path(name)
        assert _accepted(partial(stage.client.patch, path, NOTE)) == changeable
        read = stage.get_claim(name)
        read["metadata"]["annotations"] = {"example.com/note": "whole"}
        assert _accepted(partial(stage.client.replace, path, read)) == changeable
        del read["metadata"]["resourceVersion"]
        again = json.dumps(read, separators=separators).encode()
        assert _accepted(partial(stage.client.call, "PUT", path, again))


NOTE = {"metadata": {"annotations": {"example.com/note": "patched"}}}


def _accepted(write: Callable[[], object]) -> bool:
    try:
        write()
    except ApiError as problem:
        if "immutable" not in str(problem):
            raise
        return False
    return True
