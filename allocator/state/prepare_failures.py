"""Finds devices that a driver failed to prepare, from the events of the kubelet.

Such a device is left out for a short time while another device is suitable. Anybody who can create
events in the namespace of a pod can cause that, for the devices of this pod only.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from drawbridge.cluster.store import CachedObject
from drawbridge.dra.claim import Claim
from drawbridge.ledger.holdings import DeviceID, device_of

REASON: Final = "FailedPrepareDynamicResources"


class _Reference(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    uid: str = ""


class PrepareEvent(msgspec.Struct):
    """An event about a pod. Its times are those of a node, so its arrival counts."""

    regarding: _Reference = msgspec.field(default_factory=_Reference)


def find_unprepared(
    event: CachedObject[PrepareEvent] | None, claims_of: Callable[[str], tuple[Claim, ...]]
) -> Iterator[DeviceID]:
    """Yield the devices of a pod that a new or repeated event is about.

    After a start, it can be an old one.
    """
    about = event.value.regarding if event is not None else None
    if event is None or about is None or (about.kind, about.namespace) != ("Pod", event.namespace):
        return
    for claim in claims_of(about.uid):
        allocation = claim.status.allocation
        if claim.metadata.namespace == event.namespace and allocation is not None:
            yield from map(device_of, allocation.devices.results)
