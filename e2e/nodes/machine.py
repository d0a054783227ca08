"""Describes physical machines: their GPUs and NICs, PCIe roots and NUMA nodes.

Reads the shapes and products beside this file. Several drivers and plugins can publish the same
machine.
"""

import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Gpu:
    """One physical GPU; its NUMA node is -1 if the kernel does not know it."""

    index: int
    uuid: str
    bus: str
    root: str
    numa: int


@dataclass(frozen=True)
class Nic:
    """One physical network port; `bus` with the node's name is its identity."""

    name: str
    bus: str
    root: str
    numa: int
    storage: bool = False


@dataclass(frozen=True)
class Machine:
    """One physical machine, named like its node."""

    name: str
    shape: str
    kind: str
    product: dict[str, Any]
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]

    def nic_identity(self, nic: Nic) -> str:
        """Name a port so that no other machine has the same name."""
        return f"{self.name}/{nic.bus}"


@cache
def _table(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((HERE / name).read_text(encoding="utf-8"), yaml.CSafeLoader)
    return loaded


def shapes() -> list[str]:
    """List the names of the shapes."""
    return sorted(_table("shapes.yaml"))


def shape_of(kind: str) -> str:
    """Return the shape of the machines of an instance type."""
    return next(name for name, data in _table("shapes.yaml").items() if data["type"] == kind)


def machine(name: str, shape: str) -> Machine:
    """Build one machine of a named shape; the same name gives the same UUIDs."""
    data = _table("shapes.yaml")[shape]
    alone = data.get("alone", False)
    gpus: list[Gpu] = []
    nics: list[Nic] = []
    for group in data["groups"]:
        for bus in group["gpus"]:
            number = len(gpus)
            identity = f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}/{bus}')}"
            gpus.append(Gpu(number, identity, bus, _root(group, bus, alone=alone), group["numa"]))
        nics += [_nic(group, text, alone=alone) for text in group["nics"]]
    for group in data.get("storage", ()):
        nics += [_nic(group, text, alone=alone, storage=True) for text in group["nics"]]
    product = _table("products.yaml").get(data["product"], {})
    return Machine(name, shape, data["type"], product, tuple(gpus), tuple(nics))


def _root(group: dict[str, Any], bus: str, *, alone: bool) -> str:
    return f"pci{bus[:7]}" if alone else str(group["root"])


def _nic(group: dict[str, Any], text: str, *, alone: bool, storage: bool = False) -> Nic:
    name, _, bus = text.partition("@")
    return Nic(name, bus, _root(group, bus, alone=alone), group["numa"], storage)
