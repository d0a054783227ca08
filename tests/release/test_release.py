"""A release of tiny artifacts: signed and checked, and refused after each change."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.tables import every_row
from tools.image import oci
from tools.image.tree import File, pack
from tools.release import bundles, check, layout, record
from tools.release.artifacts import Artifact, Statement
from tools.release.statements import BILL, PROVENANCE, SIGNATURE, Subject, state

KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
WHEEL = "drawbridge-0.1.0-py3-none-any.whl"


def image(content: bytes) -> oci.Manifest:
    """Return an image with one file."""
    made = oci.Image("x:1", "amd64", "1970-01-01T00:00:00Z", {}, {})
    return oci.compose_image(made, [oci.Layer(pack({"file": File(content)}, 0), "file")])


def describe(name: str, kind: str, *digests: str) -> Statement:
    """Return a statement about digests."""
    subjects = [Subject(name, digest.partition(":")[2]) for digest in digests]
    return Statement(name, state(kind, subjects, {}), digests)


def write(folder: Path, kinds: tuple[str, ...] = (SIGNATURE, PROVENANCE, BILL)) -> None:
    """Write a release with an image for one platform and a wheel, and sign it."""
    amd64 = image(b"content")
    index = oci.compose_index([amd64], {})
    about = {
        SIGNATURE: describe("signature", SIGNATURE, index.digest, amd64.digest),
        PROVENANCE: describe("provenance", PROVENANCE, index.digest, amd64.digest),
        BILL: describe("bill", BILL, amd64.digest),
    }
    (folder / "files").mkdir(parents=True)
    (folder / "files" / WHEEL).write_bytes(b"wheel")
    wheel = describe(f"{WHEEL}.provenance", PROVENANCE, oci.digest_of(b"wheel"))._replace(
        subjects=()
    )
    artifact = Artifact("drawbridge", ["0.1.0"], index, [about[kind] for kind in kinds])
    record.write(folder, "0.1.0", "c" * 40, [artifact], [wheel])
    sign(folder, KEY)


def sign(folder: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Sign all statements and attach the bundles."""
    for entry, statement in record.read_statements(folder):
        path = record.bundle_path(folder, entry["name"])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bundles.sign(statement, key))
    record.attach(folder)


def problems(folder: Path) -> str:
    """Return what is wrong with a release, as one text."""
    return "\n".join(check.find_problems(folder, KEY.public_key()))


def test_a_signed_release_has_no_problems(tmp_path: Path) -> None:
    write(tmp_path)
    assert problems(tmp_path) == ""


@pytest.mark.parametrize("kind", [SIGNATURE, PROVENANCE, BILL])
def test_a_statement_that_is_missing_is_found(tmp_path: Path, kind: str) -> None:
    kinds = tuple(each for each in (SIGNATURE, PROVENANCE, BILL) if each != kind)
    write(tmp_path, kinds)
    assert f"no statement {kind} about sha256:" in problems(tmp_path)


def change_blob(folder: Path) -> None:
    entry = layout.read_tags(folder / "drawbridge")["0.1.0"]
    *_, last = layout.walk(folder / "drawbridge", entry)
    path = folder / "drawbridge" / oci.blob_path(last["digest"])
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def remove_blob(folder: Path) -> None:
    entry = layout.read_tags(folder / "drawbridge")["0.1.0"]
    *_, last = layout.walk(folder / "drawbridge", entry)
    (folder / "drawbridge" / oci.blob_path(last["digest"])).unlink()


def move_tag(folder: Path) -> None:
    layout.write(folder / "drawbridge", "drawbridge", {"0.1.0": image(b"evil")})


def change_wheel(folder: Path) -> None:
    (folder / "files" / WHEEL).write_bytes(b"other")


def change_statement(folder: Path) -> None:
    path = record.bundle_path(folder, f"{WHEEL}.provenance")
    envelope = json.loads(path.read_bytes())
    other = json.loads(bundles.sign(b'{"subject":[]}', OTHER))
    envelope["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"]
    path.write_text(json.dumps(envelope))


def use_other_key(folder: Path) -> None:
    path = record.bundle_path(folder, f"{WHEEL}.provenance")
    path.write_bytes(bundles.sign(bundles.read(path.read_bytes())[0], OTHER))


def damage_bundle(folder: Path) -> None:
    record.bundle_path(folder, f"{WHEEL}.provenance").write_text('{"mediaType": 3}')


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (change_blob, "has other content"),
    (remove_blob, "cannot be read: No such file"),
    (move_tag, f"no statement {SIGNATURE} about"),
    (change_wheel, f"{WHEEL}: no provenance of"),
    (change_statement, "the signature is not that of the key"),
    (use_other_key, "the signature is not that of the key"),
    (damage_bundle, "no bundle with one signature"),
]


@every_row(("change", "problem"), CHANGES)
def test_a_change_is_found(tmp_path: Path, change: Callable[[Path], None], problem: str) -> None:
    folder = tmp_path / change.__name__
    write(folder)
    change(folder)
    assert problem in problems(folder)


def test_another_key_signed_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    printed = "\n".join(check.find_problems(tmp_path, OTHER.public_key()))
    assert printed.count("the signature is not that of the key") == 6


def test_a_bundle_of_another_statement_is_not_attached(tmp_path: Path) -> None:
    write(tmp_path)
    record.bundle_path(tmp_path, "signature").write_bytes(bundles.sign(b"{}", KEY))
    with pytest.raises(record.ReleaseError, match="is about another statement"):
        record.attach(tmp_path)


def test_bundles_are_attached_once(tmp_path: Path) -> None:
    write(tmp_path)
    before = (tmp_path / "drawbridge" / "index.json").read_bytes()
    record.attach(tmp_path)
    assert (tmp_path / "drawbridge" / "index.json").read_bytes() == before


def test_a_folder_without_a_record_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(record.ReleaseError, match="is not a release"):
        list(check.find_problems(tmp_path, KEY.public_key()))


@pytest.mark.parametrize("pem", [b"no key", b""])
def test_a_key_that_cannot_be_read_is_refused(pem: bytes) -> None:
    with pytest.raises(bundles.UnusableKeyError):
        bundles.load_private(pem, "")
    with pytest.raises(bundles.UnusableKeyError):
        bundles.load_public(pem)
