"""Reports runtimes of Kubeflow Trainer whose number of processes changes by a translation.

Trainer derives the processes of a node from the names with "gpu" in the container `node` of the
trainer (2.3.0, August 2026). Without such a name it counts CPUs for torch, and one process for
others. TrainJobs have a field for the number. Runtimes have one for MPI, and had one for torch.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.context import Translation
from drawbridge.translate.legacy.pod_view import format_value
from drawbridge.translate.manifests.codes import TRAINER_GPUS_LOST
from drawbridge.translate.manifests.ray import count_gpus
from drawbridge.translate.manifests.workloads import Place, group_kind

_GROUP: Final = "trainer.kubeflow.org"
_NODE: Final = "node"
_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_POLICY: Final[Path] = ("spec", "mlPolicy")
_NUMBER: Final = "numProcPerNode"
# What a policy does without GPUs. Only torch does it with one GPU as well.
_WITHOUT: Final[Mapping[str, str]] = {
    "torch": "starts a process for each CPU",
    "mpi": "starts one process for each node",
    "xgboost": "starts one worker for each node",
    "flux": "requests no GPUs from Flux",
}
_SET_BY_JOBS: Final = ("torch", "mpi")
_WEBHOOK: Final = "Let the webhook translate the pods, after Trainer has counted"


def report_lost_gpus(value: Value, place: Place, translation: Translation) -> Iterator[Finding]:
    """Report the policy of a runtime that no longer sees the GPUs of its trainer."""
    if not isinstance(value, dict) or group_kind(value)[0] != _GROUP or not translation.edits:
        return
    policies = as_mapping(get_value(value, _POLICY))
    policy = next((each for each in _WITHOUT if each in policies), "")
    job = place.path[:-3]
    step = get_value(value, (*job, "template", "metadata", "labels", _STEP))
    if not policy or (get_value(value, (*job, "name")) != _NODE and step != "trainer"):
        return
    number = as_mapping(policies[policy]).get(_NUMBER)
    # One is what MPI does without the field.
    if number == "cpu" or (isinstance(number, int) and (policy, number) != ("mpi", 1)):
        return
    at = _find_node(place.pod)
    lost = _find_gpu(place.pod, at)
    after = apply_edits(place.pod, translation.edits)
    count = count_gpus(after, translation.templates, at)
    if not lost or _find_gpu(after, at) or (count < 2 and policy != "torch"):
        return
    field = f", or set `spec.trainer.{_NUMBER}: {count}` in each TrainJob"
    yield TRAINER_GPUS_LOST.at(
        format_path((*_POLICY, policy)),
        f"Trainer can no longer read the number of GPUs from {lost}, which the translation "
        f"removes, and {_WITHOUT[policy]}",
        remedy=f"{_WEBHOOK}{field if policy in _SET_BY_JOBS else ''}.",
    )


def _find_node(pod: Value) -> Path:
    """Return the path of the container that Trainer reads."""
    containers = as_list(get_value(pod, ("spec", "containers")))
    names = [as_mapping(each).get("name") for each in containers]
    return ("spec", "containers", names.index(_NODE) if _NODE in names else len(names))


def _find_gpu(pod: Value, at: Path) -> str:
    """Return the first name of GPUs with its amount, which Trainer reads; empty without one."""
    for part in ("requests", "limits"):
        for name, amount in as_mapping(get_value(pod, (*at, "resources", part))).items():
            if "gpu" in name.lower():
                return f"{name}: {format_value(amount)}"
    return ""
