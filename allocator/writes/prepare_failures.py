"""Finds devices that a driver failed to prepare, from the events of the kubelet.

Such a device is left out for a short time while another device is suitable. Anybody who can create
events in the namespace of a pod can cause that, for the devices of this pod only.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from drawbridge.cluster.store import CachedObject
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import DeviceID

REASON: Final = "FailedPrepareDynamicResources"
PENALTY_SECONDS: Final = 60.0


class _Reference(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    uid: str = ""


class PrepareEvent(msgspec.Struct):
    """An event about a pod. Its times are those of a node, so its arrival counts."""

    regarding: _Reference = msgspec.field(default_factory=_Reference)


class PrepareFailures:
    """Penalises the devices of pods whose claims could not be prepared."""

    def __init__(
        self,
        claims_of: Callable[[str], tuple[Claim, ...]],
        penalise: Callable[[DeviceID, float], None],
    ) -> None:
        self._claims_of = claims_of
        self._penalise = penalise

    def on_event(
        self, _: CachedObject[PrepareEvent] | None, after: CachedObject[PrepareEvent] | None
    ) -> None:
        """Apply a new or repeated event; after a start, it can be an old one."""
        if after is None:
            return
        regarding = after.value.regarding
        if regarding.kind != "Pod" or regarding.namespace != after.namespace:
            return
        for device in _devices_of(self._claims_of(regarding.uid), after.namespace):
            self._penalise(device, PENALTY_SECONDS)


def _devices_of(claims: tuple[Claim, ...], namespace: str) -> Iterator[DeviceID]:
    for claim in claims:
        allocation = claim.status.allocation
        if claim.metadata.namespace == namespace and allocation is not None:
            for result in allocation.devices.results:
                yield DeviceID(PoolID(result.driver, result.pool), result.device)
