"""Finds requests that another webhook put back into a container that already has its claim.

The API server calls the webhook again after other webhooks changed the pod. A second claim for the
same request would allocate its devices twice. The undo patch tells which requests the claim
replaced. Any user can write that patch, so it only decides which requests are removed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

import msgspec

from drawbridge.config.model import Legacy
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import ORIGINAL_ANNOTATION, TEMPLATE_PREFIX
from drawbridge.translate.changes.codes import REQUEST_RETURNED
from drawbridge.translate.changes.patch import Patch, restore_original
from drawbridge.translate.changes.undo import Operation
from drawbridge.translate.legacy.codes import REQUESTS_CONTRADICT
from drawbridge.translate.legacy.pod_view import (
    Container,
    DeviceResource,
    as_list,
    as_mapping,
    view_pod,
)
from drawbridge.translate.legacy.read import read_pod

# The fields of an ask that describe its devices.
_DEVICES: Final = attrgetter(
    "kind", "vendor", "count", "share", "selectors", "alternatives", "distinct", "colocation",
    "joint", "admin", "partition", "passthrough", "settings", "users",
)  # fmt: skip
_REMEDY: Final = (
    "Remove the resource. To request other devices, remove the claim of Drawbridge and the "
    f"annotation {ORIGINAL_ANNOTATION} instead."
)


class PodWithoutReturned(msgspec.Struct, frozen=True):
    """A pod without the requests that were put back, and the edits that remove them."""

    pod: Value
    edits: tuple[Edit, ...] = ()
    operations: tuple[Operation, ...] = ()
    findings: tuple[Finding, ...] = ()


def remove_returned_requests(pod: Value, legacy: Legacy) -> PodWithoutReturned:
    """Remove the requests for which their container already has a claim.

    A request for other devices than those of the claim is an error.
    """
    annotations = as_mapping(as_mapping(as_mapping(pod).get("metadata")).get("annotations"))
    if not isinstance(annotations.get(ORIGINAL_ANNOTATION), str):
        return PodWithoutReturned(pod)
    present = _find_present(pod, legacy)
    original = restore_original(_remove(pod, present).pod) if present else None
    if original is None:
        return PodWithoutReturned(pod)
    before = {each.user.path: each.resources for each in view_pod(original, legacy).containers}
    idle = _find_idle(pod, present, legacy)
    rest = _remove(pod, idle).pod
    asking = _find_present(rest, legacy)
    if findings := tuple(_find_contradictions(rest, original, asking, before, legacy)):
        return PodWithoutReturned(pod, findings=findings)
    returned = [*idle, *_find_returned(rest, original, asking, before, legacy)]
    patch = _remove(pod, returned)
    return PodWithoutReturned(
        patch.pod, tuple(patch.edits), tuple(patch.operations), tuple(map(_report, returned))
    )


def _report(one: DeviceResource) -> Finding:
    return REQUEST_RETURNED.at(
        one.where,
        f"removed {one.original_name}: {one.amount_text}, because the container already has a "
        "claim for it",
    )


def _find_present(pod: Value, legacy: Legacy) -> list[DeviceResource]:
    """Return the device resources of the containers that use a claim of Drawbridge."""
    held = _find_held_containers(pod, legacy)
    return [resource for each in held for resource in each.resources.values()]


def _find_held_containers(pod: Value, legacy: Legacy) -> Iterator[Container]:
    """Yield the containers that use a claim from a template of Drawbridge."""
    spec = as_mapping(as_mapping(pod).get("spec"))
    ours = {
        f"{as_mapping(claim).get('name')}"
        for claim in as_list(spec.get("resourceClaims"))
        if str(as_mapping(claim).get("resourceClaimTemplateName")).startswith(TEMPLATE_PREFIX)
    }
    for container in view_pod(pod, legacy).containers if ours else ():
        used = as_list(as_mapping(container.raw.get("resources")).get("claims"))
        if any(as_mapping(one).get("name") in ours for one in used):
            yield container


def _find_idle(pod: Value, present: list[DeviceResource], legacy: Legacy) -> list[DeviceResource]:
    """Return the requests of containers that request no devices, for example by a count of 0."""
    current = read_pod(pod, legacy)
    asking = {user.path for ask in current.asks for user in ask.users}
    read = {(field.path, field.name) for field in current.source_fields if field.removed}
    return [
        one
        for one in present
        if one.container not in asking
        and any((field.path, field.name) in read for field in one.source_fields())
    ]


def _remove(pod: Value, resources: list[DeviceResource]) -> Patch:
    patch = Patch(pod)
    for one in resources:
        for field in one.source_fields():
            patch.remove((*field.path, field.name))
    return patch


_Before = Mapping[Path, Mapping[str, DeviceResource]]


def _find_contradictions(
    pod: Value, original: Value, present: list[DeviceResource], before: _Before, legacy: Legacy
) -> Iterator[Finding]:
    """Yield the requests that change those for which the claim was made."""
    changed = False
    for one in present:
        was = before.get(one.container, {}).get(one.name)
        if was is not None and was.amount != one.amount:
            changed = True
            yield _contradict(pod, one, f"for {one.name}: {was.amount_text}")
    if changed or not _count_asks(original, legacy) - _count_asks(restore_original(pod), legacy):
        return
    for one in present:
        if one.name not in before.get(one.container, {}):
            yield _contradict(pod, one, "that does not include it")


def _contradict(pod: Value, one: DeviceResource, why: str) -> Finding:
    name = as_mapping(get_value(pod, one.container)).get("name")
    return REQUESTS_CONTRADICT.at(
        one.where,
        f"container {name} requests {one.original_name}: {one.amount_text}, but has a claim {why}",
        remedy=_REMEDY,
    )


def _find_returned(
    pod: Value, original: Value, present: list[DeviceResource], before: _Before, legacy: Legacy
) -> list[DeviceResource]:
    """Return the requests of the original pod, and those that add nothing to them.

    A request that adds an ask is a new one, or one that was left to its device plugin.
    """
    whole = restore_original(pod)
    same = _count_asks(whole, legacy) == _count_asks(original, legacy)
    read = {
        (field.path, field.name)
        for field in (read_pod(whole, legacy).source_fields if same else ())
        if field.removed
    }
    return [
        one
        for one in present
        if one.name in before.get(one.container, {})
        or any((field.path, field.name) in read for field in one.source_fields())
    ]


def _count_asks(pod: Value, legacy: Legacy) -> Counter[object]:
    """Count the asks of a pod, whatever the dialect and the resources that express them."""
    return Counter(map(_DEVICES, read_pod(pod, legacy).asks))
