"""Publishes what NVIDIA's driver for ComputeDomains does: a channel and a daemon of each node.

Clusters that keep a device plugin for GPUs run this driver alone, with `resources.gpus.enabled`
false in its chart.
"""

from typing import Any, Final

from e2e.nodes.layout import Device, Layout, Sheet
from e2e.nodes.machine import Machine

DRIVER: Final = "compute-domain.nvidia.com"
CHANNELS: Final = "compute-domain-default-channel.nvidia.com"
DAEMONS: Final = "compute-domain-daemon.nvidia.com"
GROUP: Final = "resource.nvidia.com/v1beta1"
_KINDS: Final = {CHANNELS: "channel", DAEMONS: "daemon"}
CLASSES: Final = {
    name: f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    for name, kind in _KINDS.items()
}
CONFIGS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "ComputeDomainChannelConfig": ("channel", {"domainID": str, "allocationMode": str}),
    "ComputeDomainDaemonConfig": ("daemon", {"domainID": str}),
}


def layout(machine: Machine) -> Layout:
    """Publish the devices of a machine."""
    devices = tuple(
        Device(
            f"{kind}-0",
            kind,
            f"{machine.name}/{kind}-0",
            {"attributes": {"type": {"string": kind}, "id": {"int": 0}}},
        )
        for kind in _KINDS.values()
    )
    return Layout(DRIVER, machine.name, (Sheet(devices),))
