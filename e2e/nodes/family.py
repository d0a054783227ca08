"""Lists the simulated driver families: what each publishes, reads and checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.nodes import checks
from e2e.nodes.families import amd, hami, intel, nics, nvidia, own_class
from e2e.nodes.layout import Layout
from e2e.nodes.machine import Machine


@dataclass(frozen=True)
class Family:
    """One driver, as data. `group` is the apiVersion of its configuration objects."""

    driver: str
    layout: Callable[..., Layout]
    checks: Mapping[str, checks.Check]
    configs: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    group: str = ""

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
            nvidia.CONFIGS,
            nvidia.GROUP,
        ),
        Family(hami.DRIVER, hami.layout, checks.COMMON | checks.SHARES | checks.HAMI),
        Family(nics.DRANET, nics.dranet, checks.COMMON, nics.DRANET_CONFIGS),
        Family(nics.SRIOV, nics.sriov, checks.COMMON, nics.SRIOV_CONFIGS, nics.SRIOV_GROUP),
        Family(amd.DRIVER, amd.layout, checks.COMMON, amd.CONFIGS, amd.GROUP),
        Family(intel.DRIVER, intel.layout, checks.COMMON, intel.CONFIGS),
        Family(own_class.FPGA, own_class.fpga, checks.COMMON),
        Family(own_class.NIC, own_class.nic, checks.COMMON),
    )
}
