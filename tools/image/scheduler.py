"""Builds the image of the kube-scheduler with the plugin, which contains only that program.

`go version -m drawbridge-scheduler` lists the modules in the program, and the bill of materials in
the image does.
"""

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from e2e.bridge.build import MODULE, PACKAGE, PINS, NoGoError, scheduler
from e2e.controlplane.build import DEFAULT, required
from tools.commit import Commit, read_commit
from tools.image import build, contents, oci, sbom
from tools.image.tree import File, Folder, Tree, pack

__all__ = ["NAME", "NEWEST", "PROGRAM", "VERSIONS", "NoGoError", "build_archive", "compose"]

VERSIONS: Final = tuple(PINS)
NEWEST: Final = DEFAULT
PROGRAM: Final = PACKAGE.rpartition("/")[2]
NAME: Final = f"drawbridge.dev/{PROGRAM}"
PATH: Final = f"usr/local/bin/{PROGRAM}"
DOCUMENTS: Final = f"usr/share/doc/{PROGRAM}"
RUN: Final = {**contents.RUN, "Entrypoint": [PROGRAM], "Env": ["PATH=/usr/local/bin"]}


class Content(NamedTuple):
    """The files of an image, and what its program is made of."""

    kubernetes: str  # the full version
    tree: Tree
    modules: Sequence[sbom.Component]
    bill: bytes


def gather(version: str, architecture: str) -> Content:
    """Build the kube-scheduler of a version; NoGoError where there is no Go."""
    pin, _ = PINS[version]
    full = required(MODULE, "k8s.io/kubernetes", pin)
    program = scheduler(version, architecture)
    command = ["go", "version", "-m", "-json", str(program)]
    info = subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603  # our words
    return list_files(full, program.read_bytes(), json.loads(info), read_commit(build.ROOT))


def list_files(kubernetes: str, program: bytes, build_info: Any, commit: Commit) -> Content:  # noqa: ANN401  # JSON
    """Return the files of the image of a program, with its bill of materials."""
    modules = sbom.describe_go(build_info)
    version = build.read_version()
    subject = sbom.Subject(PROGRAM, version, commit.name, commit.time, has_debian=False)
    bill = sbom.compose(subject, modules)
    tree: Tree = {
        PATH: File(program, is_executable=True),
        f"{DOCUMENTS}/LICENSE": File((build.ROOT / "LICENSE").read_bytes()),
        f"{DOCUMENTS}/sbom.cdx.json": File(bill),
        "tmp": Folder(),
    }
    return Content(kubernetes, tree, modules, bill)


def build_archive(version: str, architecture: str) -> oci.Archive:
    """Return the archive with the kube-scheduler of a version; NoGoError where there is no Go."""
    content, commit = gather(version, architecture), read_commit(build.ROOT)
    return compose(content.tree, content.kubernetes, architecture, commit)


def compose(tree: Tree, kubernetes: str, architecture: str, commit: Commit) -> oci.Archive:
    """Return the archive of a file system with the program."""
    image = describe_image(kubernetes, architecture, commit)
    return oci.compose(image, [layer(tree, kubernetes, commit)], commit.epoch)


def describe_image(kubernetes: str, architecture: str, commit: Commit) -> oci.Image:
    """Return what the image is made of, besides its layer."""
    version = build.read_version()
    annotations = build.annotate(PROGRAM, _purpose(kubernetes), version, commit)
    return oci.Image(
        name=f"{NAME}:{version}",
        architecture=architecture,
        created=commit.time,
        config={**RUN, "Labels": annotations},
        annotations=annotations,
    )


def layer(tree: Tree, kubernetes: str, commit: Commit) -> oci.Layer:
    """Return the only layer of the image."""
    return oci.Layer(pack(tree, commit.epoch), _purpose(kubernetes))


def _purpose(kubernetes: str) -> str:
    return f"kube-scheduler {kubernetes} with the plugin of Drawbridge"
