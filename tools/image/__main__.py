"""Builds the images, or renews the lock of the Debian packages.

python -m tools.image build [--architecture amd64|arm64] [--into FOLDER] [--anew]
python -m tools.image scheduler [--kubernetes 1.37|1.36|1.35|1.34] [--into FOLDER]
python -m tools.image tree --into FOLDER    # the files of the image, for the Dockerfile
python -m tools.image lock
"""

import argparse
import io
import sys
import tarfile
from pathlib import Path

from tools.commit import NoCommitError
from tools.image import build, contents, debian, scheduler
from tools.image.bytecode import BytecodeError
from tools.image.tree import pack
from tools.image.wheels import WheelError

_MIB = 1 << 20
FAILURES = (
    build.IncompleteError,
    BytecodeError,
    debian.DebianError,
    NoCommitError,
    scheduler.NoGoError,
    WheelError,
)


def build_image(architecture: str, into: Path, kept: Path | None) -> None:
    """Write the archive of the image, and print what it contains."""
    ingredients = build.gather(architecture)
    parts = build.assemble(ingredients, kept)
    archive = build.compose(ingredients, parts, kept)
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"drawbridge-{ingredients.version}-{architecture}.tar"
    path.write_bytes(archive.data)
    path.with_suffix(".cdx.json").write_bytes(build.describe(ingredients))
    for name, tree, size in zip(parts._fields, parts, archive.layer_sizes, strict=True):
        print(f"{name:12}  {len(tree):5} files  {size / _MIB:6.1f} MiB compressed")
    print(f"{path}  {len(archive.data) / _MIB:.1f} MiB")
    print(f"{build.NAME}:{ingredients.version}  {archive.digest}  commit {ingredients.commit.name}")


def build_scheduler_image(kubernetes: str, into: Path) -> None:
    """Write the archive of the image of the kube-scheduler, and print its name."""
    architecture, version = debian.machine_architecture(), build.read_version()
    archive = scheduler.build_archive(kubernetes, architecture)
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{scheduler.PROGRAM}-{version}-{architecture}.tar"
    path.write_bytes(archive.data)
    print(f"{path}  {len(archive.data) / _MIB:.1f} MiB")
    print(f"{scheduler.NAME}:{version}  {archive.digest}  Kubernetes {kubernetes}")


def write_tree(architecture: str, into: Path) -> None:
    """Write the files of the image into a folder."""
    ingredients = build.gather(architecture)
    for part in build.assemble(ingredients):
        with tarfile.open(fileobj=io.BytesIO(pack(part, ingredients.commit.epoch))) as archive:
            archive.extractall(into)  # noqa: S202  # we packed it


def renew_lock(cache: Path) -> None:
    """Write the versions that Debian offers now into the lock, for all architectures."""
    newest: list[debian.Package] = []
    for architecture in debian.ARCHITECTURES:
        apt = debian.Apt(cache / "apt", architecture)
        apt.update()
        newest += apt.offered(sorted(contents.PACKAGES), only_newest=True)
    before = build.DEBIAN_LOCK.read_text(encoding="utf-8") if build.DEBIAN_LOCK.exists() else ""
    locked = set(debian.parse_lock(before))
    build.DEBIAN_LOCK.write_text(debian.format_lock(newest), encoding="utf-8")
    changed = [each for each in newest if each not in locked]
    for package in changed:
        print(f"{package.architecture}  {package.name} {package.version}")
    print(f"{build.DEBIAN_LOCK.name}: {len(changed)} of {len(newest)} packages changed")


def main() -> int:
    """Run the command; 1 if the image cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.add_argument("what", choices=("build", "scheduler", "tree", "lock"))
    own = debian.machine_architecture()
    parser.add_argument("--architecture", choices=debian.ARCHITECTURES, default=own)
    parser.add_argument("--kubernetes", choices=scheduler.VERSIONS, default=scheduler.NEWEST)
    parser.add_argument("--into", type=Path, default=build.ROOT / "build" / "image")
    parser.add_argument("--anew", action="store_true", help="use no layer of an earlier build")
    options = parser.parse_args()
    try:
        if options.what == "lock":
            renew_lock(build.CACHE)
        elif options.what == "scheduler":
            build_scheduler_image(options.kubernetes, options.into)
        elif options.what == "tree":
            write_tree(options.architecture, options.into)
        else:
            build_image(options.architecture, options.into, None if options.anew else build.KEPT)
    except FAILURES as failure:
        print(f"{failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
