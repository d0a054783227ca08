"""Scenarios: node drivers that are slow, fail, restart or publish incomplete pools."""

from e2e.nodes import protocol
from e2e.nodes.family import CLASSES, FAMILIES
from e2e.nodes.slices import PATH
from e2e.scenarios.objects import JSON, RESOURCE, claim_spec, device_class, opaque, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
NVIDIA_CONFIG = "resource.nvidia.com/v1beta1"


@scenario("smoke")
def a_pool_loses_a_device_in_place_while_pods_run(stage: Stage) -> None:
    """Slice and generation stay the same. Prepared devices stay, the others are allocated."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.run_pod("before", templates={"gpu": "gpu"})
    held = stage.allocated(stage.generated_claim("before"))[0]["device"]
    layout = stage.fleet.layout(GPU, machine.name)
    (other,) = layout.devices.keys() - {held}

    def published() -> JSON:
        items = stage.client.get(PATH, fieldSelector=f"spec.nodeName={machine.name}")["items"]
        item: JSON
        (item,) = items
        return item

    old = published()
    stage.fleet.publish(layout.without([held]))
    new = published()
    assert new["metadata"]["name"] == old["metadata"]["name"]
    assert new["spec"]["pool"] == old["spec"]["pool"]
    assert [device["name"] for device in new["spec"]["devices"]] == [other]
    stage.run_pod("after", templates={"gpu": "gpu"})
    assert stage.allocated(stage.generated_claim("after"))[0]["device"] == other
    stage.delete_pod("before")
    stage.pod("late", templates={"gpu": "gpu"})
    stage.wait_unschedulable("late")


@scenario("smoke")
def an_incomplete_pool_is_not_allocated_from(stage: Stage) -> None:
    """While slices of a pool are missing, no device of it is allocated, except on 1.34."""
    # Never complete before: a scheduler with an older cache could use it.
    machine = stage.node("a", "lab-2g2n")
    stage.fleet.publish(FAMILIES[GPU].publish(machine), whole=False)
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.pod("worker", templates={"gpu": "gpu"})
    if stage.version == "1.34":
        stage.wait_running("worker")
        return
    stage.wait_unschedulable("worker")
    stage.fleet.publish(stage.fleet.layout(GPU, machine.name))
    stage.wait_running("worker")


@scenario("smoke")
def a_lost_device_is_not_allocated_again(stage: Stage) -> None:
    """A device fails while a pod uses it. It is unprepared with the pod and stays unallocated."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.run_pod("worker", templates={"gpu": "gpu"})
    held = stage.allocated(stage.generated_claim("worker"))[0]["device"]
    stage.fleet.lose(GPU, machine.name, held)
    stage.delete_pod("worker")
    stage.wait("unprepared", lambda: not stage.fleet.prepared(GPU, machine.name))
    stage.run_pod("next", templates={"gpu": "gpu"})
    assert stage.allocated(stage.generated_claim("next"))[0]["device"] != held


@scenario("smoke", since="1.36")
def a_tainted_device_evicts_its_pod(stage: Stage) -> None:
    """A driver taints a device with NoExecute. Its pod is deleted, others stay."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for name in ("one", "two"):
        stage.run_pod(name, templates={"gpu": "gpu"})
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    held = stage.allocated(stage.generated_claim("one"))[0]["device"]
    stage.fleet.taint(GPU, machine.name, held, taint)
    stage.wait_gone(stage.pod_path("one"))
    assert stage.get_pod("two")["status"]["phase"] == "Running"


@scenario("smoke")
def the_kubelet_retries_a_failing_driver(stage: Stage) -> None:
    """Prepare fails twice. The pod waits, an event gives the reason, then the pod runs."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.fleet.driver(GPU).mood.failures = 2
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.run_pod("worker", templates={"gpu": "gpu"})
    events = stage.wait("an event", lambda: stage.events("worker"))
    assert any("fails on request" in event for event in events), events
    assert len(stage.fleet.prepared(GPU, machine.name)) == 1


@scenario("smoke")
def a_driver_that_crashes_before_its_response_prepares_once(stage: Stage) -> None:
    """The response is lost. The second call returns the same devices."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.fleet.driver(GPU).mood.crash_before_answer = True
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    pod = stage.run_pod("worker", templates={"gpu": "gpu"})
    assert len(stage.fleet.held_by(pod)) == 1
    assert len(stage.fleet.prepared(GPU, machine.name)) == 1


@scenario("smoke")
def a_slow_driver_delays_only_its_own_pods(stage: Stage) -> None:
    """While one driver is slow, a pod with another driver's device starts."""
    stage.node("a", "lab-2g2n", {GPU: "full", "dra.net": None})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.template("nic", claim_spec(request("nic", "dra.net")))
    stage.fleet.driver(GPU).mood.slow_seconds = 1.0
    stage.pod("slow", templates={"gpu": "gpu"})
    stage.wait("slow is bound", lambda: stage.get_pod("slow")["spec"].get("nodeName"))
    stage.run_pod("quick", templates={"nic": "nic"})
    assert stage.get_pod("slow")["status"]["phase"] == "Pending"
    stage.fleet.driver(GPU).mood.slow_seconds = 0
    stage.wait_running("slow")


@scenario("smoke")
def a_restarted_driver_restores_its_prepared_claims(stage: Stage) -> None:
    """It returns the same result from its checkpoint and unprepares the claim with the pod."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.pod("worker", templates={"gpu": "gpu"})
    before = stage.fleet.held_by(stage.wait_running("worker"))
    driver = stage.fleet.driver(GPU)
    driver.restart()
    assert len(stage.fleet.prepared(GPU, machine.name)) == 1
    calls = driver.calls[protocol.PREPARE]
    stage.fleet.kubelet.restart()
    stage.wait("prepared again", lambda: driver.calls[protocol.PREPARE] > calls)
    pod = stage.wait_running("worker")
    # The driver counts the call before the kubelet has its response.
    stage.wait("the pod has what it had", lambda: stage.fleet.held_by(pod) == before)
    stage.delete_pod("worker")
    stage.wait("unprepared", lambda: not stage.fleet.prepared(GPU, machine.name))


@scenario("smoke")
def unprepare_is_repeated_until_it_succeeds(stage: Stage) -> None:
    """Unprepare fails at first. The claim stays prepared until a later call succeeds."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.run_pod("worker", templates={"gpu": "gpu"})
    stage.fleet.driver(GPU).mood.failures = 2
    stage.client.delete(stage.pod_path("worker"), grace=None)
    stage.wait("unprepared", lambda: not stage.fleet.prepared(GPU, machine.name))
    assert stage.fleet.driver(GPU).mood.failures == 0


@scenario("smoke")
def a_driver_reports_a_result_for_each_claim(stage: Stage) -> None:
    """Of two claims in one call, one is refused and the other is prepared."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.claim("good", claim_spec(request("gpu", GPU)))
    stage.claim("bad", claim_spec(request("gpu", GPU)))
    stage.run_pod("worker", claims={"gpu": "good"})
    claims = [stage.get_claim(name)["metadata"] for name in ("good", "bad")]
    refs = [protocol.reference(one["namespace"], one["name"], one["uid"]) for one in claims]
    socket = stage.fleet.driver(GPU).socket
    answer = protocol.ask(socket, protocol.PREPARE, machine.name, refs)
    good, bad = (answer.claims[one["uid"]] for one in claims)
    assert not good.error
    allocated = [result["device"] for result in stage.allocated("good")]
    assert [device.device_name for device in good.devices] == allocated
    assert "not allocated" in bad.error
    assert [one.code for one in stage.violations()] == ["NotAllocated"]


@scenario("smoke")
def the_configuration_of_the_claim_overrides_the_class(stage: Stage) -> None:
    """The class configures partitions, the claim whole GPUs. The whole GPU is prepared."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    header = {"apiVersion": NVIDIA_CONFIG}
    wrong = opaque(GPU, {**header, "kind": "MigDeviceConfig"})
    body = device_class("e2e-configured", CLASSES[GPU], config=[wrong])
    stage.cluster_object(f"{RESOURCE}/deviceclasses", body)
    right = opaque(GPU, {**header, "kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}})
    asked = request("gpu", "e2e-configured")
    stage.template("right", claim_spec(asked, config=[right]))
    stage.template("wrong", claim_spec(asked))
    stage.run_pod("right", templates={"gpu": "right"})
    stage.pod("wrong", templates={"gpu": "wrong"})
    if stage.version == "1.37":
        # The scheduler leaves out `requests` where a configuration applies to all of them, and the
        # driver skips one of another kind that names no request.
        stage.wait_running("wrong")
        return
    recorded = stage.wait("a violation", stage.fleet.record.violations)
    assert {one.code for one in recorded} == {"ConfigKindMismatch"}
    stage.delete_pod("wrong")
    stage.violations()


@scenario("smoke")
def admin_access_works_for_a_device_in_use(stage: Stage) -> None:
    """A claim with admin access is prepared beside the claim that has the device."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    only = f"device.attributes['{GPU}'].uuid == '{machine.gpus[0].uuid}'"
    stage.template("gpu", claim_spec(request("gpu", GPU, only)))
    stage.template("look", claim_spec(request("gpu", GPU, only, adminAccess=True)))
    stage.run_pod("look", templates={"gpu": "look"})
    stage.run_pod("user", templates={"gpu": "gpu"})
    stage.run_pod("look-again", templates={"gpu": "look"})
    assert len(stage.fleet.prepared(GPU, machine.name)) == 3
