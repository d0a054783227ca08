"""What a scheduler tells the allocator of a pod and its claims."""

from collections.abc import Iterable

import msgspec

from allocator.scheduler.protocol import SchedulingPod
from drawbridge.names import SCHEDULER_NAME
from tests.cluster.fake.kinds import JSON
from tests.world import clock
from tests.world.gates import is_gated, is_let_in
from tests.world.nodes import claim_names
from tests.world.objects import is_over


def is_waiting(pod: JSON) -> bool:
    """Whether our scheduler has a pod in its queue."""
    is_ours = pod["spec"].get("schedulerName") == SCHEDULER_NAME
    return is_ours and not has_ended(pod) and "nodeName" not in pod["spec"] and not is_gated(pod)


def must_be_tried(before: JSON | None, after: JSON) -> bool:
    """Whether a change brings a pod without a node to the queue."""
    if before is None or "nodeName" in before["spec"]:  # etcd has gone back
        return True
    return claim_names(before) != claim_names(after) or is_let_in(before, after)


def has_allocation(claims: Iterable[JSON]) -> bool:
    """Whether one of these claims is allocated."""
    return any((claim.get("status") or {}).get("allocation") for claim in claims)


def has_ended(pod: JSON) -> bool:
    """Whether a pod ends or has ended."""
    return "deletionTimestamp" in pod["metadata"] or is_over(pod)


def describe(pod: JSON) -> SchedulingPod:
    """Return what the allocator is told of a pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    value = {key: metadata[key] for key in ("namespace", "name", "uid")}
    value |= {"priority": spec.get("priority", 0), "tolerations": spec.get("tolerations", [])}
    return msgspec.convert(value, SchedulingPod)


def describe_waiting(pod: JSON, message: str) -> JSON | None:
    """Return the condition of a pod that waits, with its first time; None if the pod has it."""
    conditions = (pod.get("status") or {}).get("conditions", ())
    told = [each for each in conditions if each["type"] == "PodScheduled"]
    since = next((e["lastTransitionTime"] for e in told if e["status"] == "False"), "")
    about = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    since = since or f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"
    condition = {**about, "message": message, "lastTransitionTime": since}
    return None if condition in told else condition


def encode(claims: Iterable[JSON]) -> tuple[msgspec.Raw, ...]:
    """Return claims as they are sent."""
    return tuple(msgspec.Raw(msgspec.json.encode(claim)) for claim in claims)
