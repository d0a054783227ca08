"""The commit that a build is made of, and its time, which every file of the image has."""

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple


class Commit(NamedTuple):
    """A commit, and the seconds since 1970 at which it was made."""

    name: str
    epoch: int

    @property
    def time(self) -> str:
        """Return the time as RFC 3339."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def environment(self) -> Mapping[str, str]:
        """Return the variables that tell a build about the commit."""
        return {"DRAWBRIDGE_COMMIT": self.name, "SOURCE_DATE_EPOCH": str(self.epoch)}


def read_commit(root: Path) -> Commit:
    """Return the commit of a checkout, or what the variables say of a folder without git."""
    name = os.environ.get("DRAWBRIDGE_COMMIT") or _git(root, "rev-parse", "HEAD")
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git(root, "log", "-1", "--format=%ct")
    if "DRAWBRIDGE_COMMIT" not in os.environ and _git(root, "status", "--porcelain"):
        name = f"{name}-dirty"
    return Commit(name, int(epoch))


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our words
    if done.returncode:
        raise OSError(
            f"{root} is no git checkout: set DRAWBRIDGE_COMMIT and SOURCE_DATE_EPOCH "
            f"({done.stderr.strip()})"
        )
    return done.stdout.strip()
