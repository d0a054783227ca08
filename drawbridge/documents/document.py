"""A document of a file: its bytes, its value or findings, and positions in it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec.structs import replace

from drawbridge.documents import jsontext
from drawbridge.documents.nodes import SyntaxNode, compose
from drawbridge.documents.paths import Path, format_path, parse_index, parse_path
from drawbridge.documents.problems import DocumentProblem
from drawbridge.documents.split import BOM
from drawbridge.documents.values import Value
from drawbridge.finding import Finding, Severity

DocumentFormat = Literal["yaml", "json"]

_KIND = re.compile(rb'(?m)^(?:kind|[ \t{]*"kind"[ \t]*):[ \t]*["\']?([A-Za-z][A-Za-z0-9]*)')
_KIND_SEARCHED = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A file: the name that findings show, and its bytes."""

    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding with its position in a file, if it has one."""

    finding: Finding
    source: str = ""
    line: int = 0
    column: int = 0


def has_errors(findings: Iterable[LocatedFinding]) -> bool:
    """Return whether one of the findings is an error."""
    return any(each.finding.severity is Severity.ERROR for each in findings)


@dataclass(frozen=True, slots=True, eq=False)
class ListEnvelope:
    """The fields of a List except its items, shared by the documents of the items."""

    fields: Mapping[str, Value] = field(repr=False)


class Document(msgspec.Struct, frozen=True, eq=False):
    """One document of a file, or one object of a List in it.

    The document consists of the bytes from `start` to `end`, which begin on `line`, whether it is
    readable or not. A document with findings has no value; `refused` is the value of one that could
    be parsed. `index` counts documents with content
    from 1. For an object of a List, `item` is its path in the document of the List, and `within`
    its path in the bytes from `start` to `end`; in JSON these bytes are only the object. If the
    reader recognized an object, `decoded` is what it made of it, and the value has no spec.
    """

    source: Source
    index: int
    start: int
    end: int
    line: int
    format: DocumentFormat
    value: Value = None
    findings: tuple[LocatedFinding, ...] = ()
    item: Path = ()
    within: Path = ()
    envelope: ListEnvelope | None = None
    refused: Value = None
    decoded: object = None

    @property
    def raw(self) -> bytes:
        """The bytes of the document in the file."""
        return self.source.data[self.start : self.end]

    @property
    def empty(self) -> bool:
        """Whether the document has only comments, or null."""
        return self.value is None and not self.findings

    @property
    def name(self) -> str:
        """The name of the object in findings: `Kind/namespace/name`, or `Kind#3` without a name."""
        if self.value is not None:
            return name_object(self.value, self.index)
        end = min(self.end, self.start + _KIND_SEARCHED)
        kind = _KIND.search(self.source.data, self.start, end)
        return f"{kind[1].decode() if kind else 'Document'}#{self.index}"

    def locate(self, path: str | Path, layouts: "LayoutCache | None" = None) -> tuple[int, int]:
        """Return line and column of the value at `path`, or of its nearest existing parent.

        A shared `layouts` cache makes repeated calls for one file faster.
        """
        tokens: Path = parse_path(path) if isinstance(path, str) else path
        text, node = (layouts or LayoutCache()).get(self)
        return self.position_of(
            text, find_offset(text, node, (*self.within, *tokens)) if node else 0
        )

    def position_of(self, text: str, offset: int) -> tuple[int, int]:
        """Return line and column in the file for an offset in the text of this document."""
        line_start = text.rfind("\n", 0, offset) + 1
        if line_start:
            return self.line + text.count("\n", 0, offset), offset - line_start + 1
        data = self.source.data
        before = data[data.rfind(b"\n", 0, self.start) + 1 : self.start].removeprefix(BOM)
        return self.line, len(before.decode(errors="replace")) + offset + 1

    def without_value(self) -> "Document":
        """Return the document without its value, which is enough to locate findings."""
        return replace(self, value=None)

    def locate_finding(
        self, finding: Finding, layouts: "LayoutCache | None" = None
    ) -> LocatedFinding:
        """Add the position in the file to a finding about this document."""
        return LocatedFinding(finding, self.source.name, *self.locate(finding.path, layouts))

    def make_finding(self, problem: DocumentProblem, text: str) -> LocatedFinding:
        """Make the finding of a problem in this document, with lines in its message."""
        # If the text ends too early, the position of its last character helps more than its end.
        line, column = self.position_of(text, min(problem.offset, len(text.rstrip())))
        message = f"line {line}: {problem.message}"
        if problem.first is not None:
            message += f", first on line {self.position_of(text, problem.first)[0]}"
        finding = problem.code.at(format_path(problem.path), message, object=self.name)
        return LocatedFinding(finding, self.source.name, line, column)


class LayoutCache:
    """Caches the nodes of the last requested document."""

    def __init__(self) -> None:
        self._key: tuple[int, int, int] | None = None
        self._source: Source | None = None
        self._layout: tuple[str, SyntaxNode | None] = ("", None)

    def get(self, document: Document) -> tuple[str, SyntaxNode | None]:
        """Return the text of a document and its nodes; None if it is unreadable."""
        key = (id(document.source), document.start, document.end)
        if key != self._key:
            # Keep the source alive, so that no other object gets its id.
            self._key, self._source = key, document.source
            text = decode_text(document.raw)
            self._layout = (text, parse_nodes(text, document))
        return self._layout


def parse_nodes(text: str, document: Document) -> SyntaxNode | None:
    """Return the nodes of a document's text; None if it is unreadable."""
    if document.findings or not text.strip():
        return None
    return jsontext.root_node(text) if document.format == "json" else compose(text)


def decode_text(raw: bytes) -> str:
    """Decode the bytes of a document, without the byte order mark."""
    return raw.removeprefix(BOM).decode(errors="replace")


def name_object(value: Value, position: int) -> str:
    """Name an object for findings: by kind, namespace and name, or by its position."""
    value = value if isinstance(value, dict) else {}
    kind, metadata = value.get("kind"), value.get("metadata")
    kind = kind if isinstance(kind, str) and kind else "Document"
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return f"{kind}#{position}"
    return f"{kind}/{namespace}/{name}" if isinstance(namespace, str) else f"{kind}/{name}"


def find_offset(text: str, node: SyntaxNode, path: Path) -> int:
    """Return the offset at a path, as far as the path exists; fields are at their key."""
    offset = node.start
    for token in path:
        children = jsontext.read_children(text, node)
        if node.kind == "mapping":
            entry = next(((k, v) for k, v in node.entries() if k.text == str(token)), None)
            if entry is None:
                break
            offset, node = entry[0].start, entry[1]
        elif node.kind == "sequence" and (at := parse_index(token, len(children))) is not None:
            node = children[at]
            offset = node.start
        else:
            break
    return offset
