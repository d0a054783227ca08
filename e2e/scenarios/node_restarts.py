"""Scenarios on real nodes: kubelets, drivers, plugins and whole nodes end and start again."""

import json

from e2e.controlplane.client import JSON, ApiError
from e2e.nodes import protocol, slices
from e2e.realnodes.pod_resources import checkpoint_units
from e2e.realnodes.stage import RealStage, real
from e2e.scenarios.node_devices import GPUS, LEGACY, expected
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

FORBIDDEN = 403
# The kubelet deletes the slices of a driver half a minute after its connection ended.
WIPED_SECONDS = 60.0


def containers(pod: JSON) -> list[tuple[str, int]]:
    """Return the identity of each container and how often it was started again."""
    status = pod["status"]["containerStatuses"]
    return [(one["containerID"], one["restartCount"]) for one in status]


@scenario("node", rig="nodes")
def containers_and_claims_survive_a_restart_of_the_kubelet(stage: Stage) -> None:
    """Prepared claims stay prepared; one whose pod ends meanwhile is unprepared afterwards."""
    nodes = real(stage)
    machine = nodes.node("a", "lab-2g2n", {GPUS: "full"})
    nodes.template("gpu", claim_spec(request("gpu", GPUS)))
    nodes.claim("shared", claim_spec(request("gpu", GPUS)))
    nodes.pod("ends", templates={"gpu": "gpu"})
    nodes.pod("stays", claims={"gpu": "shared"})
    nodes.wait_running("ends")
    before = containers(nodes.wait_running("stays"))
    driver = nodes.fleet.registered(GPUS)
    kubelet = nodes.fleet.real_node(machine.name)
    accepted, calls = driver.acceptances(machine.name), driver.calls[protocol.PREPARE]
    kubelet.kill_kubelet()
    nodes.client.delete(nodes.pod_path("ends"), grace=None)
    assert len(nodes.fleet.prepared(GPUS, machine.name)) == 2
    kubelet.start_kubelet()
    nodes.wait_gone(nodes.pod_path("ends"))
    nodes.wait("registered again", lambda: driver.acceptances(machine.name) > accepted)
    assert len(nodes.fleet.prepared(GPUS, machine.name)) == 1
    stays = nodes.get_pod("stays")
    assert containers(stays) == before
    assert len(nodes.fleet.held_by(stays)) == 1
    _check_prepared_again(nodes, "shared", calls)
    for name in ("stays", "joins", "follows"):
        nodes.delete_pod(name)
    nodes.wait("it is unprepared", lambda: not nodes.fleet.prepared(GPUS, machine.name))


def _check_prepared_again(nodes: RealStage, claim: str, calls: int) -> None:
    """Check that a new kubelet asks the driver for the next pod of a prepared claim, but once."""
    for name in ("joins", "follows"):
        nodes.run_pod(name, claims={"gpu": claim})
        assert nodes.fleet.registered(GPUS).calls[protocol.PREPARE] == calls + 1, name
        assert nodes.printed(name) == nodes.printed("stays")


@scenario("node", rig="nodes")
def a_pod_waits_for_a_driver_that_restarts(stage: Stage) -> None:
    """Without the driver the kubelet retries, and the restarted driver remembers its claims."""
    nodes = real(stage)
    machine = nodes.node("a", "lab-2g2n", {GPUS: "full"})
    nodes.template("gpu", claim_spec(request("gpu", GPUS)))
    nodes.run_pod("first", templates={"gpu": "gpu"})
    driver = nodes.fleet.registered(GPUS)
    driver.stop_on(machine.name)
    nodes.pod("second", templates={"gpu": "gpu"})
    nodes.wait(
        "the kubelet reports it",
        lambda: any("FailedPrepareDynamicResources" in one for one in nodes.events("second")),
    )
    assert nodes.get_pod("second")["status"]["phase"] == "Pending"
    driver.restart()
    driver.wait_accepted(machine.name)
    nodes.wait_running("second")
    claims = [nodes.get_claim(nodes.generated_claim(name)) for name in ("first", "second")]
    printed = [nodes.printed(name) for name in ("first", "second")]
    assert printed == [expected(nodes, claim) for claim in claims]
    assert set(printed[0].nodes).isdisjoint(printed[1].nodes)


@scenario("node", rig="nodes")
def the_kubelet_deletes_the_slices_of_a_driver_that_stays_away(stage: Stage) -> None:
    """The pool is gone half a minute after the driver, and is back when it publishes again."""
    nodes = real(stage)
    machine = nodes.node("a", "lab-2g2n", {GPUS: "full"})

    def published() -> list[JSON]:
        wanted = f"spec.nodeName={machine.name},spec.driver={GPUS}"
        published: list[JSON] = nodes.client.get(slices.PATH, fieldSelector=wanted)["items"]
        return published

    assert published()
    driver = nodes.fleet.registered(GPUS)
    driver.stop_on(machine.name)
    nodes.wait("the slices are gone", lambda: not published(), WIPED_SECONDS)
    driver.start_on(machine.name)
    nodes.fleet.publish(nodes.fleet.layout(GPUS, machine.name))
    nodes.template("gpu", claim_spec(request("gpu", GPUS)))
    nodes.run_pod("later", templates={"gpu": "gpu"})
    assert len(nodes.printed("later").nodes) == 1


@scenario("node", rig="nodes")
def a_plugin_registers_again_and_the_device_manager_keeps_its_units(stage: Stage) -> None:
    """After a restart of the kubelet, a new pod gets the unit that the first pod does not have."""
    nodes = real(stage)
    uuids = tuple(gpu.uuid for gpu in nodes.hardware("a", "lab-2g2n").gpus)
    machine = nodes.node("a", "lab-2g2n", plugins={LEGACY: uuids})
    nodes.pod("first", limits={LEGACY: "1"})
    first = nodes.fleet.units(nodes.wait_running("first"))[LEGACY]
    kubelet = nodes.fleet.real_node(machine.name)
    kubelet.restart_kubelet()
    plugin = nodes.fleet.plugins[machine.name][LEGACY]
    nodes.wait("the plugin is registered again", lambda: plugin.registrations > 1)
    nodes.fleet.wait_allocatable(machine.name, LEGACY, len(uuids))
    nodes.pod("second", limits={LEGACY: "1"})
    second = nodes.fleet.units(nodes.wait_running("second"))[LEGACY]
    assert {*first, *second} == set(uuids)
    held = checkpoint_units(kubelet)
    uid = nodes.get_pod("first")["metadata"]["uid"]
    assert held[uid] == {LEGACY: first}


@scenario("node", rig="nodes")
def a_kubelet_publishes_devices_of_its_own_node_only(stage: Stage) -> None:
    """The account of a kubelet, which drivers use, may not write slices of another node."""
    nodes = real(stage)
    machine = nodes.node("a", "lab-2g2n", {GPUS: "full"})
    other = nodes.rig.names[1]
    layout = nodes.fleet.layout(GPUS, machine.name)
    (body,) = slices.objects(layout)
    body["metadata"] = {"name": "of-another-node"}
    body["spec"]["nodeName"] = body["spec"]["pool"]["name"] = other
    assert _refused(nodes, machine.name, body)
    assert not _refused(nodes, other, body)
    nodes.client.delete(f"{slices.PATH}/{body['metadata']['name']}")


def _refused(nodes: RealStage, name: str, body: JSON) -> bool:
    """Return whether the kubelet of a node may not create a slice."""
    try:
        nodes.fleet.node_client(name).create(slices.PATH, body)
    except ApiError as problem:
        if problem.code != FORBIDDEN:
            raise
        return True
    return False


@scenario("node", rig="nodes")
def a_drain_respects_the_budget_and_frees_the_devices(stage: Stage) -> None:
    """Two pods with claims leave a node one after the other, and its devices are free again."""
    nodes = real(stage)
    names = [nodes.node(suffix, "lab-2g2n", {GPUS: "full"}).name for suffix in ("a", "b")]
    nodes.template("gpu", claim_spec(request("gpu", GPUS)))
    nodes.kubectl("cordon", names[1]).check()
    nodes.deployment("train", 2, templates={"gpu": "gpu"})
    nodes.wait_ready_pods("train", 2)
    nodes.kubectl("uncordon", names[1]).check()
    budget = {
        "metadata": {"name": "train"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "train"}}},
    }
    nodes.client.create(nodes.path("poddisruptionbudgets", "", "/apis/policy/v1"), budget)
    try:
        nodes.drain(names[0])
        pods = nodes.wait_ready_pods("train", 2)
        assert {pod["spec"]["nodeName"] for pod in pods} == {names[1]}, json.dumps(pods)
        nodes.wait("the devices are free", lambda: not nodes.fleet.prepared(GPUS, names[0]))
        held = {device for pod in pods for device in nodes.fleet.held_by(pod)}
        assert len(held) == 2
    finally:
        nodes.kubectl("uncordon", names[0]).check()
