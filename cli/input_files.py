"""Files, folders and the standard input to documents.

A folder stands for the .yaml, .yml and .json files in it and below it, in the order of their
names; hidden folders are passed over. What cannot be read is a finding among the documents.
Knows nothing of what documents mean.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from documents.codes import FILE_UNREADABLE
from documents.document import Document, Located, Source
from documents.read import objects

SUFFIXES = (".yaml", ".yml", ".json")
# Room for the objects of the largest clusters; an endless file ends here.
MOST_BYTES = 1 << 30
INPUT = "-"
INPUT_NAME = "<stdin>"


def read(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Document | Located]:
    """Read the objects that `paths` name, one file after the other."""
    for source in sources(paths, stdin):
        if isinstance(source, Located):
            yield source
        else:
            yield from objects(source)


def sources(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Source | Located]:
    """Read the files that `paths` name, each once however often it is named."""
    seen: set[str] = set()
    for path in paths:
        if path == INPUT:
            if INPUT not in seen:
                yield _bytes(INPUT_NAME, stdin)
            seen.add(INPUT)
            continue
        for file in _files(path):
            if isinstance(file, Located):
                yield file
            elif (real := _real(file)) not in seen:
                seen.add(real)
                yield _file(file)


def _files(path: str) -> Iterator[str | Located]:
    if not Path(path).is_dir():
        yield path
        return
    found = False
    for file in _walk(path):
        found = True
        yield file
    if not found:
        yield unreadable(path, "there is no .yaml, .yml or .json file in this folder")


def _walk(folder: str) -> Iterator[str | Located]:
    """Give the files of a folder before those of the folders in it, all sorted."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield unreadable(folder, _said(error))
        return
    for entry in ordered:
        if entry.name.endswith(SUFFIXES) and not entry.is_dir():
            yield entry.path
    for entry in ordered:
        # Links to folders may lead in circles, and those of mounted ConfigMaps lead here again.
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _walk(entry.path)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:
        # No path at all; opening it will say so.
        return path


def _file(path: str) -> Source | Located:
    try:
        with Path(path).open("rb") as stream:
            return _bytes(path, stream)
    except (OSError, ValueError) as error:
        return unreadable(path, _said(error))


def _bytes(name: str, stream: BinaryIO) -> Source | Located:
    try:
        data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        return unreadable(name, _said(error))
    if len(data) > MOST_BYTES:
        return unreadable(name, f"there are more than {MOST_BYTES} bytes in it")
    return Source(name, data)


def unreadable(name: str, message: str) -> Located:
    """Make the finding of a file that cannot be read; it has no line."""
    return Located(FILE_UNREADABLE.at("", message, object=name), name, 0, 0)


def _said(error: Exception) -> str:
    """Say what the operating system says, without the path, which stands beside it."""
    text = error.strerror if isinstance(error, OSError) else f"{error}"
    return (text or "it cannot be read").lower()
