"""Sets the scheduler of a pod with claims, and reports queues that count device requests.

Pods leave schedulers that do not support claims. Each dialect reports about its own scheduler
itself; this module covers all other pods.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from documents.paths import Path, format_path, get_value
from documents.values import Value
from dra.finding import Finding
from translate.changes.codes import QUEUE_COUNTS, SCHEDULER_OURS
from translate.changes.patch import Patch
from translate.legacy.asks import Ask
from translate.legacy.codes import SCHEDULER_KEPT, SCHEDULER_LEFT, SCHEDULER_UNUSABLE
from translate.legacy.pod_view import as_mapping, format_value

_SCHEDULER: Final[Path] = ("spec", "schedulerName")
_WITHOUT_CLAIMS: Final = ("koord-scheduler", "hami-scheduler")
_WITH_CLAIMS: Final = ("volcano", "kai-scheduler", "runai-scheduler")
_DEFAULT: Final = "default-scheduler"
OURS: Final = "drawbridge"
_UNSUPPORTED: Final = "tensor-fusion-scheduler"
_QUEUES: Final = {
    "labels": ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue"),
    "annotations": ("scheduling.volcano.sh/queue-name",),
}
# Jobs that set the scheduler of their pods: the path to the job, and the default scheduler.
_JOBS: Final = {
    ("batch.volcano.sh", "Job"): ((), "volcano"),
    ("batch.volcano.sh", "CronJob"): (("spec", "jobTemplate"), "volcano"),
}


def set_scheduler(patch: Patch, findings: Iterable[Finding], *, bridge: bool) -> Iterator[Finding]:
    """Move the pod off a scheduler that does not support claims, unless its dialect reported it.

    With `placement: bridge` the pod uses the scheduler that calls the Drawbridge allocator.
    """
    where = "spec.schedulerName"
    name = as_mapping(as_mapping(patch.pod).get("spec")).get("schedulerName")
    if name == _UNSUPPORTED:
        yield SCHEDULER_UNUSABLE.at(
            where, f"{name} selects GPUs itself and does not support claims"
        )
    elif name in _WITHOUT_CLAIMS:
        patch.remove(_SCHEDULER)
        yield SCHEDULER_LEFT.at(
            where, f"{name} does not allocate resource claims, so it is removed"
        )
    elif name in _WITH_CLAIMS and not any(each.code == SCHEDULER_KEPT.name for each in findings):
        yield SCHEDULER_KEPT.at(where, f"the pod keeps the scheduler {name}")
    if not bridge:
        return
    scheduler = get_value(patch.pod, _SCHEDULER)
    if scheduler is None or scheduler == "" or scheduler == _DEFAULT:  # noqa: PLR1714  # the value may be unhashable
        patch.put(_SCHEDULER, OURS)
        yield SCHEDULER_OURS.at(where, f"set to {OURS}")
    elif isinstance(scheduler, str) and scheduler not in {OURS, *_WITH_CLAIMS, _UNSUPPORTED}:
        yield SCHEDULER_KEPT.at(
            where,
            f"the pod keeps scheduler {format_value(scheduler)}, which does not call the "
            "Drawbridge allocator",
            remedy=f"Set schedulerName to {OURS}, or remove it, to use the allocator.",
        )


def report_queue(
    value: Value, asks: Collection[Ask], classes: Collection[str], findings: Iterable[Finding] = ()
) -> Iterator[Finding]:
    """Report the queue that an object waits in, unless a finding reports its scheduler."""
    metadata = as_mapping(as_mapping(value).get("metadata"))
    queues = [
        (part, key, queue)
        for part, keys in _QUEUES.items()
        if (texts := metadata.get(part)) and isinstance(texts, dict)
        for key in keys
        if isinstance(queue := texts.get(key), str) and queue
    ]
    if not queues or any(each.code == SCHEDULER_KEPT.name for each in findings):
        return
    for part, key, queue in queues:
        names = dict.fromkeys(name for ask in asks for name in ask.resources)
        counted = f"counted {', '.join(names)} and " if names else ""
        listed = ", ".join(classes)
        noun, pronoun = ("DeviceClass", "it") if len(classes) == 1 else ("DeviceClasses", "them")
        yield QUEUE_COUNTS.at(
            format_path(("metadata", part, key)),
            f"queue {format_value(queue)} {counted}does not charge {noun} {listed} unless it maps "
            f"{pronoun}",
        )


def report_workload(value: Value, group_kind: tuple[str, str]) -> Iterator[Finding]:
    """Report the scheduler that a job sets for all its pods."""
    if group_kind not in _JOBS:
        return
    prefix, default = _JOBS[group_kind]
    spec = as_mapping(get_value(value, (*prefix, "spec")))
    name = spec.get("schedulerName") or default
    queue = spec.get("queue")
    in_queue = f", with queue {format_value(queue)}" if isinstance(queue, str) and queue else ""
    where = format_path((*prefix, "spec", "schedulerName"))
    yield SCHEDULER_KEPT.at(
        where, f"the pods of the job keep scheduler {format_value(name)}{in_queue}"
    )
