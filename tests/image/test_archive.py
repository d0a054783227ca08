"""What the archive of the image contains. Skipped where the packages cannot be downloaded."""

import hashlib
import io
import tarfile
from datetime import datetime
from pathlib import Path

import pytest

from tests.image.archive import Archive
from tests.image.conftest import build_archive
from tests.thorough import THOROUGH
from tools.image import contents
from tools.image.build import LOCKED_EPOCH
from tools.image.contents import SITE

MIB = 1 << 20


@pytest.mark.skipif(not THOROUGH, reason="a second build is part of the scheduled tests")
def test_two_builds_have_the_same_bytes(built: Path, tmp_path: Path) -> None:
    again = build_archive(tmp_path / "2", "2", "--anew")
    assert built.read_bytes() == again.read_bytes()


def test_the_image_is_small(built: Path) -> None:
    assert built.stat().st_size < 60 * MIB


def test_the_layers_are_those_that_the_configuration_names(archive: Archive) -> None:
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in archive.layers]
    assert digests == archive.config["rootfs"]["diff_ids"]


def test_only_the_layer_of_the_project_has_the_time_of_the_commit(archive: Archive) -> None:
    """So a new commit changes only that one."""
    times = []
    for layer in archive.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as members:
            times.append({member.mtime for member in members})
    created = datetime.fromisoformat(archive.config["created"])
    assert times == [{LOCKED_EPOCH}, {LOCKED_EPOCH}, {created.timestamp()}]


def test_the_image_says_what_it_is(archive: Archive) -> None:
    annotations = archive.manifest["annotations"]
    version = annotations["org.opencontainers.image.version"]
    name = archive.entry["annotations"]["io.containerd.image.name"]
    assert name == f"drawbridge.dev/drawbridge:{version}"
    assert len(annotations["org.opencontainers.image.revision"].removesuffix("-dirty")) == 40
    assert archive.config["config"]["User"] == "65532:65532"
    assert archive.config["config"]["Entrypoint"] == ["drawbridge"]


def test_the_only_programs_are_python_and_drawbridge(archive: Archive) -> None:
    folders = ("usr/bin/", "usr/sbin/", "usr/local/bin/", "usr/local/sbin/")
    programs = {name for name in archive.members if name.startswith(folders)}
    assert programs == {
        "usr/bin/python3.11",
        "usr/local/bin/drawbridge",
        "usr/local/bin/kubectl-drawbridge",
    }


@pytest.mark.parametrize("name", ["pip", "setuptools", "pytest", "ensurepip", "apt"])
def test_nothing_installs_packages(archive: Archive, name: str) -> None:
    assert not [path for path in archive.members if f"/{name}/" in path]


def test_every_debian_package_has_its_copyright_file(archive: Archive) -> None:
    for name in contents.PACKAGES:
        folder = f"usr/share/doc/{name}"
        link = archive.members.get(folder)
        other = f"usr/share/doc/{link.linkname}" if link and link.issym() else folder
        assert f"{other}/copyright" in archive.members


def test_no_file_is_writable_for_others_or_runs_as_its_owner(archive: Archive) -> None:
    suspects = {
        name: oct(member.mode)
        for name, member in archive.members.items()
        if member.mode & 0o6022 and not member.issym()
    }
    assert suspects == {"tmp": "0o1777"}


def test_every_module_is_compiled(archive: Archive) -> None:
    sources = [
        name
        for name, member in archive.members.items()
        if name.endswith(".py") and not member.issym()
    ]
    compiled = {name for name in archive.members if name.endswith(".cpython-311.pyc")}
    assert f"{SITE}/cli/__pycache__/main.cpython-311.pyc" in compiled
    assert len(compiled) == len(sources)
