"""Simulates a device plugin and the kubelet's device manager.

Advertises an extended resource on a node and allocates GPUs by UUID, also GPUs that a DRA driver
publishes. Like a real plugin it is unaware of DRA. The record shows a GPU that both allocate.
"""

import threading
from dataclasses import dataclass, field

from e2e.nodes.record import Record, Violation

WORLD = "device-plugin"


@dataclass
class Plugin:
    """One resource of one node. `units` are plugin device IDs: a UUID, or a replica of one."""

    node: str
    resource: str
    units: tuple[str, ...]
    record: Record
    given: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def allocate(self, holder: str, subject: str, wanted: int) -> tuple[str, ...] | None:
        """Hand out units to a pod, identified by `holder`; None when there are too few.

        A repeated call gives what the pod has already. A unit that somebody outside holds is
        handed out all the same, because a plugin cannot know, and recorded.
        """
        with self.lock:
            if holder in self.given:
                return self.given[holder]
            used = {unit for units in self.given.values() for unit in units}
            free = [unit for unit in self.units if unit not in used]
            if len(free) < wanted:
                self._violate("PluginExhausted", subject, "", f"{wanted} of {len(free)} free units")
                return None
            chosen = self.given[holder] = tuple(free[:wanted])
            elsewhere = self.record.elsewhere(WORLD)
            for unit in chosen:
                device = physical(unit)
                if device in elsewhere:
                    message = f"{device} is held by {elsewhere[device]}"
                    self._violate("HandedOutTwice", subject, unit, message)
            self.record.hold(WORLD, f"{holder}/{self.resource}", map(physical, chosen))
            return chosen

    def _violate(self, code: str, subject: str, unit: str, message: str) -> None:
        self.record.add([Violation(code, WORLD, self.node, subject, unit, message)])

    def free(self, holder: str) -> None:
        """Take back what a pod had."""
        with self.lock:
            if self.given.pop(holder, None) is not None:
                self.record.release(WORLD, f"{holder}/{self.resource}")


def replicas(uuids: tuple[str, ...], times: int) -> tuple[str, ...]:
    """Return the units of time-slicing or MPS: several of each GPU."""
    return tuple(f"{uuid}::{number}" for uuid in uuids for number in range(times))


def physical(unit: str) -> str:
    """Return the name of the hardware beneath a unit."""
    return unit.partition("::")[0]
