"""Composes an OCI image layout: configuration, layers, manifest and index in one archive. Pure.

The archive is what `ctr images import`, `skopeo copy oci-archive:` and `podman load` read.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.image.tree import compress

_OCI = "application/vnd.oci.image"


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


class Archive(NamedTuple):
    """An image as one file, and the digest by which a registry will know it."""

    data: bytes
    digest: str
    layer_sizes: Sequence[int]


def compose(image: Image, layers: Sequence[Layer], epoch: int) -> Archive:
    """Return the archive of an image."""
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
        "rootfs": {"type": "layers", "diff_ids": [_digest(each.data) for each in layers]},
        "history": [{"created": image.created, "created_by": each.purpose} for each in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _add(blobs, _encode(configuration), f"{_OCI}.config.v1+json"),
        "layers": packed,
        "annotations": image.annotations,
    }
    entry = _add(blobs, _encode(manifest), f"{_OCI}.manifest.v1+json")
    files = {
        "oci-layout": _encode({"imageLayoutVersion": "1.0.0"}),
        "index.json": _encode(_index(image.name, {**entry, "platform": platform})),
        **blobs,
    }
    return Archive(_archive(files, epoch), str(entry["digest"]), [each["size"] for each in packed])


def _index(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        # containerd reads the first one, other tools the second one.
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    return {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [{**entry, "annotations": names}],
    }


def _add(blobs: dict[str, bytes], data: bytes, kind: str) -> dict[str, Any]:
    digest = _digest(data)
    blobs[f"blobs/{digest.replace(':', '/')}"] = data
    return {"mediaType": kind, "digest": digest, "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


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
