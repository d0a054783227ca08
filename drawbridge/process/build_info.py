"""The version and the commit of the code that runs.

The build writes the commit into the wheel as `commit.txt`. A checkout has no such file.
"""

import functools
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

_COMMIT_FILE: Final = Path(__file__).with_name("commit.txt")
UNKNOWN: Final = "unknown"


class BuildInfo(NamedTuple):
    """What runs. The commit is `unknown` in a checkout, and in a wheel built without git."""

    version: str
    commit: str
    python: str


@functools.cache
def read_build_info() -> BuildInfo:
    """Read the version and the commit. The first call takes 20 ms."""
    return BuildInfo(version("drawbridge"), read_commit(_COMMIT_FILE), platform.python_version())


def read_commit(file: Path) -> str:
    """Return the commit in a file that the build wrote."""
    try:
        return file.read_text(encoding="ascii").strip() or UNKNOWN
    except FileNotFoundError:
        return UNKNOWN
