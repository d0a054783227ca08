"""What a pod of Drawbridge's scheduler waits for, from the pod and the Lease of the scheduler."""

from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import ALLOCATION_ANNOTATION, SCHEDULER_LEASE
from drawbridge.translate.changes.scheduler import DEFAULT, OURS

REMEDY: Final = "Run `drawbridge doctor` to check the scheduler and its allocator."


def scheduler_of(pod: Value) -> str:
    """Return the name of the scheduler of a pod."""
    name = get_value(pod, ("spec", "schedulerName"))
    return name if isinstance(name, str) and name else DEFAULT


def is_untried(pod: Value) -> bool:
    """Whether our scheduler has to schedule a pod and has not said anything about it."""
    conditions = map(as_mapping, as_list(get_value(pod, ("status", "conditions"))))
    return (
        scheduler_of(pod) == OURS
        and not get_value(pod, ("spec", "nodeName"))
        and not any(each.get("type") == "PodScheduled" for each in conditions)
    )


def describe_untried(lease: Value, namespace: str) -> str:
    """Say why a pod may not have been tried; `lease` is empty if there is none, None if unknown."""
    text = f"the scheduler {OURS} has not tried the pod yet"
    if lease is None:
        return text
    name = f"Lease {namespace}/{SCHEDULER_LEASE}"
    if not lease:
        return f"{text}: its {name} does not exist"
    holder = get_value(lease, ("spec", "holderIdentity"))
    if not holder:
        return f"{text}: its {name} has no holder"
    renewed = get_value(lease, ("spec", "renewTime")) or "an unknown time"
    return f"{text}: {holder} holds its {name}, renewed at {renewed}"


def is_marked(claim: Value) -> bool:
    """Whether the allocator has marked a claim, as it does before it writes an allocation."""
    return get_value(claim, ("metadata", "annotations", ALLOCATION_ANNOTATION)) is not None
