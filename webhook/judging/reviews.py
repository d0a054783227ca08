"""Judge the object of a review: claims, templates, classes, pods, and workloads.

Reads bytes and never fails on any. The API server refuses an object that cannot be read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from drawbridge.config.policy import apply_policies
from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value, equal_json
from drawbridge.dra.claim import CLAIM, TEMPLATE, Claim, Template, claim_reader, template_reader
from drawbridge.dra.classes import KIND as CLASS
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.finding import Finding, Severity
from drawbridge.judge.claims.opaque_configs import check_class_configs
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.slices.classes import judge_classes
from drawbridge.judge.subject import Origin, Subject, claim_subject, pod_subject, template_subject
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.process.review import AdmissionRequest, Malformed, decode_object
from drawbridge.translate.manifests.workloads import Place, find_places
from webhook.admission.workloads import MAX_TEMPLATES, has_same_pods

_CLAIMS: Final = claim_reader()
_TEMPLATES: Final = template_reader()
_CLASSES: Final = class_reader()
_PODS: Final = pod_reader()
# The users of the controller that creates claims from templates, and of the scheduler.
CONTROL_PLANE_USERS: Final = frozenset(
    {
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:serviceaccount:kube-system:resource-claim-controller",
    }
)


def judge_review(request: AdmissionRequest, context: JudgeContext) -> tuple[Finding, ...]:
    """Return the findings about the object of a review, without information."""
    new = decode_object(request.object)
    if isinstance(new, Malformed) or get_value(new, ("metadata", "deletionTimestamp")) is not None:
        return ()
    judge = _JUDGES.get((request.kind.group, request.kind.kind))
    if judge is None:
        unchanged, judge = has_same_pods(request, new), _judge_workload
    else:
        unchanged = _has_same_spec(request, new)
    judged = () if unchanged else judge(new, request, context)
    return tuple(each for each in judged if each.severity is not Severity.INFO)


def _has_same_spec(request: AdmissionRequest, new: dict[str, Value]) -> bool:
    """Whether an update leaves the judged part unchanged."""
    if request.operation != "UPDATE":
        return False
    old = decode_object(request.old_object)
    return not isinstance(old, Malformed) and equal_json(old.get("spec"), new.get("spec"))


def _judge_claim(
    new: dict[str, Value], request: AdmissionRequest, context: JudgeContext
) -> tuple[Finding, ...]:
    claim = _CLAIMS.read(request.object)  # with keys that repeat in its configurations
    if not isinstance(claim, Claim):
        return ()
    claim = replace(claim, metadata=replace(claim.metadata, namespace=request.namespace))
    return judge_subject(claim_subject(claim, origin=find_origin(new, request)), context)


def _judge_template(
    _new: dict[str, Value], request: AdmissionRequest, context: JudgeContext
) -> tuple[Finding, ...]:
    template = _TEMPLATES.read(request.object)
    if not isinstance(template, Template):
        return ()
    metadata = replace(template.metadata, namespace=request.namespace)
    return judge_subject(template_subject(replace(template, metadata=metadata)), context)


def find_origin(new: dict[str, Value], request: AdmissionRequest) -> Origin:
    """Return who made a claim, by the requesting user and the owner. Annotations can be forged."""
    owners = get_value(new, ("metadata", "ownerReferences"))
    owned = isinstance(owners, list) and any(
        get_value(owner, ("kind",)) == "Pod" and get_value(owner, ("controller",)) is True
        for owner in owners
    )
    is_control_plane = owned and request.user_info.username in CONTROL_PLANE_USERS
    return Origin.CONTROL_PLANE if is_control_plane else Origin.USER


def _judge_class(
    _new: dict[str, Value], request: AdmissionRequest, context: JudgeContext
) -> Iterator[Finding]:
    """Judge a class among the others. The API server checks its expressions."""
    own = _CLASSES.read(request.object)
    if isinstance(own, DeviceClass):
        others = (each for name, each in context.world.classes.items() if name != own.metadata.name)
        judged = (*judge_classes((*others, own)), *check_class_configs(own))
        about = f"{CLASS}/{own.metadata.name}"
        mine = (each for each in judged if each.object == about)
        yield from apply_policies(mine, context.policies)


def _judge_pod(
    new: dict[str, Value], request: AdmissionRequest, context: JudgeContext
) -> tuple[Finding, ...]:
    subject = _find_pod_subject(new, request, context)
    return () if subject is None else judge_subject(subject, context)


def _judge_workload(
    new: dict[str, Value], request: AdmissionRequest, context: JudgeContext
) -> Iterator[Finding]:
    """Judge the pod templates of an object, each finding once."""
    about = f"{request.kind.kind}/{request.namespace}/{request.name}"
    subjects = [
        subject
        for place in find_places(new)[:MAX_TEMPLATES]
        if (subject := _find_pod_subject(place.pod, request, context, about, place)) is not None
    ]
    yield from dict.fromkeys(
        finding for subject in subjects for finding in judge_subject(subject, context)
    )


def _find_pod_subject(
    value: Value,
    request: AdmissionRequest,
    context: JudgeContext,
    about: str = "",
    place: Place | None = None,
) -> Subject | None:
    """Return the subject of a pod that refers to claims, or None."""
    if not get_value(value, ("spec", "resourceClaims")):
        return None
    pod = _PODS.read({"metadata": {}, **value} if isinstance(value, dict) else value)
    if not isinstance(pod, Pod):
        return None
    pod = replace(pod, metadata=replace(pod.metadata, namespace=request.namespace))
    path = "" if place is None else format_path(place.path)
    return pod_subject(pod, context.lookups, about, pod_path=path)


_Judge = Callable[[dict[str, Value], AdmissionRequest, JudgeContext], Iterable[Finding]]
_GROUP: Final = "resource.k8s.io"
_JUDGES: Final[Mapping[tuple[str, str], _Judge]] = {
    (_GROUP, CLAIM): _judge_claim,
    (_GROUP, TEMPLATE): _judge_template,
    (_GROUP, CLASS): _judge_class,
    ("", "Pod"): _judge_pod,
}
