"""Who schedules a pod with claims: schedulers that know none are left, and queues count otherwise.

What a dialect says of its own scheduler stands with that dialect; this is for every other pod.
Knows no dialect.
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
_USUAL: Final = "default-scheduler"
OURS: Final = "drawbridge"
_ALONE: Final = "tensor-fusion-scheduler"
_QUEUES: Final = {
    "labels": ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue"),
    "annotations": ("scheduling.volcano.sh/queue-name",),
}
# Of jobs that say for their pods who schedules them: group and kind, and who that is by default.
_JOBS: Final = {
    ("batch.volcano.sh", "Job"): ((), "volcano"),
    ("batch.volcano.sh", "CronJob"): (("spec", "jobTemplate"), "volcano"),
}


def set_scheduler(patch: Patch, told: Iterable[Finding], *, bridge: bool) -> Iterator[Finding]:
    """Take the pod from a scheduler that knows no claims; `told` is what its dialect said.

    In bridge placement it goes to the scheduler that asks our allocator.
    """
    where = "spec.schedulerName"
    name = as_mapping(as_mapping(patch.pod).get("spec")).get("schedulerName")
    if name == _ALONE:
        yield SCHEDULER_UNUSABLE.at(where, f"{name} chooses GPUs by itself and knows no claims")
    elif name in _WITHOUT_CLAIMS:
        patch.remove(_SCHEDULER)
        yield SCHEDULER_LEFT.at(where, f"{name} allocates no claims, so the pod leaves it")
    elif name in _WITH_CLAIMS and not any(each.code == SCHEDULER_KEPT.name for each in told):
        yield SCHEDULER_KEPT.at(where, f"{name} stays the pod's scheduler")
    if not bridge:
        return
    left = get_value(patch.pod, _SCHEDULER)
    if left is None or left == "" or left == _USUAL:  # noqa: PLR1714  # it may be unhashable
        patch.put(_SCHEDULER, OURS)
        yield SCHEDULER_OURS.at(where, f"the pod goes to scheduler {OURS}")
    elif isinstance(left, str) and left not in {OURS, *_WITH_CLAIMS, _ALONE}:
        what = f"{format_value(left)} stays the pod's scheduler, and does not ask our allocator"
        yield SCHEDULER_KEPT.at(where, what, remedy=f"Say {OURS}, or nothing, if it shall.")


def report_queue(
    value: Value, asks: Collection[Ask], classes: Collection[str], told: Iterable[Finding] = ()
) -> Iterator[Finding]:
    """Tell of the queue that an object waits in, where nothing told of its scheduler."""
    metadata = as_mapping(as_mapping(value).get("metadata"))
    waits = [
        (part, key, queue)
        for part, keys in _QUEUES.items()
        if (said := metadata.get(part)) and isinstance(said, dict)
        for key in keys
        if isinstance(queue := said.get(key), str) and queue
    ]
    if not waits or any(each.code == SCHEDULER_KEPT.name for each in told):
        return
    for part, key, queue in waits:
        names = dict.fromkeys(name for ask in asks for name in ask.resources)
        counted = f" counted {', '.join(names)} and" if names else ""
        yield QUEUE_COUNTS.at(
            format_path(("metadata", part, key)),
            f"queue {format_value(queue)}{counted} has to map {', '.join(classes)}",
        )


def report_workload(value: Value, group_kind: tuple[str, str]) -> Iterator[Finding]:
    """Tell of the scheduler that a job says for all its pods."""
    if group_kind not in _JOBS:
        return
    above, usual = _JOBS[group_kind]
    spec = as_mapping(get_value(value, (*above, "spec")))
    name = spec.get("schedulerName") or usual
    queue = spec.get("queue")
    waits = f", with queue {format_value(queue)}" if isinstance(queue, str) and queue else ""
    where = format_path((*above, "spec", "schedulerName"))
    yield SCHEDULER_KEPT.at(
        where, f"{format_value(name)} stays the scheduler of the job's pods{waits}"
    )
