"""Builds the image of the kube-scheduler with the plugin, which contains only that program.

`go version -m drawbridge-scheduler` lists the modules in the program.
"""

from typing import Final

from e2e.bridge.build import MODULE, PACKAGE, PINS, NoGoError, scheduler
from e2e.controlplane.build import DEFAULT, required
from tools.commit import Commit, read_commit
from tools.image import build, contents, oci
from tools.image.tree import File, Folder, Tree, pack

__all__ = ["NAME", "NEWEST", "PROGRAM", "VERSIONS", "NoGoError", "build_archive", "compose"]

VERSIONS: Final = tuple(PINS)
NEWEST: Final = DEFAULT
PROGRAM: Final = PACKAGE.rpartition("/")[2]
NAME: Final = f"drawbridge.dev/{PROGRAM}"
PATH: Final = f"usr/local/bin/{PROGRAM}"
RUN: Final = {**contents.RUN, "Entrypoint": [PROGRAM], "Env": ["PATH=/usr/local/bin"]}


def build_archive(version: str, architecture: str) -> oci.Archive:
    """Return the archive with the kube-scheduler of a version; NoGoError where there is no Go."""
    pin, _ = PINS[version]
    full = required(MODULE, "k8s.io/kubernetes", pin)
    licence = (build.ROOT / "LICENSE").read_bytes()
    tree: Tree = {
        PATH: File(scheduler(version).read_bytes(), is_executable=True),
        f"usr/share/doc/{PROGRAM}/LICENSE": File(licence),
        "tmp": Folder(),
    }
    return compose(tree, full, architecture, read_commit(build.ROOT))


def compose(tree: Tree, kubernetes: str, architecture: str, commit: Commit) -> oci.Archive:
    """Return the archive of a file system with the program."""
    version = build.read_version()
    purpose = f"kube-scheduler {kubernetes} with the plugin of Drawbridge"
    annotations = build.annotate(PROGRAM, purpose, version, commit)
    image = oci.Image(
        name=f"{NAME}:{version}",
        architecture=architecture,
        created=commit.time,
        config={**RUN, "Labels": annotations},
        annotations=annotations,
    )
    return oci.compose(image, [oci.Layer(pack(tree, commit.epoch), purpose)], commit.epoch)
