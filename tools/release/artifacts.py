"""Composes the artifacts of a release with the statements about them: images, chart and files."""

import json
import platform
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from e2e.controlplane.build import go_version
from tools import chart as chart_folder
from tools.commit import Commit
from tools.image import build, oci, sbom, scheduler, wheels
from tools.release import chart
from tools.release.statements import (
    BILL,
    PROVENANCE,
    SIGNATURE,
    Builder,
    Subject,
    describe_build,
    state,
)

SCHEDULER: Final = scheduler.PROGRAM
DRAWBRIDGE: Final = "drawbridge"
CHART: Final = "charts/drawbridge"
FILES: Final = "files"


class Origin(NamedTuple):
    """What a release is built from, and by whom."""

    commit: Commit
    version: str
    builder: Builder


class Statement(NamedTuple):
    """A statement, its name in the release, and the digests of the manifests that it is about."""

    name: str
    content: bytes
    subjects: Sequence[str]


class Artifact(NamedTuple):
    """A manifest with its repository and its tags, and the statements about it."""

    repository: str
    tags: Sequence[str]
    manifest: oci.Manifest
    statements: Sequence[Statement]


def compose_image(origin: Origin, architectures: Sequence[str]) -> Artifact:
    """Return the image of Drawbridge for several architectures."""
    images: dict[str, oci.Manifest] = {}
    bills: dict[str, bytes] = {}
    used: list[sbom.Component] = []
    for architecture in architectures:
        ingredients = build.gather(architecture)
        parts = build.assemble(ingredients)
        layers = build.list_layers(ingredients, parts)
        images[architecture] = oci.compose_image(build.describe_image(ingredients), layers)
        bills[architecture] = build.describe(ingredients)
        used += build.list_downloads(ingredients)
    parameters = {"architectures": [*architectures]}
    built = _Build(origin, DRAWBRIDGE, parameters, _name_tools(), used)
    return built.attest_images(images, bills, [origin.version], build.PURPOSE)


def compose_scheduler(origin: Origin, kubernetes: str, architectures: Sequence[str]) -> Artifact:
    """Return the image of the kube-scheduler with the plugin; NoGoError where there is no Go."""
    images: dict[str, oci.Manifest] = {}
    bills: dict[str, bytes] = {}
    used: list[sbom.Component] = []
    for architecture in architectures:
        content = scheduler.gather(kubernetes, architecture)
        image = scheduler.describe_image(content.kubernetes, architecture, origin.commit)
        layer = scheduler.layer(content.tree, content.kubernetes, origin.commit)
        images[architecture] = oci.compose_image(image, [layer])
        bills[architecture] = content.bill
        used += content.modules
    parameters = {"architectures": [*architectures], "kubernetes": kubernetes}
    built = _Build(origin, SCHEDULER, parameters, _name_tools(go=go_version().split()[2]), used)
    tags = [f"{origin.version}-{kubernetes}"]
    tags += [origin.version] * (kubernetes == scheduler.NEWEST)
    return built.attest_images(images, bills, tags, f"kube-scheduler {kubernetes} with the plugin")


def compose_chart(origin: Origin, images: Mapping[str, tuple[str, str]]) -> Artifact:
    """Return the chart. `images` has the repository and the digest of each image, by its name."""
    root = chart_folder.CHART
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    manifest = chart.compose(files, origin.commit.epoch, origin.commit.time, images)
    parameters = {"images": {name: "@".join(pinned) for name, pinned in images.items()}}
    built = _Build(origin, CHART, parameters, _name_tools(), ())
    return built.attest([origin.version], manifest, {"": manifest.digest}, {})


def build_files(origin: Origin, folder: Path) -> list[Statement]:
    """Write wheel and source archive into a folder; return their provenance."""
    folder.mkdir(parents=True, exist_ok=True)
    statements = []
    for kind in ("wheel", "sdist"):
        path = wheels.build(build.ROOT, folder, origin.commit.environment(), kind)
        subject = Subject(path.name, oci.digest_of(path.read_bytes()).partition(":")[2])
        built = _Build(origin, path.name, {}, _name_tools(), ())
        content = state(PROVENANCE, [subject], built.describe())
        statements.append(Statement(f"{path.name}.provenance", content, ()))
    return statements


class _Build(NamedTuple):
    """One artifact, and what it was built from."""

    origin: Origin
    name: str
    parameters: Mapping[str, Any]
    tools: Mapping[str, str]
    used: Iterable[sbom.Component]

    def describe(self) -> dict[str, Any]:
        """Return the provenance."""
        parameters = {"artifact": self.name, "version": self.origin.version, **self.parameters}
        commit, builder = self.origin.commit, self.origin.builder
        return describe_build(commit, builder, parameters, self.tools, self.used)

    def attest_images(
        self,
        images: Mapping[str, oci.Manifest],
        bills: Mapping[str, bytes],
        tags: Sequence[str],
        purpose: str,
    ) -> Artifact:
        """Return the index of images with all statements."""
        version, commit = self.origin.version, self.origin.commit
        annotations = build.annotate(self.name, purpose, version, commit)
        index = oci.compose_index([*images.values()], annotations)
        digests = {"": index.digest, **{name: image.digest for name, image in images.items()}}
        return self.attest(tags, index, digests, bills)

    def attest(
        self,
        tags: Sequence[str],
        manifest: oci.Manifest,
        digests: Mapping[str, str],
        bills: Mapping[str, bytes],
    ) -> Artifact:
        """Return an artifact with its signature, its provenance and a bill for each platform.

        `digests` has the manifests by their platform; that of the whole is the empty one.
        """
        subjects = {
            platform_name: Subject(
                "/".join(filter(None, (self.name, platform_name))), digest.partition(":")[2]
            )
            for platform_name, digest in digests.items()
        }
        stem = f"{self.name.replace('/', '-')}-{tags[0]}"
        everything = [*subjects.values()]
        statements = [
            Statement(f"{stem}.signature", state(SIGNATURE, everything, {}), [*digests.values()]),
            Statement(
                f"{stem}.provenance",
                state(PROVENANCE, everything, self.describe()),
                [*digests.values()],
            ),
        ]
        for platform_name, bill in bills.items():
            content = state(BILL, [subjects[platform_name]], json.loads(bill))
            name = f"{stem}.sbom-{platform_name}"
            statements.append(Statement(name, content, [digests[platform_name]]))
        return Artifact(self.name, tags, manifest, statements)


def _name_tools(**more: str) -> dict[str, str]:
    """Return the programs that the bytes of an artifact depend on."""
    zlib_version = zlib.ZLIB_RUNTIME_VERSION
    return {"python": platform.python_version(), "zlib": zlib_version, **more}
