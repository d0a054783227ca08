"""Compute how a claim is charged to a ResourceQuota, by quota key.

Kubernetes charges a claim at creation, with the maximum number of devices that it can be allocated.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from drawbridge.dra.allocation import MAX_RESULTS
from drawbridge.dra.claim import ALL, EXACT_COUNT, ClaimSpec, Request, RequestedDevices
from drawbridge.dra.classes import IMPLICIT_PREFIX

CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
REQUESTS: Final = "requests."


def quota_charges(spec: ClaimSpec, classes: Mapping[str, str]) -> Mapping[str, int]:
    """Return the charges for one claim with this spec.

    `classes` maps class names to their extended resources. Pass an empty mapping if the API server
    does not support extended resources of classes. Requests with admin access are charged as well.
    Of several classes of a claim with one extended resource, the API server charges any one to it:
    the smallest number is certain.
    """
    of_class: Counter[str] = Counter()
    for request in spec.devices.requests:
        of_class.update(_maximum_devices(request))
    charges = {CLAIMS: 1, **{f"{name}{DEVICES}": devices for name, devices in of_class.items()}}
    for name in of_class.keys() & classes.keys():
        charges[f"{REQUESTS}{IMPLICIT_PREFIX}{name}"] = of_class[name]
        if extended := classes[name]:
            key = f"{REQUESTS}{extended}"
            charges[key] = min(of_class[name], charges.get(key, of_class[name]))
    return charges


def _maximum_devices(request: Request) -> Mapping[str, int]:
    """Return the number of devices by class: for each class, the largest alternative."""
    alternatives: tuple[RequestedDevices, ...] = request.first_available or ()
    if request.exactly is not None:
        alternatives = (request.exactly,)
    most: dict[str, int] = {}
    for alternative in alternatives:
        most[alternative.device_class_name] = max(
            most.get(alternative.device_class_name, 0), _devices(alternative)
        )
    return most


def _devices(alternative: RequestedDevices) -> int:
    if alternative.allocation_mode == ALL:
        return MAX_RESULTS  # the most that an allocation can have
    return alternative.count if alternative.allocation_mode == EXACT_COUNT else 0
