"""Reads what a pod holds of device plugins, as the books of usage count it.

A unit counts as a device, whatever part of one a plugin gives for it, because no plugin says more.
Names of memory and cores count nothing.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Final

from controller.device_users import find_owner
from drawbridge.config.model import Configuration
from drawbridge.dra.families import serves_name
from drawbridge.dra.quantity import QuantityError, from_json
from drawbridge.facts.families import known_families
from drawbridge.report.plugin_units import MOST_UNITS
from drawbridge.report.stuck.objects import FINISHED, HangingPod
from drawbridge.usage.accounts import Account, UsedAmount
from drawbridge.usage.claims import read_time
from drawbridge.usage.meter import HeldClaim

_MOST_NAMES: Final = 4_096
_NOTHING: Final = HeldClaim(())


def read_plugin_use(pod: HangingPod) -> HeldClaim:
    """Return what a pod with a node holds, charged to its root owner; nothing without units."""
    if not pod.spec.node_name or pod.status.phase in FINISHED:
        return _NOTHING
    if pod.status.extended_resource_claim_status is not None:
        return _NOTHING  # its claim is counted
    units = _count_units(pod)
    if not units:
        return _NOTHING
    owner = find_owner(pod)
    charges = tuple(
        (Account(pod.metadata.namespace, name, owner), UsedAmount(Fraction(number)))
        for name, number in sorted(units.items())
    )
    return HeldClaim(charges, read_time(pod.status.start_time))


def _count_units(pod: HangingPod) -> dict[str, int]:
    """Return the units that containers have at the same time."""
    main, init = Counter[str](), dict[str, int]()
    for containers, is_init in ((pod.spec.containers, False), (pod.spec.init_containers, True)):
        for container in containers or ():
            for name, amount in _amounts(container.resources.limits):
                if is_init and container.restart_policy != "Always":
                    init[name] = max(init.get(name, 0), amount)
                else:
                    main[name] += amount
    return {name: max(main[name], init.get(name, 0)) for name in {*main, *init}}


def _amounts(limits: object) -> Iterator[tuple[str, int]]:
    for name, amount in limits.items() if isinstance(limits, dict) else ():
        if _counts_devices(name):
            try:
                units = from_json(amount).value()
            except QuantityError:
                continue
            if units > 0:
                yield name, min(units, MOST_UNITS)


@lru_cache(_MOST_NAMES)
def _counts_devices(name: str) -> bool:
    """Whether a resource name counts devices of a known family, and not their memory or cores."""
    families = known_families(Configuration())
    return "/" in name and any(serves_name(each, name) for each in families.values())
