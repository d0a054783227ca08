"""Check LimitRanges for the legacy device requests that a translation removes from a pod.

The LimitRanger plugin of the API server runs after the webhook and no longer sees these requests,
so the webhook checks them with the same semantics. LimitRanger also adds defaults for missing
names. Where a LimitRange has an entry for a name, the translated pod keeps an amount of 0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.agreement.admission_codes import (
    LIMIT_RANGE_EXCEEDED,
    LIMIT_RANGE_TOO_LARGE,
    LIMIT_RANGE_UNMEETABLE,
)
from drawbridge.containers import most_at_once
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import format_path
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.quantity import Quantity, find_quantity
from drawbridge.finding import Finding
from drawbridge.translate.changes.patch import Patch
from webhook.admission.removed_requests import ContainerRequests, RemovedRequests

QuantityMap = Mapping[str, str | int | float]
_ZERO: Final = "0"
_LimitsAndRequests = tuple[Mapping[str, int], Mapping[str, int]]
_ReadAmounts = Callable[[ContainerRequests, tuple[str, ...]], _LimitsAndRequests]


class NamedMetadata(msgspec.Struct, frozen=True):
    """The name and the namespace of an object."""

    name: str = ""
    namespace: str = ""


class LimitRangeItem(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of a LimitRange in its wire format."""

    type: str = ""
    max: QuantityMap | None = None
    min: QuantityMap | None = None
    default: QuantityMap | None = None
    default_request: QuantityMap | None = None
    max_limit_request_ratio: QuantityMap | None = None


class LimitRangeSpec(msgspec.Struct, frozen=True):
    """The spec of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] | None = ()


class LimitRange(msgspec.Struct, frozen=True):
    """A LimitRange in its wire format. Of a `reduced` one, the limits are not known."""

    metadata: NamedMetadata = NamedMetadata()
    spec: LimitRangeSpec = LimitRangeSpec()
    # Kubernetes stores no such field.
    reduced: bool = msgspec.field(default=False, name="drawbridge.dev/reduced")


def reduce_range(limit_range: LimitRange) -> LimitRange:
    """Return what must be known of a LimitRange: that it may forbid a pod."""
    return LimitRange(limit_range.metadata, reduced=True)


class _Target(msgspec.Struct, frozen=True):
    """The container or the pod that a limit applies to."""

    path: str
    name: str
    limits: Mapping[str, int]
    requests: Mapping[str, int]


def check_pod(removed: RemovedRequests, ranges: Sequence[LimitRange]) -> tuple[Finding, ...]:
    """Report limits that the original pod exceeds, or that no translated pod can meet.

    Nobody else checks them, so a LimitRange that is not known forbids the pod.
    """
    unknown = next((each.metadata.name for each in ranges if each.reduced), "")
    if unknown and removed.names:
        message = f"LimitRange {unknown} is too large, so its limits are not known"
        return (LIMIT_RANGE_TOO_LARGE.at("spec", message),)
    removed = _add_defaults(removed, ranges)
    violations = tuple(_find_violations(removed, ranges, _original_amounts))
    if violations:
        return tuple(
            LIMIT_RANGE_EXCEEDED.at(target.path, f"{rule}, but {target.name} has {amounts}")
            for target, rule, amounts in violations
        )
    return tuple(
        LIMIT_RANGE_UNMEETABLE.at(
            target.path, f"{rule}, but {target.name} requests these devices through a claim"
        )
        for target, rule, _ in _find_violations(removed, ranges, _translated_amounts)
    )


def _add_defaults(removed: RemovedRequests, ranges: Sequence[LimitRange]) -> RemovedRequests:
    """Return the requests as LimitRanger checks them: it adds defaults for missing names first.

    A pod template has none yet, nor has a container that another webhook added. The API server sets
    missing requests to the limits.
    """
    limits: dict[str, Value] = {}
    requests: dict[str, Value] = {}
    for range_ in ranges:
        for item in range_.spec.limits or ():
            if item.type == "Container":
                limits |= item.default or {}
                requests |= item.default_request or {}
    containers = []
    for container in removed.containers:
        own = as_mapping(container.before.get("limits"))
        asked = as_mapping(container.before.get("requests"))
        before: dict[str, Value] = {
            "limits": {**limits, **own},
            "requests": {**requests, **own, **asked},
        }
        containers.append(replace(container, before=before))
    return replace(removed, containers=tuple(containers))


def keep_zero_amounts(removed: RemovedRequests, ranges: Sequence[LimitRange]) -> tuple[Edit, ...]:
    """Return edits that keep an amount of 0 for each removed name that a LimitRange lists."""
    listed = _listed_names(ranges)
    edits: list[Edit] = []
    for container in removed.containers:
        patch = Patch({"resources": {**container.after}})
        for name in container.removed:
            if name in listed:
                patch.put(("resources", "limits", name), _ZERO)
                patch.put(("resources", "requests", name), _ZERO)
        edits += (Edit(one.op, (*container.path, *one.path), one.value) for one in patch.edits)
    return tuple(edits)


def _listed_names(ranges: Sequence[LimitRange]) -> frozenset[str]:
    return frozenset(
        name
        for range_ in ranges
        for item in range_.spec.limits or ()
        for amounts in (item.max, item.min, item.default, item.default_request)
        for name in amounts or ()
    )


def _original_amounts(container: ContainerRequests, names: tuple[str, ...]) -> _LimitsAndRequests:
    return container.get_amounts("limits", names), container.get_amounts("requests", names)


def _translated_amounts(container: ContainerRequests, names: tuple[str, ...]) -> _LimitsAndRequests:
    zeros = dict.fromkeys(container.removed, 0)
    limits, requests = _original_amounts(container, names)
    return {**limits, **zeros}, {**requests, **zeros}


def _find_violations(
    removed: RemovedRequests, ranges: Sequence[LimitRange], read_amounts: _ReadAmounts
) -> Iterator[tuple[_Target, str, str]]:
    """Yield the target, the rule, and the amounts of each violation."""
    for range_ in ranges:
        for item in range_.spec.limits or ():
            for target in _find_targets(item.type, removed, read_amounts):
                for name in removed.names:
                    for rule, amounts in _check_item(item, name, target):
                        yield target, f"LimitRange {range_.metadata.name} {rule}", amounts


def _find_targets(
    kind: str, removed: RemovedRequests, read_amounts: _ReadAmounts
) -> Iterator[_Target]:
    if kind == "Container":
        for container in removed.containers:
            path = format_path((*container.path, "resources"))
            amounts = read_amounts(container, removed.names)
            yield _Target(path, f"container {container.name}", *amounts)
    elif kind == "Pod":
        amounts_of_all = [
            (container.init, *read_amounts(container, removed.names))
            for container in removed.containers
        ]
        limits = _sum_pod((init, amounts) for init, amounts, _ in amounts_of_all)
        requests = _sum_pod((init, amounts) for init, _, amounts in amounts_of_all)
        yield _Target("spec", "the pod", limits, requests)


def _sum_pod(parts: Iterable[tuple[bool, Mapping[str, int]]]) -> dict[str, int]:
    """Return what the containers need at the same time, as LimitRanger counts it."""
    containers = [*parts]
    names = dict.fromkeys(name for _, amounts in containers for name in amounts)
    return {
        name: most_at_once((init, amounts.get(name, 0)) for init, amounts in containers)
        for name in names
    }


def _check_item(item: LimitRangeItem, name: str, target: _Target) -> Iterator[tuple[str, str]]:
    limit, request = target.limits.get(name), target.requests.get(name)
    amounts = f"limit {_format(limit)} and request {_format(request)}"
    if (least := find_quantity(item.min, name)) is not None and (
        request is None or _of(request) < least or (limit is not None and _of(limit) < least)
    ):
        yield f"requires at least {least} {name} per {item.type}", amounts
    if (most := find_quantity(item.max, name)) is not None and (
        limit is None or most < _of(limit) or (request is not None and most < _of(request))
    ):
        yield f"allows at most {most} {name} per {item.type}", amounts
    if (ratio := find_quantity(item.max_limit_request_ratio, name)) is not None and (
        not request or not limit or ratio * request < _of(limit)
    ):
        yield (
            f"allows a limit of at most {ratio} times the request of {name} per {item.type}",
            amounts,
        )


def _format(amount: int | None) -> str:
    return "none" if amount is None else f"{amount}"


_of = Quantity.of
