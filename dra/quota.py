"""What a claim is charged to a ResourceQuota, by the keys that a quota can limit.

Upstream charges a claim when it is created, the worst case of what it may be allocated. Knows
nothing of quotas themselves, nor of what is left of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from dra.claim import ALL, EXACT_COUNT, ClaimSpec, Request, RequestedDevices
from dra.classes import IMPLICIT_PREFIX

CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
REQUESTS: Final = "requests."
# An allocation has at most so many results, so this is what `All` can come to.
MAX_RESULTS: Final = 32


def quota_charges(spec: ClaimSpec, classes: Mapping[str, str]) -> Mapping[str, int]:
    """Give what one claim with this spec is charged.

    `classes` maps the name of a class to the extended resource it serves; where the API server does
    not serve extended resources by claims, hand in none. Admin access is charged like any other.
    """
    total: Counter[str] = Counter({CLAIMS: 1})
    for request in spec.devices.requests:
        for name, devices in _worst(request).items():
            for key in quota_keys(name, classes):
                total[key] += devices
    return total


def quota_keys(name: str, classes: Mapping[str, str]) -> Iterator[str]:
    """Give the keys that a device of the class is charged to."""
    yield f"{name}{DEVICES}"
    if name in classes:
        yield f"{REQUESTS}{IMPLICIT_PREFIX}{name}"
        if extended := classes[name]:
            yield f"{REQUESTS}{extended}"


def _worst(request: Request) -> Mapping[str, int]:
    """Count devices by class: of several ways the one that takes most of that class."""
    ways: tuple[RequestedDevices, ...] = request.first_available or ()
    if request.exactly is not None:
        ways = (request.exactly,)
    most: dict[str, int] = {}
    for way in ways:
        most[way.device_class_name] = max(most.get(way.device_class_name, 0), _devices(way))
    return most


def _devices(way: RequestedDevices) -> int:
    if way.allocation_mode == ALL:
        return MAX_RESULTS
    return way.count if way.allocation_mode == EXACT_COUNT else 0
