"""A scenario on real nodes: a node with a webhook replica and with claims dies and comes back.

It first loses its network, kubelet and containerd, while its containers go on; then its power. Its
devices stay allocated until an administrator states that it is out of service.
"""

from typing import NamedTuple

from e2e.controlplane.client import JSON
from e2e.realnodes.installation import READY_SECONDS
from e2e.realnodes.stage import RealStage, real
from e2e.scenarios.node_devices import GPUS, LEGACY
from e2e.scenarios.node_dual import hardware_given
from e2e.scenarios.node_load import is_translated, load
from e2e.scenarios.node_webhook import prepared
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

MOVED_SECONDS = 90.0
# The kubelet looks every minute for claims that are prepared for pods that are no more.
RECONCILED_SECONDS = 120.0
GPUS_OF_A_NODE = 2
HOST = "kubernetes.io/hostname"
OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}


class Claimed(NamedTuple):
    """Pods of a Deployment on one node, their claims, and the devices that they printed."""

    pods: list[str]
    claims: list[str]
    devices: set[str]


def claimed(nodes: RealStage, name: str, node: str) -> Claimed:
    """Wait until the pods of a Deployment have all GPUs of a node."""
    pods = nodes.wait_ready_pods(name, GPUS_OF_A_NODE)
    assert {pod["spec"]["nodeName"] for pod in pods} == {node}
    assert all(map(is_translated, pods))
    names = [pod["metadata"]["name"] for pod in pods]
    return Claimed(names, list(map(nodes.generated_claim, names)), devices(nodes, pods))


def devices(nodes: RealStage, pods: list[JSON]) -> set[str]:
    """Return what the containers of pods printed, one device each, none twice."""
    names: list[str] = []
    for pod in pods:
        seen = nodes.printed(pod["metadata"]["name"]).nodes
        names += [f"{pod['spec']['nodeName']}{each}" for each in seen]
    assert len(set(names)) == len(names) == len(pods), names
    return set(names)


@scenario("node", rig="nodes")
def service_goes_on_when_a_node_dies(stage: Stage) -> None:
    """Pods and a webhook replica start elsewhere; no device is given twice, then all are again."""
    nodes = real(stage)
    cluster = prepared(nodes)
    dead = cluster.pods("webhook")[0]["spec"]["nodeName"]
    others = [name for name in nodes.rig.names if name != dead]
    nodes.kubectl("cordon", *others).check()
    nodes.deployment("train", GPUS_OF_A_NODE, limits={LEGACY: "1"})
    before = claimed(nodes, "train", dead)
    nodes.kubectl("uncordon", *others).check()
    with load(nodes, at_once=1):
        nodes.fleet.real_node(dead).isolate()
        _wait_moved(nodes, dead, before)
        nodes.wait("Drawbridge is ready elsewhere", cluster.rolled_out, READY_SECONDS)
        try:
            _take_out_of_service(nodes, dead, before)
            _return(nodes, dead)
        finally:
            _taint(nodes, dead, [])
        nodes.rig.wait(f"{dead} is Ready", lambda: nodes.rig.ready(dead))
        nodes.deployment("again", GPUS_OF_A_NODE, limits={LEGACY: "1"}, nodeSelector={HOST: dead})
        assert claimed(nodes, "again", dead).devices == before.devices
        for name in nodes.rig.names:
            assert set(hardware_given(nodes, name).values()) <= {1}, name


def _wait_moved(nodes: RealStage, dead: str, before: Claimed) -> None:
    """Wait for new pods elsewhere; the containers and claims of the dead node are still there."""

    def moved() -> list[JSON]:
        pods = [pod for pod in nodes.pods_of("train") if pod["spec"]["nodeName"] != dead]
        return pods if len(pods) == GPUS_OF_A_NODE else []

    pods = nodes.wait("the new pods run on the other nodes", moved, MOVED_SECONDS)
    assert devices(nodes, pods).isdisjoint(before.devices)
    processes = nodes.fleet.real_node(dead).run("pgrep", "-x", "sleep").split()
    assert len(processes) >= GPUS_OF_A_NODE, "the containers of the dead node go on"
    for claim in before.claims:
        assert nodes.get_claim(claim)["status"]["allocation"], claim


def _take_out_of_service(nodes: RealStage, dead: str, before: Claimed) -> None:
    """End the node and say so; its pods and claims go."""
    nodes.fleet.kill_node(dead)
    _taint(nodes, dead, [OUT_OF_SERVICE])
    paths = [*map(nodes.pod_path, before.pods), *map(nodes.claim_path, before.claims)]
    nodes.wait(
        "its pods and claims are gone", lambda: not any(map(nodes.exists, paths)), MOVED_SECONDS
    )


def _return(nodes: RealStage, dead: str) -> None:
    """Start the node; its kubelet unprepares the claims before pods come back."""
    nodes.fleet.start_node(dead)
    nodes.wait(
        "the returned kubelet unprepares the claims",
        lambda: not nodes.fleet.prepared(GPUS, dead),
        RECONCILED_SECONDS,
    )


def _taint(nodes: RealStage, name: str, taints: list[JSON]) -> None:
    nodes.client.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
