"""Scenarios: what a claim can ask for, in bridge placement."""

import json
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.nodes.family import CLASSES
from e2e.nodes.machine import Nic
from e2e.scenarios.bridge import told
from e2e.scenarios.objects import JSON, RESOURCE, claim_spec, device_class, request

GPU, NIC = "gpu.nvidia.com", "dra.net"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


@bridge_scenario("full")
def a_pod_with_two_claims_gets_both_on_one_node(stage: BridgeStage) -> None:
    """A node that can serve only one of them is not selected."""
    stage.node("gpus", "lab-2g2n", {GPU: "full"})
    both = stage.node("both", "lab-2g2n", {GPU: "full", NIC: None})
    stage.claim("nic", claim_spec(request("nic", NIC)))
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    pod = stage.run_pod("worker", templates={"gpu": "gpu"}, claims={"nic": "nic"})
    assert pod["spec"]["nodeName"] == both.name
    assert len(stage.fleet.held_by(pod)) == 2


@bridge_scenario("full")
def the_first_available_alternative_is_used(stage: BridgeStage) -> None:
    """The second alternative serves while the first one is used up."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    preferred = f"device.attributes['{GPU}'].uuid == '{machine.gpus[1].uuid}'"
    alternatives = [
        request("preferred", GPU, preferred)["exactly"] | {"name": "preferred"},
        {"name": "any", "deviceClassName": GPU},
    ]
    stage.template("gpu", claim_spec({"name": "gpu", "firstAvailable": alternatives}))
    for name, request_name in (("one", "gpu/preferred"), ("two", "gpu/any")):
        stage.run_pod(name, templates={"gpu": "gpu"})
        (result,) = stage.allocated(stage.generated_claim(name))
        assert result["request"] == request_name
    stage.pod("three", templates={"gpu": "gpu"})
    stage.wait_unschedulable("three")
    stage.delete_pod("two")
    stage.wait_running("three")


@bridge_scenario("full")
def all_devices_of_a_node_are_allocated(stage: BridgeStage) -> None:
    """Mode All waits until every device is free."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("one", claim_spec(request("gpu", GPU)))
    stage.template("all", claim_spec(request("gpu", GPU, allocationMode="All")))
    stage.run_pod("one", templates={"gpu": "one"})
    stage.pod("all", templates={"gpu": "all"})
    stage.wait_unschedulable("all")
    stage.delete_pod("one")
    pod = stage.wait_running("all")
    assert len(stage.fleet.held_by(pod)) == len(machine.gpus)


@bridge_scenario("full", since="1.36")
def a_tainted_device_is_left_to_who_tolerates_it(stage: BridgeStage) -> None:
    """The other device is allocated; a claim with the toleration gets the tainted one."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    taint = {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"}
    stage.fleet.taint(GPU, machine.name, "gpu-0", taint)
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    tolerated = [{"key": "example.com/broken", "operator": "Exists"}]
    stage.template("any", claim_spec(request("gpu", GPU, tolerations=tolerated)))
    stage.run_pod("careful", templates={"gpu": "gpu"})
    assert stage.allocated(stage.generated_claim("careful"))[0]["device"] == "gpu-1"
    stage.pod("second", templates={"gpu": "gpu"})
    stage.wait_unschedulable("second")
    stage.run_pod("tolerant", templates={"gpu": "any"})


@bridge_scenario("full")
def a_claim_with_a_joint_rule_gets_devices_of_common_roots(stage: BridgeStage) -> None:
    """The first two free GPUs are on two roots, but the claim has one NIC."""
    machine = stage.node("a", "aws-p4d", {GPU: "full", NIC: None})
    first = f"device.attributes['{GPU}'].uuid == '{machine.gpus[0].uuid}'"
    stage.template("first", claim_spec(request("gpu", GPU, first)))
    stage.run_pod("first", templates={"gpu": "first"})
    rule = {"primary": ["gpu"], "others": ["nic"], "attributes": [PCIE_ROOT]}
    _template_with_rules(stage, "joint", _rules(joint=[rule]))
    stage.pod("worker", templates={"joint": "joint"})
    held = stage.fleet.held_by(stage.wait_running("worker"))
    names = {each.rpartition("/")[2] for each in held}
    gpus = [each.root for each in machine.gpus if f"gpu-{each.index}" in names]
    nics = [each.root for each in machine.nics if _device_of_nic(each) in names]
    assert (len(gpus), len(nics)) == (2, 1), held
    assert set(gpus) == set(nics), held


@bridge_scenario("full")
def a_pod_is_told_that_its_rules_cannot_be_read(stage: BridgeStage) -> None:
    """No device is allocated, because the rules could exclude it."""
    stage.node("a", "aws-p4d", {GPU: "full", NIC: None})
    _template_with_rules(stage, "broken", "{")
    stage.pod("worker", templates={"broken": "broken"})
    problem = "metadata.annotations[drawbridge.dev/rules]: invalid JSON"
    stage.wait("the pod is refused", partial(told, stage, "worker", problem))
    assert not stage.allocated_claims()


def _rules(**parts: list[JSON]) -> str:
    return json.dumps({"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules", **parts})


def _template_with_rules(stage: BridgeStage, name: str, rules: str) -> None:
    """Create a template for two GPUs and a NIC, with the annotation as it is given."""
    spec = claim_spec(request("gpu", GPU, count=2), request("nic", NIC))
    metadata = {"annotations": {"drawbridge.dev/rules": rules}}
    body = {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": spec}}
    stage.client.create(stage.path("resourceclaimtemplates", "", RESOURCE), body)


def _device_of_nic(nic: Nic) -> str:
    return f"pci-{nic.bus.replace(':', '-').replace('.', '-')}"


@bridge_scenario("full")
def a_pod_leaves_a_node_that_is_drained(stage: BridgeStage) -> None:
    """A waiting pod is not put on the cordoned node, and an evicted one starts on the other."""
    first = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.run_pod("before", templates={"gpu": "gpu"})
    stage.client.patch(f"/api/v1/nodes/{first.name}", {"spec": {"unschedulable": True}})
    second = stage.node("b", "lab-2g2n", {GPU: "full"})
    stage.delete_pod("before")
    for name in ("after", "another"):
        stage.pod(name, templates={"gpu": "gpu"})
        assert stage.wait_running(name)["spec"]["nodeName"] == second.name
    stage.pod("third", templates={"gpu": "gpu"})
    stage.wait_unschedulable("third")
    stage.client.patch(f"/api/v1/nodes/{first.name}", {"spec": {"unschedulable": False}})
    assert stage.wait_running("third")["spec"]["nodeName"] == first.name


@bridge_scenario("full")
def nodes_that_other_plugins_reject_do_not_hide_one_that_fits(stage: BridgeStage) -> None:
    """More nodes lack memory than the allocator names at first."""
    names = [stage.node(f"small-{number}", "lab-2g2n", {GPU: "full"}).name for number in range(24)]
    for name in names:
        small = {"status": {"allocatable": {"memory": "1Gi"}, "capacity": {"memory": "1Gi"}}}
        stage.client.patch(f"/api/v1/nodes/{name}/status", small)
    large = stage.node("large", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.pod("worker", templates={"gpu": "gpu"}, limits={"memory": "2Gi"})
    assert stage.wait_running("worker")["spec"]["nodeName"] == large.name


@bridge_scenario("full", since="1.36")
def a_mapped_extended_resource_is_refused_with_the_remedy(stage: BridgeStage) -> None:
    """The pod would start without a device, because DynamicResources is off in this scheduler."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    name = "example.com/bridge-gpu"
    body = device_class("e2e-bridge-extended", CLASSES[GPU], extendedResourceName=name)
    stage.cluster_object(f"{RESOURCE}/deviceclasses", body)
    stage.pod("worker", limits={name: "1"})
    remedy = partial(told, stage, "worker", "drawbridge.dev/translate=enforce")
    stage.wait("the pod is refused", remedy)
    assert "nodeName" not in stage.get_pod("worker")["spec"]


@bridge_scenario("full")
def an_extended_resource_of_a_device_plugin_is_scheduled(stage: BridgeStage) -> None:
    """A DeviceClass maps the name too, but the node has a plugin for it."""
    name = "nvidia.com/gpu"
    uuids = tuple(gpu.uuid for gpu in stage.hardware("a", "lab-2g2n").gpus)
    stage.node("a", "lab-2g2n", plugins={name: uuids})
    pod = stage.pod("worker", limits={name: "1"})
    stage.wait_running("worker")
    assert stage.fleet.kubelet.units[pod["metadata"]["uid"]][name]


@bridge_scenario("full")
def a_rival_has_the_nodes_that_drawbridge_does_not_own(stage: BridgeStage) -> None:
    """The stock scheduler allocates on its node and Drawbridge on its own, at the same time."""
    own = stage.node("own", "dgx-a100", {GPU: "full"})
    other = super(BridgeStage, stage).node("other", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for number in range(8):
        stage.pod(f"own-{number}", templates={"gpu": "gpu"}, nodeSelector=_of(own.name))
        stage.pod(
            f"other-{number}",
            templates={"gpu": "gpu"},
            nodeSelector=_of(other.name),
            schedulerName="default-scheduler",
        )
    for number in range(8):
        for name in ("own", "other"):
            stage.wait_running(f"{name}-{number}")
    stage.pod("refused", templates={"gpu": "gpu"}, nodeSelector=_of(other.name))
    stage.wait_unschedulable("refused")


def _of(node: str) -> JSON:
    return {"kubernetes.io/hostname": node}
