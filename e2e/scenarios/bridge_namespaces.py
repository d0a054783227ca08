"""Scenarios: which namespaces use bridge placement, and the way there and back."""

import contextlib
import json
import signal
from collections.abc import Iterator

import yaml

from e2e.bridge.placement import (
    FENCE,
    HEADER,
    OWNED,
    SCHEDULER,
    BridgeStage,
    bridge_fields,
    bridge_scenario,
)
from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import dry_run, set_mode
from e2e.scenarios.admission import GPU, NEEDS, add_gpu_node, legacy_pod
from e2e.scenarios.admission_scope import CONFIGURATION
from e2e.scenarios.lifecycle import CHART, ChartInstallation
from e2e.scenarios.lifecycle import running as running_installation
from e2e.scenarios.objects import JSON
from e2e.scenarios.owned_pools import renew_lease, taints
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import LABEL, Stage

PLACEMENT = "drawbridge.dev/placement"
DEFAULT = "default-scheduler"
UPGRADE = ("upgrade", "drawbridge", str(CHART), "--reset-then-reuse-values")
# The patience of the controller, its period, and the facts.
MISSING_SECONDS = 120.0
RIGS["chart in bridge placement"] = default_options


def label(stage: Stage, placement: str | None) -> None:
    """Set the label of the namespace, or remove it."""
    path = f"/api/v1/namespaces/{stage.namespace}"
    stage.client.patch(path, {"metadata": {"labels": {PLACEMENT: placement}}})


def wait_for_scheduler(stage: Stage, name: str, seconds: float = 60.0) -> None:
    """Wait until admission gives legacy pods this scheduler."""
    body = plain_legacy_pod(stage, "probe")

    def is_used() -> bool:
        spec = dry_run(stage, body)["spec"]
        return bool(spec["schedulerName"] == name and "resourceClaims" in spec)

    stage.wait(f"admission uses {name}", is_used, seconds)


def create(stage: BridgeStage, *names: str) -> None:
    """Apply legacy pods with one GPU each."""
    kubectl = stage.placement.cluster.kubectl.inside(stage.namespace)
    for name in names:
        kubectl.apply(plain_legacy_pod(stage, name)).check()


def plain_legacy_pod(stage: Stage, name: str) -> JSON:
    """Return a pod that requests a GPU of a device plugin, without a scheduler of its own."""
    return Stage.pod_object(stage, name, limits={"nvidia.com/gpu": "1"})


def placed_on(stage: Stage, *names: str) -> list[str]:
    """Wait until pods run, and return the last letter of their nodes."""
    return [str(stage.wait_running(name)["spec"]["nodeName"])[-1] for name in names]


@contextlib.contextmanager
def selecting(stage: BridgeStage, selector: JSON) -> Iterator[None]:
    """Select the namespaces of bridge placement, until the end of the block."""
    cluster = stage.placement.cluster
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    own = yaml.safe_dump({"bridge": {"namespaceSelector": selector}})
    configure_and_wait(cluster, f"{HEADER}{bridge_fields()}{own}")
    try:
        yield
    finally:
        configure_and_wait(cluster, before)


@bridge_scenario("full")
def namespaces_outside_the_selector_use_the_devices_of_other_nodes(stage: BridgeStage) -> None:
    """Three pods wait while eight GPUs are free. Outside the selector, their successors run."""
    stage.leader()
    stage.node("a", "lab-2g2n", {GPU: "full"})
    Stage.node(stage, "b", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    wait_for_scheduler(stage, SCHEDULER)
    create(stage, "first", "second")
    assert placed_on(stage, "first", "second") == ["a", "a"]
    create(stage, "w1", "w2", "w3")
    for name in ("w1", "w2", "w3"):
        stage.wait_unschedulable(name)
    with selecting(stage, {"matchLabels": {"team": "nobody"}}):
        wait_for_scheduler(stage, DEFAULT)
        create(stage, "n1", "n2", "n3")
        assert placed_on(stage, "n1", "n2", "n3") == ["b", "b", "b"]
        told = stage.placement.cluster.kubectl.inside(stage.namespace).apply(
            plain_legacy_pod(stage, "told"), words=("--dry-run=server",)
        )
        assert any("DevicesDivided" in each for each in told.check().warnings), told
        doctor = stage.placement.cluster.drawbridge("doctor", "--context").out
        assert "devices of class gpu.nvidia.com: 2 of owned nodes, 8 of others" in doctor, doctor
    # The pods from before still wait; nothing has been taken from anybody.
    assert placed_on(stage, "first", "second", "n1") == ["a", "a", "b"]


@bridge_scenario("full")
def a_namespace_moves_to_bridge_placement_and_back_with_kubectl(stage: BridgeStage) -> None:
    """The label moves new pods, and the pods of both placements run throughout."""
    stage.leader()
    stage.node("a", "lab-2g2n", {GPU: "full"})
    Stage.node(stage, "b", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    with selecting(stage, {"matchLabels": {"team": "nobody"}}):
        wait_for_scheduler(stage, DEFAULT)
        create(stage, "native")
        assert placed_on(stage, "native") == ["b"]
        label(stage, "bridge")
        wait_for_scheduler(stage, SCHEDULER)
        create(stage, "bridged")
        assert placed_on(stage, "native", "bridged") == ["b", "a"]
        noted = stage.get_pod("bridged")["metadata"]["annotations"]
        assert noted[PLACEMENT] == "bridge", noted
        label(stage, None)
        wait_for_scheduler(stage, DEFAULT)
        create(stage, "again")
        assert placed_on(stage, "native", "bridged", "again") == ["b", "a", "b"]


@bridge_scenario("full")
def no_pod_is_assigned_to_a_scheduler_that_does_not_run(stage: BridgeStage) -> None:
    """A minute after the last pair has died, pods are native; with a pair, they are not."""
    cluster = stage.placement.cluster
    stage.leader()
    stage.node("a", "lab-2g2n", {GPU: "full"})
    Stage.node(stage, "b", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    wait_for_scheduler(stage, SCHEDULER)
    for pair in stage.placement.pairs:
        pair.send(signal.SIGKILL)
    try:
        wait_for_scheduler(stage, DEFAULT, MISSING_SECONDS)
        kubectl = cluster.kubectl.inside(stage.namespace)
        told = kubectl.apply(plain_legacy_pod(stage, "runs")).check()
        assert any("BridgeSchedulerMissing" in each for each in told.warnings), told
        assert placed_on(stage, "runs") == ["b"]
    finally:
        stage.placement.start()
    stage.leader()
    wait_for_scheduler(stage, SCHEDULER)


@scenario("full", rig="chart in bridge placement", needs=NEEDS)
def a_release_moves_to_bridge_placement_and_back_with_helm(stage: Stage) -> None:
    """Back is one value: helm keeps the others, and they have no effect."""
    cluster = ChartInstallation(stage.processes)
    node = add_gpu_node(stage).name
    other = stage.node("b", "lab-2g2n", {GPU: "full"}, labels=OWNED).name
    with running_installation(stage, cluster):
        wait_for_scheduler(stage, DEFAULT)
        kubectl = cluster.kubectl.inside(stage.namespace)
        kubectl.apply(legacy_pod(stage, "train")).check()
        before = stage.wait_running("train")
        renew_lease(stage)
        labels = {**OWNED, LABEL: stage.name}
        pools = [{"driver": GPU, "nodeSelector": {"matchLabels": labels}}]
        bridge = f"--set-json=configuration.ownedPools={json.dumps(pools)}"
        upgrade(cluster, "--set=configuration.placement=bridge", bridge)
        stage.wait("the node is owned", lambda: FENCE in taints(stage, other))
        wait_for_scheduler(stage, SCHEDULER)
        upgrade(cluster, "--set=configuration.placement=native")
        values = yaml.safe_load(cluster.helm("get", "values", "drawbridge").check().out)
        assert values["configuration"]["ownedPools"] == pools
        wait_for_scheduler(stage, DEFAULT)
        stage.wait("nothing is owned", lambda: not taints(stage, other) and not taints(stage, node))
        after = stage.get_pod("train")
        assert (after["metadata"]["uid"], after["spec"]) == (
            before["metadata"]["uid"],
            before["spec"],
        )
        assert after["status"]["phase"] == "Running"


def upgrade(cluster: ChartInstallation, *values: str) -> None:
    """Upgrade the release, and mount its configuration as a kubelet does."""
    cluster.helm(*UPGRADE, *values).check()
    cluster.mount("configmaps", "drawbridge-config")
