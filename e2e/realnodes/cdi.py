"""Builds CDI specs: what containerd gives a container for each prepared device. Pure.

A real driver gives variables, device nodes and mounts. Here every device gives one variable, whose
value names the device and its hardware, and one device node, which is /dev/null beneath.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]
VERSION = "0.6.0"
VARIABLE = "DEVICE_"
FOLDER = "/dev/rig"


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
    def variable(self) -> str:
        """Return the name of the variable."""
        return f"{VARIABLE}{self.label.upper()}"

    @property
    def value(self) -> str:
        """Return the value of the variable: the device, its hardware, and consumed amounts."""
        amounts = [f"{name}={text}" for name, text in sorted((self.consumed or {}).items())]
        return " ".join([f"{self.driver}/{self.pool}/{self.device}", self.physical, *amounts])

    @property
    def node(self) -> str:
        """Return the path of the device node in the container."""
        return f"{FOLDER}/{self.label}"

    def edits(self) -> JSON:
        """Return what the runtime changes in the container."""
        return {
            "env": [f"{self.variable}={self.value}"],
            "deviceNodes": [{"path": self.node, "hostPath": "/dev/null"}],
        }


def spec(kind: str, devices: Iterable[InjectedDevice]) -> JSON:
    """Return the spec of one claim, whose devices containers name as `kind=name`."""
    return {
        "cdiVersion": VERSION,
        "kind": kind,
        "devices": [{"name": one.name, "containerEdits": one.edits()} for one in devices],
    }
