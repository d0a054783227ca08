"""Resource names that a DeviceClass serves, and the claim the scheduler makes for them.

A name that a node's device plugin serves is the kubelet's matter on that node: the caller leaves
it out.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter

from dra.claim import ExactRequest, Request
from dra.classes import IMPLICIT_PREFIX, DeviceClass
from ledger.pods import SIDECAR, Pod

LONGEST_IMPLICIT = 63


def is_extended(name: str) -> bool:
    """Tell whether a resource is one that neither Kubernetes nor the node itself hands out."""
    if name.startswith(IMPLICIT_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def requested_names(pod: Pod) -> tuple[str, ...]:
    """Give the extended resources that a pod asks any of, sorted."""
    names = {
        name
        for container in pod.containers()
        for name, amount in container.resources.asked().items()
        if is_extended(name) and amount.sign() > 0
    }
    return tuple(sorted(names))


def class_by_resource_name(
    classes: Iterable[DeviceClass], created: Mapping[str, str] = {}
) -> dict[str, str]:
    """Give the class that serves each name, its own implicit one included.

    Of two that claim one name the later `created` has it, of two made at once the first by name.
    """
    ordered = sorted(classes, key=attrgetter("metadata.name"), reverse=True)
    ordered.sort(key=lambda each: created.get(each.metadata.name, ""))
    names: dict[str, str] = {}
    for each in ordered:
        name = each.metadata.name
        if len(name) <= LONGEST_IMPLICIT:
            names[IMPLICIT_PREFIX + name] = name
        if each.spec.extended_resource_name:
            names[each.spec.extended_resource_name] = name
    return names


def compose_requests(pod: Pod, classes: Mapping[str, str]) -> tuple[Request, ...]:
    """Give the requests of the scheduler's claim: one a container and name, sorted as texts.

    Init containers that end use what later containers have; of what they want beyond, the largest
    amount becomes one request that they use after each other.
    """
    made = [each for name in sorted(classes) for each in _of_name(pod, name, classes[name])]
    return tuple(sorted(made, key=attrgetter("name")))


def _of_name(pod: Pod, name: str, class_name: str) -> list[Request]:
    counts = [_count(pod, i, name) for i in range(len(pod.containers()))]
    lasting = [not _ends(pod, i) for i in range(len(counts))]
    made = [
        _request(pod, i, name, class_name, count)
        for i, count in enumerate(counts)
        if count and lasting[i]
    ]
    most, of = 0, 0
    for i, count in enumerate(counts):
        if count and not lasting[i]:
            later = sum(c for c, lasts in zip(counts[i:], lasting[i:], strict=True) if lasts)
            if count - later > most:
                most, of = count - later, i
    if most:
        made.append(_request(pod, of, name, class_name, most))
    return made


def _ends(pod: Pod, number: int) -> bool:
    """Tell whether a container ends before the later ones start."""
    init = pod.spec.init_containers
    return number < len(init) and init[number].restart_policy != SIDECAR


def _count(pod: Pod, number: int, name: str) -> int:
    amount = pod.containers()[number].resources.asked().get(name)
    return max(0, (amount.exact_int() or 0)) if amount is not None else 0


def _request(pod: Pod, number: int, name: str, class_name: str, count: int) -> Request:
    index = sorted(pod.containers()[number].resources.asked()).index(name)
    wish = ExactRequest(device_class_name=class_name, count=count)
    return Request(f"container-{number}-request-{index}", wish)
