"""Wheels come from the runtime lock, which has the versions of the lock that the tests use."""

import tomllib
import zipfile
from pathlib import Path

import pytest

from tools.image import wheels
from tools.image.build import PYTHON_LOCK, ROOT
from tools.image.contents import SITE
from tools.image.tree import File

METADATA = b"Metadata-Version: 2.4\nName: Some_Thing\nVersion: 1.2\n\nText\n"
INFO = "some_thing-1.2.dist-info"


def wheel(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "some_thing-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {f"{INFO}/METADATA": METADATA, **files}.items():
            archive.writestr(name, data)
    return path


def test_the_runtime_lock_has_the_versions_that_were_tested() -> None:
    tested = wheels.locked_versions((ROOT / "requirements.lock").read_text("utf-8"))
    runtime = wheels.locked_versions(PYTHON_LOCK.read_text("utf-8"))
    assert {name: tested.get(name) for name in runtime} == runtime, "run `make lock`"


def test_the_runtime_lock_has_every_dependency_and_no_test_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {wheels.normalize(each.partition(">")[0]) for each in project["dependencies"]}
    runtime = set(wheels.locked_versions(PYTHON_LOCK.read_text("utf-8")))
    assert named <= runtime, "run `make lock`"
    assert not runtime & {"pytest", "hypothesis", "mypy", "ruff", "uv", "pip", "setuptools"}


def test_a_wheel_is_unpacked_to_site_packages(tmp_path: Path) -> None:
    contents = wheels.read(wheel(tmp_path, {"thing/__init__.py": b"x", f"{INFO}/RECORD": b""}))
    assert (contents.name, contents.version) == ("some-thing", "1.2")
    assert contents.files == {
        f"{SITE}/thing/__init__.py": File(b"x"),
        f"{SITE}/{INFO}/METADATA": File(METADATA),
    }


def test_a_wheel_with_files_outside_of_site_packages_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"some_thing-1.2.data/scripts/run": b"#!/bin/sh"})
    with pytest.raises(wheels.WheelError, match="outside of site-packages"):
        wheels.read(path)


def test_two_processes_may_download_the_same_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    lock.write_text("six==1.16.0\n", encoding="utf-8")

    def download(*words: str) -> None:
        (half,) = (Path(word.partition("=")[2]) for word in words if word.startswith("--dest="))
        # The other process ends first.
        for folder in (half, half.with_name(half.name[1:].rpartition("-")[0])):
            folder.mkdir()
            (folder / "six-1.16.0-py2.py3-none-any.whl").write_bytes(b"")

    monkeypatch.setattr(wheels, "_run_module", download)
    (path,) = wheels.fetch(lock, "amd64", tmp_path)
    assert path.name == "six-1.16.0-py2.py3-none-any.whl"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lock", path.parent.name]
