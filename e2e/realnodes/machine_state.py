"""Reads what a run must leave as it was: the machine's network, mounts, and kernel settings."""

from collections.abc import Iterator, Mapping
from pathlib import Path

PROC = Path("/proc")
# These change by themselves.
VOLATILE = ("kernel/random/", "kernel/ns_last_pid", "kernel/pty/nr", "fs/", "kernel/sched_")
WRITABLE = 0o222
READ_BYTES = 4096

State = Mapping[str, frozenset[str]]


def read_state() -> State:
    """Return links, addresses, routes, mounts and settings of this process's namespaces."""
    return {
        "link": frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        "address": frozenset(_lines("net/fib_trie")),
        "route": frozenset(_lines("net/route")),
        "mount": frozenset(
            line.partition(" - ")[0].split()[4] for line in _lines("self/mountinfo")
        ),
        "setting": frozenset(_settings()),
    }


def _lines(name: str) -> list[str]:
    return (PROC / name).read_text(encoding="utf-8").splitlines()


def _settings() -> Iterator[str]:
    top = PROC / "sys"
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if name.startswith(VOLATILE) or not path.is_file() or not path.stat().st_mode & WRITABLE:
            continue
        try:
            with path.open("rb") as file:
                yield f"{name} = {file.read(READ_BYTES).decode(errors='replace').strip()}"
        except OSError:
            continue  # some can only be written


def differences(before: State, after: State) -> list[str]:
    """List what a run added and what it took away."""
    changes = []
    for kind in before:
        changes += [f"{kind} added: {text}" for text in sorted(after[kind] - before[kind])]
        changes += [f"{kind} missing: {text}" for text in sorted(before[kind] - after[kind])]
    return changes
