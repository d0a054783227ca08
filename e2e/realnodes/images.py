"""Writes a file tree as an OCI image archive, which `ctr images import` reads.

One layer, without times and owners, so that the same tree gives the same bytes.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
MEDIA = "application/vnd.oci.image"
PLATFORM = {"architecture": "amd64", "os": "linux"}
NAME = "io.containerd.image.name"
BUSYBOX = "drawbridge.test/busybox:1"


@dataclass(frozen=True)
class Tree:
    """Files (path to mode and content), links (path to target) and empty folders of an image."""

    files: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()


def layer(tree: Tree) -> bytes:
    """Pack a tree; all files are executable, because programs are all that they are here."""
    entries = []
    for path in tree.folders:
        info = tarfile.TarInfo(path)
        info.type, info.mode = tarfile.DIRTYPE, 0o1777
        entries.append((info, b""))
    for path, content in tree.files.items():
        info = tarfile.TarInfo(path)
        info.size, info.mode = len(content), 0o755
        entries.append((info, content))
    for path, target in tree.links.items():
        info = tarfile.TarInfo(path)
        info.type, info.linkname = tarfile.SYMTYPE, target
        entries.append((info, b""))
    return _tar(entries)


def _tar(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in sorted(entries, key=lambda entry: entry[0].name):
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def archive(tree: Tree, images: Mapping[str, JSON]) -> bytes:
    """Return an archive of images of one tree; `images` maps names to their configuration."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str, **more: object) -> JSON:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        described = {"mediaType": f"{MEDIA}.{kind}", "digest": f"sha256:{digest}"}
        return {**described, "size": len(data), **more}

    packed = blob(layer(tree), "layer.v1.tar")
    manifests = []
    for name, config in images.items():
        filesystem = {"type": "layers", "diff_ids": [packed["digest"]]}
        image = blob(_json({**PLATFORM, "config": config, "rootfs": filesystem}), "config.v1+json")
        content = {"config": image, "layers": [packed]}
        manifest = _json({"schemaVersion": 2, "mediaType": f"{MEDIA}.manifest.v1+json", **content})
        named: JSON = {"annotations": {NAME: name}, "platform": PLATFORM}
        manifests.append(blob(manifest, "manifest.v1+json", **named))
    blobs["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    blobs["index.json"] = _json({"schemaVersion": 2, "manifests": manifests})
    entries = []
    for path, data in blobs.items():
        info = tarfile.TarInfo(path)
        info.size = len(data)
        entries.append((info, data))
    return _tar(entries)


def _json(value: JSON) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def busybox(program: Path, applets: Sequence[str], names: Mapping[str, JSON]) -> bytes:
    """Return the archive of busybox with a link for each applet."""
    links = {f"bin/{applet}": "busybox" for applet in applets if applet != "busybox"}
    tree = Tree({"bin/busybox": program.read_bytes()}, links, ["tmp"])
    return archive(tree, names)
