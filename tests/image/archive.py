"""Reads an OCI archive without the code that wrote it."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


class Archive:
    """The files of an archive, and the members of its layers."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as archive:
            self.files = {member.name: _read(archive, member) for member in archive}
        (self.entry,) = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(self.entry))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(each)) for each in self.manifest["layers"]]
        self.members: dict[str, tarfile.TarInfo] = {}
        self.contents: dict[str, bytes] = {}
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                for member in archive:
                    self.members[member.name] = member
                    self.contents[member.name] = _read(archive, member)

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        """Return the blob of a descriptor, whose size and digest must be true."""
        data = self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(data) == descriptor["size"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
        return data

    def unpack(self, folder: Path) -> None:
        """Write the files of all layers."""
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                archive.extractall(folder)  # noqa: S202  # our own archive


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member) if member.isreg() else None
    return stream.read() if stream else b""
