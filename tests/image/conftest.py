"""The archive of the image, built twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.image.archive import Archive
from tools.commit import NoCommitError
from tools.image import build, debian, wheels


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the archives of two builds in processes of their own."""
    try:
        build.gather("amd64")
    except (debian.DebianError, NoCommitError, wheels.WheelError) as problem:
        pytest.skip(f"the image cannot be built here: {problem}")
    found = []
    for seed in ("1", "2"):
        folder = tmp_path_factory.mktemp("image")
        command = [sys.executable, "-m", "tools.image", "build", f"--into={folder}"]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": seed, "HOME": str(folder)}
        subprocess.run(command, cwd=build.ROOT, env=environment, check=True)  # noqa: S603  # our words
        found.extend(folder.glob("*.tar"))
    first, second = found
    return first, second


@pytest.fixture(scope="session")
def archive(builds: tuple[Path, Path]) -> Archive:
    """Read the archive of the first build."""
    return Archive(builds[0])
