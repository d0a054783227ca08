"""Says how a queue charges an object that creates pods, and compares it with nodes.

Volcano creates no pod before the requests of all templates of a job fit in what nodes have, and
topology-aware scheduling of Kueue looks for nodes with what a template requests. Both read the
template as it is in the object. Read in Volcano 1.16 and Kueue 0.19.
"""

from collections.abc import Collection, Iterator
from typing import Final

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.changes.codes import QUEUE_READS_TEMPLATE
from drawbridge.translate.changes.queues import find_kueue_queue
from drawbridge.translate.manifests.workloads import Place, group_kind, map_path

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
_VOLCANO: Final = frozenset({"batch.volcano.sh", "flow.volcano.sh"})
_TOPOLOGY: Final = tuple(
    f"kueue.x-k8s.io/podset-{how}-topology" for how in ("required", "preferred", "unconstrained")
)


def find_queue_of_pods(owner: Value, default_queue: str = "") -> str:
    """Return the queue that charges the pods of an object one by one, after their translation."""
    is_whole = group_kind(as_mapping(owner)) in _CHARGED_WHOLE
    return "" if is_whole else find_kueue_queue(owner, default_queue)


def report_read_templates(owner: Value, translated: Collection[Place]) -> Iterator[Finding]:
    """Report a queue that reads templates whose pods are translated only after it."""
    key = group_kind(as_mapping(owner))
    reader = "Volcano"
    paths: list[Path] = [("spec",)] if translated else []
    if key in _CHARGED_WHOLE:
        reader = "topology-aware scheduling of Kueue"
        paths = [map_path(path, place) for place in translated for path in _find_topology(place)]
    elif key[0] not in _VOLCANO:
        return
    for path in paths[:1]:
        message = (
            f"{reader} compares the requests of the pod templates with nodes before their pods are "
            "translated, so it admits no pods once no device plugin serves the requests"
        )
        yield QUEUE_READS_TEMPLATE.at(format_path(path), message)


def _find_topology(place: Place) -> Iterator[Path]:
    paths: list[Path] = [("metadata", "annotations", name) for name in _TOPOLOGY]
    return (path for path in paths if get_value(place.pod, path) is not None)
