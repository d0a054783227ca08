"""Scenarios: admission says when claims can use less than what serves the pods today."""

from e2e.installed.installation import installed, wait_for_facts
from e2e.scenarios.admission import LEGACY, NEEDS, add_gpu_node, legacy_pod
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

PLUGIN_NODES, UNITS = 6, 40
INFORMATION = ("TolerationAdded", "DualNodesAvoided")


@scenario("full", rig="installed", needs=NEEDS)
def admission_warns_when_fewer_nodes_can_serve_the_claims(stage: Stage) -> None:
    """Six nodes have a device plugin and one has a driver; information is not printed."""
    cluster = installed(stage)
    for number in range(PLUGIN_NODES):
        units = tuple(f"share-{number}-{unit}" for unit in range(UNITS))
        stage.node(f"p-{number}", "lab-2g2n", plugins={LEGACY: units})
    add_gpu_node(stage)
    pod = legacy_pod(stage, "train")
    wait_for_facts(stage, cluster, pod)

    def counted() -> bool:
        names = (cluster.facts() or {}).get("names", ())
        return any(each.get("nodes") == PLUGIN_NODES for each in names)

    stage.wait("the facts count the nodes of the plugin", counted)
    warnings = cluster.kubectl.inside(stage.namespace).apply(pod).check().warnings
    (fewer,) = (each for each in warnings if each.startswith("CapacityShrinks"))
    assert f"{PLUGIN_NODES * UNITS} of {LEGACY} on {PLUGIN_NODES} nodes" in fewer, warnings
    assert "claims can use 1 node" in fewer, warnings
    assert not [each for each in warnings if each.startswith(INFORMATION)], warnings


@scenario("full", rig="installed", needs=NEEDS)
def admission_warns_of_a_class_without_devices(stage: Stage) -> None:
    """No driver publishes devices of the class, so the translated pod waits."""
    cluster = installed(stage)
    # A class whose devices were published a short time ago gets no warning, so not NVIDIA's.
    pod = stage.pod_object("train", limits={"amd.com/gpu": "1"})
    warnings = cluster.kubectl.inside(stage.namespace).apply(pod).check().warnings
    assert any(each.startswith("ClassWithoutDevices: class gpu") for each in warnings), warnings
