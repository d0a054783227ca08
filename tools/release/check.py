"""Checks a release on disk against a public key: all bytes, and who stated what about them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from tools.image import oci
from tools.release import bundles, layout, record
from tools.release.artifacts import FILES
from tools.release.bundles import BundleError
from tools.release.layout import LayoutError
from tools.release.statements import BILL, PROVENANCE, SIGNATURE

_MANIFESTS: Final = (oci.MANIFEST, oci.INDEX)


def find_problems(folder: Path, key: EllipticCurvePublicKey) -> Iterator[str]:
    """Yield a line for each thing in a release that is not what the key signed."""
    repositories = dict.fromkeys(each["repository"] for each in record.read(folder)["artifacts"])
    for name in repositories:
        try:
            for tag, entry in layout.read_tags(folder / name).items():
                yield from (f"{name}:{tag}: {line}" for line in _check(folder / name, entry, key))
        except LayoutError as problem:
            yield str(problem)
    for path in sorted((folder / FILES).iterdir()):
        digest = oci.digest_of(path.read_bytes())
        bundle = record.bundle_path(folder, f"{path.name}.provenance")
        kinds, refused = _read_kinds([bundle.read_bytes()] if bundle.exists() else [], digest, key)
        if PROVENANCE not in kinds:
            yield f"{path}: no provenance of {digest} {refused}".rstrip()


def _check(folder: Path, entry: layout.Descriptor, key: EllipticCurvePublicKey) -> Iterator[str]:
    for descriptor in layout.walk(folder, entry):
        if descriptor["mediaType"] not in _MANIFESTS:
            continue
        digest = descriptor["digest"]
        stored = [
            layout.read_blob(folder, referrer["layers"][0])
            for referrer in layout.read_referrers(folder, digest)
        ]
        kinds, refused = _read_kinds(stored, digest, key)
        needed = {SIGNATURE, PROVENANCE} | ({BILL} if "platform" in descriptor else set())
        for kind in sorted(needed - kinds):
            yield f"no statement {kind} about {digest} {refused}".rstrip()


def _read_kinds(
    stored: list[bytes], digest: str, key: EllipticCurvePublicKey
) -> tuple[set[str], str]:
    """Return the kinds of signed statements about a digest, and why bundles do not count."""
    kinds: set[str] = set()
    refused: set[str] = set()
    for bundle in stored:
        try:
            statement: Any = json.loads(bundles.verify(bundle, key))
        except BundleError as problem:
            refused.add(str(problem))
            continue
        if digest.partition(":")[2] in {one["digest"]["sha256"] for one in statement["subject"]}:
            kinds.add(statement["predicateType"])
    return kinds, f"({'; '.join(sorted(refused))})" if refused else ""
