"""Builds the pinned control plane with Go, once per version and pin.

    python -m e2e.controlplane.build [1.36]

Binaries lie in `.cache/`, in a folder named after what they were built from: the pin files and the
Go version. A change of either builds anew; nothing built is ever committed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "controlplane"
DEFAULT = "1.36"
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
    text = (HERE / version / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"k8s\.io/kubernetes v(\S+)", text)
    if found is None:
        raise ValueError(f"{version}/go.mod requires no k8s.io/kubernetes")
    return found[1]


def folder(version: str) -> Path:
    """Return the name of the folder of what this pin and this Go build."""
    digest = hashlib.sha256(go_version().encode())
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / version / name).read_bytes())
    return CACHE / f"{version}-{digest.hexdigest()[:12]}"


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
    """Build one binary; it appears in the folder only when it is whole."""
    full = pinned(version)
    major, minor, _ = full.split(".")
    stamp = " ".join(
        f"-X k8s.io/component-base/version.{key}={value}"
        for key, value in {
            "gitVersion": f"v{full}",
            "gitMajor": major,
            "gitMinor": minor,
        }.items()
    )
    partial = target / f"{name}.partial"
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", f"-s -w {stamp}", "-o", partial, PACKAGES[name]],  # noqa: S607
        check=True,
        cwd=HERE / version,
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
    )
    partial.rename(target / name)


if __name__ == "__main__":
    print(binaries(*sys.argv[1:2]))  # noqa: T201
