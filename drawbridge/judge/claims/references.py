"""Checks what claims and pods refer to: classes, claims, templates, and the requests of claims.

An object that does not exist is a warning, because it may be created later; a class in a file is an
error if its name is nearly that of a class that exists. A request that an
existing claim does not have is an error: the spec of a claim never changes. Where no cluster is
known, only the templates of a translation must be there, which are written with their pods.
"""

from collections.abc import Collection, Iterator
from typing import Final

from drawbridge.dra.claim import CLAIM, TEMPLATE, Devices, request_names
from drawbridge.dra.classes import KIND
from drawbridge.dra.counted import join_words
from drawbridge.dra.families import FAMILIES
from drawbridge.dra.similar_names import is_misspelt, suggest
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext, ObjectLookups
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim, Origin, Subject
from drawbridge.ledger.pods import Pod, PodClaim
from drawbridge.names import TEMPLATE_PREFIX

_FIELDS: Final = {CLAIM: "resourceClaimName", TEMPLATE: "resourceClaimTemplateName"}
_ADD_TEMPLATES: Final = "Give the file of templates as well, and apply it with the others."
_APPLY_TEMPLATES: Final = (
    "Apply the templates that the translation printed as well, before the pods or with them."
)


def check_references(subject: Subject, context: JudgeContext) -> Iterator[Finding | DeviceFinding]:
    """Report references of claims and pods to what does not exist."""
    if context.lookups.complete:
        for judged in subject.claims:
            yield from _check_classes(judged, subject.origin, context)
    if subject.pod is not None:
        yield from _check_pod(subject, subject.pod, context)


def _check_classes(judged: JudgedClaim, origin: Origin, context: JudgeContext) -> Iterator[Finding]:
    classes = context.world.classes
    for path, choice in judged.list_choices():
        name = choice.requested.device_class_name
        if name and name not in classes and not context.lookups.is_unreadable(KIND, "", name):
            message = f"{KIND} {name} does not exist{suggest(name, classes)}"
            # Whoever applies a class after its claims gets no denial for a similar name.
            is_wrong = origin is Origin.FILE and _is_misspelt(name, classes)
            code = codes.CLASS_MISSPELT if is_wrong else codes.CLASS_NOT_FOUND
            yield code.at(f"{path}.deviceClassName", message, object=judged.object)


def _is_misspelt(name: str, names: Collection[str]) -> bool:
    """Tell whether a class is one of the known classes with few letters wrong."""
    drivers = (family_class for family in FAMILIES for family_class in family.classes)
    return name not in drivers and is_misspelt(name, names)


def _check_pod(
    subject: Subject, pod: Pod, context: JudgeContext
) -> Iterator[Finding | DeviceFinding]:
    lookups = context.lookups
    above = f"{subject.pod_path}." if subject.pod_path else ""
    targets: dict[str, tuple[str, Devices] | None] = {}
    for i, entry in enumerate(pod.spec.resource_claims):
        path = f"{above}spec.resourceClaims[{i}]"
        if entry.name in targets:
            message = f"resourceClaims has several entries with the name {entry.name}"
            yield codes.POD_CLAIM_INVALID.at(f"{path}.name", message, object=subject.object)
        target = _find_target(entry, subject.namespace, lookups)
        targets.setdefault(entry.name, target)
        if target is None:
            yield from _check_entry(entry, path, subject, lookups)
    yield from _check_containers(pod, above, subject.object, targets)


def _find_target(
    entry: PodClaim, namespace: str, lookups: ObjectLookups
) -> tuple[str, Devices] | None:
    """Return the name and the devices of the object that an entry refers to."""
    if entry.resource_claim_template_name:
        name = entry.resource_claim_template_name
        template = lookups.find_template(namespace, name)
        if template is not None:
            return f"{TEMPLATE} {namespace}/{name}", template.spec.spec.devices
    elif entry.resource_claim_name:
        name = entry.resource_claim_name
        claim = lookups.find_claim(namespace, name)
        if claim is not None:
            return f"{CLAIM} {namespace}/{name}", claim.spec.devices
    return None


def _check_entry(
    entry: PodClaim, path: str, subject: Subject, lookups: ObjectLookups
) -> Iterator[Finding]:
    names = {CLAIM: entry.resource_claim_name, TEMPLATE: entry.resource_claim_template_name}
    kinds = [kind for kind, name in names.items() if name]
    if not kinds:
        message = f"claim {entry.name} needs {join_words(_FIELDS.values(), 'or')}"
        yield codes.POD_CLAIM_INVALID.at(path, message, object=subject.object)
    elif len(kinds) > 1:
        message = f"claim {entry.name} has {join_words(_FIELDS.values(), 'and')}"
        message = f"{message}, which exclude each other"
        yield codes.POD_CLAIM_INVALID.at(path, message, object=subject.object)
    elif lookups.complete or f"{names[TEMPLATE]}".startswith(TEMPLATE_PREFIX):
        yield from _check_object(kinds[0], f"{names[kinds[0]]}", path, subject, lookups)


def _check_object(
    kind: str, name: str, path: str, subject: Subject, lookups: ObjectLookups
) -> Iterator[Finding]:
    """Report a claim or a template that does not exist, unless it only cannot be read."""
    namespace = subject.namespace
    if lookups.is_unreadable(kind, namespace, name):
        return
    message, remedy = f"{kind} {namespace}/{name} does not exist", None
    if not lookups.complete:
        message, remedy = f"{kind} {namespace}/{name} is in none of the files", _ADD_TEMPLATES
    elif kind == TEMPLATE and name.startswith(TEMPLATE_PREFIX):
        remedy = _APPLY_TEMPLATES
    other = TEMPLATE if kind == CLAIM else CLAIM
    find = lookups.find_template if kind == CLAIM else lookups.find_claim
    if find(namespace, name) is not None:
        message = f"{message}, but {other} {namespace}/{name} does"
        remedy = f"Use {_FIELDS[other]} instead of {_FIELDS[kind]}."
    yield codes.CLAIM_NOT_FOUND.at(
        f"{path}.{_FIELDS[kind]}", message, object=subject.object, remedy=remedy
    )


def _check_containers(
    pod: Pod,
    above: str,
    about: str,
    targets: dict[str, tuple[str, Devices] | None],
) -> Iterator[Finding | DeviceFinding]:
    for kind, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for i, container in enumerate(containers):
            for j, use in enumerate(container.resources.claims):
                path = f"{above}spec.{kind}[{i}].resources.claims[{j}]"
                if use.name not in targets:
                    message = f"the pod has no claim {use.name}{suggest(use.name, targets)}"
                    finding = codes.CONTAINER_CLAIM_UNKNOWN
                    yield finding.at(f"{path}.name", message, object=about)
                elif use.request and (target := targets[use.name]) is not None:
                    yield from _check_request(use.request, target, f"{path}.request", about)


def _check_request(
    request: str, target: tuple[str, Devices], path: str, about: str
) -> Iterator[DeviceFinding]:
    owner, devices = target
    names = [each.name for each in devices.requests]
    if request in names:
        return
    if request in request_names(devices):
        main = request.partition("/")[0]
        hint = f"; containers name the request, not an alternative: {main}"
    else:
        hint = suggest(request, names)
    message = f"{owner} has no request {request}{hint}"
    # A cache may still have an older object of this name.
    yield DeviceFinding(codes.REQUEST_NOT_FOUND.at(path, message, object=about))
