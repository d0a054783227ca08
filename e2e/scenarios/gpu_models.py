"""Scenario: a cluster goes from a ClusterPolicy to a GPUCluster and back, as docs/beside.md says.

The operator is played by its objects and DaemonSets, whose pods the real controllers make. The
driver of the node is a simulated one, and publishes while its DaemonSet is there.
"""

import contextlib

from e2e.installed.installation import Installation, installed, wait_for_facts
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, devices, legacy_pod
from e2e.scenarios.doctor import Line, examine
from e2e.scenarios.gpu_operator import (
    ADMIN,
    ADMIN_ACCESS,
    DEPLOY,
    RIVALS,
    Rendered,
    create_policy,
    define_kind,
    delete_policy,
    install_operands,
    list_operands,
    rendered,
    uninstall_operands,
)
from e2e.scenarios.objects import claim_spec
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

VERSION = "26.7.0"


@scenario("full", rig="installed", needs=NEEDS)
def a_cluster_goes_to_a_gpucluster_and_back(stage: Stage) -> None:
    """A pod keeps its devices all the way, doctor names what is in between, new pods follow."""
    policy, gpu_cluster = (_find(kind) for kind in ("ClusterPolicy", "GPUCluster"))
    cluster = installed(stage)
    stage.template(ADMIN, claim_spec({"name": ADMIN, "exactly": ADMIN_ACCESS}))
    for kind in (policy.kind, gpu_cluster.kind):
        define_kind(stage, kind)
    labels = {**policy.node_labels, **{f"{DEPLOY}{each}": "false" for each in RIVALS}}
    stage.node("a", "lab-2g2n", {GPU: "full"}, labels={**labels, **gpu_cluster.node_labels})
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={LEGACY: "1"}))
    with contextlib.ExitStack() as stack:
        install_operands(stage, policy)
        stack.callback(uninstall_operands, stage, policy)
        stage.client.create(stage.pod_path(), legacy_pod(stage, "stays"))
        stage.wait_running("stays")
        held = devices(stage, "stays")
        assert "no operand of ClusterPolicy" in _told(cluster, stage)["message"]

        uninstall_operands(stage, policy)
        delete_policy(stage, policy.kind)
        install_operands(stage, gpu_cluster)
        stack.callback(uninstall_operands, stage, gpu_cluster)
        operands = set(gpu_cluster.operands)
        stage.wait("its operands run", lambda: operands <= list_operands(stage, "a"))
        _check_pods(stage, "during", held)
        assert "GPUCluster" in _told(cluster, stage)["message"]

        create_policy(stage, policy.kind)
        assert _told(cluster, stage)["code"] == "TwoGpuModels"
        uninstall_operands(stage, gpu_cluster)
        delete_policy(stage, gpu_cluster.kind)
        assert "no operand of ClusterPolicy" in _told(cluster, stage)["message"]

        words = [f"{DEPLOY}device-plugin=true", "--overwrite"]
        cluster.kubectl.inside("")("label", "nodes", stage.node_name("a"), *words).check()
        assert _told(cluster, stage)["code"] == "OperandsOnDriverNodes"
        _check_pods(stage, "after", held)


def _find(kind: str) -> Rendered:
    return next(each for each in rendered() if (each.version, each.kind) == (VERSION, kind))


def _told(cluster: Installation, stage: Stage) -> Line:
    """Return the only line of doctor about GPU Operator."""
    _, lines = examine(cluster, "-n", stage.namespace)
    (line,) = lines["GPU Operator"]
    return line


def _check_pods(stage: Stage, name: str, held: list[str]) -> None:
    """Check that the first pod keeps its devices, and a new one gets others."""
    assert devices(stage, "stays") == held
    stage.client.create(stage.pod_path(), legacy_pod(stage, name))
    stage.wait_running(name)
    assert not set(devices(stage, name)) & set(held)
    stage.delete_pod(name)
