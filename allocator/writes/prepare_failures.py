"""Finds devices that a driver failed to prepare, from the events of the kubelet.

Such a device is left out for a short time while another device is suitable. Anybody who can create
events in the namespace of a pod can cause that, for the devices of this pod only.
"""

import datetime as dt
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


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: dt.datetime | None = None


class PrepareEvent(msgspec.Struct, rename="camel"):
    """An event about a pod; older reporters set only the deprecated time."""

    regarding: _Reference = msgspec.field(default_factory=_Reference)
    event_time: dt.datetime | None = None
    deprecated_last_timestamp: dt.datetime | None = None
    series: _Series | None = None

    @property
    def seen(self) -> float:
        """When it happened last, as Unix time; 0 if it has no time."""
        last = self.series.last_observed_time if self.series else None
        time = last or self.deprecated_last_timestamp or self.event_time
        return time.timestamp() if time else 0.0


class PrepareFailures:
    """Penalises the devices of pods whose claims could not be prepared."""

    def __init__(
        self,
        claims_of: Callable[[str], tuple[Claim, ...]],
        penalise: Callable[[DeviceID, float], None],
        server_time: Callable[[], float],
    ) -> None:
        self._claims_of = claims_of
        self._penalise = penalise
        self._server_time = server_time

    def on_event(
        self, _: CachedObject[PrepareEvent] | None, after: CachedObject[PrepareEvent] | None
    ) -> None:
        """Apply a new or repeated event."""
        if after is None:
            return
        regarding = after.value.regarding
        remaining = after.value.seen + PENALTY_SECONDS - self._server_time()
        if regarding.kind != "Pod" or regarding.namespace != after.namespace or remaining <= 0:
            return
        for device in _devices_of(self._claims_of(regarding.uid), after.namespace):
            self._penalise(device, min(remaining, PENALTY_SECONDS))


def _devices_of(claims: tuple[Claim, ...], namespace: str) -> Iterator[DeviceID]:
    for claim in claims:
        allocation = claim.status.allocation
        if claim.metadata.namespace == namespace and allocation is not None:
            for result in allocation.devices.results:
                yield DeviceID(PoolID(result.driver, result.pool), result.device)
