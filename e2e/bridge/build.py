"""Builds the kube-scheduler with Drawbridge's plugin, once for each version, source and pin.

    python -m e2e.bridge.build [1.37|1.36|1.35|1.34]
    python -m e2e.bridge.build test [1.37|1.36|1.35|1.34]

The second form runs the tests of the plugin. What is built lies in `.cache/`, in a file named after
sources, pin and Go version, like the control plane.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from e2e.controlplane.build import (
    DEFAULT,
    GO_FLAGS,
    NoGoError,
    compile_program,
    go_version,
    required,
    version_stamp,
)

__all__ = ["NoGoError", "quorum_scheduler", "scheduler"]

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "bridge"
CACHE = ROOT / ".cache" / "bridge"
PROGRAMS = MODULE / "cmd"
PACKAGE = "./cmd/drawbridge-scheduler"
QUORUM_PACKAGE = "./cmd/quorum-scheduler"
# The pin of each version, and the build tag for what is different there.
PINS = {
    "1.37": ("1.37.mod", "kubernetes137"),
    "1.36": ("go.mod", ""),
    "1.35": ("1.35.mod", "kubernetes135"),
    "1.34": ("1.34.mod", "kubernetes134"),
}


def scheduler(version: str = DEFAULT, architecture: str = "") -> Path:
    """Return the program for a version, building it if need be; NoGoError where there is no Go.

    An empty architecture is that of this machine; others have Go's names.
    """
    return _build(PACKAGE, version, architecture)


def quorum_scheduler(version: str) -> Path:
    """Return the same program with the Permit plugin of the rig, for gangs where there are none."""
    return _build(QUORUM_PACKAGE, version)


def _build(package: str, version: str, architecture: str = "") -> Path:
    pin, tags = PINS[version]
    digest = _digest(package, pin, architecture)
    program = CACHE / f"{Path(package).name}-{version}-{digest}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        stamp = version_stamp(required(MODULE, "k8s.io/kubernetes", pin))
        compile_program(
            MODULE, package, program, stamp=stamp, tags=tags, pin=pin, architecture=architecture
        )
    return program


def _digest(package: str, pin: str, architecture: str) -> str:
    own = go_version().split()[-1].partition("/")[2]
    other = architecture if architecture != own else ""
    digest = hashlib.sha256(f"{go_version()}{GO_FLAGS}{other}".encode())
    sums = (MODULE / pin).with_suffix(".sum")
    for path in (MODULE / pin, sums, *sorted(MODULE.rglob("*.go"))):
        # Each program is a package of its own.
        is_other = path.is_relative_to(PROGRAMS) and path.parent != MODULE / package
        if not path.name.endswith("_test.go") and not is_other:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def run_tests(version: str = DEFAULT) -> int:
    """Check and test the plugin with the flags of the builds, which share their cache."""
    go_version()  # raises NoGoError
    pin, tags = PINS[version]
    chosen = [*([] if pin == "go.mod" else [f"-modfile={pin}"]), f"-tags={tags}"]
    # With the race detector where C can be compiled: DRAWBRIDGE_RACE=1.
    race = os.environ.get("DRAWBRIDGE_RACE") == "1"
    environment = os.environ | {"CGO_ENABLED": str(int(race)), "GOFLAGS": "-mod=readonly -trimpath"}
    for command in (["vet"], ["test", *["-race"] * race]):
        words = ["go", *command, *chosen, "./..."]
        code = subprocess.run(words, check=False, cwd=MODULE, env=environment).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["test"]:
        sys.exit(run_tests(*sys.argv[2:3]))
    print(scheduler(*sys.argv[1:2]))  # noqa: T201  # the answer of the command
