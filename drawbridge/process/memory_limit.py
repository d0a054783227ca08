"""The memory that the container of this process may take."""

from pathlib import Path
from typing import Final

# Of a container with its own cgroup, in version 2 and in version 1.
_FILES: Final = ("memory.max", "memory/memory.limit_in_bytes")


def read_memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the limit in bytes; None if there is none, or if it cannot be read."""
    for name in _FILES:
        try:
            text = (root / name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        # Version 1 writes a number near 2**63 for no limit.
        return int(text) if text.isdecimal() and int(text) < 1 << 60 else None
    return None
