"""The file system of the image, built and unpacked once for each state of the checkout.

The image is the archive that `make image` writes. It is unpacked as a container runtime does.
"""

import functools
import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).parents[2]
CACHE = REPOSITORY / ".cache" / "image"
# What the image is made of.
_SOURCES = ("*.py", "*.lock", "requirements-runtime.lock", "pyproject.toml")


class NoImageError(Exception):
    """The image cannot run here; the text says why."""


class ImageRoot(NamedTuple):
    """An unpacked image, and the variables and the user of its configuration."""

    folder: Path
    variables: dict[str, str]
    user: int


@functools.cache
def image_root() -> ImageRoot:
    """Return the image of this checkout; NoImageError if it cannot be built or run here."""
    if os.geteuid() or sys.platform != "linux":
        raise NoImageError("only root on Linux can enter the file system of an image")
    folder = CACHE / f"root-{_state()}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as half:
            _unpack(_build(Path(half)), Path(half) / "root")
            (Path(half) / "root").rename(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    variables = dict(each.split("=", 1) for each in config["Env"])
    return ImageRoot(folder / "files", variables, int(config["User"].partition(":")[0]))


def _state() -> str:
    """Return a name for the commit and the sources of the image."""
    CACHE.mkdir(parents=True, exist_ok=True)
    listed = _git("ls-files", "-z", "-co", "--exclude-standard", "--", *_SOURCES).split("\0")
    state = hashlib.sha256(f"{_git('rev-parse', 'HEAD')} {platform.machine()}".encode())
    for name in sorted(filter(None, listed)):
        path = REPOSITORY / name
        if path.exists() and not name.startswith(("tests/", "e2e/", "bench/")):
            state.update(name.encode() + path.read_bytes())
    return state.hexdigest()[:16]


def _build(folder: Path) -> Path:
    command = [sys.executable, "-m", "tools.image", "build", f"--into={folder}"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoImageError(f"the image cannot be built: {done.stderr.strip()}")
    (archive,) = folder.glob("*.tar")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """Write the layers in their order, and the configuration beside them."""
    with tarfile.open(archive) as image:

        def read(name: str) -> Any:  # noqa: ANN401  # JSON
            stream = image.extractfile(name)
            assert stream, name
            return stream.read()

        def blob(descriptor: dict[str, str]) -> bytes:
            return bytes(read(f"blobs/{descriptor['digest'].replace(':', '/')}"))

        (entry,) = json.loads(read("index.json"))["manifests"]
        manifest = json.loads(blob(entry))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(layer)))) as files:
                files.extractall(folder / "files")  # noqa: S202  # our own archive
        config = json.loads(blob(manifest["config"]))["config"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _git(*words: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
