"""Writes manifests as text: files joined to one stream, new objects, and differences."""

import difflib
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from cli import output
from documents.values import Value


def print_each(values: Iterable[Mapping[str, Value]]) -> Iterator[bytes]:
    """Yield each value as a YAML document."""
    for each in values:
        text = io.StringIO()
        output.print_value(dict(each), "yaml", text)
        yield text.getvalue().encode()


def join_documents(texts: Iterable[bytes]) -> bytes:
    """Concatenate files as separate YAML documents."""
    joined = b""
    for text in texts:
        if joined and text:
            joined += b"" if joined.endswith(b"\n") else b"\n"
            joined += b"" if text.startswith(b"---") else b"---\n"
        joined += text
    return joined


def write_bytes(stream: TextIO, data: bytes) -> None:
    """Write bytes unchanged: an unreadable file may contain invalid text."""
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(data.decode(errors="backslashreplace"))
        return
    stream.flush()
    binary.write(data)


def describe_changes(before: bytes, after: bytes, old: str, new: str) -> Iterator[str]:
    """Yield the lines of a unified diff, as `diff` and `patch` write and read it."""
    before_lines, after_lines = (
        each.decode(errors="backslashreplace").splitlines(keepends=True) for each in (before, after)
    )
    for line in difflib.unified_diff(before_lines, after_lines, old, new):
        # The marker of diff and patch for a file without a final newline.
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
