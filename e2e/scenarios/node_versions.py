"""Scenarios on real nodes: administrators install, upgrade, roll back and uninstall Drawbridge.

The commands are those of docs/installing.md. Afterwards running pods have their containers and
devices, and new pods are as without Drawbridge.
"""

from typing import NamedTuple

import yaml

from e2e.controlplane.client import JSON
from e2e.realnodes.installation import (
    READY_SECONDS,
    PodInstallation,
    installed_as_pods,
    remove_installation,
)
from e2e.realnodes.product import PREVIOUS
from e2e.realnodes.release import REMOVE, Release
from e2e.realnodes.replicas import watched
from e2e.realnodes.stage import Printed, RealStage, real
from e2e.scenarios.admission import ORIGINAL
from e2e.scenarios.node_devices import GPUS, LEGACY
from e2e.scenarios.node_load import is_translated, load, pods_created
from e2e.scenarios.node_restarts import containers
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "lab-2g2n"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CLUSTER_KINDS = "clusterroles,clusterrolebindings,flowschemas,prioritylevelconfigurations"


class Holding(NamedTuple):
    """What a running pod has: its containers, what they printed, and its devices."""

    containers: list[tuple[str, int]]
    printed: Printed
    devices: list[str]


def holding(nodes: RealStage, name: str) -> Holding:
    """Read what a running pod has now."""
    pod = nodes.get_pod(name)
    assert pod["status"]["phase"] == "Running", pod["status"]
    return Holding(containers(pod), nodes.printed(name), nodes.fleet.held_by(pod))


def build(nodes: RealStage) -> None:
    """Give one node a driver and another one a plugin."""
    nodes.node("dra", SHAPE, {GPUS: "full"})
    uuids = tuple(gpu.uuid for gpu in nodes.hardware("plugin", SHAPE).gpus)
    nodes.node("plugin", SHAPE, plugins={LEGACY: uuids})


def legacy_pod(nodes: RealStage, name: str) -> JSON:
    """Return a pod that asks for one GPU by the legacy name."""
    return nodes.pod_object(name, limits={LEGACY: "1"})


def webhooks(nodes: RealStage) -> dict[str, JSON]:
    """Return the registered webhooks of Drawbridge by name."""
    webhooks: dict[str, JSON] = {}
    for kind in KINDS:
        for item in nodes.client.get(f"/apis/admissionregistration.k8s.io/v1/{kind}")["items"]:
            if item["metadata"]["name"].startswith("drawbridge"):
                webhooks |= {hook["name"]: hook for hook in item["webhooks"]}
    return webhooks


def authorities(nodes: RealStage) -> dict[str, str]:
    """Return the CA of each webhook."""
    return {name: hook["clientConfig"]["caBundle"] for name, hook in webhooks(nodes).items()}


def check_uninstalled(nodes: RealStage, cluster: PodInstallation, name: str, had: Holding) -> None:
    """Check that a pod goes on with its devices, and that a new pod uses the plugin."""
    assert webhooks(nodes) == {}
    left = cluster.kubectl("get", CLUSTER_KINDS, "-o", "name").check().out.split()
    assert [each for each in left if "drawbridge" in each] == []
    assert holding(nodes, name) == had
    ran = nodes.kubectl("create", "-f", "-", stdin=legacy_pod(nodes, "later")).check()
    assert ran.warnings == []
    later = nodes.wait_running("later")
    assert ORIGINAL not in later["metadata"].get("annotations", {})
    (units,) = nodes.fleet.units(later).values()
    assert len(units) == 1
    nodes.delete_pod(name)
    node = nodes.node_name("dra")
    nodes.wait("its claim is unprepared", lambda: not nodes.fleet.prepared(GPUS, node))


@scenario("node", rig="nodes")
def uninstalling_leaves_running_pods_their_devices(stage: Stage) -> None:
    """The page's commands for kubectl, while pods are created: none is refused."""
    nodes = real(stage)
    cluster = installed_as_pods(nodes)
    build(nodes)
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    nodes.client.create(nodes.pod_path(), legacy_pod(nodes, "train"))
    assert is_translated(nodes.wait_running("train"))
    had = holding(nodes, "train")
    with pods_created(nodes):
        remove_installation(nodes)
    check_uninstalled(nodes, cluster, "train", had)


@scenario("node", rig="nodes", needs=(PREVIOUS,))
def helm_upgrades_rolls_back_and_uninstalls(stage: Stage) -> None:
    """Two versions serve side by side, twice; every pod is translated until the uninstallation."""
    nodes = real(stage)
    remove_installation(nodes)
    build(nodes)
    cluster = Release(nodes.rig)
    cluster.install_previous(nodes.namespace, yaml.safe_dump(legacy_pod(nodes, "train")))
    assert is_translated(nodes.wait_running("train"))
    had, trusted = holding(nodes, "train"), authorities(nodes)
    with load(nodes, at_once=1) as running, watched(nodes.client, "webhook") as replicas:
        for change, image in (
            (cluster.upgrade, cluster.image),
            (cluster.roll_back, cluster.previous),
            (cluster.upgrade, cluster.image),
        ):
            change()
            nodes.wait("the rollout is complete", cluster.rolled_out, READY_SECONDS)
            assert _images(cluster) == {image}
            # A version can have webhooks that another one lacks.
            assert {*authorities(nodes).values()} == {*trusted.values()}
    assert replicas.served_together(cluster.previous, cluster.image)
    assert replicas.fewest() == len(cluster.pods("webhook"))
    assert running.refused == []
    with pods_created(nodes):
        cluster.uninstall(REMOVE)
    check_uninstalled(nodes, cluster, "train", had)


def _images(cluster: PodInstallation) -> set[str]:
    pods = [*cluster.pods("webhook"), *cluster.pods("controller")]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}
