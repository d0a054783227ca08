"""Reads what a pod holds of device plugins, as the books of usage count it.

A unit counts as a device, whatever part of one a plugin gives for it, because no plugin says more.
Names of memory and cores count nothing, and neither do names that no node has, which tenants can
invent, and pods that no kubelet has admitted.
"""

from collections.abc import Collection, Iterator
from fractions import Fraction
from typing import Final

from controller.device_users import find_owner
from controller.protocols import WatchedObject
from controller.watched_objects import WatchedNode
from drawbridge.config.model import Configuration
from drawbridge.dra.families import serves_name
from drawbridge.facts.families import known_families
from drawbridge.report.plugin_units import sum_units
from drawbridge.report.stuck.objects import FINISHED, HangingPod
from drawbridge.usage.accounts import OTHER, Account, UsedAmount
from drawbridge.usage.claims import read_time
from drawbridge.usage.meter import HeldClaim

MOST_NAMES: Final = 4_096
# Of one pod; the units of others are summed up.
MOST_OF_POD: Final = 16
_NOTHING: Final = HeldClaim(())


class PluginNames:
    """The resource names of devices that a node had in `allocatable` since this process began.

    A name stays when its plugin is gone, because pods may still have its devices.
    """

    def __init__(self) -> None:
        self.served: set[str] = set()

    def node_changed(
        self, _: WatchedObject[WatchedNode] | None, after: WatchedObject[WatchedNode] | None
    ) -> None:
        """Add the names of a node."""
        for name in (after.value.status.allocatable or ()) if after else ():
            if name not in self.served and len(self.served) < MOST_NAMES and _counts_devices(name):
                self.served.add(name)


def read_plugin_use(pod: HangingPod, served: Collection[str]) -> HeldClaim:
    """Return what a pod on a node holds of served names, charged to its root owner."""
    if not pod.spec.node_name or not pod.status.start_time or pod.status.phase in FINISHED:
        return _NOTHING
    if pod.status.extended_resource_claim_status is not None:
        return _NOTHING  # its claim is counted
    units = _count_units(pod, served)
    if not units:
        return _NOTHING
    owner = find_owner(pod)
    charges = tuple(
        (Account(pod.metadata.namespace, name, owner), UsedAmount(Fraction(number)))
        for name, number in _join_names(units)
    )
    return HeldClaim(charges, read_time(pod.status.start_time))


def _join_names(units: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the units of each name; of a pod with many names, the last ones together."""
    names = sorted(units)
    yield from ((name, units[name]) for name in names[:MOST_OF_POD])
    if len(names) > MOST_OF_POD:
        yield OTHER, sum(units[name] for name in names[MOST_OF_POD:])


def _count_units(pod: HangingPod, served: Collection[str]) -> dict[str, int]:
    """Return the units that containers have at the same time."""
    containers = (
        (is_init and each.restart_policy != "Always", each.resources.limits or {})
        for among, is_init in ((pod.spec.init_containers, True), (pod.spec.containers, False))
        for each in among or ()
    )
    return sum_units(containers, served.__contains__)


def _counts_devices(name: str) -> bool:
    """Whether a resource name counts devices of a known family, and not their memory or cores."""
    families = known_families(Configuration())
    return "/" in name and any(serves_name(each, name) for each in families.values())
