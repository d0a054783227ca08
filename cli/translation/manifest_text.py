"""Writes manifests as text: files joined to one stream, new objects, and differences."""

import difflib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cli.terminal import output
from drawbridge.documents.cuts import split_lines
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun
from drawbridge.names import ORIGINAL_ANNOTATION

# The annotation in YAML or JSON, on an added or removed line, with its quoted value.
_ORIGINAL: Final = re.compile(
    rf"""^([-+].*?{re.escape(ORIGINAL_ANNOTATION)}["']?:\s*)('(?:[^']|'')+'|"(?:[^"\\]|\\.)+")"""
)


def print_each(values: Iterable[Mapping[str, Value]], newline: bytes = b"\n") -> Iterator[bytes]:
    """Yield each value as a YAML document."""
    for value in values:
        text = io.StringIO()
        output.print_value(dict(value), "yaml", text)
        yield text.getvalue().encode().replace(b"\n", newline)


def detect_newline(texts: Iterable[bytes]) -> bytes:
    """Return the line end of files: CRLF if every line of them has it."""
    ends = [(text.count(b"\n"), text.count(b"\r\n")) for text in texts]
    is_crlf = any(lines for lines, _ in ends) and all(lines == crlf for lines, crlf in ends)
    return b"\r\n" if is_crlf else b"\n"


def join_documents(texts: Iterable[bytes], newline: bytes = b"\n") -> bytes:
    """Concatenate files as separate YAML documents."""
    joined = b""
    for text in texts:
        if joined and text:
            joined += b"" if joined.endswith(b"\n") else newline
            joined += b"" if text.startswith(b"---") else b"---" + newline
        joined += text
    return joined


def describe_changes(
    before: bytes, after: bytes, old: str, new: str, *, whole: bool = True
) -> Iterator[str]:
    """Yield the lines of a unified diff, as `diff` and `patch` write and read it.

    Unless `whole`, the value of the annotation with the original requests is shortened. A person
    does not read it, and it is longer than all other changes.
    """
    before_lines, after_lines = (
        split_lines(text.decode(errors="surrogateescape")) for text in (before, after)
    )
    for line in difflib.unified_diff(before_lines, after_lines, old, new):
        text = line if whole else _ORIGINAL.sub(_fold, line)
        # The marker of diff and patch for a file without a final newline.
        yield text if text.endswith("\n") else f"{text}\n\\ No newline at end of file\n"


def _fold(annotation: re.Match[str]) -> str:
    return f"{annotation[1]}<{count_noun(len(annotation[2].encode()), 'byte')}, -v prints them>"
