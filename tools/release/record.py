"""A release on disk: OCI layouts, files, statements and bundles, and `release.json` about them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tools.image import oci
from tools.release import bundles, layout
from tools.release.artifacts import Artifact, Statement

_RECORD: Final = "release.json"
_EMPTY: Final = ("application/vnd.oci.empty.v1+json", b"{}")


class ReleaseError(Exception):
    """A folder is no release, or something of it is missing."""


def write(
    folder: Path,
    version: str,
    commit: str,
    artifacts: Sequence[Artifact],
    about_files: Sequence[Statement],
) -> None:
    """Write layouts, statements and the record of all."""
    repositories = sorted({each.repository for each in artifacts})
    for repository in repositories:
        tagged = {
            tag: each.manifest
            for each in artifacts
            if each.repository == repository
            for tag in each.tags
        }
        layout.write(folder / repository, repository, tagged)
    (folder / "statements").mkdir(parents=True, exist_ok=True)
    pairs = [(each.repository, one) for each in artifacts for one in each.statements]
    pairs += [("", one) for one in about_files]
    for _, statement in pairs:
        (folder / "statements" / f"{statement.name}.json").write_bytes(statement.content)
    record = {
        "version": version,
        "commit": commit,
        "artifacts": [
            {"repository": each.repository, "tags": each.tags, "digest": each.manifest.digest}
            for each in artifacts
        ],
        "statements": [
            {"name": one.name, "repository": repository, "subjects": one.subjects}
            for repository, one in pairs
        ],
    }
    (folder / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Any:  # noqa: ANN401  # JSON
    """Return the record of a release; ReleaseError if the folder has none."""
    try:
        return json.loads((folder / _RECORD).read_bytes())
    except (OSError, ValueError) as problem:
        raise ReleaseError(f"{folder} is not a release: {problem}") from None


def read_statements(folder: Path) -> Iterator[tuple[Any, bytes]]:
    """Yield what the record says of each statement, and the statement."""
    for entry in read(folder)["statements"]:
        yield entry, (folder / "statements" / f"{entry['name']}.json").read_bytes()


def bundle_path(folder: Path, name: str) -> Path:
    """Return where the bundle of a statement lies."""
    return folder / "bundles" / f"{name}.sigstore.json"


def attach(folder: Path) -> int:
    """Add the bundles to the layouts as referrers of their subjects; return how many there are."""
    count = 0
    for entry, statement in read_statements(folder):
        path = bundle_path(folder, entry["name"])
        if not path.exists():
            raise ReleaseError(f"{path} is missing: sign the release first")
        bundle = path.read_bytes()
        if bundles.read(bundle)[0] != statement:
            raise ReleaseError(f"{path} is about another statement: sign the release again")
        if entry["repository"]:
            kind = json.loads(statement)["predicateType"]
            repository = folder / entry["repository"]
            manifests = _read_manifests(repository)
            referrers = [
                _compose_referrer(bundle, kind, manifests[digest]) for digest in entry["subjects"]
            ]
            layout.add_referrers(repository, referrers)
            count += len(referrers)
    return count


def _read_manifests(folder: Path) -> dict[str, layout.Descriptor]:
    return {
        each["digest"]: each
        for entry in layout.read_tags(folder).values()
        for each in layout.walk(folder, entry)
        if each["mediaType"] in (oci.MANIFEST, oci.INDEX)
    }


def _compose_referrer(bundle: bytes, kind: str, subject: layout.Descriptor) -> oci.Manifest:
    """Return the manifest of a bundle, as cosign finds it."""
    annotations = {
        "dev.sigstore.bundle.content": "dsse-envelope",
        "dev.sigstore.bundle.predicateType": kind,
    }
    return oci.compose_artifact(_EMPTY, [(bundles.MEDIA_TYPE, bundle)], annotations, subject)
