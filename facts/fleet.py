"""Decides for each DeviceClass whether its fleet is closed: no other kinds of devices will come.

In a closed fleet, a request that no published device satisfies is an error. In an open fleet it is
a warning, because an autoscaler or an administrator can add other devices.
"""

from collections.abc import Iterable, Mapping

import msgspec

from config.model import Fleet

OPEN_BY_SETTING = "the configuration sets fleet[].closed to false for the class"


class FleetVerdict(msgspec.Struct, frozen=True):
    """Whether the fleet of a class is closed, and if not, why.

    `expected` holds the shapes of nodes that the administrator expects in addition.
    """

    closed: bool
    reason: str = ""
    expected: tuple[str, ...] = ()


class PublishedClass(msgspec.Struct, frozen=True):
    """What is published for a class: devices in complete pools, and doubts about the others.

    `doubt` says why more devices may exist than are visible, such as an incomplete pool.
    """

    devices: int = 0
    doubt: str = ""


UNKNOWN_CLASS = PublishedClass()


def fleet_verdicts(
    fleet: Iterable[Fleet], published: Mapping[str, PublishedClass], autoscaler: str = ""
) -> Mapping[str, FleetVerdict]:
    """Return the verdict of each published or configured class.

    `autoscaler` describes a sign that an autoscaler can add nodes; empty if there is none.
    """
    entries = {f"{entry.class_}": entry for entry in reversed(tuple(fleet))}
    return {
        name: _verdict(
            entries.get(name), published.get(name, UNKNOWN_CLASS), f"class {name}", autoscaler
        )
        for name in sorted({*entries, *published})
    }


def _verdict(
    entry: Fleet | None, published: PublishedClass, about: str, autoscaler: str
) -> FleetVerdict:
    expected = entry.expected_shapes if entry else ()
    closed = entry.closed if entry else "auto"
    if closed is False:
        return FleetVerdict(closed=False, reason=OPEN_BY_SETTING, expected=expected)
    if published.doubt:
        # Not even the administrator knows better than a pool that is being published.
        return FleetVerdict(closed=False, reason=published.doubt, expected=expected)
    if closed is True:
        return FleetVerdict(closed=True, expected=expected)
    if not published.devices:
        reason = f"{about} has no device in a complete pool yet"
        return FleetVerdict(closed=False, reason=reason, expected=expected)
    if autoscaler:
        return FleetVerdict(closed=False, reason=autoscaler, expected=expected)
    return FleetVerdict(closed=True, expected=expected)
