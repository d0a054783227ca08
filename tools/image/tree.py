"""File systems as data, and layers with the same bytes for the same files. Pure.

Every file belongs to root, and all files of a layer have one modification time: in that of the
project the time of the commit. A file is readable for all, because the processes of the image run
as another user.
"""

import gzip
import io
import posixpath
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TEMPORARY = "tmp"  # every user can write there, and a manifest mounts memory on it


@dataclass(frozen=True, slots=True)
class File:
    """A regular file."""

    data: bytes
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, which a tree lists only if it is empty or if something is mounted on it."""


Node = File | Link | Folder
Tree = Mapping[str, Node]


class ConflictError(Exception):
    """Two parts of the image have different content for one path."""


def read_archive(data: bytes) -> dict[str, Node]:
    """Read files and links of a tar archive; owners, times and special modes are dropped."""
    nodes: dict[str, Node] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = posixpath.normpath(member.name).lstrip("/")
            if member.isreg():
                stream = archive.extractfile(member)
                content = stream.read() if stream else b""
                nodes[path] = File(content, is_executable=bool(member.mode & 0o111))
            elif member.islnk():
                nodes[path] = nodes[posixpath.normpath(member.linkname)]
            elif member.issym():
                nodes[path] = Link(member.linkname)
            elif not member.isdir():
                raise ConflictError(f"{path} is a device or a pipe, which an image cannot have")
    return nodes


def join(parts: Iterable[Tree]) -> dict[str, Node]:
    """Combine parts; ConflictError if two have a different node of the same path."""
    whole: dict[str, Node] = {}
    for part in parts:
        for path, node in part.items():
            if whole.setdefault(path, node) != node:
                raise ConflictError(f"{path} has different content in two parts of the image")
    return whole


def pack(tree: Tree, epoch: int) -> bytes:
    """Return the tar archive of a tree, with the folders that its paths need."""
    folders = {parent for path in tree for parent in _parents(path)}
    whole: dict[str, Node] = {**dict.fromkeys(folders, Folder()), **tree}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(whole):
            node = whole[path]
            info = tarfile.TarInfo(path)
            info.mtime = epoch
            info.mode = _mode(path, node)
            if isinstance(node, File):
                info.size = len(node.data)
                archive.addfile(info, io.BytesIO(node.data))
                continue
            info.type = tarfile.SYMTYPE if isinstance(node, Link) else tarfile.DIRTYPE
            info.linkname = node.target if isinstance(node, Link) else ""
            archive.addfile(info)
    return out.getvalue()


def compress(data: bytes) -> bytes:
    """Compress with gzip, without the time of the compression."""
    return gzip.compress(data, 6, mtime=0)


def _mode(path: str, node: Node) -> int:
    if isinstance(node, Link):
        return 0o777
    if path == _TEMPORARY:
        return 0o1777
    return 0o755 if isinstance(node, Folder) or node.is_executable else 0o644


def _parents(path: str) -> Iterable[str]:
    while path := posixpath.dirname(path):
        yield path
