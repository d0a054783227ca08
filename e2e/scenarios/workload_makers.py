"""Makes workloads of every kind from a pod. Pure."""

from collections.abc import Callable, Mapping

from e2e.scenarios.objects import JSON, deployment

Maker = Callable[[JSON, int], JSON]


def stateful_set(pod: JSON, replicas: int) -> JSON:
    """Return a StatefulSet of such pods; it makes them one after the other."""
    body = deployment(pod, replicas)
    return {**body, "kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "none"}}


def daemon_set(pod: JSON, _: int) -> JSON:
    """Return a DaemonSet: one pod on every node that the pod selects."""
    body = deployment(pod, 0)
    spec = {key: value for key, value in body["spec"].items() if key != "replicas"}
    return {**body, "kind": "DaemonSet", "spec": spec}


def replica_set(pod: JSON, replicas: int) -> JSON:
    """Return a ReplicaSet of nobody's."""
    return {**deployment(pod, replicas), "kind": "ReplicaSet"}


def job(pod: JSON, replicas: int) -> JSON:
    """Return a Job that runs this many pods at once."""
    template = deployment(pod, 0)["spec"]["template"]
    spec = {"parallelism": replicas, "completions": replicas, "template": template}
    template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    metadata = {"name": pod["metadata"]["name"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def cron_job(pod: JSON, replicas: int) -> JSON:
    """Return a CronJob that starts such a Job every minute, as long as none runs."""
    made = job(pod, replicas)
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": made["spec"]},
    }
    return {**made, "kind": "CronJob", "spec": spec}


MAKERS: Mapping[str, Maker] = {
    "statefulset": stateful_set,
    "daemonset": daemon_set,
    "replicaset": replica_set,
    "job": job,
    "cronjob": cron_job,
}
