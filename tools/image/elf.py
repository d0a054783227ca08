"""Finds the shared libraries that the programs of an image need and do not have. Pure.

A dropped package is noticed at build time, also for an architecture that this machine cannot run.
"""

import posixpath
import struct
from collections.abc import Iterator

from tools.image.tree import File, Tree

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian: amd64 and arm64
_DYNAMIC = 2  # the program header of the dynamic section
_LOAD = 1
_NEEDED, _STRINGS = 1, 5


def missing_libraries(tree: Tree) -> list[str]:
    """Return a line for each library that a file needs and no file of the tree is named like."""
    names = {posixpath.basename(path) for path in tree}
    return [
        f"{path} needs {name}"
        for path, node in sorted(tree.items())
        if isinstance(node, File)
        for name in needed_libraries(node.data)
        if name not in names
    ]


def needed_libraries(data: bytes) -> list[str]:
    """Return the names of the libraries that an ELF file needs; none for other files."""
    if not data.startswith(_MAGIC):
        return []
    headers = list(_program_headers(data))
    entries = [
        entry
        for kind, offset, _, size in headers
        if kind == _DYNAMIC
        for entry in struct.iter_unpack("<qQ", data[offset : offset + size])
    ]
    tables = [value for tag, value in entries if tag == _STRINGS]
    if not tables:
        return []
    start = _file_offset(headers, tables[0])
    return [_text(data, start + value) for tag, value in entries if tag == _NEEDED]


def _program_headers(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield kind, offset, address and size of each program header."""
    (first,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", data, first + number * size
        )
        yield kind, offset, address, length


def _file_offset(headers: list[tuple[int, int, int, int]], address: int) -> int:
    for kind, offset, start, size in headers:
        if kind == _LOAD and start <= address < start + size:
            return offset + address - start
    raise ValueError(f"no segment of the file contains the address {address:#x}")


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
