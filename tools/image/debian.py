"""Downloads the Debian packages of a lock with apt, and unpacks them.

apt keeps its lists in a folder of ours, so neither the machine's packages nor its settings change,
no rights are needed, and packages of other architectures can be had. It reads the machine's own
sources and checks their signatures. The lock has no addresses.
"""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.image.contents import RELEASE
from tools.image.tree import Node, read_archive

ARCHITECTURES = ("amd64", "arm64")
_HEADER = """\
# Written by `make image-lock`: the Debian packages of the image.
# architecture, package, version, SHA-256
"""


class Package(NamedTuple):
    """One file of Debian's archive."""

    architecture: str
    name: str
    version: str
    sha256: str


class DebianError(Exception):
    """Packages cannot be had; the text says which, and what to do."""


def parse_lock(text: str) -> list[Package]:
    """Read the packages of a lock."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Package(*line.split()) for line in lines]


def format_lock(packages: Iterable[Package]) -> str:
    """Return the text of a lock."""
    return _HEADER + "".join(f"{' '.join(each)}\n" for each in sorted(packages))


class NotOfferedError(DebianError):
    """Debian replaced packages of the lock; the text says which, and what to do."""


def machine_architecture() -> str:
    """Return what Debian calls the architecture of this machine."""
    return {"aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "amd64")


class Apt:
    """apt for one architecture, with its state in `folder`."""

    def __init__(self, folder: Path, architecture: str) -> None:
        self._folder = folder / architecture
        self._architecture = architecture
        self._is_updated = False

    def update(self) -> None:
        """Read the lists of packages anew."""
        for name in ("lists/partial", "archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        self._run("apt-get", "update")
        self._is_updated = True

    def offered(self, names: Sequence[str], *, only_newest: bool = False) -> list[Package]:
        """Return the versions that apt offers of packages."""
        more = ("--no-all-versions",) if only_newest else ()
        return list(_stanzas(self._run("apt-cache", "show", *more, *names), self._architecture))

    def fetch(self, packages: Sequence[Package], into: Path) -> None:
        """Download packages that are not in the folder; DebianError if one cannot be had."""
        lacking = [each for each in packages if not archive_path(into, each).exists()]
        if not lacking:
            return
        if not self._is_updated:
            self.update()
        offered = self.offered([each.name for each in lacking])
        if gone := [each for each in lacking if each not in offered]:
            raise NotOfferedError("\n".join(_describe_gone(each, offered) for each in gone))
        half = into / f".{os.getpid()}"
        half.mkdir(parents=True)
        self._run("apt-get", "download", *(f"{p.name}={p.version}" for p in lacking), cwd=half)
        for path in half.iterdir():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            path.replace(into / f"{digest}.deb")
        half.rmdir()

    def _run(self, program: str, *words: str, cwd: Path | None = None) -> str:
        options = {
            "Dir::State": str(self._folder.resolve()),
            "Dir::State::status": str(self._folder.resolve() / "status"),
            "Dir::Cache": str(self._folder.resolve()),
            "APT::Architecture": self._architecture,
            "APT::Architectures": self._architecture,
            "APT::Sandbox::User": "root",
        }
        settings = [f"-o{name}={value}" for name, value in options.items()]
        command = [program, "-q", *settings, *words]
        try:
            done = subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True)  # noqa: S603  # our words
        except FileNotFoundError:
            raise DebianError(
                f"{program} is not installed: build on Debian {RELEASE}, or with the Dockerfile"
            ) from None
        except subprocess.CalledProcessError as failed:
            raise DebianError(f"{program} {words[0]}: {failed.stderr.strip()}") from None
        return done.stdout


def archive_path(folder: Path, package: Package) -> Path:
    """Return where the archive of a package is kept."""
    return folder / f"{package.sha256}.deb"


def unpack(folder: Path, package: Package) -> tuple[dict[str, Node], str]:
    """Return the files of a downloaded package, and its control fields."""
    path = archive_path(folder, package)
    if hashlib.sha256(path.read_bytes()).hexdigest() != package.sha256:
        raise DebianError(f"{path} is damaged: delete it, and build again")
    return read_archive(_dpkg("--fsys-tarfile", path)), _dpkg("--field", path).decode()


def _dpkg(option: str, path: Path) -> bytes:
    command = ["dpkg-deb", option, str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603  # our words


def parse_control(text: str) -> dict[str, str]:
    """Read control fields; the continuation lines of a field are left out."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name: value for name, _, value in pairs if not name.startswith(" ")}


def _stanzas(text: str, architecture: str) -> Iterator[Package]:
    for fields in map(parse_control, text.split("\n\n")):
        if "SHA256" in fields:
            yield Package(architecture, fields["Package"], fields["Version"], fields["SHA256"])


def _describe_gone(package: Package, offered: Iterable[Package]) -> str:
    others = [each for each in offered if each.name == package.name]
    versions = " and ".join(dict.fromkeys(each.version for each in others)) or "none"
    same = any(each.version == package.version for each in others)
    what = "with another SHA-256" if same else f"but {versions}"
    return (
        f"apt does not offer {package.name} {package.version} for {package.architecture}, {what}: "
        "run `make image-lock`, review the change of debian.lock, and build again"
    )
