"""The archive of the image."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.image.archive import Archive
from tools.commit import NoCommitError
from tools.image import build, bytecode, debian, wheels

_REASONS = (bytecode.BytecodeError, debian.DebianError, NoCommitError, wheels.WheelError)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive of a build in a process of its own; skips where none is possible.

    The workers of one test run share them.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    shared = tmp_path_factory.getbasetemp()
    folder = (shared.parent if run else shared) / f"image-{run or 'alone'}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return build_archive(folder / "1", hash_seed="1")
        except subprocess.CalledProcessError:
            _skip_if_impossible()
            raise


def _skip_if_impossible() -> None:
    try:
        build.gather(debian.machine_architecture())
    except _REASONS as problem:
        pytest.skip(f"THE IMAGE IS NOT TESTED, it cannot be built here: {problem}")


@pytest.fixture(scope="session")
def archive(built: Path) -> Archive:
    """Read the archive."""
    return Archive(built)


def build_archive(folder: Path, hash_seed: str, *options: str) -> Path:
    """Build into a folder, unless another worker has done so."""
    if not folder.exists():
        command = [sys.executable, "-m", "tools.image", "build", *options]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": hash_seed, "HOME": str(folder)}
        subprocess.run(  # noqa: S603  # our words
            [*command, f"--into={folder}"], cwd=build.ROOT, env=environment, check=True
        )
    (archive,) = folder.glob("*.tar")
    return archive
