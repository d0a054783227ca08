"""Builds the image: packages and wheels to trees, trees to layers, layers to an archive.

The layers of locked packages are the same for all commits, so their bytecode and their compressed
form are kept in a folder.
"""

import sys
import tempfile
import tomllib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.commit import Commit, read_commit
from tools.image import bytecode, contents, debian, elf, oci, sbom, wheels
from tools.image.kept import keep
from tools.image.tree import File, Node, Tree, compress, join, pack, read_archive

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "image"
KEPT = CACHE / "kept"
LOCKED_EPOCH = 0  # of the files of locked packages, which no commit changes
DEBIAN_LOCK = ROOT / "debian.lock"
PYTHON_LOCK = ROOT / "requirements-runtime.lock"
NAME = "drawbridge.dev/drawbridge"
PURPOSE = "Migrates pods from device plugins to Dynamic Resource Allocation"


class Parts(NamedTuple):
    """The file systems of the layers. A new commit changes only the last one."""

    system: Tree
    dependencies: Tree
    project: Tree


class Ingredients(NamedTuple):
    """What the image is made of."""

    commit: Commit
    version: str
    architecture: str
    packages: Sequence[tuple[debian.Package, str]]  # with the text of the control fields
    system: Tree
    wheels: Sequence[wheels.Wheel]
    project: wheels.Wheel


class IncompleteError(Exception):
    """The image lacks files that its programs need."""


def gather(architecture: str, cache: Path = CACHE) -> Ingredients:
    """Download and read everything that the image of an architecture is made of."""
    bytecode.check_interpreter()  # before anything is downloaded
    commit = read_commit(ROOT)
    locked = debian.parse_lock(DEBIAN_LOCK.read_text(encoding="utf-8"))
    packages = [each for each in locked if each.architecture == architecture]
    debian.Apt(cache / "apt", architecture).fetch(packages, cache / "debian")
    unpacked = [(each, *debian.unpack(cache / "debian", each)) for each in packages]
    with tempfile.TemporaryDirectory() as folder:
        own = wheels.read(wheels.build(ROOT, Path(folder), commit.environment()))
    return Ingredients(
        commit,
        read_version(),
        architecture,
        [(package, control) for package, _, control in unpacked],
        join(files for _, files, _ in unpacked),
        [wheels.read(path) for path in wheels.fetch(PYTHON_LOCK, architecture, cache)],
        own,
    )


def read_version() -> str:
    """Return the version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def assemble(ingredients: Ingredients, kept: Path | None = KEPT) -> Parts:
    """Return the file systems of the layers; IncompleteError if a library is missing."""
    system = join(
        (contents.select_files(ingredients.system), contents.system_files(ingredients.system))
    )
    scanned = {
        f"var/lib/dpkg/status.d/{package.name}": File(control.encode())
        for package, control in ingredients.packages
    }
    dependencies = join(wheel.files for wheel in ingredients.wheels)
    documents = {f"{contents.DOCUMENTS}/sbom.cdx.json": File(describe(ingredients))}
    project = join((ingredients.project.files, contents.commands(), documents))
    missing = elf.missing_libraries(join((system, dependencies, project)))
    if missing:
        raise IncompleteError("\n".join(missing))
    return Parts(
        _with_bytecode({**system, **scanned}, kept),
        _with_bytecode(dependencies, kept),
        _with_bytecode(project, None),
    )


def describe(ingredients: Ingredients) -> bytes:
    """Return the bill of materials."""
    commit = ingredients.commit
    subject = sbom.Subject("drawbridge", ingredients.version, commit.name, commit.time)
    return sbom.compose(
        subject, [*list_downloads(ingredients), _describe_wheel(ingredients.project)]
    )


def list_downloads(ingredients: Ingredients) -> list[sbom.Component]:
    """Return the packages that were downloaded for the image."""
    described = [
        sbom.describe_debian(debian.parse_control(control), package.sha256, ingredients.system)
        for package, control in ingredients.packages
    ]
    return described + [_describe_wheel(wheel) for wheel in ingredients.wheels]


def _describe_wheel(wheel: wheels.Wheel) -> sbom.Component:
    return sbom.describe_python(wheel.name, wheel.version, wheel.sha256, wheel.metadata)


def compose(ingredients: Ingredients, parts: Parts, kept: Path | None = KEPT) -> oci.Archive:
    """Return the archive of the image."""
    layers = list_layers(ingredients, parts, kept)
    return oci.compose(describe_image(ingredients), layers, ingredients.commit.epoch)


def describe_image(ingredients: Ingredients) -> oci.Image:
    """Return what the image is made of, besides its layers."""
    annotations = annotate("drawbridge", PURPOSE, ingredients.version, ingredients.commit)
    return oci.Image(
        name=f"{NAME}:{ingredients.version}",
        architecture=ingredients.architecture,
        created=ingredients.commit.time,
        config={**contents.RUN, "Labels": annotations},
        annotations=annotations,
    )


def list_layers(
    ingredients: Ingredients, parts: Parts, kept: Path | None = KEPT
) -> list[oci.Layer]:
    """Return the layers of the image."""
    own = pack(parts.project, ingredients.commit.epoch)
    return [
        _locked_layer(parts.system, f"Debian {contents.RELEASE} packages", kept),
        _locked_layer(parts.dependencies, "Python packages", kept),
        oci.Layer(own, f"Drawbridge {ingredients.version}"),
    ]


def annotate(title: str, description: str, version: str, commit: Commit) -> dict[str, str]:
    """Return what an image says of itself."""
    prefix = "org.opencontainers.image"
    return {
        f"{prefix}.title": title,
        f"{prefix}.description": description,
        f"{prefix}.licenses": "Apache-2.0",
        f"{prefix}.version": version,
        f"{prefix}.revision": commit.name,
        f"{prefix}.created": commit.time,
    }


def _locked_layer(tree: Tree, purpose: str, kept: Path | None) -> oci.Layer:
    data = pack(tree, LOCKED_EPOCH)
    return oci.Layer(data, purpose, keep(kept, f"gzip-{zlib.ZLIB_RUNTIME_VERSION}", data, compress))


def _with_bytecode(tree: Tree, kept: Path | None) -> dict[str, Node]:
    sources = {path: node for path, node in tree.items() if path.endswith(".py")}
    kind = f"bytecode-{sys.version.split()[0]}"
    compiled = keep(kept, kind, pack(sources, LOCKED_EPOCH), _compile_archive)
    return {**tree, **read_archive(compiled)}


def _compile_archive(sources: bytes) -> bytes:
    return pack(bytecode.compile_modules(read_archive(sources)), LOCKED_EPOCH)
