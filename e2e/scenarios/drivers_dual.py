"""Scenarios with NVIDIA's own device plugin and DRA driver: one node has both, or moves over.

Neither program knows of the other: each gives a GPU that the other has given. Drawbridge's label
keeps translated pods away until the plugin has gone.
"""

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import GPUS, LEGACY, NEWEST, PLUGIN_PIN, device_plugin
from e2e.drivers.program import DriverProgram
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.realnodes.installation import MODE, installed_as_pods
from e2e.scenarios.node_dual import labelled
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "dgx-a100"
COUNT = 8
SECONDS = 90.0


def _offered(nodes: DriverStage, node: str) -> int:
    status = nodes.client.get(f"/api/v1/nodes/{node}")["status"]
    return int(status["allocatable"].get(LEGACY, "0"))


def _with_plugin(nodes: DriverStage, suffix: str) -> tuple[str, DriverProgram]:
    """Start both programs on a node."""
    machine = nodes.node(suffix, SHAPE, {GPUS: "full"})
    root = nodes.drivers[machine.name].root
    plugin = nodes.enter(device_plugin(nodes, machine, root))
    offers = f"{machine.name} offers {COUNT}"
    nodes.wait(offers, lambda: _offered(nodes, machine.name) == COUNT, SECONDS)
    return machine.name, plugin


def _pod(nodes: DriverStage, name: str, count: int, *, translated: bool) -> JSON:
    body = nodes.pod_object(name, limits={LEGACY: f"{count}"})
    if not translated:
        body["metadata"]["labels"][MODE] = "off"
    return nodes.client.create(nodes.pod_path(), body)


@scenario("drivers", rig="nodes", needs=(NEWEST, PLUGIN_PIN))
def nvidias_plugin_and_driver_give_the_same_gpu(stage: Stage) -> None:
    """Without Drawbridge's label a pod has all GPUs by claims, two of which another pod has."""
    nodes = with_drivers(stage)
    _with_plugin(nodes, "a")
    nodes.run_pod("units", limits={LEGACY: "2"})
    nodes.template("all", claim_spec(request("gpu", GPUS, count=COUNT)))
    nodes.pod("claims", templates={"gpu": "all"})
    nodes.check_devices("claims")
    both = set(nodes.seen("units")) & set(nodes.seen("claims"))
    assert len(both) == 2, both


@scenario("drivers", rig="nodes", needs=(NEWEST, PLUGIN_PIN))
def a_node_moves_from_nvidias_plugin_to_its_driver(stage: Stage) -> None:
    """Translated pods run on the node when its plugin has gone; those of other nodes go on."""
    nodes = with_drivers(stage)
    cluster = installed_as_pods(nodes)
    moving, plugin = _with_plugin(nodes, "a")
    moved = nodes.node("b", SHAPE, {GPUS: "full"}).name
    nodes.wait("the node is labelled", lambda: labelled(nodes) == {moving}, SECONDS)
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    _pod(nodes, "units", 3, translated=False)
    _pod(nodes, "first", 6, translated=True)
    _pod(nodes, "waits", 5, translated=True)
    for name, node in (("units", moving), ("first", moved)):
        assert nodes.wait_running(name)["spec"]["nodeName"] == node, name
    had = nodes.check_devices("first")
    nodes.wait_unschedulable("waits")
    plugin.kill()
    nodes.wait("the plugin offers nothing", lambda: not _offered(nodes, moving), SECONDS)
    assert labelled(nodes) == {moving}
    assert len(nodes.seen("units")) == 3
    nodes.delete_pod("units")
    # Else the kubelet keeps the capacity of the plugin for five minutes.
    nodes.fleet.real_node(moving).restart_kubelet()
    nodes.wait("the label is gone", lambda: not labelled(nodes), SECONDS)
    nodes.wait(
        "the translated pod runs",
        lambda: nodes.get_pod("waits")["status"].get("phase") == "Running",
        SECONDS,
    )
    assert {one["pool"] for one in nodes.check_devices("waits")} == {moving}
    assert nodes.check_devices("first") == had
