"""Lays out what NVIDIA's programs look for on a node: a driver's root, /sys, /proc and devices.

All of it lies in one folder of the node, which driver, kubelet and containerd see at the same path.
Character devices are those of /dev/null.
"""

import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.drivers import nvml
from e2e.drivers.nvml import DRIVER_VERSION, LIBRARY, Partition
from e2e.nodes.machine import Gpu, Machine
from e2e.realnodes.node import RealNode

FOLDER = "driver-root"
CONTROL_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
# Major numbers of the devices of GPUs and of their partitions.
MAJORS = {"nvidia": 195, "nvidia-caps": 509}
INSTANCES = 15
# What a GPU takes of the minor numbers of partitions, and what an instance of it takes.
GPU_MINORS, INSTANCE_MINORS, FIRST_MINOR = 135, 9, 3
# It says what it was asked. The library that a driver puts before it is for a real one.
SMI = """#!/bin/sh
unset LD_PRELOAD
echo "$@" >> {log}
"""
# The daemon of MPS, which waits as a real one does when it is told to go to the background.
MPS = """#!/bin/sh
case "$1" in
-d) mkdir -p "$CUDA_MPS_LOG_DIRECTORY"; echo started >> "$CUDA_MPS_LOG_DIRECTORY/control.log" ;;
*) cat >> "$CUDA_MPS_LOG_DIRECTORY/control.log" ;;
esac
"""


@dataclass(frozen=True)
class DriverRoot:
    """The folder of one node."""

    path: Path

    def bound(self) -> Mapping[Path, str]:
        """Return what a program of NVIDIA sees in place of the machine's own."""
        return {
            self.path / "sys": "/sys",
            self.path / "proc": "/proc/driver",
            self.path / "proc-devices": "/proc/devices",
            self.path / "boot-id": "/proc/sys/kernel/random/boot_id",
        }

    def variables(self) -> Mapping[str, str]:
        """Return where the library of NVML finds its answers."""
        return {
            "NVML_MACHINE": str(self.path / "nvml"),
            "NVML_PARTITIONS": str(self.path / "partitions"),
        }

    def asked(self) -> list[str]:
        """Return the arguments of each call of nvidia-smi."""
        log = self.path / "smi.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def partitions(self) -> list[str]:
        """Return the partitions that exist, as `GPU INSTANCE PROFILE START UUID`."""
        lines = (self.path / "partitions").read_text(encoding="ascii").splitlines()
        kind = "partition "
        return [line.removeprefix(kind) for line in lines if line.startswith(kind)]


def lay_out(
    node: RealNode,
    machine: Machine,
    partitions: Iterable[Partition] = (),
    mig: Iterable[int] = (),
) -> DriverRoot:
    """Write everything for the GPUs of a machine, as it is after the node has started."""
    root = DriverRoot(node.path(FOLDER))
    shutil.rmtree(root.path, ignore_errors=True)
    _write_programs(root.path)
    for device in CONTROL_DEVICES:
        _make_device(root.path / "dev" / device)
    for gpu in machine.gpus:
        _make_device(root.path / "dev" / f"nvidia{gpu.index}")
        _write_bus(root.path / "sys", gpu)
        _write_capabilities(root.path / "proc", gpu)
    _write(root.path / "nvml", nvml.machine_text(machine))
    _write(root.path / "partitions", nvml.partitions_text(machine, partitions, mig))
    _write(root.path / "proc-devices", _proc_devices(Path("/proc/devices").read_text()))
    _write(root.path / "boot-id", f"{uuid.uuid5(uuid.NAMESPACE_DNS, boot_of(node))}\n")
    return root


def boot_of(node: RealNode) -> str:
    """Name the time from a start of a node to its end."""
    return f"{node.name}/{node.inside}"


def capability_minor(gpu: int, instance: int, compute: int | None = None) -> int:
    """Return the minor number of a GPU instance, or of a compute instance in it."""
    first = FIRST_MINOR + GPU_MINORS * gpu + INSTANCE_MINORS * instance
    return first if compute is None else first + 1 + compute


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def _write_programs(root: Path) -> None:
    libraries, programs = root / "usr" / "lib64", root / "usr" / "bin"
    for folder in (libraries, programs):
        folder.mkdir(parents=True)
    shutil.copyfile(nvml.library(), libraries / f"libnvidia-ml.so.{DRIVER_VERSION}")
    (libraries / LIBRARY).symlink_to(f"libnvidia-ml.so.{DRIVER_VERSION}")
    # CDI reads the version of the driver from its name.
    (libraries / f"libcuda.so.{DRIVER_VERSION}").touch()
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{DRIVER_VERSION}")
    scripts = {"nvidia-smi": SMI.format(log=root / "smi.log"), "nvidia-cuda-mps-control": MPS}
    for name, text in scripts.items():
        _write(programs / name, text)
        (programs / name).chmod(0o755)


def _make_device(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def _write_bus(sys: Path, gpu: Gpu) -> None:
    place = Path("devices", gpu.root, gpu.bus)
    facts = {"numa_node": gpu.numa, "vendor": "0x10de", "device": "0x20b0", "class": "0x030200"}
    for name, value in facts.items():
        _write(sys / place / name, f"{value}\n")
    links = sys / "bus" / "pci" / "devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / gpu.bus).symlink_to(Path("../../..", place))


def _write_capabilities(proc: Path, gpu: Gpu) -> None:
    for instance in range(1, INSTANCES):
        folder = proc / "nvidia" / "capabilities" / f"gpu{gpu.index}" / "mig" / f"gi{instance}"
        minors = {
            folder: capability_minor(gpu.index, instance),
            folder / "ci0": capability_minor(gpu.index, instance, 0),
        }
        for path, minor in minors.items():
            text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            _write(path / "access", text)


def _proc_devices(text: str) -> str:
    lines = "".join(f"{number} {name}\n" for name, number in MAJORS.items())
    first = "Character devices:\n"
    return text.replace(first, first + lines)
