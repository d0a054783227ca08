"""Checks what claims and pods refer to: classes, claims, templates, and the requests of claims.

An object that does not exist is a warning, because it may be created later. A request that an
existing claim does not have is an error: the spec of a claim never changes.
"""

from collections.abc import Collection, Iterator
from typing import Final

from drawbridge.dra import similar_names
from drawbridge.dra.claim import CLAIM, TEMPLATE, Devices, request_choices, request_names
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext, ObjectLookups
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.judge.work import COMPARISONS, Work
from drawbridge.ledger.pods import Pod, PodClaim

# To compare two names letter by letter.
UNITS_OF_NAME: Final = 4


def check_references(subject: Subject, context: JudgeContext) -> Iterator[Finding | DeviceFinding]:
    """Report references of claims and pods to what does not exist."""
    if context.lookups.complete:
        for judged in subject.claims:
            yield from _check_classes(judged, context.world.classes, context.work)
    if subject.pod is not None:
        yield from _check_pod(subject, subject.pod, context)


def _check_classes(judged: JudgedClaim, known: Collection[str], work: Work) -> Iterator[Finding]:
    for i, request in enumerate(judged.claim.spec.devices.requests):
        for j, choice in enumerate(request_choices(request)):
            name = choice.requested.device_class_name
            if name not in known:
                inside = ".exactly" if request.exactly is not None else f".firstAvailable[{j}]"
                path = f"{judged.request_path(i)}{inside}.deviceClassName"
                message = f"DeviceClass {name} does not exist{suggest(name, known, work)}"
                yield codes.CLASS_NOT_FOUND.at(path, message, object=judged.object)


def _check_pod(
    subject: Subject, pod: Pod, context: JudgeContext
) -> Iterator[Finding | DeviceFinding]:
    lookups, work = context.lookups, context.work
    above = f"{subject.pod_path}." if subject.pod_path else ""
    targets: dict[str, tuple[str, Devices] | None] = {}
    for i, entry in enumerate(pod.spec.resource_claims):
        work.spend(1)
        path = f"{above}spec.resourceClaims[{i}]"
        if entry.name in targets:
            message = f"resourceClaims has several entries with the name {entry.name}"
            yield codes.POD_CLAIM_INVALID.at(f"{path}.name", message, object=subject.object)
        target = _find_target(entry, subject.namespace, lookups)
        targets.setdefault(entry.name, target)
        if target is None:
            yield from _check_entry(entry, path, subject, complete=lookups.complete)
    yield from _check_containers(pod, above, subject.object, targets, work)


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
    entry: PodClaim, path: str, subject: Subject, *, complete: bool
) -> Iterator[Finding]:
    named = {
        "resourceClaimName": (CLAIM, entry.resource_claim_name),
        "resourceClaimTemplateName": (TEMPLATE, entry.resource_claim_template_name),
    }
    references = {field: (kind, name) for field, (kind, name) in named.items() if name}
    if len(references) != 1:
        message = f"claim {entry.name} must have exactly one of {' and '.join(named)}"
        yield codes.POD_CLAIM_INVALID.at(path, message, object=subject.object)
    elif complete:
        ((field, (kind, name)),) = references.items()
        message = f"{kind} {subject.namespace}/{name} does not exist"
        yield codes.CLAIM_NOT_FOUND.at(f"{path}.{field}", message, object=subject.object)


def _check_containers(
    pod: Pod,
    above: str,
    about: str,
    targets: dict[str, tuple[str, Devices] | None],
    work: Work,
) -> Iterator[Finding | DeviceFinding]:
    for kind, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for i, container in enumerate(containers):
            for j, use in enumerate(container.resources.claims):
                work.spend(1)
                path = f"{above}spec.{kind}[{i}].resources.claims[{j}]"
                if use.name not in targets:
                    message = f"the pod has no claim {use.name}{suggest(use.name, targets, work)}"
                    finding = codes.CONTAINER_CLAIM_UNKNOWN
                    yield finding.at(f"{path}.name", message, object=about)
                elif use.request and (target := targets[use.name]) is not None:
                    yield from _check_request(use.request, target, f"{path}.request", about, work)


def _check_request(
    request: str, target: tuple[str, Devices], path: str, about: str, work: Work
) -> Iterator[DeviceFinding]:
    owner, devices = target
    names = [each.name for each in devices.requests]
    work.spend(1 + len(names) // COMPARISONS)
    if request in names:
        return
    if request in request_names(devices):
        main = request.partition("/")[0]
        hint = f"; containers name the request, not an alternative: {main}"
    else:
        hint = suggest(request, names, work)
    message = f"{owner} has no request {request}{hint}"
    # A cache may still have an older object of this name.
    yield DeviceFinding(codes.REQUEST_NOT_FOUND.at(path, message, object=about))


def suggest(name: str, known: Collection[str], work: Work) -> str:
    """Return a hint with the known name that the writer probably meant, or nothing."""
    work.spend(len(known) * UNITS_OF_NAME)
    return similar_names.suggest(name, known)
