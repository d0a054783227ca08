"""The bill of materials lists what the locks list, in the format that scanners read."""

import json
from collections import Counter
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cyclonedx.schema import _res
from packageurl import PackageURL
from referencing import Registry, Resource

from tests.image.archive import Archive
from tools.image import debian, sbom, wheels
from tools.image.build import DEBIAN_LOCK, PYTHON_LOCK
from tools.image.contents import DOCUMENTS
from tools.image.tree import File, Link

GPL = b"License: GPL-2+\n text\n\nFiles: x\nLicense:  MIT \nLicense: GPL-2+\n"
CONTROL = {"Package": "libx", "Version": "1:2+b", "Architecture": "amd64", "Source": "x (2)"}
DIGEST = "0" * 64


@cache
def validator() -> Any:  # noqa: ANN401  # of jsonschema
    """Return the validator of CycloneDX 1.6, with the schemas that its schema refers to."""
    folder = resources.files(_res)

    def load(name: str) -> Any:  # noqa: ANN401  # JSON
        return json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text("utf-8"))

    bom = load("bom-1.6")
    base = bom["$id"].removesuffix("bom-1.6.schema.json")
    registry: Any = Registry()
    for name in ("spdx", "jsf-0.82"):
        content = load(name)
        place = f"{base}{name}.SNAPSHOT.schema.json"
        registry = registry.with_resource(place, Resource.from_contents(content))
    return jsonschema.Draft7Validator(bom, registry=registry)


@pytest.fixture
def document(archive: Archive) -> Any:  # noqa: ANN401  # JSON
    """Read the document in the image."""
    return json.loads(archive.contents[f"{DOCUMENTS}/sbom.cdx.json"])


def libraries(document: Any) -> list[Any]:  # noqa: ANN401  # JSON
    return [each for each in document["components"] if each["type"] == "library"]


def test_the_document_is_valid(document: Any) -> None:  # noqa: ANN401  # JSON
    assert [error.message for error in validator().iter_errors(document)] == []


def test_the_validator_finds_mistakes(document: Any) -> None:  # noqa: ANN401  # JSON
    libraries(document)[0]["hashes"][0]["alg"] = "SHA-0"
    assert [*validator().iter_errors(document)]


def test_every_package_of_the_locks_is_listed_with_its_hash(document: Any) -> None:  # noqa: ANN401  # JSON
    locked = {
        package.name: (package.version, package.sha256)
        for package in debian.parse_lock(DEBIAN_LOCK.read_text("utf-8"))
        if package.architecture == debian.machine_architecture()
    }
    listed = {
        library["name"]: (library["version"], library["hashes"][0]["content"])
        for library in libraries(document)
        if library["purl"].startswith("pkg:deb/")
    }
    assert listed == locked
    lock = PYTHON_LOCK.read_text("utf-8")
    python = [each for each in libraries(document) if each["purl"].startswith("pkg:pypi/")]
    versions = {each["name"]: each["version"] for each in python}
    own = versions.pop("drawbridge")
    assert own == document["metadata"]["component"]["version"]
    assert versions == wheels.locked_versions(lock)
    others = [each for each in python if each["name"] != "drawbridge"]
    assert [e["name"] for e in others if e["hashes"][0]["content"] not in lock] == []


def test_every_package_has_an_identifier_of_its_own(document: Any) -> None:  # noqa: ANN401  # JSON
    references = Counter(each["bom-ref"] for each in document["components"])
    assert set(references.values()) == {1}
    for library in libraries(document):
        identifier = PackageURL.from_string(library["purl"])
        assert (identifier.name, identifier.version) == (library["name"], library["version"])


def test_every_package_has_a_licence(document: Any) -> None:  # noqa: ANN401  # JSON
    assert [each["name"] for each in libraries(document) if not each.get("licenses")] == []


def test_the_document_lies_beside_the_archive(built: Path, archive: Archive) -> None:
    beside = built.with_suffix(".cdx.json").read_bytes()
    assert beside == archive.contents[f"{DOCUMENTS}/sbom.cdx.json"]


def test_a_debian_package_has_the_licences_of_its_copyright_file() -> None:
    files = {"usr/share/doc/libx/copyright": File(GPL)}
    component = sbom.describe_debian(CONTROL, DIGEST, files)
    assert [each["license"]["name"] for each in component.licences] == ["GPL-2+", "MIT"]
    assert component.purl == (
        "pkg:deb/debian/libx@1%3A2%2Bb?arch=amd64&distro=debian-12&upstream=x"
    )


def test_a_copyright_file_in_prose_is_named() -> None:
    files = {"usr/share/doc/libx/copyright": File(b"You may copy this.")}
    (licence,) = sbom.describe_debian(CONTROL, DIGEST, files).licences
    assert licence == {"license": {"name": "see /usr/share/doc/libx/copyright"}}


def test_the_copyright_file_may_be_that_of_another_package() -> None:
    files = {"usr/share/doc/libx": Link("base"), "usr/share/doc/base/copyright": File(GPL)}
    assert len(sbom.describe_debian(CONTROL, DIGEST, files).licences) == 2


@pytest.mark.parametrize(
    ("metadata", "licences"),
    [
        ({"License-Expression": ("MIT OR BSD-2-Clause",)}, [{"expression": "MIT OR BSD-2-Clause"}]),
        ({"License": ("Apache 2.0",)}, [{"license": {"name": "Apache 2.0"}}]),
        ({"License": ("long " * 99,), "Classifier": ("License :: OSI Approved :: MIT License",)},
         [{"license": {"name": "MIT License"}}]),
        ({"License-Expression": ("MIT",), "License": ("other",)}, [{"expression": "MIT"}]),
        ({"Classifier": ("Topic :: X",)}, []),
    ],
)  # fmt: skip
def test_a_python_package_has_the_licence_of_its_metadata(
    metadata: dict[str, tuple[str, ...]], licences: list[object]
) -> None:
    assert list(sbom.describe_python("x", "1", DIGEST, metadata).licences) == licences


def test_another_content_has_another_serial_number() -> None:
    component = sbom.describe_python("x", "1", DIGEST, {})
    subjects = [sbom.Subject("x", "1", commit, "2026-01-01T00:00:00Z") for commit in ("a", "b")]
    first, second = (
        json.loads(sbom.compose(subject, [component]))["serialNumber"] for subject in subjects
    )
    assert first != second
