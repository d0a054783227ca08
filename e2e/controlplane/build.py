"""Builds the pinned control plane with Go, once per version and pin.

    python -m e2e.controlplane.build [1.36]

Binaries lie in `.cache/`, in a folder named after what they were built from: the pin files and the
Go version. A change of either builds anew; nothing built is ever committed.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "controlplane"
DEFAULT = "1.36"
# Without the state of the checkout: equal sources give equal programs.
GO_FLAGS = "-mod=readonly -buildvcs=false"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


class NoGoError(Exception):
    """Go is not installed, so nothing can be built here."""


def go_version() -> str:
    """Tell which Go would build; NoGoError where there is none."""
    go = shutil.which("go")
    if go is None:
        raise NoGoError("go is not on the PATH: the control plane cannot be built")
    return subprocess.run([go, "version"], check=True, capture_output=True, text=True).stdout


def pinned(version: str) -> str:
    """Read the full Kubernetes version that `version` (such as 1.36) is pinned to."""
    return required(HERE / version, "k8s.io/kubernetes")


def required(folder: Path, module: str, pin: str = "go.mod") -> str:
    """Read the version of a module that the pin of a folder requires."""
    text = (folder / pin).read_text(encoding="utf-8")
    match = re.search(rf"{re.escape(module)} v(\S+)", text)
    if match is None:
        raise ValueError(f"{folder.name}/{pin} requires no {module}")
    return match[1]


def cache_name(label: str, module: Path, *sources: Path) -> str:
    """Name the cache folder of what this Go builds from a module that pins its requirements.

    `sources` are files of ours that go into the programs.
    """
    digest = hashlib.sha256(go_version().encode())
    for path in (module / "go.mod", module / "go.sum", *sources):
        digest.update(path.read_bytes())
    return f"{label}-{digest.hexdigest()[:12]}"


def folder(version: str) -> Path:
    """Return the name of the folder of what this pin and this Go build."""
    return CACHE / cache_name(version, HERE / version)


def binaries(version: str = DEFAULT) -> Path:
    """Return the folder with the binaries of `version`, building what is missing."""
    target = folder(version)
    missing = [name for name in PACKAGES if not (target / name).exists()]
    if missing:
        target.mkdir(parents=True, exist_ok=True)
        print(f"building {', '.join(missing)} of Kubernetes {pinned(version)}", flush=True)  # noqa: T201
    for name in missing:
        build(version, name, target)
    return target


def build(version: str, name: str, target: Path) -> None:
    """Build one program of the control plane."""
    compile_program(
        HERE / version, PACKAGES[name], target / name, stamp=version_stamp(pinned(version))
    )


def version_stamp(full: str) -> str:
    """Return the linker's options that let a program of Kubernetes state its version."""
    major, minor, _ = full.split(".")
    values = {"gitVersion": f"v{full}", "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{key}={values[key]}" for key in values)


def compile_program(  # noqa: PLR0913  # the words of one command
    module: Path,
    package: str,
    program: Path,
    *,
    stamp: str = "",
    tags: str = "",
    pin: str = "go.mod",
    cgo: bool = False,
    architecture: str = "",
    test: bool = False,
) -> None:
    """Build one program of a module, unless it exists; the file appears only when it is whole.

    With `test` it is the program of a package's tests.

    Processes that need the same program, such as the workers of a test run, build it once.
    """
    partial = program.with_name(f"{program.name}.partial")
    chosen = [] if pin == "go.mod" else [f"-modfile={pin}"]
    flags = ["-trimpath", *chosen, "-ldflags", f"-s -w {stamp}", "-tags", tags]
    command = ["test", "-c", "-vet=off"] if test else ["build"]
    with program.with_name(f"{program.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return
        subprocess.run(
            ["go", *command, *flags, "-o", partial, package],  # noqa: S607  # go of the PATH
            check=True,
            cwd=module,
            env=os.environ
            | {"CGO_ENABLED": str(int(cgo)), "GOFLAGS": GO_FLAGS}
            | ({"GOARCH": architecture} if architecture else {})
            # Each deprecated function of a binding would be a warning of six lines.
            | ({"CGO_CFLAGS": "-O2 -g -Wno-deprecated-declarations"} if cgo else {}),
        )
        partial.rename(program)


def module_folder(pin: Path, module: str) -> Path:
    """Return the folder with the sources of a module that a pin requires, downloaded if need be."""
    go_version()
    told = subprocess.run(
        ["go", "mod", "download", "-json", module],  # noqa: S607  # go of the PATH
        check=True,
        cwd=pin,
        capture_output=True,
        text=True,
        env=os.environ | {"GOFLAGS": GO_FLAGS},
    )
    return Path(json.loads(told.stdout)["Dir"])


if __name__ == "__main__":
    print(binaries(*sys.argv[1:2]))  # noqa: T201
