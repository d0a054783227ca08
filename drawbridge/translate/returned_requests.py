"""Finds requests that another webhook put back although the pod already has a claim for them.

The API server calls the webhook again after other webhooks changed the pod. A second claim for the
same request would allocate its devices twice. The undo patch tells which requests the claim
replaced. Any user can write that patch, so it only decides which requests are removed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.paths import Path, format_path, get_value, parse_path
from drawbridge.documents.values import Value, as_list, as_mapping, equal_json
from drawbridge.dra.classes import is_implicit_name
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity
from drawbridge.names import ORIGINAL_ANNOTATION, POD_CLAIM, TEMPLATE_PREFIX
from drawbridge.translate.changes.codes import (
    REQUEST_BESIDE_CLAIM,
    REQUEST_RETURNED,
    TRANSLATION_CHANGED,
)
from drawbridge.translate.changes.patch import (
    Patch,
    describe_misfit,
    had_claims,
    list_restored,
    restore_original,
)
from drawbridge.translate.changes.template import READABLE_DIGITS
from drawbridge.translate.changes.undo import Operation
from drawbridge.translate.legacy.asks import NO_REQUESTS, PodRequests
from drawbridge.translate.legacy.codes import REQUESTS_CONTRADICT
from drawbridge.translate.legacy.pod_view import (
    DeviceResource,
    annotation_path,
    format_value,
    is_device_resource,
    is_requested,
    list_containers,
    view_pod,
)
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.original_requests import PodInput, find_left

# The fields of an ask that describe its devices.
_DEVICES: Final = attrgetter(
    "kind", "named", "vendor", "count", "share", "selectors", "alternatives", "distinct",
    "colocation", "joint", "admin", "partition", "passthrough", "settings", "users",
)  # fmt: skip
# A readable template name does not say that it is from a translation; the name of the claim does.
_POD_CLAIM: Final = re.compile(rf"{POD_CLAIM}(-\d+)?")
_READABLE_NAME: Final = re.compile(rf".+-[0-9a-f]{{{READABLE_DIGITS}}}")
_REMEDY: Final = (
    "Remove the request. To request other devices, remove the claim of Drawbridge and the "
    f"annotation {ORIGINAL_ANNOTATION} instead."
)


class PodWithoutReturned(msgspec.Struct, frozen=True):
    """A pod without the requests that were put back, and the edits that remove them."""

    pod: Value
    edits: tuple[Edit, ...] = ()
    operations: tuple[Operation, ...] = ()
    findings: tuple[Finding, ...] = ()


class _Comparison(NamedTuple):
    """The requests beside a claim now, and those of the pod before its translation."""

    pod: Value
    requests: list[DeviceResource]
    original: Value
    original_requests: Mapping[Path, Mapping[str, DeviceResource]]  # by container and name
    configuration: Configuration

    def find_original(self, request: DeviceResource) -> DeviceResource | None:
        """Return the request of the same container for the same resource before."""
        return self.original_requests.get(request.container, {}).get(request.name)


def remove_returned_requests(
    given: PodInput, configuration: Configuration, facts: Facts | None
) -> PodWithoutReturned:
    """Remove the requests for which their container, or the pod, already has a claim.

    A request for other devices than those of the claim is an error.
    """
    pod = given.pod
    annotations = as_mapping(as_mapping(as_mapping(pod).get("metadata")).get("annotations"))
    if not isinstance(annotations.get(ORIGINAL_ANNOTATION), str):
        return PodWithoutReturned(pod)
    patch, findings = Patch(pod), list[Finding]()
    for path, finding in _find_returned_fields(pod, configuration):
        patch.remove(path)
        findings.append(finding)
    if not any(each.severity is Severity.ERROR for each in findings):
        findings += _remove_from_containers(patch, given, configuration, facts)
    if any(each.severity is Severity.ERROR for each in findings):
        return PodWithoutReturned(pod, findings=tuple(findings))
    return PodWithoutReturned(
        patch.pod, tuple(patch.edits), tuple(patch.operations), tuple(findings)
    )


def report_beside_claims(
    pod: Value, configuration: Configuration, facts: Facts | None
) -> Iterator[Finding]:
    """Report the requests of a pod beside its claims, with warnings.

    Admission removes those that ask for the devices of the claims once more, and refuses others.
    Where it does not see the pod, they stay: a client that applies a translated manifest keeps the
    fields of others.
    """
    if not read_pod(pod, configuration).asks:
        return
    given = PodInput(pod, "", admin_access=None)
    for finding in remove_returned_requests(given, configuration, facts).findings:
        if finding.code == REQUEST_RETURNED.name:
            container = as_mapping(get_value(pod, parse_path(finding.path)[:3])).get("name")
            who = f"container {container}" if container else "the pod"
            message = f"{who} has a claim for the devices that it requests here"
            yield REQUEST_BESIDE_CLAIM.at(finding.path, message)
        else:
            yield replace(finding, severity=Severity.WARNING)


def report_changed(
    pod: Value, configuration: Configuration, *, is_requested: bool
) -> tuple[Finding, ...]:
    """Report that a pod is not as its translation left it, so that the undo patch does not fit.

    `is_requested` is whether it gets new claims. Their devices can be those of a claim that it has.
    A pod that lost all its claims, and requests nothing, would start without its devices.
    """
    why, path = describe_misfit(pod), annotation_path(ORIGINAL_ANNOTATION)
    if not why or (is_requested and not list_own_claims(pod)):
        return ()
    message = f"somebody changed what the translation of the pod wrote: {why}"
    if not is_requested and _has_lost_claims(pod, configuration):
        message = f"{message}, and no container has a claim or requests devices"
        lost = TRANSLATION_CHANGED.at(path, message)
        return (replace(lost, severity=Severity.ERROR),)
    if not is_requested:
        return (TRANSLATION_CHANGED.at(path, message),)
    message = f"{message}, and the pod requests devices beside its claims"
    return (REQUESTS_CONTRADICT.at(path, message, remedy=_REMEDY),)


def _has_lost_claims(pod: Value, configuration: Configuration) -> bool:
    """Whether a translation wrote claims and no container has any, nor requests devices."""
    has_any = any(
        as_list(as_mapping(raw.get("resources")).get("claims")) or _requests_devices(raw)
        for _, raw, _ in list_containers(as_mapping(get_value(pod, ("spec",))))
    )
    return had_claims(pod) and not has_any and not read_pod(pod, configuration).asks


def _requests_devices(container: Mapping[str, Value]) -> bool:
    """Whether a container requests devices of a plugin or a class, of any name."""
    resources = as_mapping(container.get("resources"))
    names = chain.from_iterable(as_mapping(resources.get(part)) for part in ("limits", "requests"))
    return any(
        is_requested(resources, name)
        for name in names
        if is_device_resource(name) or is_implicit_name(name)
    )


def _find_returned_fields(
    pod: Value, configuration: Configuration
) -> Iterator[tuple[Path, Finding]]:
    """Yield the annotations, labels and node labels of requests that the translation removed."""
    # The fields of containers have longer paths.
    restored = [path for path in list_restored(pod) if len(path) == 3]
    returned = [path for path in restored if get_value(pod, path) is not None]
    original = restore_original(pod) if returned else None
    for field in read_pod(original, configuration).source_fields if original is not None else ():
        path = (*field.path, field.name)
        theirs = get_value(pod, path)
        text = f"{field.name}: {format_value(theirs)}"
        if not field.removed or path not in returned:
            continue
        if equal_json(theirs, field.value):
            message = f"removed {text}, because the pod already has a claim for it"
            yield path, REQUEST_RETURNED.at(format_path(path), message)
        else:
            message = f"the pod requests {text}, but has a claim for {format_value(field.value)}"
            yield path, REQUESTS_CONTRADICT.at(format_path(path), message, remedy=_REMEDY)


def _remove_from_containers(
    patch: Patch, given: PodInput, configuration: Configuration, facts: Facts | None
) -> list[Finding]:
    """Remove the requests for which their container already has a claim."""
    pod = patch.pod
    requests = _find_beside_claims(pod, configuration)
    original = restore_original(_leave_out(pod, requests)) if requests else None
    if original is None:
        return []
    left = find_left(given, configuration, facts)
    replaced = _list_resources(original, configuration)
    requests = [
        each
        for each in requests
        if (each.container, each.name) not in left or each.name in replaced.get(each.container, {})
    ]
    original = restore_original(_leave_out(pod, requests))
    idle = _find_idle(pod, requests, configuration)
    comparison = _Comparison(
        _leave_out(pod, idle),
        [each for each in requests if each not in idle],
        original,
        _list_resources(original, configuration),
        configuration,
    )
    if findings := [*_find_contradictions(comparison)]:
        return findings
    removed = [*idle, *_find_returned(comparison)]
    for path in _list_paths(removed):
        patch.remove(path)
    return [*map(_report, removed)]


def _list_resources(
    pod: Value, configuration: Configuration
) -> Mapping[Path, Mapping[str, DeviceResource]]:
    """Return the device requests of a pod by container and name."""
    containers = view_pod(pod, configuration.legacy).containers
    return {each.user.path: each.resources for each in containers}


def _report(request: DeviceResource) -> Finding:
    return REQUEST_RETURNED.at(
        request.where,
        f"removed {request.original_name}: {request.amount_text}, because the container already "
        "has a claim for it",
    )


def _find_beside_claims(pod: Value, configuration: Configuration) -> list[DeviceResource]:
    """Return the device requests of the containers that also use a claim of Drawbridge."""
    ours = list_own_claims(pod)
    requests: list[DeviceResource] = []
    for container in view_pod(pod, configuration.legacy).containers if ours else ():
        used = as_list(as_mapping(container.raw.get("resources")).get("claims"))
        if any(f"{as_mapping(one).get('name')}" in ours for one in used):
            requests += container.resources.values()
    return requests


def restore_translated(pod: Value) -> Value | None:
    """Return a pod as it was before Drawbridge translated it; None for any other pod.

    The annotation alone proves nothing, because any user can write it: the pod has claims of
    Drawbridge, and the undo patch takes them back.
    """
    original = restore_original(pod) if list_own_claims(pod) else None
    return None if list_own_claims(original) else original


def list_own_claims(pod: Value) -> set[str]:
    """Return the names of the claims of a pod that are from a template of Drawbridge."""
    spec = as_mapping(as_mapping(pod).get("spec"))
    claims = map(as_mapping, as_list(spec.get("resourceClaims")))
    return {f"{claim.get('name')}" for claim in claims if _is_ours(claim)}


def _is_ours(claim: Mapping[str, Value]) -> bool:
    """Whether a claim of a pod is from a template of Drawbridge."""
    name, template = f"{claim.get('name')}", f"{claim.get('resourceClaimTemplateName')}"
    is_readable = _POD_CLAIM.fullmatch(name) and _READABLE_NAME.fullmatch(template)
    return template.startswith(TEMPLATE_PREFIX) or bool(is_readable)


def _find_idle(
    pod: Value, requests: list[DeviceResource], configuration: Configuration
) -> list[DeviceResource]:
    """Return the requests of containers that request no devices, for example by a count of 0."""
    current = read_pod(pod, configuration)
    with_asks = {user.path for ask in current.asks for user in ask.users}
    removed = _list_removed(current)
    return [
        request
        for request in requests
        if request.container not in with_asks and _is_among(request, removed)
    ]


def _list_removed(reading: PodRequests) -> set[tuple[Path, str | int]]:
    """Return the fields that dialects read and remove."""
    return {(field.path, field.name) for field in reading.source_fields if field.removed}


def _is_among(request: DeviceResource, fields: set[tuple[Path, str | int]]) -> bool:
    return any((field.path, field.name) in fields for field in request.source_fields())


def _leave_out(pod: Value, resources: list[DeviceResource]) -> Value:
    """Return a pod without these resources; the undo patch needs the objects that had them."""
    return apply_edits(pod, [Edit("remove", path) for path in _list_paths(resources)])


def _list_paths(resources: list[DeviceResource]) -> list[Path]:
    fields = [field for request in resources for field in request.source_fields()]
    return [(*each.path, each.name) for each in fields]


def _find_contradictions(compared: _Comparison) -> Iterator[Finding]:
    """Yield the requests that change those for which the claim was made."""
    changed = False
    for request in compared.requests:
        before = compared.find_original(request)
        if before is not None and before.amount != request.amount:
            changed = True
            why = f"for {request.name}: {before.amount_text}"
            yield _contradict(compared.pod, request, why)
    if changed:
        return
    restored = restore_original(compared.pod)
    if not _count_asks(compared.original, compared) - _count_asks(restored, compared):
        return
    for request in compared.requests:
        if compared.find_original(request) is None:
            yield _contradict(compared.pod, request, "that does not include it")


def _contradict(pod: Value, request: DeviceResource, why: str) -> Finding:
    name = as_mapping(get_value(pod, request.container)).get("name")
    return REQUESTS_CONTRADICT.at(
        request.where,
        f"container {name} requests {request.original_name}: {request.amount_text}, but has a "
        f"claim {why}",
        remedy=_REMEDY,
    )


def _find_returned(compared: _Comparison) -> list[DeviceResource]:
    """Return the requests of the original pod, and those that add nothing to them.

    A request that adds an ask is a new one, or one that was left to its device plugin.
    """
    restored = restore_original(compared.pod)
    adds_no_ask = _count_asks(restored, compared) == _count_asks(compared.original, compared)
    read = read_pod(restored, compared.configuration) if adds_no_ask else NO_REQUESTS
    removed = _list_removed(read)
    return [
        request
        for request in compared.requests
        if compared.find_original(request) is not None or _is_among(request, removed)
    ]


def _count_asks(pod: Value, compared: _Comparison) -> Counter[object]:
    """Count the asks of a pod, whatever the dialect and the resources that express them."""
    return Counter(map(_DEVICES, read_pod(pod, compared.configuration).asks))
