"""Fetches the browser and the checks of accessibility, once for each pin.

Chromium and the libraries that it lacks here come from Debian's packages, and axe-core from npm by
the lock file beside this module. Both are unpacked into folders of `.cache/` that are named by the
version of the package and by the lock file, never installed.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.npm import NpmError, install

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "browser"
PACKAGE = "chromium"
_CANDIDATE = re.compile(r"Candidate: (\d[\w.+~:-]*)")


class NoBrowserError(Exception):
    """The browser or the checks cannot be fetched; says why."""


@dataclass(frozen=True)
class Browser:
    """Where the browser and the script with the checks are."""

    program: Path
    libraries: tuple[Path, ...]
    checks: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the browser, with the libraries that were unpacked."""
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, self.libraries))}


def fetch() -> Browser:
    """Return the browser; what is missing is fetched."""
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoBrowserError(f"{tool} is not on the PATH")
    unpacked = CACHE / f"debian-{_find_version()}"
    if not unpacked.exists():
        _unpack(unpacked)
    program = unpacked / "usr/lib/chromium/chromium"
    checks = _install_checks()
    for file in (program, checks):
        if not file.exists():
            raise NoBrowserError(f"{file} does not exist; the package {PACKAGE} may be a stub here")
    libraries = tuple(unpacked.glob("usr/lib/*-linux-gnu"))
    return Browser(program, (*libraries, *(each / "pulseaudio" for each in libraries)), checks)


def _find_version() -> str:
    """Return the version of Chromium that the package registry offers now."""
    policy = ("apt-cache", "policy", PACKAGE)
    done = subprocess.run(policy, check=False, capture_output=True, text=True)
    match = _CANDIDATE.search(done.stdout)
    if match is None:
        raise NoBrowserError(f"the package registry has no {PACKAGE}; `apt-get update` reads it")
    return match[1]


def _unpack(target: Path) -> None:
    """Unpack Chromium, and what it needs and this machine lacks."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    downloads = partial / "downloads"
    (downloads / "partial").mkdir(parents=True)
    # As another user apt could not write here.
    options = ("-o", "APT::Sandbox::User=root", "-o", f"Dir::Cache::archives={downloads}")
    words = ("install", "--download-only", "--yes", "--no-install-recommends", PACKAGE)
    _run(partial, "apt-get", "-q", *options, "-o", "Debug::NoLocking=1", *words)
    for package in sorted(downloads.glob("*.deb")):
        _run(partial, "dpkg-deb", "-x", str(package), ".")
    shutil.rmtree(downloads)
    partial.rename(target)


def _install_checks() -> Path:
    try:
        return install(HERE, CACHE) / "axe-core" / "axe.min.js"
    except NpmError as problem:
        raise NoBrowserError(f"{problem}") from problem


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoBrowserError(f"{' '.join(words)}: {done.stderr.strip()}")
