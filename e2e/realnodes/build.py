"""Builds and unpacks the programs of a node, once for each pin.

    python -m e2e.realnodes.build

kubelet and kube-proxy, containerd and the network plugins are built from pinned Go modules, like
the control plane. runc, nft and busybox come from Debian's packages: they are downloaded and
unpacked into `.cache/`, never installed.
"""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.build import (
    DEFAULT,
    cache_name,
    compile_program,
    required,
    version_stamp,
)

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "realnodes"
KUBERNETES = {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")}
CONTAINERD = "github.com/containerd/containerd/v2"
NETWORK = "github.com/containernetworking/plugins"
RUNTIME = {
    **{
        name: f"{CONTAINERD}/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "host-local": f"{NETWORK}/plugins/ipam/host-local",
    "ptp": f"{NETWORK}/plugins/main/ptp",
}
# What is left out needs cgo, or a file system that no node here has.
TAGS = "no_btrfs no_zfs no_devmapper"
PACKAGES = (
    "busybox-static",
    "libedit2",
    "libgmp10",
    "libjansson4",
    "libmnl0",
    "libnftables1",
    "libnftnl11",
    "libxtables12",
    "nftables",
    "runc",
)


class NoProgramsError(Exception):
    """A tool is missing that builds or unpacks the programs of a node; says which."""


@dataclass(frozen=True)
class Programs:
    """Where the programs of a node are."""

    kubernetes: Path
    runtime: Path
    debian: Path

    @property
    def path(self) -> str:
        """Return the folders of the programs as a search path."""
        folders = (self.kubernetes, self.runtime, self.debian / "usr/sbin")
        return ":".join(map(str, folders))

    @property
    def libraries(self) -> Path:
        """Return the folder of the libraries that nft needs."""
        return next(self.debian.glob("usr/lib/*-linux-gnu"))

    @property
    def runc(self) -> Path:
        """Return the runtime that containerd calls."""
        return self.debian / "usr/sbin/runc"

    @property
    def busybox(self) -> Path:
        """Return the statically linked busybox."""
        return self.debian / "bin/busybox"


def programs(version: str = DEFAULT) -> Programs:
    """Return the programs of a node of `version`; what is missing is built or unpacked."""
    module = HERE / version
    kubernetes = CACHE / cache_name(version, module)
    stamp = version_stamp(required(module, "k8s.io/kubernetes"))
    _build(module, KUBERNETES, kubernetes, stamp)
    module = HERE / "runtime"
    runtime = CACHE / cache_name("runtime", module)
    stamp = f"-X {CONTAINERD}/version.Version={required(module, CONTAINERD)}"
    _build(module, RUNTIME, runtime, stamp, TAGS)
    return Programs(kubernetes, runtime, unpacked())


def _build(
    module: Path, packages: dict[str, str], target: Path, stamp: str, tags: str = ""
) -> None:
    for name, package in packages.items():
        if not (target / name).exists():
            target.mkdir(parents=True, exist_ok=True)
            print(f"building {name} of {package}", flush=True)  # noqa: T201
            compile_program(module, package, target / name, stamp=stamp, tags=tags)


def unpacked() -> Path:
    """Return the folder of the unpacked packages; it appears only when it is whole."""
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    target = CACHE / f"debian-{digest}"
    if target.exists():
        return target
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoProgramsError(f"{tool} is not on the PATH: {', '.join(PACKAGES)} are missing")
    print(f"unpacking {', '.join(PACKAGES)}", flush=True)  # noqa: T201
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    downloads = partial / "downloads"
    downloads.mkdir(parents=True)
    # As another user apt could not write here.
    _run(downloads, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *PACKAGES)
    for package in sorted(downloads.glob("*.deb")):
        _run(partial, "dpkg-deb", "-x", str(package), ".")
    shutil.rmtree(downloads)
    partial.rename(target)
    return target


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoProgramsError(f"{' '.join(words)}: {done.stderr.strip()}")


if __name__ == "__main__":
    print(programs())  # noqa: T201
