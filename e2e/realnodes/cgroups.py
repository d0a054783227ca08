"""Makes and removes the cgroups of a rig's nodes, in hierarchies of version 1 or in version 2."""

import time
from pathlib import Path

TOP = Path("/sys/fs/cgroup")
# Version 1 does not pass these on to a new group, and without them no process can enter it.
CPUSET = ("cpuset.cpus", "cpuset.mems")
REMOVAL_SECONDS = 5.0


def hierarchies(top: Path = TOP) -> list[Path]:
    """List the mounted hierarchies: one in version 2, one for each controller in version 1."""
    if (top / "cgroup.controllers").exists():
        return [top]
    return sorted(
        path
        for path in (top.iterdir() if top.exists() else ())
        if path.is_dir() and not path.is_symlink() and path.name != "unified"
    )


def make(rig: str, node: str, top: Path = TOP) -> str:
    """Make the group of a node in every hierarchy; returns its path below each of them."""
    for hierarchy in hierarchies(top):
        path = hierarchy
        for part in (rig, node):
            _pass_on(path)
            path /= part
            path.mkdir(exist_ok=True)
            for name in CPUSET:
                if hierarchy.name == "cpuset":
                    (path / name).write_text((path.parent / name).read_text())
        _pass_on(path)
    return f"/{rig}/{node}"


def _pass_on(group: Path) -> None:
    """Let version 2 offer all controllers to the groups below."""
    offered = group / "cgroup.controllers"
    if offered.exists():
        words = " ".join(f"+{name}" for name in offered.read_text().split())
        (group / "cgroup.subtree_control").write_text(words)


def remove(rig: str, top: Path = TOP) -> None:
    """Remove all groups of a rig; the kernel may still be ending the processes in them."""
    # runc makes the path in the empty unified hierarchy too.
    for hierarchy in {*hierarchies(top), top / "unified"}:
        _remove(hierarchy / rig)


def clear(path: str, top: Path = TOP) -> None:
    """Remove the groups below a path: those of a node that died are not there after its start."""
    for hierarchy in {*hierarchies(top), top / "unified"}:
        group = hierarchy / path.removeprefix("/")
        for below in group.iterdir() if group.exists() else ():
            if below.is_dir():
                _remove(below)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + REMOVAL_SECONDS
    while not _removed(group) and time.monotonic() < deadline:
        time.sleep(0.05)


def _removed(group: Path) -> bool:
    if not group.exists():
        return True
    try:
        for path in sorted(group.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
        group.rmdir()
    except OSError:
        return False
    return True


def left(rig: str, top: Path = TOP) -> list[str]:
    """List the groups of a rig that are still there."""
    folders = {*hierarchies(top), top / "unified"}
    return sorted(str(folder / rig) for folder in folders if (folder / rig).exists())
