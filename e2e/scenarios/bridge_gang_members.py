"""Scenarios: members of groups without devices get the scheduler of those with devices."""

import json
from typing import Final

from e2e.bridge.placement import SCHEDULER, TOLERATION, BridgeStage, bridge_scenario
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage

GPU: Final = "gpu.nvidia.com"
PLACEMENT: Final = "drawbridge.dev/placement"
DEFAULT: Final = "default-scheduler"
# The labels that controllers and the plugin Coscheduling read or write on all members.
FORMS: Final = {
    "coscheduling": {"scheduling.x-k8s.io/pod-group": "train"},
    "leader-worker-set": {
        "leaderworkerset.sigs.k8s.io/name": "train",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
    },
    "job-set": {"jobset.sigs.k8s.io/jobset-name": "train"},
    "mpi-job": {
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/operator-name": "mpi-operator",
    },
    "ray-cluster": {"ray.io/cluster": "train"},
}


def plain_pod(stage: BridgeStage, name: str, labels: dict[str, str], **spec: object) -> JSON:
    """Return a pod without devices and without a scheduler, as a controller creates it."""
    body = Stage.pod_object(stage, name)
    body["metadata"]["labels"] |= labels
    body["spec"] |= {"tolerations": [{"key": "other", "operator": "Exists"}], **spec}
    return body


@bridge_scenario("full")
def a_member_without_devices_gets_the_scheduler_of_its_group(stage: BridgeStage) -> None:
    """Each form of a group, with a launcher and a worker; other pods stay as they are."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    wait_for_facts(stage, stage.placement.cluster, stage.legacy_pod("probe", 1))
    for form, labels in FORMS.items():
        launcher = plain_pod(stage, f"{form}-launcher", labels)
        worker = stage.legacy_pod(f"{form}-worker", 1)
        worker["metadata"]["labels"] |= labels
        for body in (launcher, worker):
            made = stage.client.create(stage.pod_path(), body)
            assert made["spec"]["schedulerName"] == SCHEDULER, (form, made["spec"])
            assert TOLERATION in made["spec"]["tolerations"], (form, made["spec"])
    for form in FORMS:
        stage.wait_running(f"{form}-launcher")
        stage.wait_running(f"{form}-worker")
    labels = FORMS["coscheduling"]
    others = {
        "alone": (plain_pod(stage, "alone", {}), DEFAULT),
        "chosen": (plain_pod(stage, "chosen", labels, schedulerName="volcano"), "volcano"),
    }
    for name, (body, scheduler) in others.items():
        made = stage.client.create(stage.pod_path(), body)
        assert made["spec"]["schedulerName"] == scheduler, (name, made["spec"])
        assert "annotations" not in made["metadata"], (name, made["metadata"])
    path = f"/api/v1/namespaces/{stage.namespace}"
    stage.client.patch(path, {"metadata": {"labels": {PLACEMENT: "native"}}})

    def stays() -> bool:
        body = plain_pod(stage, "native", labels)
        made = stage.client.create(stage.pod_path(), body, dryRun="All")
        return bool(made["spec"]["schedulerName"] == DEFAULT)

    stage.wait("members stay in native placement", stays)


@bridge_scenario("full")
def a_gang_with_several_schedulers_is_named(stage: BridgeStage) -> None:
    """A launcher from before the label of the namespace, and a worker from after it."""
    cluster = stage.placement.cluster
    stage.node("a", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    wait_for_facts(stage, cluster, stage.legacy_pod("probe", 1))
    labels = FORMS["coscheduling"]
    nowhere = {"nodeSelector": {"no": "node"}}
    for name, scheduler in (("launcher", "volcano"), ("worker", SCHEDULER)):
        body = plain_pod(stage, name, labels, schedulerName=scheduler, **nowhere)
        stage.client.create(stage.pod_path(), body)
    ran = cluster.drawbridge("explain", "worker", "-n", stage.namespace)
    assert ran.code == 1, ran
    assert f"gang PodGroup {stage.namespace}/train: 2 members, 0 with a node" in ran.out, ran
    assert "[GangSplit]" in ran.out, ran
    told = cluster.drawbridge("doctor", "-n", stage.namespace, "-o", "json")
    checks = json.loads(told.out)["checks"]
    (line,) = (each for each in checks if each["check"] == "gangs")
    assert line["code"] == "GangSplit", line
    assert "volcano has 1 member (launcher)" in line["message"], line
