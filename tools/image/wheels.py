"""Downloads the wheels of the runtime lock with pip, builds ours, and unpacks them.

pip compares each file with the hashes of the lock. Nothing of a wheel is run.
"""

import email
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools.image.contents import PYTHON, SITE
from tools.image.tree import File, Node

# What pip calls the architectures of Debian. The oldest glibc comes last.
_MACHINES: Mapping[str, str] = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBCS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class WheelError(Exception):
    """A wheel cannot be had or used; the text says which, and what to do."""


class Wheel(NamedTuple):
    """A wheel: its name and version, its hash, its metadata, and its files in the image."""

    name: str
    version: str
    sha256: str
    metadata: Mapping[str, tuple[str, ...]]
    files: Mapping[str, Node]


def locked_versions(lock: str) -> dict[str, str]:
    """Return the versions of a requirements file, by package."""
    return {normalize(match[1]): match[2] for match in _PIN.finditer(lock)}


def normalize(name: str) -> str:
    """Return the name of a package as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(lock: Path, architecture: str, cache: Path) -> list[Path]:
    """Return the wheels of a lock for an architecture; downloads them once."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    folder = cache / f"wheels-{architecture}-{digest}"
    if not folder.exists():
        half = folder.with_name(f".{folder.name}-{os.getpid()}")
        platforms = [f"--platform={glibc}_{_MACHINES[architecture]}" for glibc in _GLIBCS]
        words = ("download", "--quiet", "--disable-pip-version-check", "--no-deps")
        chosen = ("--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp")
        source = ("--require-hashes", f"--requirement={lock}", f"--dest={half}")
        _run_module("pip", *words, *chosen, *platforms, *source)
        try:
            half.rename(folder)
        except OSError:
            # Another process has downloaded them meanwhile.
            if not folder.exists():
                raise
            shutil.rmtree(half)
    return sorted(folder.glob("*.whl"))


def build(root: Path, folder: Path, environment: Mapping[str, str], kind: str = "wheel") -> Path:
    """Build the wheel of this repository, or its source archive (`sdist`)."""
    words = ("build", f"--target={kind}", f"--directory={folder.resolve()}")
    _run_module("hatchling", *words, cwd=root, environment=environment)
    (built,) = folder.glob("drawbridge-*.whl" if kind == "wheel" else "drawbridge-*.tar.gz")
    return built


def read(path: Path) -> Wheel:
    """Read a wheel; WheelError if it has files outside of site-packages."""
    data = path.read_bytes()
    files: dict[str, Node] = {}
    metadata: dict[str, tuple[str, ...]] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            top, _, rest = name.partition("/")
            if name.endswith("/"):
                continue
            if top.endswith(".data"):
                raise WheelError(f"{path.name} has files outside of site-packages: {name}")
            if top.endswith(".dist-info") and rest == "METADATA":
                metadata = _parse_metadata(archive.read(name))
            # RECORD is for an installer.
            if not (top.endswith(".dist-info") and rest == "RECORD"):
                files[f"{SITE}/{name}"] = File(archive.read(name))
    (name,), (version,) = metadata["Name"], metadata["Version"]
    return Wheel(normalize(name), version, hashlib.sha256(data).hexdigest(), metadata, files)


def _parse_metadata(data: bytes) -> dict[str, tuple[str, ...]]:
    message = email.message_from_bytes(data)
    return {name: tuple(map(str, message.get_all(name) or ())) for name in message}


def _run_module(
    module: str, *words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> None:
    command = [sys.executable, "-m", module, *words]
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)  # noqa: S603  # our words
    if done.returncode:
        raise WheelError(f"{module} {words[0]}: {done.stderr.strip() or done.stdout.strip()}")
