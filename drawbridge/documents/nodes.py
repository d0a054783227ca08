"""Parses YAML text to a tree of nodes, each with its position in the text.

The parser handles the events of libyaml one by one, so neither deep nesting nor aliases make it
recurse or use more memory.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal, Protocol, cast

import yaml

from drawbridge.documents import codes
from drawbridge.documents.paths import Path
from drawbridge.documents.problems import (
    DocumentProblem,
    UnreadableError,
    describe_surrogate,
)

MAX_DEPTH = 100
# 16 MiB of ordinary manifests hold about 1.5 million.
MAX_NODES = 2_000_000

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

NodeKind = Literal["scalar", "mapping", "sequence", "alias"]


class SyntaxNode:
    """A value in the text: `text[start:end]`, where a block collection ends with its last child.

    `children` of a mapping alternate keys and values; None if not yet parsed (JSON only). `text` is
    the content of a scalar or the name of an alias. `style` is its quote, `|`, `>` or empty. `flow`
    is set for a collection in braces or brackets.
    """

    __slots__ = ("anchor", "children", "end", "flow", "kind", "start", "style", "tag", "text")

    def __init__(self, kind: NodeKind, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.children: list[SyntaxNode] | None = None
        self.text = ""
        self.style = ""
        self.tag: str | None = None
        self.anchor: str | None = None
        self.flow = False

    def entries(self) -> Iterator[tuple["SyntaxNode", "SyntaxNode"]]:
        """Yield the keys and values of a mapping."""
        children = self.children or []
        return zip(children[::2], children[1::2], strict=True)


def compose(text: str) -> SyntaxNode | None:
    """Parse the single document in `text`; None if it has only comments. Raises UnreadableError."""
    if match := _UNPRINTABLE.search(text):
        message = f"the character U+{ord(match[0]):04X} is not allowed in YAML"
        raise UnreadableError(DocumentProblem(codes.YAML_SYNTAX, message, offset=match.start()))
    composer = _Composer(text)
    try:
        composer.run()
    except yaml.MarkedYAMLError as error:
        raise UnreadableError(composer.syntax(error)) from None
    except yaml.YAMLError as error:
        raise UnreadableError(DocumentProblem(codes.YAML_SYNTAX, f"{error}")) from None
    return composer.root


class _Mark(Protocol):
    index: int


class _Event(Protocol):
    """The fields of all parser events; each kind of event sets only its own."""

    start_mark: _Mark
    end_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None
    flow_style: bool | None


class _Composer:
    """The state of the parser between two events: open collections and known anchors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: SyntaxNode | None = None
        self.open: list[SyntaxNode] = []
        self.anchors: dict[str, SyntaxNode] = {}
        self.left = MAX_NODES

    def run(self) -> None:
        loader = yaml.CBaseLoader(self.text)
        next_event = cast("Callable[[], _Event | None]", loader.get_event)
        try:
            while (event := next_event()) is not None:
                self.handle(event)
        finally:
            loader.dispose()

    def handle(self, event: "_Event") -> None:
        """Handle the next event; the most frequent kinds come first."""
        kind: type[object] = type(event)
        if kind is yaml.ScalarEvent:
            self.add(self.scalar(event), event.anchor)
        elif kind is yaml.MappingStartEvent:
            self.enter(self.collection("mapping", event), event.anchor)
        elif kind is yaml.SequenceStartEvent:
            self.enter(self.collection("sequence", event), event.anchor)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self.close(event.end_mark.index)
        elif kind is yaml.AliasEvent:
            self.refer(
                SyntaxNode("alias", event.start_mark.index, event.end_mark.index), event.anchor
            )
        elif kind is yaml.DocumentStartEvent and self.root is not None:
            # The splitter finds the same markers as libyaml; this is a safeguard.
            message = "a second document begins here, not on its own line"
            raise UnreadableError(
                DocumentProblem(codes.YAML_SYNTAX, message, offset=event.start_mark.index)
            )

    def scalar(self, event: "_Event") -> SyntaxNode:
        node = SyntaxNode("scalar", event.start_mark.index, event.end_mark.index)
        node.text = event.value
        node.style = event.style or ""
        node.tag = event.tag
        if node.style in {"|", ">"}:
            node.end = self.block_end(node)
        return node

    def block_end(self, node: SyntaxNode) -> int:
        """Return the end of a block scalar's last line; the parser reports a later end."""
        raw = self.text[node.start : node.end]
        if "+" not in raw.split("\n", 1)[0]:
            return node.start + len(raw.rstrip())
        raw = raw[: raw.rfind("\n") + 1] if raw.strip(" ").endswith("\n") else raw
        raw = raw.removesuffix("\n").removesuffix("\r")
        return node.start + len(raw)

    def collection(self, kind: NodeKind, event: "_Event") -> SyntaxNode:
        node = SyntaxNode(kind, event.start_mark.index, event.end_mark.index)
        node.children = []
        node.tag = event.tag
        node.flow = bool(event.flow_style)
        return node

    def enter(self, node: SyntaxNode, anchor: str | None) -> None:
        self.add(node, anchor)
        self.open.append(node)
        if len(self.open) > MAX_DEPTH:
            message = f"more than {MAX_DEPTH} levels of objects and lists"
            problem = DocumentProblem(codes.NESTED_TOO_DEEP, message, self.path()[:3], node.start)
            raise UnreadableError(problem)

    def add(self, node: SyntaxNode, anchor: str | None) -> None:
        self.left -= 1
        if self.left < 0:
            message = f"the document has more than {MAX_NODES} values"
            raise UnreadableError(
                DocumentProblem(codes.TOO_MANY_VALUES, message, offset=node.start)
            )
        if anchor is not None:
            node.anchor = anchor
            self.anchors[anchor] = node
        if self.open:
            children = self.open[-1].children
            assert children is not None  # noqa: S101  # YAML collections always have children
            children.append(node)
        else:
            self.root = node

    def close(self, end: int) -> None:
        node = self.open.pop()
        if node.flow or not node.children:
            node.end = end
        else:
            node.end = node.children[-1].end

    def refer(self, node: SyntaxNode, name: str | None) -> None:
        node.text = name or ""
        target = self.anchors.get(node.text)
        if target is None:
            message = f"there is no anchor &{node.text} before this alias"
        elif any(target is parent for parent in self.open):
            message = f"the value of the anchor &{node.text} contains itself"
        else:
            node.children = [target]
            self.add(node, None)
            return
        raise UnreadableError(
            DocumentProblem(codes.ALIAS_UNKNOWN, message, self.path(), node.start)
        )

    def path(self) -> Path:
        """Return the position of the parser: the keys and indices of the open collections."""
        path: list[str | int] = []
        for depth, node in enumerate(self.open):
            # An open child is already in the children of its parent.
            closed = (node.children or [])[: -1 if depth < len(self.open) - 1 else None]
            if node.kind == "sequence":
                path.append(len(closed))
            elif len(closed) % 2:
                path.append(closed[-1].text)
        return tuple(path)

    def syntax(self, error: yaml.MarkedYAMLError) -> DocumentProblem:
        mark = error.problem_mark or error.context_mark
        message = error.problem or "invalid YAML"
        if error.context:
            message = f"{message}, {error.context}"
        offset = min(mark.index, len(self.text)) if mark else 0
        message = describe_surrogate(self.text, offset) or message
        return DocumentProblem(codes.YAML_SYNTAX, message, self.path(), offset)
