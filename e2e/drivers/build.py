"""Builds the programs of drivers that others wrote, once for each pin.

    python -m e2e.drivers.build [nvidia-0.5.0 ...]

Each folder with a `go.mod` pins one release. NVIDIA's programs load a C library, so they need cgo
and gcc. The folder `nvfm` beside a pin takes the place of a module that no proxy has.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.controlplane.build import cache_name, compile_program, module_folder
from e2e.realnodes.build import NoProgramsError

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "drivers"
_NVIDIA = {
    "gpu-kubelet-plugin": "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin",
    "nvidia-cdi-hook": "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook",
    "webhook": "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/webhook",
}
# A program of ours beside a pin, which asks the driver's own check of configurations.
ASK = "ask"
_EXAMPLE = "sigs.k8s.io/dra-example-driver/cmd"
# The programs of each pin, and their packages.
PINS: Mapping[str, Mapping[str, str]] = {
    "nvidia-0.5.0": _NVIDIA,
    "nvidia-0.4.1": _NVIDIA,
    "nvidia-plugin-0.19.3": {
        "nvidia-device-plugin": "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"
    },
    "example-0.4.0": {
        name: f"{_EXAMPLE}/{name}" for name in ("dra-example-kubeletplugin", "dra-example-webhook")
    },
    "cpu-0.2.0": {"dracpu": "github.com/kubernetes-sigs/dra-driver-cpu/cmd/dracpu"},
    "net-1.4.0": {"dranet": "sigs.k8s.io/dranet/cmd/dranet", ASK: "./ask"},
}


def program(pin: str, name: str) -> Path:
    """Return one program of a pin, built when it is missing."""
    target = folder(pin) / name
    if not target.exists():
        if shutil.which("gcc") is None:
            raise NoProgramsError(f"gcc is not on the PATH: {name} of {pin} cannot be built")
        target.parent.mkdir(parents=True, exist_ok=True)
        package = PINS[pin][name]
        print(f"building {name} of {pin}", flush=True)  # noqa: T201
        compile_program(HERE / pin, package, target, cgo=True)
    return target


def folder(pin: str) -> Path:
    """Return the folder of what this pin and this Go build."""
    module = HERE / pin
    own = (path for part in ("nvfm", ASK) for path in sorted((module / part).rglob("*.go")))
    return CACHE / cache_name(pin, module, *own)


def sources(pin: str, module: str) -> Path:
    """Return the folder with the sources of a module that a pin requires."""
    return module_folder(HERE / pin, module)


def build(*pins: str) -> list[Path]:
    """Build every program of some pins, or of all of them."""
    return [program(pin, name) for pin in pins or PINS for name in PINS[pin]]


if __name__ == "__main__":
    for path in build(*sys.argv[1:]):
        print(path)  # noqa: T201
