"""Packages come from apt by name, version and hash, and a missing one is named."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.image.debian import Apt, DebianError, NotOfferedError, Package, archive_path

Offer = Callable[[str, str], None]
DATA = b"the package"
DIGEST = hashlib.sha256(DATA).hexdigest()
LOCKED = Package("amd64", "libssl3", "3.0.19", DIGEST)


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Put programs on the PATH that offer one version of libssl3, as apt does."""

    def make(version: str, digest: str) -> None:
        programs = tmp_path / "programs"
        programs.mkdir()
        stanza = f"Package: libssl3\\nVersion: {version}\\nSHA256: {digest}\\nTag: x,\\n y\\n"
        download = 'case "$*" in *download*) printf "%s" "the package" > libssl3.deb;; esac'
        for name, body in (("apt-get", download), ("apt-cache", f"printf '{stanza}'")):
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    return make


def test_a_package_that_apt_offers_is_kept_under_its_hash(offer: Offer, tmp_path: Path) -> None:
    offer("3.0.19", DIGEST)
    Apt(tmp_path / "apt", "amd64").fetch([LOCKED], tmp_path / "debs")
    assert archive_path(tmp_path / "debs", LOCKED).read_bytes() == DATA


def test_a_package_that_was_replaced_is_named_with_the_command(
    offer: Offer, tmp_path: Path
) -> None:
    offer("3.0.22", "0" * 64)
    with pytest.raises(NotOfferedError) as error:
        Apt(tmp_path / "apt", "amd64").fetch([LOCKED], tmp_path / "debs")
    assert str(error.value) == (
        "apt does not offer libssl3 3.0.19 for amd64, but 3.0.22: run `make image-lock`, review "
        "the change of debian.lock, and build again"
    )


def test_a_package_with_another_hash_is_refused(offer: Offer, tmp_path: Path) -> None:
    offer("3.0.19", "0" * 64)
    with pytest.raises(NotOfferedError, match=r"3\.0\.19 for amd64, with another SHA-256"):
        Apt(tmp_path / "apt", "amd64").fetch([LOCKED], tmp_path / "debs")


def test_a_package_in_the_cache_needs_no_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    archive_path(tmp_path, LOCKED).write_bytes(DATA)
    Apt(tmp_path / "apt", "amd64").fetch([LOCKED], tmp_path)


def test_a_machine_without_apt_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DebianError, match="apt-get is not installed: build on Debian 12"):
        Apt(tmp_path / "apt", "amd64").fetch([LOCKED], tmp_path)
