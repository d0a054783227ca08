"""Becomes a process in the file system of an image, confined as the manifests say.

    python enter.py '{"root": ..., "words": [...], ...}'

Own mount, PID, IPC and UTS namespaces, the root file system read-only, `/tmp` in memory, another
user, no capabilities, no new privileges, and no variable of this environment. The network is that
of the caller, because the API server listens there. Needs root and Linux; imports only the standard
library. SIGTERM reaches the process, and it ends with its starter.
"""

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000  # mount, UTS, IPC, PID
_READ_ONLY, _NO_SUID, _REMOUNT, _BIND = 1, 2, 32, 4096
_RECURSIVE, _PRIVATE, _DETACH = 16384, 1 << 18, 2
_DEATH_SIGNAL, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 1, 24, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_DEVICES = ("full", "null", "random", "urandom", "zero")


def main(given: Mapping[str, Any]) -> int:
    """Start the process, forward signals, and return its exit code."""
    # Read here, because this interpreter cannot import anything once it is in the image.
    capabilities = range(int(_LAST_CAPABILITY.read_text(encoding="utf-8")) + 1)
    _call("unshare", _NEW_NAMESPACES)
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    alive, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(held)
        root = _build_root(given)
        _call("sethostname", given["hostname"].encode(), len(given["hostname"]))
        _enter(root)
        _drop_rights(given["user"], capabilities)
        # Set after the change of user, which clears it.
        _call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if select.select([alive], [], [], 0)[0]:
            os._exit(1)  # the starter has ended already
        _become(given["words"], given["variables"])

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _build_root(given: Mapping[str, Any]) -> Path:
    """Mount the image, as a container runtime does, with places for what is mounted into it."""
    scratch = Path(given["scratch"])
    _mount("tmpfs", scratch, "tmpfs")
    upper, work, root = (scratch / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir()
    layers = f"lowerdir={given['root']},upperdir={upper},workdir={work}"
    _mount("overlay", root, "overlay", 0, layers)
    _mount("proc", root / "proc", "proc")
    _mount("tmpfs", root / "tmp", "tmpfs", _NO_SUID, "size=16m,mode=1777")
    for name in _DEVICES:
        (root / "dev" / name).touch()
        _mount(f"/dev/{name}", root / "dev" / name, "", _BIND)
    for inside, outside in given["mounts"].items():
        place = root / inside.lstrip("/")
        place.mkdir(parents=True)
        _mount(outside, place, "", _BIND)
        _mount("none", place, "", _REMOUNT | _BIND | _READ_ONLY)
    _mount("none", root, "", _REMOUNT | _BIND | _READ_ONLY)
    return root


def _enter(root: Path) -> None:
    """Make the folder the root, and detach the file system of the machine."""
    os.chdir(root)
    _call("syscall", _PIVOT_ROOT[os.uname().machine], b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir("/")


def _drop_rights(user: int, capabilities: range) -> None:
    for capability in capabilities:
        _call("prctl", _DROP_BOUNDING, capability, 0, 0, 0)
    os.setgroups([user])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)  # drops the other sets of capabilities
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def _become(words: list[str], variables: dict[str, str]) -> None:
    places = [Path(folder) / words[0] for folder in variables["PATH"].split(":")]
    programs = [path for path in places if path.exists()]
    if not programs:
        sys.exit(f"{words[0]} is not on the PATH of the image, {variables['PATH']}")
    os.execve(programs[0], words, variables)  # noqa: S606  # the command of the manifests


def _mount(source: str, target: Path | str, kind: str, flags: int = 0, data: str = "") -> None:
    texts = [os.fsencode(each) for each in (source, target, kind)]
    _call("mount", *texts, flags, data.encode())


def _call(name: str, *arguments: bytes | int) -> None:
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if getattr(_LIBC, name)(*converted) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
