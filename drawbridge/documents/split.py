"""Splits bytes into the byte ranges of documents, before any parsing.

Together the ranges cover the whole input, so that printing every document reproduces it. An
unparsable document does not hide the documents after it.
"""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

BOM = b"\xef\xbb\xbf"

# The line breaks of libyaml, in UTF-8.
_BREAK = rb"(?:\r\n?|\n|\xc2\x85|\xe2\x80[\xa8\xa9])"
_WIDE_BREAKS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
_MARKER = re.compile(rb"(---|\.\.\.)(?=[ \t]|" + _BREAK + rb"|\Z)")
_LINE_END = re.compile(_BREAK + rb"|\Z")
# A line that is not blank, a comment or a directive.
_CONTENT = re.compile(
    rb"(?:\A|(?<=[\r\n])|(?<=\xc2\x85)|(?<=\xe2\x80[\xa8\xa9]))(?:\xef\xbb\xbf)?"
    rb"(?!%)[ \t]*+(?!#|" + _BREAK + rb"|\Z)"
)

# A JSON object continues with a string or ends. Other texts that begin with { are YAML or
# templates.
_LIKE_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+(?:\{[ \t\r\n]*+(?:[\"}]|\Z)|\[)")
# In JSON an opening bracket comes first or after one of `,:[`; elsewhere it begins a new value.
# An unclosed string ends with its line, so that it does not hide the following lines.
_FIRST = re.compile(rb"[ \t\r\n]*+(?:[\[{][ \t\r\n]*+)*+")
# So many at once: each one takes memory until the match ends. A possessive repetition would not,
# but before Python 3.11.5 it loses its place after an alternative that matched in part.
_PARTS = re.compile(
    rb'(?:[^"\[\]{},: \t\r\n]++|"(?:[^"\\\r\n]|\\[^\r\n])*+"?|[,:](?:[ \t\r\n]*+[\[{])*+'
    rb"|[\]}]|[ \t\r\n]++(?![\[{])|\\){1,4096}"
)
_LAST = re.compile(rb"[ \t]*+(?:\r?\n)?")
# What may precede the first value after a marker.
_OPENED = re.compile(rb"(?:\xef\xbb\xbf)?(?:---[ \t]*(?:\r?\n|\Z))?[ \t\r\n]*+")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_OTHER_LINE = re.compile(rb"\n(?!\{|[ \t\r]*+(?:\n|\Z))")


class Chunk(NamedTuple):
    """The bytes of one document; `blank` if they have only comments and directives."""

    start: int
    end: int
    blank: bool = False


def split_documents(data: bytes) -> Iterator[Chunk]:
    """Split a file into the ranges of its documents, in order."""
    if _LIKE_JSON.match(data):
        if _is_one_value(data):
            return iter((Chunk(0, len(data)),))
        if next(_markers(data), None) is None:
            return _split_json(data)
    return _split_json_streams(data, _merge_comments(_split_yaml(data)))


def _split_json_streams(data: bytes, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Split the text between two markers if it is several JSON values."""
    for chunk in chunks:
        opened = _OPENED.match(data, chunk.start)
        first = opened.end() if opened else chunk.start
        text = data[first : chunk.end]
        if not text.startswith(b"{") or _is_one_value(text):
            yield chunk
            continue
        # Blank space after the last value belongs to it.
        ends = [first + each.end for each in _split_json(text.rstrip())]
        ends[-1] = chunk.end
        if all(_is_one_value(data[a:b]) for a, b in itertools.pairwise([first, *ends])):
            yield from itertools.starmap(Chunk, itertools.pairwise([chunk.start, *ends]))
        else:
            yield chunk


def _markers(data: bytes) -> Iterator[re.Match[bytes]]:
    """Find the markers at the beginning of a line, or after a byte order mark."""
    for marker in _MARKER.finditer(data):
        at = _before_bom(data, marker.start())
        if at == 0 or data[at - 1] in b"\r\n" or data.endswith(_WIDE_BREAKS, 0, at):
            yield marker


def _before_bom(data: bytes, at: int) -> int:
    return at - len(BOM) if data.endswith(BOM, 0, at) else at


def _split_yaml(data: bytes) -> Iterator[tuple[Chunk, bool]]:
    """Split before `---` and after `...`; the text before the first `---` belongs to it.

    Yields with every chunk whether a `---` makes it a document even if it is blank.
    """
    start = at = 0
    marked = content = False
    for marker in _markers(data):
        line = _before_bom(data, marker.start())
        content = content or _CONTENT.search(data, at, line) is not None
        at = _line_end(data, marker.end())
        if marker[1] == b"...":
            yield Chunk(start, at, not content), marked
            start, marked, content = at, False, False
            continue
        if marked or content:
            yield Chunk(start, line, not content), marked
            start = line
        rest = data[marker.end() : at].strip()
        marked, content = True, bool(rest) and not rest.startswith(b"#")
    if start < len(data):
        content = content or _CONTENT.search(data, at) is not None
        yield Chunk(start, len(data), not content), marked


def _merge_comments(chunks: Iterator[tuple[Chunk, bool]]) -> Iterator[Chunk]:
    """Add comments without a marker to the document before them."""
    last: Chunk | None = None
    for chunk, marked in chunks:
        if last is not None and chunk.blank and not marked:
            last = last._replace(end=chunk.end)
            continue
        if last is not None:
            yield last
        last = chunk
    if last is not None:
        yield last


def _line_end(data: bytes, at: int) -> int:
    line_end = _LINE_END.search(data, at)
    return line_end.end() if line_end else len(data)


def _split_json(data: bytes) -> Iterator[Chunk]:
    """Split between values."""
    at = 0
    while at < len(data):
        # Every value has at least its first bracket or string.
        end = max(_find_value_end(data, at), at + 1)
        yield from _split_lines(data, at, end)
        at = end


def _find_value_end(data: bytes, at: int) -> int:
    start = _skip(_FIRST, data, at)
    while (end := _skip(_PARTS, data, start)) > start:
        start = end
    return _skip(_LAST, data, start)


def _skip(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    return match.end() if match else at


def _split_lines(data: bytes, start: int, end: int) -> Iterator[Chunk]:
    """Split an unreadable range into lines if each line begins an object."""
    first = data.find(b"\n", start, end) + 1
    several = first > 0 and data.startswith(b"{", start) and data.find(b"\n{", start, end) > 0
    if not several or _OTHER_LINE.search(data, start, end) or _is_one_value(data[start:end]):
        yield Chunk(start, end)
        return
    for line in _LINE.finditer(data, first, end):
        if line[0].startswith(b"{"):
            yield Chunk(start, line.start())
            start = line.start()
    yield Chunk(start, end)


def _is_one_value(data: bytes) -> bool:
    """Whether the bytes are one JSON value; does not decode the value."""
    try:
        msgspec.json.decode(data.removeprefix(BOM), type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
