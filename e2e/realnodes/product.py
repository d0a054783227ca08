"""Builds the images for the nodes: of the checkout, of the version before it, of the scheduler.

Each is built once for each state of the tracked files. A run uses the state at its start.
"""

import functools
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from e2e.bridge.build import scheduler
from e2e.realnodes.build import CACHE, NoProgramsError

ROOT = Path(__file__).parents[2]
KEPT = 3
NOT_IN_IMAGE = tuple(f":!{name}" for name in ("bench", "docs", "e2e", "examples", "tests", "*.md"))
NAME = "io.containerd.image.name"
# Tags on the nodes: the image once more, to which a Deployment can change, and the version before.
NEXT, PREVIOUS = "next", "previous"
# What a scenario needs that installs the kube-scheduler with the plugin, too.
SCHEDULER = "scheduler"
# While no release has a tag: the first commit whose image runs as its page says.
UNTAGGED = "a44de5b1cfe6b9508c8070ebad2ef3800ab75216"


@functools.cache
def image_archive() -> Path:
    """Return the archive of the image; NoProgramsError when it cannot be built here."""
    archive = _built(ROOT, CACHE / f"image-{_state()}")
    for old in sorted(CACHE.glob("image-*"), key=lambda path: -path.stat().st_mtime)[KEPT:]:
        shutil.rmtree(old)
    return archive


@functools.cache
def scheduler_archive() -> Path:
    """Return the archive of the image of the kube-scheduler with the plugin."""
    program = scheduler()
    archive = _built(ROOT, CACHE / f"{program.name}-image", "scheduler")
    for old in sorted(CACHE.glob("drawbridge-scheduler-*-image")):
        if old != archive.parent:
            shutil.rmtree(old)
    return archive


def _built(source: Path, folder: Path, what: str = "build") -> Path:
    """Return the archive in a folder, built from a checkout when it is not there."""
    if archives := list(folder.glob("*.tar")):
        return archives[0]
    print(f"building an image of Drawbridge in {folder.name}", flush=True)  # noqa: T201
    command = [sys.executable, "-m", "tools.image", what, "--into", str(folder)]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoProgramsError(f"the image of Drawbridge: {done.stderr.strip()}")
    return next(folder.glob("*.tar"))


def previous_checkout() -> Path:
    """Return a checkout of the last release before this commit."""
    described = _git(ROOT, "describe", "--tags", "--abbrev=0", "HEAD^")
    commit = described.stdout.strip() or UNTAGGED
    folder = CACHE / f"before-{commit[:12]}"
    if not folder.exists():
        partial = folder.with_name(f"making-{folder.name}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        for done in (
            _git(ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(partial)),
            _git(partial, "checkout", "--quiet", "--detach", commit),
        ):
            if done.returncode:
                raise NoProgramsError(f"the version before this one: {done.stderr.strip()}")
        partial.rename(folder)
    return folder


@functools.cache
def previous_archive() -> Path:
    """Return the archive of the image of the last release before this commit."""
    source = previous_checkout()
    return _built(source, source.with_name(f"{source.name}-image"))


def _git(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


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


def tagged(name: str, tag: str) -> str:
    """Return the name of an image with another tag."""
    return f"{name.rpartition(':')[0]}:{tag}"
