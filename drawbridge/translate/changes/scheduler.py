"""Sets the scheduler of a pod with claims.

Pods leave schedulers that do not support claims. Each dialect reports about its own scheduler
itself; this module covers all other pods.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from drawbridge.config.model import Placement
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.finding import Finding
from drawbridge.names import OWNED_TAINT, PLACEMENT_LABEL, SCHEDULER_NAME
from drawbridge.translate.changes.codes import (
    DEVICES_DIVIDED,
    DRIVER_NOT_OWNED,
    FENCE_TOLERATED,
    SCHEDULER_OURS,
)
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.changes.tolerations import add_toleration, is_tolerated
from drawbridge.translate.legacy.codes import SCHEDULER_KEPT, SCHEDULER_LEFT, SCHEDULER_UNUSABLE
from drawbridge.translate.legacy.pod_view import format_value

SCHEDULER: Final[Path] = ("spec", "schedulerName")
_WITHOUT_CLAIMS: Final = ("koord-scheduler", "hami-scheduler")
_WITH_CLAIMS: Final = ("volcano", "kai-scheduler", "runai-scheduler")
DEFAULT: Final = "default-scheduler"
OURS: Final = SCHEDULER_NAME
_UNSUPPORTED: Final = "tensor-fusion-scheduler"
NEVER_RUNS_CLAIMS: Final = (*_WITHOUT_CLAIMS, _UNSUPPORTED)
_OTHER_NODES: Final = "Change which nodes `ownedPools` selects."
# Jobs that set the scheduler of their pods: the path to the job, and the default scheduler.
_JOBS: Final = {
    ("batch.volcano.sh", "Job"): ((), "volcano"),
    ("batch.volcano.sh", "CronJob"): (("spec", "jobTemplate"), "volcano"),
}


def set_scheduler(patch: Patch, findings: Iterable[Finding], *, bridge: bool) -> Iterator[Finding]:
    """Move the pod off a scheduler that does not support claims, unless its dialect reported it.

    With `placement: bridge` the pod uses the scheduler that calls the Drawbridge allocator, and
    only then tolerates the taint of owned nodes.
    """
    where = "spec.schedulerName"
    name = as_mapping(as_mapping(patch.pod).get("spec")).get("schedulerName")
    if name == _UNSUPPORTED:
        yield SCHEDULER_UNUSABLE.at(
            where, f"{name} selects GPUs itself and does not support claims"
        )
    elif name in _WITHOUT_CLAIMS:
        patch.remove(SCHEDULER)
        yield SCHEDULER_LEFT.at(
            where, f"{name} does not allocate resource claims, so it is removed"
        )
    elif name in _WITH_CLAIMS and not any(each.code == SCHEDULER_KEPT.name for each in findings):
        yield SCHEDULER_KEPT.at(where, f"the pod keeps the scheduler {name}")
    if bridge:
        yield from _set_bridge_scheduler(patch)


def _set_bridge_scheduler(patch: Patch) -> Iterator[Finding]:
    """Use the scheduler that calls the allocator instead of the default scheduler."""
    scheduler = get_value(patch.pod, SCHEDULER)
    if is_default_scheduler(scheduler):
        yield use_our_scheduler(patch)
        return
    if scheduler == OURS:
        add_toleration(patch, OWNED_TAINT)
        return
    yield from report_tolerated_fence(patch.pod)
    if isinstance(scheduler, str) and scheduler not in {*_WITH_CLAIMS, _UNSUPPORTED}:
        yield SCHEDULER_KEPT.at(
            "spec.schedulerName",
            f"the pod keeps scheduler {format_value(scheduler)}, which does not call the "
            "Drawbridge allocator",
            remedy=f"Set schedulerName to {OURS}, or remove it, to use the allocator.",
        )


def is_default_scheduler(name: Value) -> bool:
    """Whether the value of `schedulerName` selects the default scheduler."""
    return name is None or (isinstance(name, str) and name in {"", DEFAULT})


def use_our_scheduler(patch: Patch) -> Finding:
    """Set the scheduler that calls the allocator, and tolerate the taint of owned nodes."""
    patch.put(SCHEDULER, OURS)
    added = add_toleration(patch, OWNED_TAINT)
    toleration = f", with a toleration for the taint {OWNED_TAINT}" if added else ""
    return SCHEDULER_OURS.at("spec.schedulerName", f"set to {OURS}{toleration}")


def report_tolerated_fence(pod: Value) -> Iterator[Finding]:
    """Report a pod with claims that another scheduler can place on owned nodes."""
    if is_tolerated(pod, OWNED_TAINT):
        name = get_value(pod, SCHEDULER)
        scheduler = "the default scheduler" if is_default_scheduler(name) else format_value(name)
        yield FENCE_TOLERATED.at(
            "spec.tolerations",
            f"the pod tolerates the taint {OWNED_TAINT}, but {scheduler} does not call the "
            "Drawbridge allocator",
        )


def report_drivers_not_owned(
    pod: Value, drivers: Iterable[str], owned: Collection[str]
) -> Iterator[Finding]:
    """Report the drivers of a pod's claims whose pools its scheduler does not use."""
    missing = [name for name in drivers if name not in owned]
    if missing and get_value(pod, SCHEDULER) == OURS:
        noun = "driver" if len(missing) == 1 else "drivers"
        yield DRIVER_NOT_OWNED.at(
            format_path(SCHEDULER),
            f"ownedPools has no entry for {noun} {', '.join(missing)}, so {OURS} cannot allocate "
            "the claim",
        )


def report_divided_devices(
    pod: Value, classes: Iterable[str], facts: Facts | None, findings: Iterable[Finding]
) -> Iterator[Finding]:
    """Report the classes of which the pod can use only a part of the devices.

    `findings` tell whether its scheduler was changed: the placement of the namespace does not
    decide for a pod that names another one.
    """
    if facts is None:
        return
    name = get_value(pod, SCHEDULER)
    is_ours = name == OURS
    by_namespace = is_default_scheduler(name) or any(
        e.code == SCHEDULER_OURS.name for e in findings
    )
    rows = [facts.find_class(each) for each in classes]
    others_serve = all(row is not None and _count_others(row, is_ours=is_ours) for row in rows)
    can_move = by_namespace and others_serve and (is_ours or facts.scheduler)
    for row in rows:
        if row is not None and (usable := describe_usable(row, is_ours=is_ours)):
            placement = Placement.BRIDGE if is_ours else Placement.NATIVE
            message = f"with {placement} placement the pod can use {usable}"
            remedy = find_placement_remedy(row, is_ours=is_ours) if can_move else _OTHER_NODES
            yield DEVICES_DIVIDED.at(format_path(SCHEDULER), message, remedy=remedy)


def describe_usable(row: ClassFacts, *, is_ours: bool) -> str:
    """Describe the devices of a class that a scheduler can use.

    Empty if it can use all, or if it is unknown which nodes are owned.
    """
    if row.owned is None:
        return ""
    others = row.devices - row.owned
    usable = row.owned if is_ours else others
    if usable == row.devices:
        return ""
    return (
        f"{usable} of {row.devices} devices of class {row.name}: {row.owned} of owned nodes, "
        f"{others} of others"
    )


def _count_others(row: ClassFacts, *, is_ours: bool) -> int:
    """Return the number of devices that pods with the other placement can use."""
    owned = row.owned or 0
    return row.devices - owned if is_ours else owned


def find_placement_remedy(row: ClassFacts, *, is_ours: bool) -> str:
    """Return what lets pods use the devices of a class that their scheduler cannot use."""
    other = Placement.NATIVE if is_ours else Placement.BRIDGE
    return (
        f"Set the label {PLACEMENT_LABEL}: {other} on the namespace, whose pods then use the other "
        f"{_count_others(row, is_ours=is_ours)}. Or change which nodes `ownedPools` selects."
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
