"""Reports why a pod cannot get claims: nothing schedules it, or a field has the wrong type."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.decode_errors import describe_value
from drawbridge.finding import Finding, Severity
from drawbridge.names import TRANSLATE_LABEL
from drawbridge.translate.changes.scheduler import NEVER_RUNS_CLAIMS, SCHEDULER
from drawbridge.translate.decisions.codes import (
    PLACE_TAKEN,
    POD_BOUND,
    POD_MIRRORED,
    SCHEDULER_WITHOUT_CLAIMS,
)
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.legacy.pod_view import annotation_path
from drawbridge.translate.returned_requests import list_own_claims

_OBJECT: Final = (dict, type(None))
_LIST: Final = (list, type(None))
_MIRROR: Final = "kubernetes.io/config.mirror"
# Read in Slurm bridge 1.2, whose webhook denies pods with claims, and YuniKorn 1.9, which binds a
# pod without the steps in which a scheduler writes allocations.
_WITHOUT_CLAIMS: Final = {
    "slurm-bridge-scheduler": "denies pods with claims",
    "yunikorn": "allocates no claims",
}
_NEVER_RUNS: Final = (*_WITHOUT_CLAIMS, *NEVER_RUNS_CLAIMS)
_LATE_REMEDY: Final = (
    "Exclude these pods from the webhook that sets the scheduler, make it run before "
    f'pods.drawbridge.dev, or set label {TRANSLATE_LABEL}: "off" on the pods.'
)


def check_late_scheduler(pod: Value) -> tuple[Finding, ...]:
    """Refuse a translated pod to which a later webhook gave a scheduler that never runs it."""
    name = get_value(pod, SCHEDULER)
    if name not in _NEVER_RUNS or not list_own_claims(pod) or get_value(pod, ("spec", "nodeName")):
        return ()
    message = (
        f"{name} does not run pods with claims, and the pod has claims of a translation already, "
        "so it would never run"
    )
    late = SCHEDULER_WITHOUT_CLAIMS.at(format_path(SCHEDULER), message, remedy=_LATE_REMEDY)
    return (replace(late, severity=Severity.ERROR),)


def check_late_node(pod: Value) -> tuple[Finding, ...]:
    """Report a created pod with claims of a translation to which a later webhook gave a node."""
    node = get_value(pod, ("spec", "nodeName"))
    if not node or not list_own_claims(pod):
        return ()
    message = (
        f"the pod is already assigned to node {node}, and has claims of a translation already, "
        "which no scheduler allocates"
    )
    return (POD_BOUND.at("spec.nodeName", message),)


def check_changeable(pod: Value) -> tuple[Finding, ...]:
    """Report a pod that no scheduler handles with claims, so that none would be allocated."""
    fields = as_mapping(pod)
    if as_mapping(as_mapping(fields.get("metadata")).get("annotations")).get(_MIRROR) is not None:
        return (POD_MIRRORED.at(annotation_path(_MIRROR), "the pod is the mirror of a static pod"),)
    node = as_mapping(fields.get("spec")).get("nodeName")
    if node:
        return (POD_BOUND.at("spec.nodeName", f"the pod is already assigned to node {node}"),)
    scheduler = as_mapping(fields.get("spec")).get("schedulerName")
    if isinstance(scheduler, str) and scheduler in _WITHOUT_CLAIMS:
        message = f"{scheduler} {_WITHOUT_CLAIMS[scheduler]}, so the pod stays as it is"
        return (SCHEDULER_WITHOUT_CLAIMS.at("spec.schedulerName", message),)
    return ()


def report_wrong_types(pod: Value, asks: Sequence[Ask]) -> list[Finding]:
    """Report fields of a wrong type; replacing them would lose something of the user's."""
    metadata, spec = as_mapping(pod).get("metadata"), as_mapping(as_mapping(pod).get("spec"))
    objects: list[tuple[Path, Value]] = [
        (("metadata",), metadata),
        (("metadata", "annotations"), as_mapping(metadata).get("annotations")),
    ]
    lists: list[tuple[Path, Value]] = [
        (("spec", "resourceClaims"), spec.get("resourceClaims")),
        (("spec", "tolerations"), spec.get("tolerations")),
    ]
    for user in dict.fromkeys([user.path for ask in asks for user in ask.users]):
        container = as_mapping(get_value(pod, user))
        resources = container.get("resources")
        objects.append(((*user, "resources"), resources))
        lists.append(((*user, "resources", "claims"), as_mapping(resources).get("claims")))
        lists.append(((*user, "env"), container.get("env")))
    wrong = [(path, "an object", each) for path, each in objects if not isinstance(each, _OBJECT)]
    also_wrong = [(path, "a list", each) for path, each in lists if not isinstance(each, _LIST)]
    return [
        PLACE_TAKEN.at(
            format_path(path),
            f"{format_path(path)} must be {expected}, not {describe_value(value)}",
            remedy=f"Write {format_path(path)} as {expected}, or remove it.",
        )
        for path, expected, value in (*wrong, *also_wrong)
    ]
