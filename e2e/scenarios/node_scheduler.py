"""Scenarios on real nodes: bridge placement, as the kubelet runs its pods.

Each pod has a kube-scheduler with the plugin and an allocator, which talk over a shared volume.
"""

import re
import subprocess
import sys

from e2e.controlplane.client import JSON
from e2e.installed.installation import MODE
from e2e.realnodes.bridge import BridgeInstallation, bridge_installed
from e2e.realnodes.installation import PODS, READY_SECONDS, remove_installation
from e2e.realnodes.product import SCHEDULER
from e2e.realnodes.stage import RealStage, real
from e2e.scenarios.node_devices import GPUS, LEGACY, expected
from e2e.scenarios.node_load import is_translated
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.node_versions import holding
from e2e.scenarios.node_webhook import check_rights
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

FENCE = "drawbridge.dev/owned"
MARK = "drawbridge.dev/allocation"
ALLOCATOR = "drawbridge [s]erve allocator"
PROGRAMS = ("drawbridge-[s]cheduler", ALLOCATOR)
# A Lease lasts 15 seconds, and each attempt to take it is up to 2.2 times 2 seconds later.
LEAD_SECONDS = 60.0
# The pod has a grace period of one second, and the configuration the default of 30.
FORCED_SECONDS = 60.0


@scenario("node", rig="nodes", needs=(SCHEDULER,))
def the_allocator_in_its_pod_gives_containers_their_devices(stage: Stage) -> None:
    """Also after the allocator is killed, the leading pod deleted, and Drawbridge uninstalled."""
    nodes = real(stage)
    remove_installation(nodes)
    owned, *_ = [nodes.node(suffix, "lab-2g2n", {GPUS: "full"}).name for suffix in "abc"]
    cluster = nodes.enter(bridge_installed(nodes.rig, owned))
    nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)
    label = {"metadata": {"labels": {MODE: "enforce"}}}
    nodes.client.patch(f"/api/v1/namespaces/{nodes.namespace}", label)
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    leader = wait_leader(nodes, cluster, "")
    for pod in cluster.pods("scheduler"):
        for program in PROGRAMS:
            check_rights(nodes, pod, program)
    _check_devices(nodes, "first", owned)
    _kill_allocator(nodes, leader)
    _check_devices(nodes, "second", owned)
    nodes.client.delete(f"{PODS}/{leader}", grace=None)
    wait_leader(nodes, cluster, leader)
    _check_waiting(nodes)
    _check_forced_deletion(nodes)
    nodes.wait("the deleted pod is replaced", cluster.rolled_out, READY_SECONDS)
    _check_removal(nodes, cluster, owned)


def wait_leader(nodes: RealStage, cluster: BridgeInstallation, before: str) -> str:
    """Wait until another pod leads than before, and return its name."""

    def leader() -> str:
        pod = cluster.leader()
        name = str(pod["metadata"]["name"]) if pod else ""
        return name if name != before else ""

    return nodes.wait("a scheduler leads", leader, LEAD_SECONDS)


def _kill_allocator(nodes: RealStage, name: str) -> None:
    """Kill the allocator of a pod; the kubelet starts it again beside the same kube-scheduler."""
    pod = nodes.client.get(f"{PODS}/{name}")
    nodes.fleet.real_node(pod["spec"]["nodeName"]).run("pkill", "-KILL", "-f", ALLOCATOR)

    def restarts() -> dict[str, int]:
        statuses = nodes.client.get(f"{PODS}/{name}")["status"]["containerStatuses"]
        return {each["name"]: each["restartCount"] for each in statuses if each["ready"]}

    wanted = {"scheduler": 0, "allocator": 1}
    nodes.wait("the allocator is ready again", lambda: restarts() == wanted)


def _check_devices(nodes: RealStage, name: str, owned: str) -> None:
    """Check that a legacy pod runs on an owned node with exactly the device of its claim."""
    nodes.client.create(nodes.pod_path(), nodes.pod_object(name, limits={LEGACY: "1"}))
    pod = nodes.wait_running(name)
    assert is_translated(pod)
    assert pod["spec"]["schedulerName"] == "drawbridge"
    assert pod["spec"]["nodeName"] == owned
    claim = nodes.get_claim(nodes.generated_claim(name))
    assert MARK in claim["metadata"]["annotations"]
    (device,) = claim["status"]["allocation"]["devices"]["results"]
    assert nodes.fleet.held_by(pod) == [f"{GPUS}/{owned}/{device['device']}"]
    assert nodes.printed(name) == expected(nodes, claim)


def _check_waiting(nodes: RealStage) -> None:
    """Check that a third pod waits for one of two devices, and gets the one that is released."""
    spec = {"limits": {LEGACY: "1"}, "terminationGracePeriodSeconds": 1}
    nodes.client.create(nodes.pod_path(), nodes.pod_object("third", **spec))
    nodes.wait_unschedulable("third")
    _check_explanation(nodes, "third")
    held = nodes.fleet.held_by(nodes.get_pod("first"))
    claim = nodes.generated_claim("first")
    nodes.delete_pod("first")
    assert nodes.fleet.held_by(nodes.wait_running("third")) == held
    assert nodes.events(claim) == [], "the kubelet confirmed the end of its containers"


def _check_forced_deletion(nodes: RealStage) -> None:
    """Check that the devices of a vanished pod go on when the kubelet has ended its containers."""
    nodes.client.create(nodes.pod_path(), nodes.pod_object("fourth", limits={LEGACY: "1"}))
    nodes.wait_unschedulable("fourth")
    vanished, claim = nodes.get_pod("third"), nodes.generated_claim("third")
    held = nodes.fleet.held_by(vanished)
    nodes.client.delete(nodes.pod_path("third"), grace=0)
    nodes.wait(
        "the next pod has a node",
        lambda: nodes.get_pod("fourth")["spec"].get("nodeName"),
        FORCED_SECONDS,
    )
    assert nodes.fleet.held_by(vanished) == []
    assert nodes.fleet.held_by(nodes.wait_running("fourth")) == held
    assert any("DevicesMayBeInUse" in each for each in nodes.events(claim))


def _check_explanation(nodes: RealStage, name: str) -> None:
    """Check that `explain` asks an allocator in its pod, through the API server and the kubelet."""
    access = nodes.rig.plane.user_config()
    words = ("explain", name, "-n", nodes.namespace, "--kubeconfig", f"{access}")
    command = (sys.executable, "-m", "cli.main", *words)
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert re.search("^  allocator.*: Waiting$", ran.stdout, re.MULTILINE), ran


def _check_removal(nodes: RealStage, cluster: BridgeInstallation, owned: str) -> None:
    """Check that pods keep their devices, and that the node is open to other schedulers."""
    had = {name: holding(nodes, name) for name in ("second", "fourth")}
    assert [each["key"] for each in _taints(nodes, owned)] == [FENCE]
    cluster.remove()
    assert _taints(nodes, owned) == []
    assert {name: holding(nodes, name) for name in had} == had


def _taints(nodes: RealStage, name: str) -> list[JSON]:
    taints: list[JSON] = nodes.client.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])
    return taints
