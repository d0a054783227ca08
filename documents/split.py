"""Bytes to the byte ranges of documents, before anything is parsed.

Together the ranges are the whole input, so that what is printed for every document is what was
read. A document that cannot be parsed ends where it ends and hides no other. Knows the lines and
brackets that separate documents, and nothing else of YAML and JSON.
"""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

BOM = b"\xef\xbb\xbf"

# What libyaml takes for the end of a line, as bytes of UTF-8.
_BREAK = rb"(?:\r\n?|\n|\xc2\x85|\xe2\x80[\xa8\xa9])"
_WIDE_BREAKS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
_MARKER = re.compile(rb"(---|\.\.\.)(?=[ \t]|" + _BREAK + rb"|\Z)")
_LINE_END = re.compile(_BREAK + rb"|\Z")
# A line that is neither blank, nor a comment, nor a directive.
_CONTENT = re.compile(
    rb"(?:\A|(?<=[\r\n])|(?<=\xc2\x85)|(?<=\xe2\x80[\xa8\xa9]))(?:\xef\xbb\xbf)?"
    rb"(?!%)[ \t]*+(?!#|" + _BREAK + rb"|\Z)"
)

# An object of JSON goes on with a text or ends; what else begins like one is YAML, or a template.
_LIKE_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+(?:\{[ \t\r\n]*+(?:[\"}]|\Z)|\[)")
# In JSON an opening bracket stands first or behind one of `,:[`; elsewhere a new value begins.
# A text that is not closed ends with its line, so that it swallows no more than that.
_VALUE = re.compile(
    rb"[ \t\r\n]*+(?:[\[{][ \t\r\n]*+)*+"
    rb'(?:[^"\[\]{},: \t\r\n]++|"(?:[^"\\\r\n]|\\[^\r\n])*+"?|[,:](?:[ \t\r\n]*+[\[{])*+'
    rb"|[\]}]|[ \t\r\n]++(?![\[{])|\\)*+[ \t]*+(?:\r?\n)?"
)
# What may stand before the first value behind a marker.
_OPENED = re.compile(rb"(?:\xef\xbb\xbf)?(?:---[ \t]*(?:\r?\n|\Z))?[ \t\r\n]*+")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_OTHER_LINE = re.compile(rb"\n(?!\{|[ \t\r]*+(?:\n|\Z))")


class Chunk(NamedTuple):
    """The bytes of one document; `blank` when nothing but comments and directives is in them."""

    start: int
    end: int
    blank: bool = False


def split_documents(data: bytes) -> Iterator[Chunk]:
    """Cut a file into the ranges of its documents, one after the other."""
    if _LIKE_JSON.match(data):
        if _one_value(data):
            return iter((Chunk(0, len(data)),))
        if next(_markers(data), None) is None:
            return _json(data)
    return _streams(data, _with_comments(_yaml(data)))


def _streams(data: bytes, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Cut what stands between two markers where it is several values of JSON."""
    for chunk in chunks:
        opened = _OPENED.match(data, chunk.start)
        first = opened.end() if opened else chunk.start
        text = data[first : chunk.end]
        if not text.startswith(b"{") or _one_value(text):
            yield chunk
            continue
        # What is blank behind the last value belongs to it.
        ends = [first + each.end for each in _json(text.rstrip())]
        ends[-1] = chunk.end
        if all(_one_value(data[a:b]) for a, b in itertools.pairwise([first, *ends])):
            yield from itertools.starmap(Chunk, itertools.pairwise([chunk.start, *ends]))
        else:
            yield chunk


def _markers(data: bytes) -> Iterator[re.Match[bytes]]:
    """Find the markers that begin a line; a byte order mark may stand before them."""
    for marker in _MARKER.finditer(data):
        at = _before_bom(data, marker.start())
        if at == 0 or data[at - 1] in b"\r\n" or data.endswith(_WIDE_BREAKS, 0, at):
            yield marker


def _before_bom(data: bytes, at: int) -> int:
    return at - len(BOM) if data.endswith(BOM, 0, at) else at


def _yaml(data: bytes) -> Iterator[tuple[Chunk, bool]]:
    """Cut before `---` and behind `...`; what stands before the first `---` belongs to it.

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


def _with_comments(chunks: Iterator[tuple[Chunk, bool]]) -> Iterator[Chunk]:
    """Add comments that no marker makes a document to the document before them."""
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
    found = _LINE_END.search(data, at)
    return found.end() if found else len(data)


def _json(data: bytes) -> Iterator[Chunk]:
    """Cut where one value ends and another begins."""
    at = 0
    while at < len(data):
        match = _VALUE.match(data, at)
        # Every match takes at least the bracket or text it begins with.
        end = max(match.end() if match else 0, at + 1)
        yield from _lines(data, at, end)
        at = end


def _lines(data: bytes, start: int, end: int) -> Iterator[Chunk]:
    """Cut what cannot be read into its lines, where each of them begins an object."""
    first = data.find(b"\n", start, end) + 1
    several = first > 0 and data.startswith(b"{", start) and data.find(b"\n{", start, end) > 0
    if not several or _OTHER_LINE.search(data, start, end) or _one_value(data[start:end]):
        yield Chunk(start, end)
        return
    for line in _LINE.finditer(data, first, end):
        if line[0].startswith(b"{"):
            yield Chunk(start, line.start())
            start = line.start()
    yield Chunk(start, end)


def _one_value(data: bytes) -> bool:
    """Whether the bytes are one value of JSON; nothing is decoded for that."""
    try:
        msgspec.json.decode(data.removeprefix(BOM), type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
