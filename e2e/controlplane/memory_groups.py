"""Limits the memory of running processes as the limit of a container does: by a cgroup."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class NoCgroupError(Exception):
    """This machine does not let the rig create cgroups."""


class MemoryGroup:
    """A cgroup with a limit, of version 1 or 2."""

    def __init__(self, name: str, limit: int) -> None:
        is_old = (ROOT / "memory").is_dir()
        self._folder = (ROOT / "memory" if is_old else ROOT) / name
        self._most = "memory.max_usage_in_bytes" if is_old else "memory.peak"
        try:
            self._folder.mkdir()
            limits = "memory.limit_in_bytes" if is_old else "memory.max"
            (self._folder / limits).write_text(f"{limit}", encoding="ascii")
        except OSError as error:
            raise NoCgroupError(f"{self._folder}: {error}") from None

    def add(self, pid: int) -> None:
        """Move a process. What it has stays with its old group, what it takes counts here."""
        (self._folder / "cgroup.procs").write_text(f"{pid}", encoding="ascii")

    def most(self) -> int:
        """Return the most memory that the group has had, in bytes."""
        return int((self._folder / self._most).read_text("ascii"))

    def remove(self) -> None:
        """Move the processes back, and remove the group."""
        for pid in (self._folder / "cgroup.procs").read_text("ascii").split():
            with contextlib.suppress(OSError):
                (self._folder.parent / "cgroup.procs").write_text(pid, encoding="ascii")
        with contextlib.suppress(OSError):
            self._folder.rmdir()


@contextlib.contextmanager
def limited(name: str, limit: int, pid: int) -> Iterator[MemoryGroup]:
    """Limit the memory of one process until the context exits; raises NoCgroupError."""
    group = MemoryGroup(name, limit)
    try:
        group.add(pid)
        yield group
    finally:
        group.remove()
