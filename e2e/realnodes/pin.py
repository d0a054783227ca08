"""Pins kubelet and kube-proxy of one Kubernetes version: writes VERSION/go.mod, go.sum, tools.go.

    python -m e2e.realnodes.pin 1.36.3

A folder of their own, because the name of the control plane's cache folder is made of its pin: one
more program there would build all of it anew. `runtime/` pins the container runtime by hand.
"""

import sys
from pathlib import Path

from e2e.controlplane.pin import write

HERE = Path(__file__).parent
PACKAGES = ("k8s.io/kubernetes/cmd/kube-proxy", "k8s.io/kubernetes/cmd/kubelet")


def main(kubernetes: str) -> None:
    """Write the folder of one version."""
    folder = HERE / kubernetes.rpartition(".")[0]
    write(folder, "drawbridge.dev/e2e/realnodes/kubernetes", kubernetes, "", PACKAGES)


if __name__ == "__main__":
    main(*sys.argv[1:])
