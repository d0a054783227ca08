"""The pods of the page that wait for a node or for devices, and the reasons."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.classes import is_implicit_name
from drawbridge.report import codes
from drawbridge.report.explain import PodObjects, explain
from drawbridge.report.not_translated import PodMode
from drawbridge.report.page.model import Extent, PageObjects, WaitingPodOnPage
from drawbridge.report.turns import take_turns
from drawbridge.translate.legacy.pod_view import is_device_resource

# One namespace must not hide the waiting pods of another one.
MAX_WAITING: Final = 200
_MAX_OF_NAMESPACE: Final = 20
_MAX_REASONS: Final = 4
_MAX_REASON: Final = 600
_CONTAINERS: Final = ("initContainers", "containers")
# What is normal while a pod starts.
_STARTING: Final = ("ContainerCreating", "PodInitializing")


def asks_for_devices(pod: Value) -> bool:
    """Whether a pod has claims, or requests a device resource."""
    if get_value(pod, ("spec", "resourceClaims")):
        return True
    for part in _CONTAINERS:
        for container in as_list(get_value(pod, ("spec", part))):
            limits = as_mapping(get_value(container, ("resources", "limits")))
            if any(is_device_resource(name) or is_implicit_name(name) for name in limits):
                return True
    return False


def is_waiting(pod: Value) -> bool:
    """Whether a pod has not started yet."""
    return get_value(pod, ("status", "phase")) in (None, "Pending")


def find_waiting(objects: PageObjects) -> tuple[tuple[WaitingPodOnPage, ...], int]:
    """Return the waiting pods that are shown, the oldest first, and the number of the others."""
    by_namespace: dict[str, list[Value]] = defaultdict(list)
    number = 0
    for pod in sorted(filter(is_waiting, objects.pods), key=_created):
        number += 1
        waiting = by_namespace[namespace_of(pod)]
        if len(waiting) < _MAX_OF_NAMESPACE:
            waiting.append(pod)
    shown = sorted(islice(take_turns(by_namespace.values()), MAX_WAITING), key=_created)
    claims, templates = _by_namespace(objects.claims), _by_namespace(objects.templates)
    explained = tuple(_explain(pod, objects, claims, templates) for pod in shown)
    return explained, number - len(shown)


def _created(pod: Value) -> tuple[str, str]:
    created, name = (
        f"{get_value(pod, ('metadata', key)) or ''}" for key in ("creationTimestamp", "name")
    )
    return created, name


def namespace_of(value: Value) -> str:
    """Return the namespace of an object."""
    name = get_value(value, ("metadata", "namespace"))
    return name if isinstance(name, str) and name else "default"


def _by_namespace(values: Iterable[Value]) -> Mapping[str, Mapping[str, Value]]:
    by_namespace: dict[str, dict[str, Value]] = defaultdict(dict)
    for each in values:
        by_namespace[namespace_of(each)][f"{get_value(each, ('metadata', 'name'))}"] = each
    return by_namespace


def _explain(
    pod: Value,
    objects: PageObjects,
    claims: Mapping[str, Mapping[str, Value]],
    templates: Mapping[str, Mapping[str, Value]],
) -> WaitingPodOnPage:
    name = namespace_of(pod)
    mode = objects.modes.get(name)
    pod_mode = None if mode is None else PodMode(mode, "", f"its namespace is in mode {mode}")
    explained = explain(
        PodObjects(pod, claims.get(name, {}), templates.get(name, {}), find_mode=lambda _: pod_mode)
    )
    unknown = _codes_of_unread(objects)
    reasons = [*_gates(pod), *_container_reasons(pod)]
    reasons += [
        f"{each.message} [{each.code}]" for each in explained.findings if each.code not in unknown
    ]
    asks = [f"{each.resource} {each.amount}" for each in explained.asked]
    asks += [line.strip() for claim in explained.claims for line in claim.requests]
    return WaitingPodOnPage(
        pod=explained.pod,
        since=explained.created or "",
        asks=tuple(dict.fromkeys(each[:_MAX_REASON] for each in asks))[:_MAX_REASONS],
        reasons=tuple(dict.fromkeys(each[:_MAX_REASON] for each in reasons))[:_MAX_REASONS],
    )


def _codes_of_unread(objects: PageObjects) -> frozenset[str]:
    """Return the findings that only say that something may not be read."""
    unknown = set()
    if objects.templates_known is Extent.NOTHING:
        unknown.add(codes.TEMPLATE_MISSING.name)
    if objects.claims_known is Extent.NOTHING:
        unknown.add(codes.CLAIM_GONE.name)
    return frozenset(unknown)


def _gates(pod: Value) -> Iterator[str]:
    gates = [
        f"{get_value(each, ('name',))}"
        for each in as_list(get_value(pod, ("spec", "schedulingGates")))
    ]
    if gates:
        yield f"scheduling gates: {', '.join(gates)}"


def _container_reasons(pod: Value) -> Iterator[str]:
    """Yield why containers of a pod with a node do not start."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for status in as_list(get_value(pod, ("status", part))):
            waiting = as_mapping(get_value(status, ("state", "waiting")))
            reason = waiting.get("reason")
            if reason and reason not in _STARTING:
                message = waiting.get("message")
                name = get_value(status, ("name",))
                yield f"container {name}: {reason}" + (f": {message}" if message else "")
