"""Lists the simulated driver families: what each publishes, reads and checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.nodes import checks
from e2e.nodes.families import amd, compute_domain, hami, intel, nics, nvidia, own_class
from e2e.nodes.layout import Layout
from e2e.nodes.machine import Machine, machine


@dataclass(frozen=True)
class Family:
    """One driver, as data, from the documentation of its vendor and not from the product.

    `classes` are the expressions of the DeviceClasses that its chart installs, `group` is the
    apiVersion of its configuration objects, and `shape` is a small machine with its devices.
    """

    driver: str
    layout: Callable[..., Layout]
    checks: Mapping[str, checks.Check]
    classes: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    group: str = ""
    shape: str = "lab-2g2n"

    @property
    def vendor(self) -> str:
        """The vendor of the GPUs of the machines that the driver runs on."""
        return f"{machine('n', self.shape).product['vendor']}"

    def publish(self, machine: Machine, mode: str | None = None) -> Layout:
        """Return what the driver publishes of a machine."""
        return self.layout(machine, mode) if mode else self.layout(machine)


FAMILIES = {
    family.driver: family
    for family in (
        Family(
            nvidia.DRIVER,
            nvidia.layout,
            checks.COMMON | checks.SHARES | checks.NVIDIA,
            nvidia.CLASSES,
            nvidia.CONFIGS,
            nvidia.GROUP,
        ),
        Family(hami.DRIVER, hami.layout, checks.COMMON | checks.SHARES | checks.HAMI, hami.CLASSES),
        Family(nics.DRANET, nics.dranet, checks.COMMON, nics.DRANET_CLASSES, nics.DRANET_CONFIGS),
        Family(
            nics.SRIOV,
            nics.sriov,
            checks.COMMON,
            nics.SRIOV_CLASSES,
            nics.SRIOV_CONFIGS,
            nics.SRIOV_GROUP,
        ),
        Family(
            amd.DRIVER,
            amd.layout,
            checks.COMMON,
            amd.CLASSES,
            amd.CONFIGS,
            amd.GROUP,
            shape="lab-2amd",
        ),
        Family(
            intel.DRIVER,
            intel.layout,
            checks.COMMON,
            intel.CLASSES,
            intel.CONFIGS,
            shape="lab-2intel",
        ),
        Family(
            compute_domain.DRIVER,
            compute_domain.layout,
            checks.COMMON,
            compute_domain.CLASSES,
            compute_domain.CONFIGS,
            compute_domain.GROUP,
        ),
        Family(own_class.FPGA, own_class.fpga, checks.COMMON),
        Family(own_class.NIC, own_class.nic, checks.COMMON),
    )
}
# The drivers whose charts install classes, and these classes.
DRIVERS = tuple(driver for driver, family in FAMILIES.items() if family.classes)
CLASSES = {
    name: expression for driver in DRIVERS for name, expression in FAMILIES[driver].classes.items()
}
