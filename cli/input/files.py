"""Reads files, folders and the standard input into documents.

Reads the .yaml, .yml and .json files of a folder and its subfolders, sorted by name, and skips
hidden folders. Yields a finding for each file that cannot be read.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from drawbridge.documents.codes import FILE_UNREADABLE
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.read import read_objects

SUFFIXES = (".yaml", ".yml", ".json")
# Enough for the objects of the largest clusters. Bounds the memory for an endless input.
MOST_BYTES = 1 << 30
INPUT = "-"
INPUT_NAME = "<stdin>"


def read_documents(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Document | LocatedFinding]:
    """Read the objects in `paths`, file by file."""
    for source in read_sources(paths, stdin):
        if isinstance(source, LocatedFinding):
            yield source
        else:
            yield from read_objects(source)


def read_sources(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Source | LocatedFinding]:
    """Read the files in `paths`, each one once."""
    seen: set[str] = set()
    for path in paths:
        if path == INPUT:
            if INPUT not in seen:
                yield _read_bytes(INPUT_NAME, stdin)
            seen.add(INPUT)
            continue
        for file in _files(path):
            if isinstance(file, LocatedFinding):
                yield file
            elif (real := _real_path(file)) not in seen:
                seen.add(real)
                yield _read_file(file)


def _files(path: str) -> Iterator[str | LocatedFinding]:
    if not Path(path).is_dir():
        yield path
        return
    is_any = False
    for file in _walk_folder(path):
        is_any = True
        yield file
    if not is_any:
        yield unreadable_file(path, "no .yaml, .yml or .json file in this folder")


def _walk_folder(folder: str) -> Iterator[str | LocatedFinding]:
    """Yield the files of a folder, then those of its subfolders, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield unreadable_file(folder, _error_text(error))
        return
    for entry in ordered:
        if entry.name.endswith(SUFFIXES) and not entry.is_dir():
            yield entry.path
    for entry in ordered:
        # A link to a folder may form a cycle. Mounted ConfigMaps link to their own folder.
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _walk_folder(entry.path)


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:
        # Not a valid path. Opening the file reports the error.
        return path


def _read_file(path: str) -> Source | LocatedFinding:
    try:
        with Path(path).open("rb") as stream:
            return _read_bytes(path, stream)
    except (OSError, ValueError) as error:
        return unreadable_file(path, _error_text(error))


def _read_bytes(name: str, stream: BinaryIO) -> Source | LocatedFinding:
    try:
        data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        return unreadable_file(name, _error_text(error))
    if len(data) > MOST_BYTES:
        return unreadable_file(name, f"larger than {MOST_BYTES} bytes")
    return Source(name, data)


def unreadable_file(name: str, message: str) -> LocatedFinding:
    """Create the finding about a file that cannot be read."""
    return LocatedFinding(FILE_UNREADABLE.at("", message, object=name), name, 0, 0)


def _error_text(error: Exception) -> str:
    """Return the error of the operating system without the path, which is printed before it."""
    text = error.strerror if isinstance(error, OSError) else f"{error}"
    return (text or "cannot be read").lower()
