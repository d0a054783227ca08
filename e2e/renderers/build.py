"""Builds pinned kustomize and helm with Go, once per pin.

    python -m e2e.renderers.build

The binaries lie in `.cache/`, in a folder named after the pin and the Go version. Tests of the
manifests run them; the product does not.
"""

import hashlib
import sys
from pathlib import Path

from e2e.controlplane.build import NoGoError, compile_program, go_version

__all__ = ["NoGoError", "binaries"]

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "renderers"
PACKAGES = {
    "helm": "helm.sh/helm/v4/cmd/helm",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
}


def folder() -> Path:
    """Return the folder of what this pin and this Go build; NoGoError without Go."""
    digest = hashlib.sha256(go_version().encode())
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    return CACHE / digest.hexdigest()[:12]


def binaries() -> Path:
    """Return the folder with helm and kustomize, building what is missing."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    for name, package in PACKAGES.items():
        if not (target / name).exists():
            print(f"building {name}", flush=True)  # noqa: T201
            compile_program(HERE, package, target / name)
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{binaries()}\n")
