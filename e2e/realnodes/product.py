"""Builds the image of Drawbridge for the nodes, once for each state of the checkout."""

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

from e2e.realnodes.build import CACHE, NoProgramsError

ROOT = Path(__file__).parents[2]
KEPT = 3
NOT_IN_IMAGE = tuple(f":!{name}" for name in ("bench", "docs", "e2e", "examples", "tests", "*.md"))
NAME = "io.containerd.image.name"
# The same image under another name, to which a Deployment can be upgraded.
NEXT = "next"


def image_archive() -> Path:
    """Return the archive of the image; NoProgramsError when it cannot be built here."""
    folder = CACHE / f"image-{_state()}"
    if found := list(folder.glob("*.tar")):
        return found[0]
    print("building the image of Drawbridge", flush=True)  # noqa: T201
    command = [sys.executable, "-m", "tools.image", "build", "--into", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoProgramsError(f"the image of Drawbridge: {done.stderr.strip()}")
    for old in sorted(CACHE.glob("image-*"), key=lambda path: -path.stat().st_mtime)[KEPT:]:
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    return next(folder.glob("*.tar"))


def _state() -> str:
    """Return a hash of the tracked files that the image is made of, as they are now."""
    digest = hashlib.sha256()
    for words in (("ls-files", "-s"), ("diff", "HEAD")):
        command = ["git", *words, "--", ".", *NOT_IN_IMAGE]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        digest.update(done.stdout)
    return digest.hexdigest()[:12]


def image_name(archive: Path) -> str:
    """Return the name of the image in an archive."""
    with tarfile.open(archive) as tar:
        file = tar.extractfile("index.json")
        assert file is not None, f"{archive} has no index.json"
        (entry,) = json.load(file)["manifests"]
    return str(entry["annotations"][NAME])


def next_name(name: str) -> str:
    """Return the name of the same image under another tag."""
    return f"{name.rpartition(':')[0]}:{NEXT}"
