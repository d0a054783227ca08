"""Says how a queue charges an object that creates pods."""

from typing import Final

from drawbridge.documents.values import Value, as_mapping
from drawbridge.translate.changes.queues import find_kueue_queue
from drawbridge.translate.manifests.workloads import group_kind

# Kueue charges these as a whole, by their pod templates: before admission translates their pods.
_CHARGED_WHOLE: Final = frozenset(
    {
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("kubeflow.org", "JAXJob"),
        ("kubeflow.org", "MPIJob"),
        ("kubeflow.org", "PaddleJob"),
        ("kubeflow.org", "PyTorchJob"),
        ("kubeflow.org", "TFJob"),
        ("kubeflow.org", "XGBoostJob"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayService"),
        ("sparkoperator.k8s.io", "SparkApplication"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("workload.codeflare.dev", "AppWrapper"),
    }
)


def find_queue_of_pods(owner: Value, default_queue: str = "") -> str:
    """Return the queue that charges the pods of an object one by one, after their translation."""
    is_whole = group_kind(as_mapping(owner)) in _CHARGED_WHOLE
    return "" if is_whole else find_kueue_queue(owner, default_queue)
