"""Builds CDI specs: what containerd gives a container for each prepared device. Pure.

A real driver gives variables, device nodes and mounts. Here every device gives one device node,
which is /dev/null beneath, and one variable, whose value names the device and its hardware. A GPU
of NVIDIA has no variable, because NVIDIA's driver gives it none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]
VERSION = "0.6.0"
VARIABLE = "DEVICE_"
FOLDER = "/dev/rig"
# What NVIDIA's driver gives instead, so that a runtime of NVIDIA adds no other GPU.
NVIDIA = "gpu.nvidia.com"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class InjectedDevice:
    """One device of one claim: its CDI name, and what it is."""

    name: str
    driver: str
    pool: str
    device: str
    physical: str
    share: str = ""
    consumed: Mapping[str, str] | None = None

    @property
    def label(self) -> str:
        """Return a name for variable and device node, unique on the node."""
        parts = (self.driver, self.device, *([self.share] if self.share else []))
        return re.sub(r"[^A-Za-z0-9]+", "_", "_".join(parts)).lower()

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables: of the device, its hardware, and consumed amounts."""
        if self.driver == NVIDIA:
            return {VISIBLE: "void"}
        amounts = [f"{name}={text}" for name, text in sorted((self.consumed or {}).items())]
        value = " ".join([f"{self.driver}/{self.pool}/{self.device}", self.physical, *amounts])
        return {f"{VARIABLE}{self.label.upper()}": value}

    @property
    def node(self) -> str:
        """Return the path of the device node in the container."""
        return f"{FOLDER}/{self.label}"

    def edits(self) -> JSON:
        """Return what the runtime changes in the container."""
        return {
            "env": [f"{name}={value}" for name, value in self.variables.items()],
            "deviceNodes": [{"path": self.node, "hostPath": "/dev/null"}],
        }


def spec(kind: str, devices: Iterable[InjectedDevice]) -> JSON:
    """Return the spec of one claim, whose devices containers name as `kind=name`."""
    return {
        "cdiVersion": VERSION,
        "kind": kind,
        "devices": [{"name": one.name, "containerEdits": one.edits()} for one in devices],
    }
