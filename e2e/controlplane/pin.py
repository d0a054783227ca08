"""Pins one Kubernetes version as an ordinary Go module: writes VERSION/go.mod, go.sum and tools.go.

    python -m e2e.controlplane.pin 1.36.3 3.6.8

Run by hand when a version is added or raised; what it writes is committed. Kubernetes' own go.mod
replaces its staging modules by folders of its repository, which a module that depends on it does
not have; each is replaced by its release of the same minor and patch instead.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
CONTROL_PLANE = (
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubectl/pkg/cmd",
    "k8s.io/component-base/cli",
)
TOOLS = """//go:build tools

// Package {name} names what is built, so that go.sum covers it.
package {name}

import (
{imports}
)
"""


def upstream(kubernetes: str) -> str:
    """Read Kubernetes' own go.mod."""
    answer = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{kubernetes}"],  # noqa: S607  # go of the PATH
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return Path(json.loads(answer)["GoMod"]).read_text(encoding="utf-8")


def write(
    folder: Path, module: str, kubernetes: str, requires: str, packages: Sequence[str]
) -> None:
    """Write the module that pins `packages` of one Kubernetes version and what else they need."""
    minor, patch = kubernetes.split(".")[1:]
    staging = f"v0.{minor}.{patch}"
    folder.mkdir(exist_ok=True)
    source = upstream(kubernetes)
    modules = re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging", source, re.MULTILINE)
    replaces = "\n".join(f"\t{name} => {name} {staging}" for name in sorted(set(modules)))
    # Without it Go's run-time settings would follow our go line instead of what was released.
    settings = re.search(r"^godebug default=\S+$", source, re.MULTILINE)
    (folder / "go.mod").write_text(
        f"module {module}\n\ngo 1.24\n\n"
        f"{settings[0] if settings else ''}\n\n"
        f"require (\n\tk8s.io/kubernetes v{kubernetes}\n{requires})\n\n"
        f"replace (\n{replaces}\n)\n",
        encoding="utf-8",
    )
    imports = "\n".join(f'\t_ "{package}"' for package in packages)
    name = module.rpartition("/")[2]
    (folder / "tools.go").write_text(TOOLS.format(name=name, imports=imports), encoding="utf-8")
    subprocess.run(["go", "mod", "tidy"], check=True, cwd=folder)  # noqa: S607  # go of the PATH


def main(kubernetes: str, etcd: str) -> None:
    """Write the folder of one version."""
    minor, patch = kubernetes.split(".")[1:]
    staging = f"v0.{minor}.{patch}"
    requires = (
        f"\tk8s.io/kubectl {staging}\n\tk8s.io/component-base {staging}\n"
        f"\tgo.etcd.io/etcd/server/v3 v{etcd}\n"
    )
    module = "drawbridge.dev/e2e/controlplane"
    write(HERE / f"1.{minor}", module, kubernetes, requires, CONTROL_PLANE)


if __name__ == "__main__":
    main(*sys.argv[1:])
