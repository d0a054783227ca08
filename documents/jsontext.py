"""JSON bytes to plain values, and to nodes with places where those are asked for.

Values are decoded by msgspec, and what it does not notice is proved by counting: a key given
twice, nesting beyond the bound. Lists are cut into their items without decoding these, so that a
file of any size is read object by object. Knows nothing of files or of Kubernetes.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from documents import codes
from documents.construct import duplicate_problem
from documents.nodes import MAX_DEPTH, SyntaxNode
from documents.paths import Path
from documents.problems import DocumentProblem, UnreadableError
from documents.values import Value

_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(rb'[ \t\r\n,{]*("(?:[^"\\]++|\\.)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_BEFORE_ITEM = re.compile(rb"[ \t\r\n,\[]*")
_AT_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)", re.DOTALL)
_DECODER = json.JSONDecoder()
_BRACKETS = bytes.maketrans(b"[]", b"{}")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class ByteRange(NamedTuple):
    """A part of some bytes."""

    start: int
    end: int


class ListShell(NamedTuple):
    """A List without its items: its type, and where the items are."""

    kind: str
    api_version: str
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
    if _maybe_deeper(raw) and _depth(value) > MAX_DEPTH:
        raise UnreadableError(_too_deep())
    if _maybe_twice(raw, value):
        problems = list(_twice(raw.decode()))
        if problems:
            raise UnreadableError(*problems)
    return value


def open_list(raw: bytes) -> ListShell | None:
    """Take a List apart without decoding its items; None when it is none or cannot be read."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(fields["items"], type=list[msgspec.Raw])
        kind = msgspec.json.decode(fields["kind"], type=str)
        version = msgspec.json.decode(fields.get("apiVersion", b'""'), type=str)
    except (KeyError, ValueError, RecursionError):
        return None
    start = _start_of_items(raw, fields) if kind.endswith("List") else None
    return None if start is None else ListShell(kind, version, _pieces(raw, start, items))


def _start_of_items(raw: bytes, fields: dict[str, msgspec.Raw]) -> int | None:
    """Find the items by following the fields through the bytes; None when a key is there twice."""
    at = start = 0
    for name, value in fields.items():
        match = _KEY.match(raw, at)
        if match is None or _DECODER.decode(match[1].decode()) != name:
            return None
        end = match.end() + memoryview(value).nbytes
        if memoryview(raw)[match.end() : end] != memoryview(value):
            return None
        start = match.end() if name == "items" else start
        at = end
    return start if raw[at:].strip() == b"}" else None


def _pieces(raw: bytes, start: int, items: list[msgspec.Raw]) -> Iterator[ByteRange]:
    for item in items:
        match = _BEFORE_ITEM.match(raw, start)
        start = match.end() if match else start
        yield ByteRange(start, start + memoryview(item).nbytes)
        start += memoryview(item).nbytes


def _maybe_deeper(raw: bytes) -> bool:
    """Whether brackets nest beyond the bound, those in texts taken for real ones."""
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


def _maybe_twice(raw: bytes, value: Value) -> bool:
    """Whether a key may have been dropped: then the value has fewer colons than its text.

    Nothing escapes a colon on the way back; one that was escaped in the text ends the proof.
    """
    if b"\\u003a" in raw or b"\\u003A" in raw:
        return True
    return msgspec.json.encode(value).count(b":") != raw.count(b":")


def _twice(text: str, node: SyntaxNode | None = None, path: Path = ()) -> Iterator[DocumentProblem]:
    """Find the keys given twice, going only where the counting leaves them possible."""
    node = node or root_node(text)
    children = read_children(text, node)
    if node.kind == "mapping":
        first: dict[str, SyntaxNode] = {}
        for key, child in node.entries():
            if first.setdefault(key.text, key) is not key:
                yield duplicate_problem(key.text, path, first[key.text].start, key.start)
            yield from _twice_below(text, child, (*path, key.text))
    else:
        for at, child in enumerate(children):
            yield from _twice_below(text, child, (*path, at))


def _twice_below(text: str, node: SyntaxNode, path: Path) -> Iterator[DocumentProblem]:
    if node.kind == "scalar":
        return
    raw = text[node.start : node.end].encode()
    if _maybe_twice(raw, msgspec.json.decode(raw)):
        yield from _twice(text, node, path)


def root_node(text: str) -> SyntaxNode:
    """Return the node of the one value in a text that was decoded before."""
    return _node(text, _after_space(text, 0))


def read_children(text: str, node: SyntaxNode) -> list[SyntaxNode]:
    """Return the children of a node, keys and values in turn; looks them up the first time."""
    if node.children is None:
        node.children = [] if node.kind == "scalar" else list(_children(text, node))
    return node.children


def _node(text: str, start: int) -> SyntaxNode:
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
    """Read one level: between its values there are only spaces, commas and colons."""
    at = _after_space(text, node.start + 1)
    while at < node.end - 1:
        child = _node(text, at)
        yield child
        at = _after_space(text, child.end)
        if text[at] in ",:":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def encoding_problem(raw: bytes) -> DocumentProblem:
    """Say where the bytes stop being UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        # Up to there it is text, so the place can be counted in characters.
        offset = len(raw[: error.start].decode())
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        return DocumentProblem(codes.NOT_UTF8, message, offset=offset)
    return DocumentProblem(codes.NOT_UTF8, "a text in this document is not UTF-8")


def _too_deep() -> DocumentProblem:
    return DocumentProblem(
        codes.NESTED_TOO_DEEP, f"more than {MAX_DEPTH} levels of objects and lists"
    )


def _syntax(raw: bytes, message: str) -> DocumentProblem:
    match = _AT_BYTE.fullmatch(message)
    if match is None:
        # What msgspec says without a place: the end came too early, or a number is beyond a float.
        short = message == "Input data was truncated"
        offset = len(raw) if short else 0
        message = "the JSON ends before it is complete" if short else message
    else:
        offset, message = int(match[2]), match[1]
    before = raw[:offset].decode(errors="replace")
    return DocumentProblem(codes.JSON_SYNTAX, message, find_path(before), len(before))


_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]', re.DOTALL)
_LONGEST_SEARCH = 1 << 20


def find_path(before: str) -> Path:
    """Return the path of the place where a text of JSON breaks off; nothing for very long ones."""
    path: list[str | int] = []
    word = ""
    if len(before) > _LONGEST_SEARCH:
        return ()
    for found in _TOKEN.findall(before):
        if found in "[{":
            path.append(0 if found == "[" else "")
        elif found in "]}":
            path = path[:-1]
        elif found == ":" and path and isinstance(path[-1], str):
            path[-1] = word
        elif found == "," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""
        word = found[1:-1]
    # An empty key is an object whose next key was not reached; a hostile path is cut short.
    return tuple(path[:-1] if path and path[-1] == "" else path)[:MAX_DEPTH]
