"""A scenario on real nodes: one half of a cluster uses a device plugin, the other half DRA.

What was given to whom is read from each kubelet: its podresources API, and the checkpoint of its
device manager.
"""

from collections import Counter

from e2e.controlplane.client import JSON
from e2e.realnodes.installation import MODE, PodInstallation, installed_as_pods
from e2e.realnodes.pod_resources import checkpoint_units, shares
from e2e.realnodes.stage import RealStage, container, real
from e2e.scenarios.node_devices import GPUS, LEGACY
from e2e.scenarios.node_translated import DECIDED_SECONDS, compare_output
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

DUAL = "drawbridge.dev/dual"
HELD = "DualNodesHeld"
SHAPE = "lab-2g2n"
NODES = ("plugin", "dra", "both")
SECONDS = 60.0


def legacy_pod(nodes: RealStage, name: str, *, translated: bool) -> JSON:
    """Create a pod that asks for one GPU by the legacy name, on any node of the rig."""
    pod = nodes.pod_object(name, limits={LEGACY: "1"}, nodeSelector={})
    if not translated:
        pod["metadata"]["labels"][MODE] = "off"
    for declared in pod["spec"]["containers"]:
        declared.update(container())
    pod["spec"]["terminationGracePeriodSeconds"] = 2
    return nodes.client.create(nodes.pod_path(), pod)


def hardware_given(nodes: RealStage, name: str) -> Counter[str]:
    """Count how often a kubelet has given each physical GPU of a node, by either way."""
    counts: Counter[str] = Counter()
    devices = (
        nodes.fleet.layout(GPUS, name).devices if (GPUS, name) in nodes.fleet.published else {}
    )
    for share in shares(nodes.fleet.real_node(name)):
        for units in share.units.values():
            counts.update(units)
        counts.update(devices[one.device].physical for one in share.devices)
    return counts


def labelled(nodes: RealStage) -> set[str]:
    """Return the nodes that carry the label of dual nodes."""
    listed = nodes.client.get("/api/v1/nodes", labelSelector=DUAL)["items"]
    return {node["metadata"]["name"] for node in listed}


def pods(nodes: RealStage, kind: str) -> list[JSON]:
    """List the pods whose names begin so."""
    pods = nodes.client.get(nodes.pod_path())["items"]
    return [pod for pod in pods if pod["metadata"]["name"].startswith(kind)]


def running(nodes: RealStage, kind: str) -> list[JSON]:
    """List those of them that run."""
    return [pod for pod in pods(nodes, kind) if pod.get("status", {}).get("phase") == "Running"]


def wait_running(nodes: RealStage, kind: str, count: int) -> None:
    """Wait until so many of them run."""
    nodes.wait(f"{count} {kind} run", lambda: len(running(nodes, kind)) == count, SECONDS)


@scenario("node", rig="nodes")
def no_gpu_is_given_by_a_plugin_and_by_dra(stage: Stage) -> None:
    """Translated pods keep off the node that has both, until its plugin has gone."""
    nodes = real(stage)
    cluster = installed_as_pods(nodes)
    uuids = {name: tuple(gpu.uuid for gpu in nodes.hardware(name, SHAPE).gpus) for name in NODES}
    plugin = nodes.node("plugin", SHAPE, plugins={LEGACY: uuids["plugin"]}).name
    dra = nodes.node("dra", SHAPE, {GPUS: "full"}).name
    both = nodes.node("both", SHAPE, {GPUS: "full"}, {LEGACY: uuids["both"]}).name
    nodes.wait("the node with both is labelled", lambda: labelled(nodes) == {both}, SECONDS)
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    for number in range(3):
        legacy_pod(nodes, f"claims-{number}", translated=True)
    for number in range(5):
        legacy_pod(nodes, f"units-{number}", translated=False)
    wait_running(nodes, "claims", 2)
    wait_running(nodes, "units", 4)
    _check_given(nodes, {"claims": {dra: 2}, "units": {plugin: 2, both: 2}})
    held = checkpoint_units(nodes.fleet.real_node(both)).values()
    assert sorted(unit for pod in held for unit in pod[LEGACY]) == sorted(uuids["both"])
    _plugin_leaves(nodes, cluster, both)
    nodes.wait("the label is gone", lambda: not labelled(nodes), SECONDS)
    wait_running(nodes, "claims", 3)
    assert set(hardware_given(nodes, both).values()) == {1}


def _check_given(nodes: RealStage, where: dict[str, dict[str, int]]) -> None:
    """Check where pods run, what they printed, and that each kubelet gave every GPU once."""
    for kind, wanted in where.items():
        assert Counter(pod["spec"]["nodeName"] for pod in running(nodes, kind)) == wanted
        for pod in running(nodes, kind):
            compare_output(nodes, pod)
        for name in wanted:
            assert set(hardware_given(nodes, name).values()) == {1}, name


def _plugin_leaves(nodes: RealStage, cluster: PodInstallation, name: str) -> None:
    """End the plugin of a node, then its pods, whose containers keep their GPUs until then."""
    nodes.fleet.plugins[name].pop(LEGACY).stop()

    def reported() -> bool:
        logs = [cluster.log(pod) for pod in cluster.pods("controller")]
        return any(HELD in text for text in logs)

    nodes.wait("the controller reports who still holds GPUs", reported, SECONDS)
    assert labelled(nodes) == {name}
    for pod in pods(nodes, "units"):
        nodes.client.delete(nodes.pod_path(pod["metadata"]["name"]), grace=None)
    nodes.wait("the pods of the plugin are gone", lambda: not pods(nodes, "units"), SECONDS)
    # Else the kubelet keeps the capacity of the plugin for five minutes.
    nodes.fleet.restart_kubelet(name)
