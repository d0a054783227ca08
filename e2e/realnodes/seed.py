"""Imports images once into a root of containerd, of which every node gets a copy.

An import takes seconds and each node has a containerd of its own; a copy of hard links takes none.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane.processes import Process
from e2e.realnodes.build import CACHE, Programs
from e2e.realnodes.images import BUSYBOX, busybox
from e2e.realnodes.product import image_name, tagged
from e2e.realnodes.settings import PAUSE

IMPORT_SECONDS = 120
KEPT = 4
# It holds the namespaces of a pod; the runtime kills it.
HOLD = {"Entrypoint": ["/bin/busybox", "tail", "-f", "/dev/null"]}
SHELL = {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}


Archive = tuple[Path, str]


def seeded(programs: Programs, archives: Sequence[Archive]) -> Path:
    """Return the root that has busybox, the sandbox image and these archives; made when missing.

    The image of an archive gets a tag beside its own, which the last one of several keeps.
    """
    listed = subprocess.run(
        [programs.busybox, "--list"], check=True, capture_output=True, text=True
    ).stdout.split()
    own = busybox(programs.busybox, listed, {BUSYBOX: SHELL, PAUSE: HOLD})
    digest = hashlib.sha256(programs.runtime.name.encode() + own)
    for archive, tag in archives:
        digest.update(tag.encode())
        with archive.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    root = CACHE / f"seed-{digest.hexdigest()[:12]}"
    if not root.exists():
        _make(root, programs, own, archives)
    root.touch()
    for old in sorted(CACHE.glob("seed-*"), key=lambda path: -path.stat().st_mtime)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return root


def _make(root: Path, programs: Programs, own: bytes, archives: Sequence[Archive]) -> None:
    print(f"importing {len(archives) + 1} image archives", flush=True)  # noqa: T201
    partial = root.with_name(f"making-{root.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    first = partial.with_suffix(".tar")
    first.write_bytes(own)
    # Its state and socket are in /run, which is the run's own.
    configuration = partial.with_suffix(".toml")
    disabled = "['io.containerd.nri.v1.nri', 'io.containerd.cri.v1.runtime']"
    configuration.write_text(f"version = 4\nroot = '{partial}'\ndisabled_plugins = {disabled}\n")
    search = f"PATH={programs.path}:{os.environ['PATH']}"
    command = ("/usr/bin/env", search, "containerd", "-c", configuration)
    daemon = Process("containerd of the seed", command, partial.with_suffix(".log"))
    client: list[str | Path] = [programs.runtime / "ctr", "--connect-timeout=1s", "-n", "k8s.io"]
    try:
        daemon.wait_ready(lambda: _answers([*client, "version"]))
        _run([*client, "images", "import", "--local", first])
        for archive, tag in archives:
            name = image_name(archive)
            _run([*client, "images", "import", "--local", archive])
            _run([*client, "images", "tag", name, tagged(name, tag)])
    finally:
        daemon.stop()
    for left in (first, configuration):
        left.unlink()
    partial.rename(root)


def _run(words: Sequence[str | Path]) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=IMPORT_SECONDS)


def _answers(command: list[Path | str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
