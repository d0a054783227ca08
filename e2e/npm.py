"""Installs packages of npm by a lock file, once for each lock file."""

import hashlib
import shutil
import subprocess
from pathlib import Path

_FILES = ("package.json", "package-lock.json")


class NpmError(Exception):
    """The packages cannot be installed; says why."""


def install(pin: Path, cache: Path) -> Path:
    """Return the folder of the packages that the files in `pin` name, below `cache`."""
    digest = hashlib.sha256((pin / _FILES[1]).read_bytes()).hexdigest()[:12]
    folder = cache / f"npm-{digest}"
    packages = folder / "node_modules"
    if packages.exists():
        return packages
    if shutil.which("npm") is None:
        raise NpmError("npm is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copy(pin / name, folder / name)
    words = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NpmError(f"{' '.join(words)}: {done.stderr.strip()}")
    return packages
