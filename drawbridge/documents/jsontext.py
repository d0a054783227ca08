"""Decodes JSON bytes to values, and on request to nodes with positions.

msgspec decodes the values. Counting detects two errors that msgspec does not report: duplicate keys
and nesting beyond the limit. A List is divided into its items without decoding them, so that a file
of any size is read object by object.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from drawbridge.documents import codes
from drawbridge.documents.construct import duplicate_problem
from drawbridge.documents.nodes import MAX_DEPTH, SyntaxNode
from drawbridge.documents.paths import Path
from drawbridge.documents.problems import (
    DocumentProblem,
    UnreadableError,
    describe_surrogate,
)
from drawbridge.documents.values import Value

_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(rb'[ \t\r\n,{]*("(?:[^"\\]++|\\.)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_BEFORE_ITEM = re.compile(rb"[ \t\r\n,\[]*")
_AT_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)", re.DOTALL)
_COMPARED = 1 << 16  # bytes at once
_DECODER = json.JSONDecoder()
_BRACKETS = bytes.maketrans(b"[]", b"{}")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class ByteRange(NamedTuple):
    """A range of bytes."""

    start: int
    end: int


class ListShell(NamedTuple):
    """A List without its items: its type, its other fields, and the ranges of its items."""

    kind: str
    api_version: str
    fields: dict[str, Value]
    items: Iterator[ByteRange]


def decode(raw: bytes) -> Value:
    """Return the one value in `raw`; raises UnreadableError."""
    try:
        value: Value = msgspec.json.decode(raw)
    except UnicodeDecodeError:
        raise UnreadableError(encoding_problem(raw)) from None
    except RecursionError:
        raise UnreadableError(_too_deep()) from None
    except msgspec.DecodeError as error:
        raise UnreadableError(_syntax(raw, f"{error}")) from None
    if _may_be_too_deep(raw) and _depth(value) > MAX_DEPTH:
        raise UnreadableError(_too_deep())
    if _may_have_duplicates(raw, value):
        problems = list(_find_duplicates(raw.decode()))
        if problems:
            raise UnreadableError(*problems)
    return value


def open_list(raw: bytes) -> ListShell | None:
    """Find the items of a List without decoding them; None if it is unreadable or not a List."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(fields["items"], type=list[msgspec.Raw])
        kind = msgspec.json.decode(fields["kind"], type=str)
        version = msgspec.json.decode(fields.get("apiVersion", b'""'), type=str)
        others = {key: decode(bytes(field)) for key, field in fields.items() if key != "items"}
    except (KeyError, ValueError, RecursionError, UnreadableError):
        return None
    start = _start_of_items(raw, fields) if items and kind.endswith("List") else None
    if start is None:
        return None
    return ListShell(kind, version, others, _item_ranges(raw, start, items))


def _start_of_items(raw: bytes, fields: dict[str, msgspec.Raw]) -> int | None:
    """Find the start of the items by following the fields; None if a key is duplicate."""
    at = start = 0
    for name, value in fields.items():
        match = _KEY.match(raw, at)
        if match is None or _DECODER.decode(match[1].decode()) != name:
            return None
        end = match.end() + memoryview(value).nbytes
        if not _is_at(raw, match.end(), memoryview(value)):
            return None
        start = match.end() if name == "items" else start
        at = end
    return start if raw[at:].strip() == b"}" else None


def _is_at(raw: bytes, at: int, value: memoryview) -> bool:
    """Whether a text has a value at a position. Bytes are compared faster than views of them."""
    places = range(0, value.nbytes, _COMPARED)
    return all(raw.startswith(value[i : i + _COMPARED].tobytes(), at + i) for i in places)


def _item_ranges(raw: bytes, start: int, items: list[msgspec.Raw]) -> Iterator[ByteRange]:
    for item in items:
        match = _BEFORE_ITEM.match(raw, start)
        start = match.end() if match else start
        yield ByteRange(start, start + memoryview(item).nbytes)
        start += memoryview(item).nbytes


def is_all_of(raw: bytes, value: object) -> bool:
    """Return whether a decoded value has all fields of a text, each of which occurs once there."""
    return not _may_be_too_deep(raw) and not _may_have_duplicates(raw, value)


def _may_be_too_deep(raw: bytes) -> bool:
    """Whether brackets nest beyond the limit; brackets in strings count as well."""
    brackets = raw.translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        less = brackets.replace(b"{}", b"")
        if len(less) == len(brackets):
            break
        brackets = less
    return bool(brackets)


def _depth(value: Value) -> int:
    """Count the levels of objects and lists, without recursion."""
    depth = 0
    level = [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _may_have_duplicates(raw: bytes, value: object) -> bool:
    """Whether a duplicate key may have been dropped: then the value has fewer colons than the text.

    So has one without a key that its struct does not know. The encoder never escapes a colon. If
    the text has an escaped colon, the count proves nothing.
    """
    if b"\\" in raw and (b"\\u003a" in raw or b"\\u003A" in raw):
        return True
    return msgspec.json.encode(value, enc_hook=str).count(b":") != raw.count(b":")


def _find_duplicates(
    text: str, node: SyntaxNode | None = None, path: Path = ()
) -> Iterator[DocumentProblem]:
    """Find duplicate keys, only in parts where the count leaves them possible."""
    node = node or root_node(text)
    children = read_children(text, node)
    if node.kind == "mapping":
        first: dict[str, SyntaxNode] = {}
        for key, child in node.entries():
            if first.setdefault(key.text, key) is not key:
                yield duplicate_problem(key.text, path, first[key.text].start, key.start)
            yield from _find_duplicates_below(text, child, (*path, key.text))
    else:
        for at, child in enumerate(children):
            yield from _find_duplicates_below(text, child, (*path, at))


def _find_duplicates_below(text: str, node: SyntaxNode, path: Path) -> Iterator[DocumentProblem]:
    if node.kind == "scalar":
        return
    raw = text[node.start : node.end].encode()
    if _may_have_duplicates(raw, msgspec.json.decode(raw)):
        yield from _find_duplicates(text, node, path)


def root_node(text: str) -> SyntaxNode:
    """Return the node of the single value in a text that is valid JSON."""
    return _read_node(text, _skip_space(text, 0))


def read_children(text: str, node: SyntaxNode) -> list[SyntaxNode]:
    """Return the children of a node, with alternating keys and values; parses them once."""
    if node.children is None:
        node.children = [] if node.kind == "scalar" else list(_children(text, node))
    return node.children


def _read_node(text: str, start: int) -> SyntaxNode:
    first = text[start]
    value, end = _DECODER.raw_decode(text, start)
    if first not in "{[":
        node = SyntaxNode("scalar", start, end)
        node.style = first if first == '"' else ""
        node.text = value if first == '"' else text[start:end]
        return node
    node = SyntaxNode("mapping" if first == "{" else "sequence", start, end)
    node.flow = True
    return node


def _children(text: str, node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Read one level; only spaces, commas and colons separate its values."""
    at = _skip_space(text, node.start + 1)
    while at < node.end - 1:
        child = _read_node(text, at)
        yield child
        at = _skip_space(text, child.end)
        if text[at] in ",:":
            at = _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def encoding_problem(raw: bytes) -> DocumentProblem:
    """Report the first byte that is not UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        # The bytes before are text, so the offset can be counted in characters.
        offset = len(raw[: error.start].decode())
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        return DocumentProblem(codes.NOT_UTF8, message, offset=offset)
    return DocumentProblem(codes.NOT_UTF8, "a string in this document is not UTF-8")


def _too_deep() -> DocumentProblem:
    return DocumentProblem(
        codes.NESTED_TOO_DEEP, f"more than {MAX_DEPTH} levels of objects and lists"
    )


def _syntax(raw: bytes, message: str) -> DocumentProblem:
    match = _AT_BYTE.fullmatch(message)
    if match is None:
        # msgspec reports these without a position: truncated input, or a number beyond a float.
        truncated = message == "Input data was truncated"
        offset = len(raw) if truncated else 0
        message = "the JSON ends before it is complete" if truncated else message
    else:
        offset, message = int(match[2]), match[1]
    before = raw[:offset].decode(errors="replace")
    following = raw[offset : offset + _ESCAPE_BYTES].decode(errors="replace")
    message = describe_surrogate(before + following, len(before)) or message
    return DocumentProblem(codes.JSON_SYNTAX, message, find_path(before), len(before))


_ESCAPE_BYTES = 12
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]', re.DOTALL)
_LONGEST_SEARCH = 1 << 20


def find_path(before: str) -> Path:
    """Return the path at which a JSON text ends; empty for very long texts."""
    path: list[str | int] = []
    word = ""
    if len(before) > _LONGEST_SEARCH:
        return ()
    for symbol in _TOKEN.findall(before):
        if symbol in "[{":
            path.append(0 if symbol == "[" else "")
        elif symbol in "]}":
            path = path[:-1]
        elif symbol == ":" and path and isinstance(path[-1], str):
            path[-1] = word
        elif symbol == "," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""
        word = symbol[1:-1]
    # An empty key marks an object whose next key was not reached. Long paths are truncated.
    return tuple(path[:-1] if path and path[-1] == "" else path)[:MAX_DEPTH]
