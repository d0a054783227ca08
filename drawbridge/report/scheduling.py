"""What a pod of Drawbridge's scheduler waits for, from the pod and the Lease of the scheduler."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.binding_conditions import find_unready
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.names import ALLOCATION_ANNOTATION, SCHEDULER_LEASE
from drawbridge.translate.changes.scheduler import DEFAULT, OURS

# The remedy for a pod whose devices are not ready.
WAIT_FOR_DRIVER: Final = (
    "Wait until the driver reports the conditions in the status of the claim, or read in its log "
    "why it does not."
)
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


def describe_lease(lease: Value, namespace: str) -> str:
    """Say who holds the Lease of our scheduler; it is empty if there is none, None if unknown."""
    if lease is None:
        return ""
    name = f"Lease {namespace}/{SCHEDULER_LEASE}"
    if not lease:
        return f"its {name} does not exist"
    holder = get_value(lease, ("spec", "holderIdentity"))
    if not holder:
        return f"its {name} has no holder"
    renewed = get_value(lease, ("spec", "renewTime")) or "an unknown time"
    return f"{holder} holds its {name}, renewed at {renewed}"


def is_being_bound(pod: Value, claims: Sequence[Value]) -> bool:
    """Whether a pod without a node has the devices of all these claims, and may use them."""
    uid = get_value(pod, ("metadata", "uid"))
    return (
        bool(claims)
        and not get_value(pod, ("spec", "nodeName"))
        and all(
            as_mapping(get_value(claim, ("status", "allocation"))) and is_reserved_for(claim, uid)
            for claim in claims
        )
    )


def is_reserved_for(claim: Value, uid: Value) -> bool:
    """Whether a claim is reserved for the consumer with a UID."""
    users = map(as_mapping, as_list(get_value(claim, ("status", "reservedFor"))))
    return any(each.get("uid") == uid for each in users)


def find_unready_devices(claims: Iterable[Value]) -> Iterator[str]:
    """Yield what each device with missing binding conditions does not report."""
    for read in map(read_claim, claims):
        if isinstance(read, Claim):
            yield from map(str, find_unready(read.status))


def is_marked(claim: Value) -> bool:
    """Whether the allocator has marked a claim, as it does before it writes an allocation."""
    return get_value(claim, ("metadata", "annotations", ALLOCATION_ANNOTATION)) is not None
