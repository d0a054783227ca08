"""Surprises of owners: budgets, Jobs, rollouts, and owners that few know."""

from typing import Any

from e2e.clusters.drawn import DrawnCluster, Workload
from e2e.clusters.objects import GPU, budget, container
from e2e.clusters.surprise import Stage, surprise


def with_budget(cluster: DrawnCluster, load: Workload, **rule: Any) -> None:  # noqa: ANN401  # JSON
    """Add a budget for a workload."""
    cluster.objects.append(budget(load.space, load.name, {"app": load.name}, rule))


@surprise(39, "a StatefulSet of one pod, of which one must be available")
def single_with_budget(cluster: DrawnCluster) -> None:
    ordered = {"podManagementPolicy": "OrderedReady"}
    load = cluster.add("StatefulSet", {GPU: 1}, pods=1, fields=ordered)
    with_budget(cluster, load, minAvailable=1)


@surprise(40, "a budget that allows no pod to be unavailable")
def none_unavailable(cluster: DrawnCluster) -> None:
    with_budget(cluster, cluster.add("Deployment", {GPU: 1}, pods=2), maxUnavailable=0)


@surprise(41, "a budget that wants as many pods as there are")
def all_available(cluster: DrawnCluster) -> None:
    with_budget(cluster, cluster.add("Deployment", {GPU: 1}, pods=2), minAvailable=2)


@surprise(42, "a budget that selects nothing")
def useless_budget(cluster: DrawnCluster) -> None:
    load = cluster.add("Deployment", {GPU: 1}, pods=2)
    rule = {"maxUnavailable": 0}
    cluster.objects.append(budget(load.space, load.name, {"app": f"{load.name}x"}, rule))


@surprise(43, "two budgets that select the same pods")
def two_budgets(cluster: DrawnCluster) -> None:
    load = cluster.add("Deployment", {GPU: 1}, pods=3)
    with_budget(cluster, load, maxUnavailable=1)
    more = budget(load.space, f"{load.name}-too", {"app": load.name}, {"minAvailable": 1})
    cluster.objects.append(more)


@surprise(44, "a Deployment that is created again")
def recreated(cluster: DrawnCluster) -> None:
    cluster.add("Deployment", {GPU: 1}, pods=2, fields={"strategy": {"type": "Recreate"}})


@surprise(45, "a Deployment that rolls out with one pod more, on full nodes")
def surge(cluster: DrawnCluster) -> None:
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    strategy = {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    name = cluster.add_node("tight")
    near = {"nodeSelector": {"pool": "tight"}}
    cluster.add("Deployment", {GPU: 4}, pods=2, nodes=[name, name], spec=near, fields=strategy)


@surprise(46, "a Deployment whose rollout is paused")
def paused(cluster: DrawnCluster) -> None:
    cluster.add("Deployment", {GPU: 1}, pods=1, fields={"paused": True})


@surprise(47, "a Deployment of no pods")
def scaled_down(cluster: DrawnCluster) -> None:
    cluster.add("Deployment", {GPU: 1}, pods=0)


@surprise(48, "a ReplicaSet without a Deployment")
def left_over(cluster: DrawnCluster) -> None:
    cluster.add("ReplicaSet", {GPU: 1}, pods=1)


@surprise(49, "a Job that fails when a pod ends")
def fragile_job(cluster: DrawnCluster) -> None:
    cluster.add("Job", {GPU: 1}, pods=1, fields={"backoffLimit": 0})


def job_with_policy(cluster: DrawnCluster, action: str) -> None:
    """Add a Job with a policy for disruptions."""
    rule = {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    fields = {"backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}}
    cluster.add("Job", {GPU: 1}, pods=1, fields=fields)


@surprise(50, "a Job that a disruption fails")
def failed_by_disruption(cluster: DrawnCluster) -> None:
    job_with_policy(cluster, "FailJob")


@surprise(51, "a Job that ignores disruptions")
def ignores_disruption(cluster: DrawnCluster) -> None:
    job_with_policy(cluster, "Ignore")


@surprise(52, "an indexed Job, half of it done", rig=False)
def indexed_job(cluster: DrawnCluster) -> None:
    fields = {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimit": 2}
    load = cluster.add("Job", {GPU: 1}, pods=2, fields=fields)
    load.owner["status"] = {"succeeded": 2, "completedIndexes": "0,1"}
    for index, made in enumerate(load.pods):
        notes = {"batch.kubernetes.io/job-completion-index": f"{index + 2}"}
        made["metadata"]["annotations"] = notes


@surprise(53, "a suspended Job")
def suspended_job(cluster: DrawnCluster) -> None:
    cluster.add("Job", {GPU: 1}, nodes=[], pods=1, fields={"suspend": True})


@surprise(54, "a CronJob that can make a pod at any moment")
def cron_job(cluster: DrawnCluster) -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container({GPU: 1})]}}}
    cluster.objects.append(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": cluster.next_name("cron"), "namespace": cluster.any_space()},
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}},
        }
    )


@surprise(55, "a Job with a deadline")
def job_with_deadline(cluster: DrawnCluster) -> None:
    cluster.add("Job", {GPU: 1}, pods=1, fields={"activeDeadlineSeconds": 86_400})


@surprise(79, "pods of an Argo Rollout", rig=False)
def rollout(cluster: DrawnCluster) -> None:
    cluster.add("ReplicaSet", {GPU: 1}, pods=2, owner="Rollout")


@surprise(80, "pods of a RayCluster", rig=False)
def ray_cluster(cluster: DrawnCluster) -> None:
    labels = {"ray.io/cluster": "ray", "ray.io/node-type": "worker"}
    cluster.add("ReplicaSet", {GPU: 1}, pods=2, owner="RayCluster", labels=labels)


@surprise(81, "a set of pods that start again together", rig=False)
def leader_and_workers(cluster: DrawnCluster) -> None:
    load = cluster.add("StatefulSet", {GPU: 1}, pods=2, owner="LeaderWorkerSet")
    for each in load.pods:
        each["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = load.name


@surprise(82, "a namespace that ends", rig=False)
def ending_namespace(cluster: DrawnCluster) -> None:
    space = cluster.add_space(cluster.next_name("ending"))
    cluster.add("Deployment", {GPU: 1}, pods=1, space=space)
    metadata = cluster.spaces[space]["metadata"]
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.spaces[space]["status"] = {"phase": "Terminating"}


@surprise(89, "pods of a queue of Kueue, some of them gated", rig=False)
def queued(cluster: DrawnCluster) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "gpus", "kueue.x-k8s.io/managed": "true"}
    cluster.add("Job", {GPU: 1}, pods=1, labels=labels, metadata={"labels": labels})
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    cluster.add("Deployment", {GPU: 1}, pods=1, nodes=[""], spec=gates, labels=labels)


@surprise(90, "a gang of four pods, one of which waits", rig=False)
def gang(cluster: DrawnCluster) -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "gang"}
    name = cluster.add_node("gang")
    near = {"nodeSelector": {"pool": "gang"}}
    where = [name, name, name, ""]
    cluster.add("Job", {GPU: 2}, pods=4, nodes=where, labels=labels, spec=near)
    cluster.add("ReplicaSet", {GPU: 2}, pods=1, nodes=[name], spec=near)


@surprise(92, "workloads of Argo CD, and namespaces of Helm")
def of_git(cluster: DrawnCluster) -> None:
    space = cluster.add_space(cluster.next_name("team-git"))
    notes = {"argocd.argoproj.io/tracking-id": f"shop:/Namespace:{space}"}
    cluster.spaces[space]["metadata"]["annotations"] = notes
    mine = {"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:x"}}
    cluster.add("Deployment", {GPU: 1}, pods=1, space=space, metadata=mine)


@surprise(91, "namespaces in every mode", Stage.NODES)
def modes(cluster: DrawnCluster) -> None:
    for mode in ("enforce", "off", "report"):
        cluster.add_space(cluster.next_name(f"team-{mode}"), mode)
