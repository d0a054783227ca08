"""The commit that a build is made of. As a build hook, writes it into the wheel.

Hatchling loads this file by its path, so it imports nothing of this repository.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where `drawbridge.process.build_info` reads it.
_IN_WHEEL = "drawbridge/process/commit.txt"


class NoCommitError(Exception):
    """A folder is no checkout, and no variable names the commit."""


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


def read_commit(root: Path, environ: Mapping[str, str] = os.environ) -> Commit:
    """Return the commit of a checkout, or what the variables say of a folder without git.

    The name ends with `-dirty` if a file differs from the commit.
    """
    given, epoch = environ.get("DRAWBRIDGE_COMMIT"), environ.get("SOURCE_DATE_EPOCH")
    if given and epoch:
        return Commit(given, int(epoch))
    # A source archive can lie in a checkout of something else.
    if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
        raise NoCommitError(f"{root} is not the folder of a git checkout")
    name = given or _git(root, "rev-parse", "HEAD")
    if not given and _git(root, "status", "--porcelain"):
        name = f"{name}-dirty"
    return Commit(name, int(epoch or _git(root, "log", "-1", "--format=%ct")))


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # our words
    except (OSError, subprocess.CalledProcessError) as problem:
        reason = str(getattr(problem, "stderr", "") or problem).strip()
        raise NoCommitError(
            f"{root} has no commit: set DRAWBRIDGE_COMMIT and SOURCE_DATE_EPOCH ({reason})"
        ) from None
    return done.stdout.strip()


class CommitHook(BuildHookInterface[BuilderConfig]):
    """Adds the commit to a wheel. A wheel that is built without git does not have one."""

    PLUGIN_NAME = "commit"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; an editable installation runs the checkout and gets none."""
        if version == "editable":
            return
        try:
            commit = read_commit(Path(self.root))
        except NoCommitError as problem:
            self.app.display_warning(f"the wheel does not have its commit: {problem}")
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "commit.txt"
        file.write_text(f"{commit.name}\n", encoding="ascii")
        build_data["force_include"][str(file)] = _IN_WHEEL
