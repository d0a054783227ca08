"""Extended resources that a DeviceClass serves, and the requests of the scheduler's claim for them.

The caller excludes names that a device plugin serves on a node; the kubelet handles those.
"""

import itertools
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from drawbridge.dra.claim import CapacityRequests, ExactRequest, Request
from drawbridge.dra.classes import DeviceClass, compose_implicit_name, is_implicit_name
from drawbridge.ledger.pods import SIDECAR, Pod


class ServingClass(NamedTuple):
    """The class that serves a resource name, and what a unit of it takes of a device.

    Without `share`, a unit is a whole device.
    """

    name: str
    share: CapacityRequests | None = None


def is_extended(name: str) -> bool:
    """Return whether a resource name is an extended resource."""
    if is_implicit_name(name):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def requested_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the extended resources that a pod requests, sorted."""
    names = {
        name
        for container in pod.containers()
        for name, amount in container.resources.effective_requests().items()
        if is_extended(name) and amount.sign() > 0
    }
    return tuple(sorted(names))


def class_by_resource_name(classes: Iterable[DeviceClass]) -> dict[str, ServingClass]:
    """Return the class that serves each name, including the implicit names.

    If two classes have one name, the one that was created later serves it. At equal times the
    first by name does.
    """
    ordered = sorted(classes, key=attrgetter("metadata.name"), reverse=True)
    ordered.sort(key=lambda each: each.metadata.creation_timestamp or "")
    names: dict[str, ServingClass] = {}
    for device_class in ordered:
        name, spec = device_class.metadata.name, device_class.spec
        served = ServingClass(name, spec.share)
        if implicit := compose_implicit_name(name):
            names[implicit] = served
        if spec.extended_resource_name:
            names[spec.extended_resource_name] = served
    return names


def compose_requests(pod: Pod, classes: Mapping[str, ServingClass]) -> tuple[Request, ...]:
    """Return the requests of the scheduler's claim: one per container and name, sorted as text.

    Init containers that end reuse the devices of later containers. The largest excess over these
    becomes one request that the init containers use in turn.
    """
    requests = [
        request
        for name in sorted(classes)
        for request in _requests_for_name(pod, name, classes[name])
    ]
    return tuple(sorted(requests, key=attrgetter("name")))


def _requests_for_name(pod: Pod, name: str, served: ServingClass) -> list[Request]:
    counts = [_count(pod, i, name) for i in range(len(pod.containers()))]
    stays = [not _ends_early(pod, i) for i in range(len(counts))]
    requests = [
        _request(pod, i, name, served, count)
        for i, count in enumerate(counts)
        if count and stays[i]
    ]
    largest, container, later = 0, 0, sum(itertools.compress(counts, stays))
    for i, count in enumerate(counts):
        if stays[i]:
            later -= count
        elif count - later > largest:
            largest, container = count - later, i
    if largest:
        requests.append(_request(pod, container, name, served, largest))
    return requests


def _ends_early(pod: Pod, number: int) -> bool:
    """Return whether a container ends before the later ones start."""
    init = pod.spec.init_containers
    return number < len(init) and init[number].restart_policy != SIDECAR


def _count(pod: Pod, number: int, name: str) -> int:
    amount = pod.containers()[number].resources.effective_requests().get(name)
    return max(0, (amount.exact_int() or 0)) if amount is not None else 0


def _request(pod: Pod, number: int, name: str, served: ServingClass, count: int) -> Request:
    index = sorted(pod.containers()[number].resources.effective_requests()).index(name)
    exactly = ExactRequest(device_class_name=served.name, count=count, capacity=served.share)
    return Request(f"container-{number}-request-{index}", exactly)
