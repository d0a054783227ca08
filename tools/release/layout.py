"""Reads and writes OCI layouts on disk. What is read has the size and the digest that name it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.image import oci

_REF: Final = "org.opencontainers.image.ref.name"
_INDEX: Final = "index.json"
Descriptor = Mapping[str, Any]


class LayoutError(Exception):
    """A layout is damaged; the text says where."""


def write(folder: Path, name: str, manifests: Mapping[str, oci.Manifest]) -> None:
    """Write the layout of a repository with manifests, by their tags."""
    entries = [
        {**manifest.descriptor, "annotations": oci.name_entry(f"{name}:{tag}")}
        for tag, manifest in sorted(manifests.items())
    ]
    blobs = {path: data for each in manifests.values() for path, data in each.blobs.items()}
    _write_files(folder, oci.layout_files(entries, blobs))


def add_referrers(folder: Path, referrers: Sequence[oci.Manifest]) -> None:
    """Add manifests that refer to others. Those that the layout has are not added twice."""
    entries = _read_entries(folder)
    present = {entry["digest"] for entry in entries}
    new = [each for each in referrers if each.digest not in present]
    entries += [dict(each.descriptor) for each in new]
    blobs = {path: data for each in new for path, data in each.blobs.items()}
    _write_files(folder, oci.layout_files(entries, blobs))


def read_tags(folder: Path) -> dict[str, Descriptor]:
    """Return what the layout has, by tag."""
    named = ((entry, entry.get("annotations", {}).get(_REF)) for entry in _read_entries(folder))
    return {tag: entry for entry, tag in named if tag}


def read_referrers(folder: Path, digest: str) -> list[Any]:
    """Return the manifests that refer to a digest."""
    untagged = [entry for entry in _read_entries(folder) if "annotations" not in entry]
    manifests = [json.loads(read_blob(folder, entry)) for entry in untagged]
    return [each for each in manifests if each.get("subject", {}).get("digest") == digest]


def read_blob(folder: Path, descriptor: Descriptor) -> bytes:
    """Return a blob; LayoutError unless it is what the descriptor says."""
    path = folder / oci.blob_path(descriptor["digest"])
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise LayoutError(f"{path} cannot be read: {problem.strerror}") from None
    if len(data) != descriptor["size"] or oci.digest_of(data) != descriptor["digest"]:
        raise LayoutError(f"{path} has other content: SHA-256 {oci.digest_of(data)[7:]}")
    return data


def walk(folder: Path, descriptor: Descriptor) -> Iterator[Descriptor]:
    """Yield a descriptor and all below it; LayoutError if one is missing or damaged."""
    data = read_blob(folder, descriptor)
    yield descriptor
    if descriptor["mediaType"] == oci.INDEX:
        for manifest in json.loads(data)["manifests"]:
            yield from walk(folder, manifest)
    elif descriptor["mediaType"] == oci.MANIFEST:
        manifest = json.loads(data)
        for part in (manifest["config"], *manifest["layers"]):
            yield from walk(folder, part)


def _read_entries(folder: Path) -> list[dict[str, Any]]:
    try:
        entries: list[dict[str, Any]] = json.loads((folder / _INDEX).read_bytes())["manifests"]
    except (OSError, ValueError, KeyError) as problem:
        raise LayoutError(f"{folder} is not an OCI layout: {problem!r}") from None
    return entries


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
