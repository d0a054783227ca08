"""Builds the library that answers for NVIDIA's hardware, and writes what it answers.

The header is that of the Go binding which NVIDIA's programs are built with. What the library asks
is a machine of `e2e.nodes`: its GPUs, and the partitions that its product can have.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.drivers.build import CACHE, HERE, sources
from e2e.nodes.machine import Gpu, Machine
from e2e.realnodes.build import NoProgramsError

SOURCE = HERE / "nvml.c"
BINDING = "github.com/NVIDIA/go-nvml"
PIN = "nvidia-0.5.0"
DRIVER_VERSION = "580.126.09"
CUDA = 13000
LIBRARY = "libnvidia-ml.so.1"
_DECLARED = re.compile(r"^nvmlReturn_t DECLDIR (nvml\w+)\s*\(", re.MULTILINE)
# NVML's numbers: of architectures, and of the profiles with so many compute slices.
_ARCHITECTURES = {"Pascal": 4, "Ampere": 7, "Ada Lovelace": 8, "Hopper": 9, "Blackwell": 10}
_PROFILES = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_ENGINES = ("multiprocessors", "copyEngines", "decoders", "jpegEngines", "ofaEngines")


@dataclass(frozen=True)
class Partition:
    """A partition that an administrator made: its GPU, profile, and first memory slice."""

    gpu: int
    profile: str
    start: int

    @property
    def instance(self) -> int:
        """Return the number of its GPU instance."""
        return self.start + 1


def library() -> Path:
    """Return the library, built when it is missing."""
    binding = sources(PIN, BINDING) / "pkg" / "nvml"
    header = (binding / "nvml.h").read_text(encoding="utf-8")
    digest = hashlib.sha256(SOURCE.read_bytes() + header.encode()).hexdigest()[:12]
    target = CACHE / f"nvml-{digest}" / LIBRARY
    if target.exists():
        return target
    if shutil.which("gcc") is None:
        raise NoProgramsError("gcc is not on the PATH: the library of NVML cannot be built")
    target.parent.mkdir(parents=True, exist_ok=True)
    rest = target.with_name("rest.c")
    rest.write_text("\n".join(_not_supported(header)), encoding="ascii")
    partial = target.with_name(f"{LIBRARY}.partial")
    words = ("-std=gnu11", "-shared", "-fPIC", "-O1", f"-I{binding}", f"-Wl,-soname,{LIBRARY}")
    command = ["gcc", *words, "-o", str(partial), str(SOURCE), str(rest)]
    subprocess.run(command, check=True)
    partial.rename(target)
    return target


def _not_supported(header: str) -> Iterator[str]:
    """Yield an answer for every function: a missing one would end the program that asks."""
    for name in sorted(set(_DECLARED.findall(header))):
        yield f"int __attribute__((weak)) {name}(void) {{ return 3; }}"


# --- what the library reads ----------------------------------------------------------------------


def machine_text(machine: Machine) -> str:
    """Return the GPUs of a machine, and the profiles of their partitions."""
    lines = [f"driver {DRIVER_VERSION}", f"cuda {CUDA}"]
    product = machine.product
    lines += [_profile(name, data) for name, data in product["mig"].items()]
    compute = product["compute"].split(".")
    for gpu in machine.gpus:
        place = f"{gpu.bus} {product['labelMemory']} {gpu.numa}"
        kind = f"{compute[0]} {compute[1]} {_ARCHITECTURES[product['architecture']]}"
        lines.append(f"gpu {gpu.index} {gpu.uuid} {place} {kind} {product['name']}")
    return "\n".join([*lines, ""])


def _profile(name: str, data: Mapping[str, object]) -> str:
    slices = int(name.partition("g")[0])
    engines, starts = data["engines"], data["starts"]
    assert isinstance(engines, dict)
    assert isinstance(starts, list)
    memory = str(data["memory"]).removesuffix("Mi")
    counts = [engines.get(kind, 0) for kind in _ENGINES]
    numbers = [_PROFILES[slices], data["id"], slices, data["size"], memory, *counts, *starts]
    return f"profile {' '.join(map(str, numbers))}"


def partitions_text(
    machine: Machine, partitions: Iterable[Partition], mig: Iterable[int] = ()
) -> str:
    """Return the mode of each GPU, on for those of `mig` and of a partition, and the partitions."""
    made = tuple(partitions)
    on = {*mig, *(each.gpu for each in made)}
    lines = [f"mode {gpu.index} {int(gpu.index in on)}" for gpu in machine.gpus]
    for partition in made:
        number = _PROFILES[int(partition.profile.partition("g")[0])]
        uuid = partition_uuid(machine.gpus[partition.gpu], partition)
        lines.append(
            f"partition {partition.gpu} {partition.instance} {number} {partition.start} {uuid}"
        )
    return "\n".join([*lines, ""])


def partition_uuid(gpu: Gpu, partition: Partition) -> str:
    """Name a partition that an administrator made."""
    return f"MIG-{gpu.uuid.removeprefix('GPU-')[:-1]}{partition.start}"
