"""Gives a node its own folders and settings, then waits for its end.

    python mounts.py FOLDER

Runs in the node's own mount namespace, below the node's init. kubelet, containerd and drivers have
fixed paths; each node has its own folder behind them. Run as a file of its own.
"""

import signal
import subprocess
import sys
from pathlib import Path

# The kubelet would write these for the whole machine. What it reads here, it need not write.
SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# The part of a node's folder, and the path that programs know it by.
BOUND = {"log": "/var/log", "kubelet": "/var/lib/kubelet", "cdi": "/run/cdi"}
READY = "mounted"


def mount(*words: object) -> None:
    """Run mount."""
    subprocess.run(["mount", *map(str, words)], check=True)  # noqa: S607  # mount of the PATH


def main(folder: Path) -> None:
    """Mount everything and note that it is done."""
    # Secrets are tmpfs mounts that the kubelet makes and containers see.
    mount("--make-rshared", "/")
    mount("-t", "tmpfs", "tmpfs", "/run")
    upper, work = folder / "lib" / "upper", folder / "lib" / "work"
    for made in (upper, work):
        made.mkdir(parents=True, exist_ok=True)
    # An overlay, because the machine's own folder must not get new entries.
    mount(
        "-t", "overlay", "-o", f"lowerdir=/var/lib,upperdir={upper},workdir={work}", "x", "/var/lib"
    )
    for part, path in BOUND.items():
        (folder / part).mkdir(exist_ok=True)
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("--bind", folder / part, path)
    for name in ("plugins", "plugins_registry", "device-plugins"):
        (folder / "kubelet" / name).mkdir(exist_ok=True)
    settings = folder / "settings"
    settings.mkdir(exist_ok=True)
    for name, value in SETTINGS.items():
        wanted = settings / name.replace("/", "-")
        wanted.write_text(f"{value}\n", encoding="ascii")
        mount("--bind", wanted, f"/proc/sys/{name}")
    (folder / READY).touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    while True:
        signal.pause()
