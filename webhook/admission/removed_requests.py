"""Find the device requests that a translation removed from a pod, and describe what replaces them.

The pod before and after the translation is compared, so the result does not depend on a dialect.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.quantity import valid_quantity
from drawbridge.names import POD_ANNOTATIONS
from drawbridge.translate.legacy.pod_view import format_value, is_device_resource, is_requested

_PARTS: Final = ("limits", "requests")


class ContainerRequests(msgspec.Struct, frozen=True):
    """The resources of a container before and after the translation."""

    path: Path
    name: str
    init: bool  # an init container that ends before the other containers start
    before: Mapping[str, Value]
    after: Mapping[str, Value]
    removed: tuple[str, ...] = ()  # the names of removed resources

    def get_amounts(self, part: str, names: tuple[str, ...]) -> dict[str, int]:
        """Return the original limits or requests with these names."""
        resources = as_mapping(self.before.get(part))
        return {name: _read_amount(resources[name]) for name in names if name in resources}

    def describe_removed(self) -> Iterator[str]:
        """Describe each removed resource."""
        for name in self.removed:
            parts = (as_mapping(self.before.get(part)).get(name) for part in _PARTS)
            amount = next((each for each in parts if each is not None), 0)
            yield f"{name}: {format_value(amount)} of container {self.name}"


def describe_requests(pod: Value) -> Iterator[str]:
    """Describe each device resource that a container of the pod requests; 0 requests none."""
    for container in _compare_containers(pod, {}):
        names = tuple(each for each in container.removed if is_requested(container.before, each))
        yield from replace(container, removed=names).describe_removed()


class RemovedRequests(msgspec.Struct, frozen=True):
    """The device requests that a translation removed from a pod."""

    names: tuple[str, ...] = ()
    containers: tuple[ContainerRequests, ...] = ()  # all containers of the pod
    annotations: tuple[str, ...] = ()  # "key: value"


def find_removed_requests(before: Value, after: Value) -> RemovedRequests:
    """Compare a pod before and after the translation."""
    containers = tuple(_compare_containers(before, after))
    names = tuple(dict.fromkeys(name for each in containers for name in each.removed))
    return RemovedRequests(names, containers, tuple(_removed_annotations(before, after)))


def add_earlier(removed: RemovedRequests, restored: RemovedRequests) -> RemovedRequests:
    """Return what is removed now, and what an earlier translation of the pod has removed.

    The undo patch tells of the earlier one. A tenant can write that, so it only adds requests.
    """
    pairs = zip_longest(removed.containers, restored.containers)
    containers = tuple(_join(now or then, then or now) for now, then in pairs)
    names = tuple(dict.fromkeys((*removed.names, *restored.names)))
    return replace(removed, names=names, containers=containers)


def _join(now: ContainerRequests, then: ContainerRequests) -> ContainerRequests:
    before: dict[str, Value] = {}
    for part in _PARTS:
        asked, restored = (as_mapping(each.before.get(part)) for each in (now, then))
        # What was translated earlier can have an amount of 0 now.
        new = {name: max(asked[name], restored.get(name), key=_read_amount) for name in asked}
        before[part] = {**restored, **new}
    names = tuple(dict.fromkeys((*now.removed, *then.removed)))
    return replace(now, before=before, removed=names)


def _compare_containers(before: Value, after: Value) -> Iterator[ContainerRequests]:
    """Compare the containers of a pod with those of the other; a missing one requests nothing."""
    for path in (("spec", "initContainers"), ("spec", "containers")):
        pairs = zip_longest(as_list(get_value(before, path)), as_list(get_value(after, path)))
        for number, (old, new) in enumerate(pairs):
            yield _compare_container((*path, number), as_mapping(old), as_mapping(new))


def _compare_container(
    path: Path, old: Mapping[str, Value], new: Mapping[str, Value]
) -> ContainerRequests:
    before, after = as_mapping(old.get("resources")), as_mapping(new.get("resources"))
    name, init = old.get("name"), path[1] == "initContainers"
    return ContainerRequests(
        path,
        name if isinstance(name, str) else "",
        init and old.get("restartPolicy") != "Always",
        before,
        after,
        # Edits keep the identity of objects that they do not change.
        () if before is after else tuple(_removed_names(before, after)),
    )


def _removed_names(before: Mapping[str, Value], after: Mapping[str, Value]) -> Iterator[str]:
    old = [as_mapping(before.get(part)) for part in _PARTS]
    new = [as_mapping(after.get(part)) for part in _PARTS]
    for name in dict.fromkeys((*old[0], *old[1])):
        if name not in new[0] and name not in new[1] and is_device_resource(name):
            yield name


def _read_amount(value: Value) -> int:
    """Read an amount. An unreadable amount counts as 0, because it is never removed from a pod."""
    amount = valid_quantity(value)
    return (amount and amount.exact_int()) or 0


def _removed_annotations(before: Value, after: Value) -> Iterator[str]:
    path = ("metadata", "annotations")
    old, new = (as_mapping(get_value(pod, path)) for pod in (before, after))
    for key, value in old.items():
        if key not in new and key not in POD_ANNOTATIONS:
            yield f"{key}: {format_value(value)}"


def describe_translation(
    before: Value, after: Value, descriptions: Mapping[str, str], removed: RemovedRequests
) -> tuple[str, ...]:
    """Write one line for each new claim: the removed requests, and the claim that replaces them.

    `descriptions` describes the claims of each template, by template name.
    """
    old = {_read_name(each) for each in as_list(get_value(before, ("spec", "resourceClaims")))}
    users = _group_by_claim(after, removed)
    lines = []
    for claim in as_list(get_value(after, ("spec", "resourceClaims"))):
        name = _read_name(claim)
        description = descriptions.get(_read_string(claim, "resourceClaimTemplateName"))
        if name in old or description is None:
            continue
        containers = users.get(name, ())
        sources = [text for each in containers for text in each.describe_removed()]
        sources = sources or list(removed.annotations)
        sources = sources or [f"container {each.name}" for each in containers]
        lines.append(f"{', '.join(sources)} -> {description} (claim {name})")
    return tuple(lines)


def _group_by_claim(
    pod: Value, removed: RemovedRequests
) -> Mapping[str, Sequence[ContainerRequests]]:
    """Group the containers by the claims that they use, in one pass over all containers."""
    groups: dict[str, list[ContainerRequests]] = {}
    for container in removed.containers:
        claims = as_list(get_value(pod, (*container.path, "resources", "claims")))
        for name in dict.fromkeys(map(_read_name, claims)):
            groups.setdefault(name, []).append(container)
    return groups


def _read_name(value: Value) -> str:
    return _read_string(value, "name")


def _read_string(value: Value, key: str) -> str:
    text = as_mapping(value).get(key)
    return text if isinstance(text, str) else ""
