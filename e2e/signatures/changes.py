"""What an attacker could change in a published release, each with the command that must fail."""

import base64
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_WHEEL: Final = "drawbridge-0.1.0-py3-none-any.whl"


class Place(NamedTuple):
    """A release on disk and in a registry, and the variables of its commands."""

    folder: Path
    release: Path
    registry: str
    variables: Mapping[str, str]


class Change(NamedTuple):
    """A change, and the command that must fail after it."""

    name: str
    make: Callable[[Place], Sequence[str]]
    refusal: str  # a regular expression


def _verify(reference: str, key: str = "key.pub") -> tuple[str, ...]:
    return ("cosign", "verify", f"--key={key}", "--insecure-ignore-tlog=true", reference)


def _verify_file(file: str, bundle: str) -> tuple[str, ...]:
    return (
        *("cosign", "verify-blob-attestation", "--key=key.pub", "--insecure-ignore-tlog=true"),
        *("--type=slsaprovenance1", f"--bundle={bundle}", file),
    )


def _use_other_key(place: Place) -> Sequence[str]:
    return _verify(f"{place.registry}/drawbridge:0.1.0", key="other.pub")


def _change_blob(place: Place) -> Sequence[str]:
    copy = place.folder / "changed-blob"
    shutil.copytree(place.release / "drawbridge", copy)
    largest = max((copy / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[-1] ^= 1
    largest.write_bytes(data)
    target = f"{place.folder}/copied:0.1.0"
    source = ("--from-oci-layout", f"{copy}:0.1.0")
    return ("oras", "cp", "--recursive", *source, "--to-oci-layout", target)


def _move_tag(place: Place) -> Sequence[str]:
    """Push a file under the tag of the release, as who may write to the registry can."""
    (place.folder / "evil.txt").write_text("x")
    target = f"{place.registry}/drawbridge:0.1.0"
    verify = " ".join(_verify(target))
    pushed = f"oras push {target} --artifact-type application/x evil.txt:text/plain >/dev/null"
    # The first command must succeed for the second one to count.
    return ("bash", "-c", f"{pushed} || exit 0; {verify}")


def _change_file(place: Place) -> Sequence[str]:
    (place.folder / "changed.whl").write_bytes((place.folder / _WHEEL).read_bytes() + b"x")
    return _verify_file("changed.whl", f"{_WHEEL}.provenance.sigstore.json")


def _change_statement(place: Place) -> Sequence[str]:
    bundle = json.loads((place.folder / f"{_WHEEL}.provenance.sigstore.json").read_bytes())
    envelope = bundle["dsseEnvelope"]
    statement = base64.b64decode(envelope["payload"]).replace(b"by-hand", b"by-mind")
    envelope["payload"] = base64.b64encode(statement).decode()
    (place.folder / "changed.json").write_text(json.dumps(bundle))
    return _verify_file(_WHEEL, "changed.json")


_NO_SIGNATURE: Final = "accepted signatures do not match threshold"
CHANGES: Final = (
    Change("another key", _use_other_key, _NO_SIGNATURE),
    Change("a changed layer", _change_blob, "mismatched digest"),
    Change("a changed wheel", _change_file, "artifact digests do not match digests in statement"),
    Change("a changed statement", _change_statement, _NO_SIGNATURE),
    Change("a tag that names something else", _move_tag, "no (valid bundles|signatures)"),
)
