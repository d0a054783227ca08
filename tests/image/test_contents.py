"""The image has what its programs need, and nothing to start a shell with."""

import _ssl
from pathlib import Path

import pytest

from tests.tables import every_row, read_yaml
from tools.image import contents, debian
from tools.image.build import DEBIAN_LOCK
from tools.image.elf import missing_libraries, needed_libraries
from tools.image.tree import File

CASES = read_yaml((Path(__file__).parent / "cases" / "contents.yaml").read_text("utf-8"))
AUTHORITY = "usr/share/ca-certificates/mozilla"


@every_row("case", CASES, ids=lambda case: str(case["path"]))
def test_a_file_of_a_package_is_selected_as_the_table_says(case: dict[str, str | None]) -> None:
    node = File(b"x")
    expected = {case["in"]: node} if case["in"] else {}
    assert contents.select_files({str(case["path"]): node}) == expected


@pytest.mark.parametrize("architecture", debian.ARCHITECTURES)
def test_the_lock_has_each_package_once_for_each_architecture(architecture: str) -> None:
    locked = debian.parse_lock(DEBIAN_LOCK.read_text("utf-8"))
    names = [each.name for each in locked if each.architecture == architecture]
    assert sorted(names) == sorted(contents.PACKAGES)


def test_the_lock_has_packages_of_the_release() -> None:
    locked = debian.parse_lock(DEBIAN_LOCK.read_text("utf-8"))
    (version,) = {each.version for each in locked if each.name == "base-files"}
    assert version.partition(".")[0] == contents.RELEASE


def test_a_lock_is_read_as_it_was_written() -> None:
    text = DEBIAN_LOCK.read_text("utf-8")
    assert debian.format_lock(reversed(debian.parse_lock(text))) == text


def test_the_authorities_are_one_file_where_openssl_looks() -> None:
    packages = {f"{AUTHORITY}/b.crt": File(b"B\n"), f"{AUTHORITY}/a.crt": File(b"A\n")}
    files = contents.system_files(packages)
    assert files["etc/ssl/certs/ca-certificates.crt"] == File(b"A\nB\n")


def test_an_image_without_authorities_is_refused() -> None:
    with pytest.raises(ValueError, match="ca-certificates has no file"):
        contents.system_files({})


def test_a_library_that_no_package_brings_is_reported() -> None:
    module = File(Path(_ssl.__file__).read_bytes())
    tree = {"usr/lib/_ssl.so": module, "usr/lib/libc.so.6": File(b"")}
    missing = missing_libraries(tree)
    assert "usr/lib/_ssl.so needs libssl.so.3" in missing or any("libssl" in m for m in missing)
    names = {f"usr/lib/{name}": File(b"") for name in needed_libraries(module.data)}
    assert missing_libraries({**tree, **names}) == []


def test_a_text_needs_no_library() -> None:
    assert needed_libraries(b"#!/usr/bin/python3.11\n") == []
