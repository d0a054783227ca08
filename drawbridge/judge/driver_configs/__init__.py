"""The configurations that known drivers decode, as tables: one module for each project.

The tables are facts, read from the published source of each project, and contain every field that
one of the read versions has. `drawbridge.judge.claims.opaque_configs` compares claims and classes
with them.
"""

from collections.abc import Mapping
from typing import Final

from drawbridge.judge.driver_configs import amd, dranet, example, nvidia, sriov
from drawbridge.judge.driver_configs.model import ConfigDriver

DRIVERS: Final[Mapping[str, ConfigDriver]] = {
    driver.name: driver
    for driver in (
        *nvidia.DRIVERS,
        amd.DRIVER,
        *example.DRIVERS,
        dranet.DRIVER,
        sriov.DRIVER,
    )
}
