"""Publishes FPGA cards and network ports of drivers that Drawbridge does not know.

The devices are those of the ResourceSlices in examples/own-class, whatever the machine.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from e2e.nodes.layout import Device, Layout, Sheet
from e2e.nodes.machine import Machine

FPGA, NIC = "fpga.example.com", "nic.example.com"
SLICES = Path(__file__).parents[3] / "examples" / "own-class" / "cluster" / "slices.yaml"


@cache
def _devices(driver: str) -> tuple[dict[str, Any], ...]:
    slices = yaml.safe_load_all(SLICES.read_text(encoding="utf-8"))
    return tuple(
        device
        for each in slices
        if each["spec"]["driver"] == driver
        for device in each["spec"]["devices"]
    )


def _layout(driver: str, machine: Machine) -> Layout:
    devices = tuple(
        Device(
            device["name"],
            driver.partition(".")[0],
            f"{machine.name}/{device['name']}",
            {field: value for field, value in device.items() if field != "name"},
        )
        for device in _devices(driver)
    )
    return Layout(driver, machine.name, (Sheet(devices),))


fpga, nic = partial(_layout, FPGA), partial(_layout, NIC)
