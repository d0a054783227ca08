"""A node as its kubelet, device manager, plugin and driver keep it: what it has, and what is free.

The device manager keeps what a plugin gave to a pod until the pod ends, also after the plugin went.
Then a driver that publishes the same devices offers them a second time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served

SLACK: Final = 1e-9


@dataclass
class ModelNode:
    """A node. `free` is what pods have left of its resources, `devices` of what drivers publish.

    `replaced` is what the plugin offers of the names that go with it, `coming` is what the driver
    then publishes.
    """

    name: str
    free: dict[str, int]
    devices: dict[str, float]
    coming: Mapping[str, float] = field(default_factory=dict)
    replaced: Mapping[str, int] = field(default_factory=dict)
    driver: str = ""
    has_plugin: bool = False
    is_moved: bool = False
    is_cordoned: bool = False
    is_ready: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)

    def copy(self) -> "ModelNode":
        """Return a copy that changes alone."""
        other = object.__new__(ModelNode)
        other.__dict__.update(self.__dict__)
        other.free, other.devices = dict(self.free), dict(self.devices)
        return other

    @property
    def offers_any(self) -> bool:
        """Whether a pod could start here that asks for a device, of whatever kind."""
        if self.is_cordoned or not self.is_ready:
            return False
        units = any(number > 0 and "/" in name for name, number in self.free.items())
        return units or any(number > 0 for number in self.devices.values())

    def allows(self, request: AskedOfNode) -> bool:
        """Return whether a pod may start here by its rules about nodes, now or after the move."""
        return self.name in (request.moved_nodes if self.is_moved else request.nodes)

    def serve(self, kind: PodKind, *, translated: bool) -> Served | None:
        """Return who would serve a new pod; None if nobody can."""
        request = find_request(kind, translated=translated)
        if not self.allows(request):
            return None
        units, free = kind.units, self.free
        by_plugin = not translated and bool(units) and free.keys() >= units.keys()
        if not by_plugin and not self._has_devices(request.devices):
            return None
        for name, amount in request.amounts.items():
            # Nothing is known of a resource of its own that a node does not report.
            if amount <= free.get(name, 0 if "/" in name else amount):
                continue
            if by_plugin or translated or not kind.by_class or name not in units:
                return None
        if by_plugin:
            return Served.PLUGIN
        if request.devices:
            return Served.DRIVER
        return Served.NOBODY if not units else None

    def _has_devices(self, devices: Mapping[str, float]) -> bool:
        has = self.devices
        return not devices or all(n <= has.get(name, 0) + SLACK for name, n in devices.items())

    def hold(self, kind: PodKind, pod: ModelPod, sign: int = 1) -> None:
        """Count a pod that starts here, or with -1 one that ends."""
        request = find_request(kind, translated=pod.is_translated)
        for name, amount in request.amounts.items():
            if name in self.free and not (pod.served is Served.DRIVER and name in kind.units):
                self.free[name] -= sign * amount
        if pod.served is Served.DRIVER:
            for name, number in request.devices.items():
                self.devices[name] = self.devices.get(name, 0) - sign * number

    def remove_plugin(self) -> None:
        """Let the plugin go: the kubelet offers nothing of it, and running pods keep theirs."""
        for name in self.replaced:
            self.free.pop(name, None)
        self.has_plugin = False

    def publish(self) -> None:
        """Let the driver publish its devices."""
        self.is_moved = True
        for name, number in self.coming.items():
            self.devices[name] = self.devices.get(name, 0) + number

    def restore_plugin(self, held: Mapping[str, int]) -> None:
        """Let the driver go and the plugin come, of which pods hold devices."""
        if self.is_moved:
            for name, number in self.coming.items():
                self.devices[name] = self.devices.get(name, 0) - number
        self.is_moved, self.has_plugin = False, bool(self.replaced)
        self.free |= {name: n - held.get(name, 0) for name, n in self.replaced.items()}


def find_request(kind: PodKind, *, translated: bool) -> AskedOfNode:
    """Return what a pod asks in the form in which it was created."""
    return kind.translated if translated and kind.translated is not None else kind.asked
