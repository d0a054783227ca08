"""Scenarios: device plugins and DRA drivers in one cluster, with dual nodes.

Pods of namespaces without the label compete with translated pods. The record covers plugins and
drivers, so a GPU that is allocated twice fails the scenario.
"""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from e2e.installed.installation import NAMESPACE, Installation, installed, wait_for_facts
from e2e.nodes.machine import Machine
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, legacy_pod
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

DUAL = "drawbridge.dev/dual"
SHAPE, EACH = "dgx-a100", 8
WRITERS = 16
PATIENCE_SECONDS = 120.0
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


@contextlib.contextmanager
def left_alone(stage: Stage) -> Iterator[str]:
    """Return the path of the pods of a namespace that did not opt in; it is cleared afterwards."""
    name = f"{stage.namespace}-old"
    stage.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}"
    stage.wait("it has its account", lambda: stage.exists(f"{path}/serviceaccounts/default"))
    try:
        yield f"{path}/pods"
    finally:
        stage.client.call("DELETE", f"{path}/pods")
        stage.wait("its pods are gone", lambda: not stage.client.get(f"{path}/pods")["items"])
        stage.client.delete(path)


def labelled(stage: Stage, machines: Iterable[Machine]) -> set[str]:
    """Return the name of the nodes that pods with claims keep off."""
    nodes = (stage.client.get(f"/api/v1/nodes/{each.name}") for each in machines)
    return {
        node["metadata"]["name"] for node in nodes if node["metadata"]["labels"].get(DUAL) == "true"
    }


def running(stage: Stage, path: str) -> Counter[str]:
    """Count the pods that run, by node."""
    pods = stage.client.get(path)["items"]
    return Counter(
        pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running"
    )


def told(cluster: Installation, code: str) -> list[str]:
    """Return what controllers have logged with a code."""
    lines = (line for each in cluster.controllers for line in each.lines())
    return [line["msg"] for line in lines if line.get("finding", {}).get("code") == code]


def written(stage: Stage, code: str) -> list[str]:
    """Return what events of our namespace say with a code."""
    return [each["note"] for each in stage.client.get(EVENTS)["items"] if each["reason"] == code]


def burst(stage: Stage, olds: str, old: int, new: int) -> None:
    """Create pods of both worlds at once, one of each kind in turn as far as they go."""

    def create(path: str, body: JSON) -> None:
        stage.client.create(path, body)

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = []
        for number in range(max(old, new)):
            if number < old:
                body = legacy_pod(stage, f"old-{number}")
                writing.append(pool.submit(create, olds, body))
            if number < new:
                body = legacy_pod(stage, f"new-{number}")
                writing.append(pool.submit(create, stage.pod_path(), body))
        for write in writing:
            write.result()


def add_nodes(stage: Stage) -> dict[str, list[Machine]]:
    """Add two nodes of each kind: with a plugin, with a driver, with both."""
    kinds = {"plugin": (False, True), "driver": (True, False), "both": (True, True)}
    nodes: dict[str, list[Machine]] = {}
    for kind, (driver, plugin) in kinds.items():
        for number in range(2):
            suffix = f"{kind}-{number}"
            units = tuple(each.uuid for each in stage.hardware(suffix, SHAPE).gpus)
            drivers = {GPU: "full"} if driver else {}
            plugins = {LEGACY: units} if plugin else {}
            nodes.setdefault(kind, []).append(stage.node(suffix, SHAPE, drivers, plugins))
    return nodes


def gone_from(stage: Stage, path: str, node: str) -> None:
    """Delete the pods of a node, and wait for it."""
    pods = stage.client.get(path, fieldSelector=f"spec.nodeName={node}")["items"]
    for pod in pods:
        stage.client.delete(f"{path}/{pod['metadata']['name']}", grace=None)
    stage.wait(f"nothing runs on {node}", lambda: not running(stage, path)[node])


@scenario("full", rig="installed", needs=NEEDS)
def no_gpu_is_allocated_by_both_a_plugin_and_a_driver(stage: Stage) -> None:
    """Translated pods avoid dual nodes until the plugin and its last pod are gone."""
    cluster = installed(stage)
    nodes = add_nodes(stage)
    both = {each.name for each in nodes["both"]}
    every = [each for some in nodes.values() for each in some]
    stage.wait("the nodes with both are labelled", lambda: labelled(stage, every) == both)
    probe = legacy_pod(stage, "probe")
    wait_for_facts(stage, cluster, probe)
    ran = cluster.kubectl.inside(stage.namespace).apply(probe, words=("--dry-run=server",)).check()
    assert any("advertises nvidia.com/gpu on 2 nodes" in each for each in ran.warnings), ran
    idle = f"idle DRA devices: {2 * EACH} on 2 nodes"
    words = (*both, idle)
    stage.wait("the log names them", lambda: _say(told(cluster, "DualNodes"), words))
    stage.wait("an event names them", lambda: _say(written(stage, "DualNodes"), words))
    olds = stage.enter(left_alone(stage))
    burst(stage, olds, old=5 * EACH, new=3 * EACH)
    with_plugin = {each.name for each in (*nodes["plugin"], *nodes["both"])}
    expected = dict.fromkeys(with_plugin, EACH)
    stage.wait("plugins are full", lambda: running(stage, olds) == expected, PATIENCE_SECONDS)
    own = dict.fromkeys((each.name for each in nodes["driver"]), EACH)
    stage.wait(
        "nodes with drivers only are full",
        lambda: running(stage, stage.pod_path()) == own,
        PATIENCE_SECONDS,
    )
    _plugin_goes(stage, cluster, nodes["both"][0], olds)
    assert labelled(stage, every) == {nodes["both"][1].name}
    _every_plugin_goes(stage, cluster, (*nodes["plugin"], nodes["both"][1]))


def _every_plugin_goes(stage: Stage, cluster: Installation, machines: Iterable[Machine]) -> None:
    """Check that new pods keep off what is held, though nobody advertises the name any more."""
    for machine in machines:
        stage.fleet.unplug(machine.name, LEGACY)
    stage.wait(
        "new pods get the warning",
        lambda: _say(_tried(stage, cluster), ("DualDevicesHeld", "on 1 node")),
    )
    (late,) = stage.client.create(stage.pod_path(), legacy_pod(stage, "late"), dryRun="All")[
        "spec"
    ]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert {"key": DUAL, "operator": "DoesNotExist"} in late["matchExpressions"], late


def _tried(stage: Stage, cluster: Installation) -> list[str]:
    """Say what `kubectl apply --dry-run=server` warns of."""
    probe, words = legacy_pod(stage, "late"), ("--dry-run=server",)
    return cluster.kubectl.inside(stage.namespace).apply(probe, words=words).check().warnings


def _plugin_goes(stage: Stage, cluster: Installation, machine: Machine, olds: str) -> None:
    """Check that a node stays closed for claims as long as a pod has a GPU of the plugin."""
    node = machine.name
    before = running(stage, stage.pod_path())
    stage.fleet.unplug(machine.name, LEGACY)
    stage.wait(
        "the pods with devices are reported",
        lambda: _say(told(cluster, "DualNodesHeld"), (node, f"{EACH} pods")),
    )
    assert labelled(stage, [machine]) == {node}
    assert running(stage, stage.pod_path()) == before
    gone_from(stage, olds, node)
    stage.wait("the label goes", lambda: not labelled(stage, [machine]), PATIENCE_SECONDS)
    stage.wait(
        "pods that waited run there",
        lambda: running(stage, stage.pod_path())[node] == EACH,
        PATIENCE_SECONDS,
    )


def _say(texts: Iterable[str], words: Collection[str]) -> bool:
    """Return whether one of the texts has all the words."""
    return any(all(word in text for word in words) for text in texts)
