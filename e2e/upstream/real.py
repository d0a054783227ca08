"""Gives upstream's tests real nodes, whose containerd has the images that the tests ask for.

    with real_nodes(options) as rig:
        rig.plane.admin.get("/api/v1/nodes")

No registry is asked: each image is busybox, and a program where the tests start one. Their names
are those of upstream's program and manifests.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from e2e.controlplane.build import DEFAULT, NoGoError, binaries
from e2e.controlplane.plane import Options
from e2e.realnodes import rig
from e2e.realnodes.build import NoProgramsError, Programs, programs
from e2e.realnodes.enter import RUN, lacking
from e2e.realnodes.images import Tree, archive
from e2e.realnodes.product import NEXT
from e2e.realnodes.rig import NodeRig, mount_run
from e2e.realnodes.seed import SHELL, Archive, seeded
from e2e.upstream.build import CACHE, PACKAGES, kubernetes, program, suite

# Only a kubelet that knows claims of PodGroups starts their pods.
GATES = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True}
GROUPS = "scheduling.k8s.io/v1alpha2"
DEVICE_PLUGIN = "sample-device-plugin"
MANIFEST = Path("test/e2e/testing-manifests") / DEVICE_PLUGIN / f"{DEVICE_PLUGIN}.yaml"
# By the last part of an image's name: the path in the image, and the program of ours or upstream's.
PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "busybox": {},
    "hostpathplugin": {"hostpathplugin": "hostpathplugin"},
    DEVICE_PLUGIN: {"sampledeviceplugin": DEVICE_PLUGIN},
}


def lacks() -> str:
    """Build everything while there is a network; say what makes real nodes impossible."""
    if reason := lacking():
        return reason
    try:
        binaries(DEFAULT)
        archives(programs(DEFAULT))
        for name in PACKAGES:
            program(name)
    except (NoGoError, NoProgramsError) as problem:
        return str(problem)
    return ""


def image_names() -> list[str]:
    """Return the names of the images for which there is a program."""
    command = [str(suite("dra")), "--list-images", "--provider=skeleton"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    manifest = yaml.safe_load((kubernetes() / MANIFEST).read_text(encoding="utf-8"))
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    names = {*done.stdout.split(), container["image"]}
    return sorted(name for name in names if short(name) in PROGRAMS)


def short(name: str) -> str:
    """Return the last part of an image's name, without its tag."""
    return name.rpartition("/")[2].partition(":")[0]


def archives(built: Programs) -> list[Archive]:
    """Write an archive for each image, and return them."""
    folder = CACHE / "images"
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run([built.busybox, "--list"], check=True, capture_output=True, text=True)
    links = {f"bin/{name}": "busybox" for name in listed.stdout.split() if name != "busybox"}
    shell = {"bin/busybox": built.busybox.read_bytes()}
    made = []
    for name in image_names():
        own = {path: program(each).read_bytes() for path, each in PROGRAMS[short(name)].items()}
        starts = {"Entrypoint": [f"/{path}" for path in own]} if own else {}
        tree = Tree(shell | own, links, ["tmp"])
        path = folder / f"{name.rpartition('/')[2].replace(':', '-')}.tar"
        path.write_bytes(archive(tree, {name: {**SHELL, **starts}}))
        made.append((path, NEXT))
    return made


@contextmanager
def real_nodes(names: tuple[str, ...], wanted: Options) -> Iterator[NodeRig]:
    """Start real nodes and a control plane that has what `wanted` has beside it.

    Services have addresses of the loopback range, so that processes of this machine answer for
    them as they do with simulated nodes.
    """
    default = rig.options(wanted.version, names)
    control = replace(
        default,
        gates={**default.gates, **wanted.gates, **GATES},
        runtime={**default.runtime, **wanted.runtime, GROUPS: True},
        schedulers=wanted.schedulers,
        service_range="",
    )
    mount_run(Path(os.environ[RUN]))
    built = programs(wanted.version)
    with NodeRig(wanted.version, names, built, seeded(built, archives(built)), control) as made:
        yield made
