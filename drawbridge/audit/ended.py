"""When the owners of pods end, and how many pods a Job that has not ended still creates."""

from collections.abc import Mapping
from typing import Final

from drawbridge.audit.objects import text_at
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.translate.manifests.workloads import group_kind

# Those that create pods again and again: a ScaledJob of KEDA is a CronJob that a queue starts.
_ENDLESS: Final = frozenset({"CronJob", "ScaledJob"})
# What says that an object has ended: Jobs of Kubernetes and OpenKruise, JobSets and those of
# Kubeflow by a condition, those of Volcano and Ray by a phase.
_CONDITIONS: Final = frozenset({"Complete", "Completed", "Succeeded", "Failed"})
_PHASES: Final[Mapping[tuple[str, ...], frozenset[str]]] = {
    ("status", "state", "phase"): frozenset({"Completed", "Failed", "Terminated"}),
    ("status", "jobDeploymentStatus"): frozenset({"Complete", "Failed"}),
}


def can_end(kind: str) -> bool:
    """Whether objects of a kind end, and create no pods any more."""
    ends = kind.endswith("Job") or kind in ("JobSet", "Pod")
    return ends and kind not in _ENDLESS


def has_ended(workload: Value) -> bool:
    """Whether an object has ended, and creates no more pods."""
    if not can_end(text_at(workload, "kind")):
        return False
    conditions = map(as_mapping, as_list(get_value(workload, ("status", "conditions"))))
    met = {each.get("type") for each in conditions if each.get("status") == "True"}
    phases = (text_at(workload, *path) in ends for path, ends in _PHASES.items())
    return not met.isdisjoint(_CONDITIONS) or any(phases)


def count_left(job: Value, number: int) -> int:
    """Return how many of these pods a Job of Kubernetes wants: none in place of complete ones.

    Without `completions`, it creates no pod any more when one is complete.
    """
    if has_ended(job):
        return 0
    is_job = group_kind(as_mapping(job)) == ("batch", "Job")
    status = as_mapping(get_value(job, ("status",)))
    succeeded, completions = status.get("succeeded"), get_value(job, ("spec", "completions"))
    if not is_job or not isinstance(succeeded, int) or not succeeded:
        return number
    active = status.get("active")
    left = active if isinstance(active, int) else 0
    return max(0, min(number, completions - succeeded if isinstance(completions, int) else left))
