"""Composes OCI images, indexes and artifacts, and the files of the layout that has them. Pure.

`ctr images import`, `skopeo copy oci-archive:` and `podman load` read the archive of a layout.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.image.tree import compress

_OCI = "application/vnd.oci.image"
MANIFEST = f"{_OCI}.manifest.v1+json"
INDEX = f"{_OCI}.index.v1+json"


class Image(NamedTuple):
    """What an image is made of, besides its layers."""

    name: str  # with the tag
    architecture: str
    created: str  # RFC 3339
    config: Mapping[str, Any]
    annotations: Mapping[str, str]


class Layer(NamedTuple):
    """One layer as an uncompressed archive, and the sentence about it in the history."""

    data: bytes
    purpose: str
    compressed: bytes | None = None


class Manifest(NamedTuple):
    """A manifest or an index: its descriptor, and all blobs that it consists of, by path."""

    descriptor: Mapping[str, Any]
    blobs: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Return the digest by which a registry will know it."""
        return str(self.descriptor["digest"])


class Archive(NamedTuple):
    """An image as one file, and the digest by which a registry will know it."""

    data: bytes
    digest: str
    layer_sizes: Sequence[int]


def compose(image: Image, layers: Sequence[Layer], epoch: int) -> Archive:
    """Return the archive of an image."""
    manifest = compose_image(image, layers)
    listed = json.loads(manifest.blobs[blob_path(manifest.digest)])["layers"]
    entry = {**manifest.descriptor, "annotations": name_entry(image.name)}
    files = layout_files([entry], manifest.blobs)
    return Archive(_archive(files, epoch), manifest.digest, [each["size"] for each in listed])


def compose_image(image: Image, layers: Sequence[Layer]) -> Manifest:
    """Return the manifest of an image for one platform."""
    blobs: dict[str, bytes] = {}
    packed = [
        _add(blobs, layer.compressed or compress(layer.data), f"{_OCI}.layer.v1.tar+gzip")
        for layer in layers
    ]
    platform = {"architecture": image.architecture, "os": "linux"}
    configuration = {
        "created": image.created,
        **platform,
        "config": image.config,
        "rootfs": {"type": "layers", "diff_ids": [digest_of(each.data) for each in layers]},
        "history": [{"created": image.created, "created_by": each.purpose} for each in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _add(blobs, _encode(configuration), f"{_OCI}.config.v1+json"),
        "layers": packed,
        "annotations": image.annotations,
    }
    entry = _add(blobs, _encode(manifest), MANIFEST)
    return Manifest({**entry, "platform": platform}, blobs)


def compose_index(images: Sequence[Manifest], annotations: Mapping[str, str]) -> Manifest:
    """Return the index of an image for several platforms."""
    blobs = {path: data for image in images for path, data in image.blobs.items()}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [image.descriptor for image in images],
        "annotations": annotations,
    }
    return Manifest(_add(blobs, _encode(index), INDEX), blobs)


def compose_artifact(
    config: tuple[str, bytes],
    layers: Sequence[tuple[str, bytes]],
    annotations: Mapping[str, str],
    subject: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return the manifest of what is no image, from media types and data.

    With a subject, it is a referrer of that, and its type is that of its first layer.
    """
    blobs: dict[str, bytes] = {}
    listed = [_add(blobs, data, kind) for kind, data in layers]
    more = {"artifactType": layers[0][0], "subject": _bare(subject)} if subject else {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _add(blobs, config[1], config[0]),
        "layers": listed,
        "annotations": annotations,
        **more,
    }
    entry = _add(blobs, _encode(manifest), MANIFEST)
    kind = {"artifactType": more["artifactType"]} if more else {}
    return Manifest({**entry, **kind}, blobs)


def name_entry(name: str) -> dict[str, str]:
    """Return the annotations of an entry of a layout that has a name."""
    return {
        # containerd reads the first one, other tools the second one.
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }


def layout_files(
    entries: Sequence[Mapping[str, Any]], blobs: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the files of a layout, by path."""
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
    return {
        "oci-layout": _encode({"imageLayoutVersion": "1.0.0"}),
        "index.json": _encode(index),
        **blobs,
    }


def blob_path(digest: str) -> str:
    """Return where a layout has a blob."""
    return f"blobs/{digest.replace(':', '/')}"


def digest_of(data: bytes) -> str:
    """Return the digest of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _bare(descriptor: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: (descriptor or {})[key] for key in ("mediaType", "digest", "size")}


def _add(blobs: dict[str, bytes], data: bytes, kind: str) -> dict[str, Any]:
    digest = digest_of(data)
    blobs[blob_path(digest)] = data
    return {"mediaType": kind, "digest": digest, "size": len(data)}


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _archive(files: Mapping[str, bytes], epoch: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(files, key=lambda path: (path.startswith("blobs/"), path)):
            info = tarfile.TarInfo(path)
            info.size, info.mtime = len(files[path]), epoch
            archive.addfile(info, io.BytesIO(files[path]))
    return out.getvalue()
