"""Constructs the value that Kubernetes reads from a tree of YAML nodes.

Tags, merge keys and non-text keys follow Kubernetes' YAML library. Input that the library silently
drops or guesses (duplicate keys, unknown tags) is refused here. Aliases are expanded, within a
limit, so that no parts of a value are shared.
"""

import base64
import binascii
import math
import re

from drawbridge.documents import codes
from drawbridge.documents.nodes import MAX_DEPTH, SyntaxNode
from drawbridge.documents.paths import Path
from drawbridge.documents.problems import DocumentProblem, UnreadableError
from drawbridge.documents.values import Value, key_text, resolve_scalar
from drawbridge.finding import Code

MAX_ALIASED = 100_000
# A document full of errors must not become a longer list of findings.
MAX_PROBLEMS = 20

_TAG = "tag:yaml.org,2002:"
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
_MERGE = "<<"
_COLLECTIONS = {"mapping": f"{_TAG}map", "sequence": f"{_TAG}seq"}


def construct(root: SyntaxNode) -> Value:
    """Return the value of the tree; raises UnreadableError with all of its problems."""
    constructor = _Constructor()
    value = constructor.value(root, ())
    if constructor.problems:
        raise UnreadableError(*constructor.problems)
    return value


def is_merge(key: SyntaxNode) -> bool:
    """Whether a key of a mapping merges another mapping into it."""
    plain = key.kind == "scalar" and not key.style and key.text == _MERGE
    return plain and key.tag in {None, f"{_TAG}merge"}


def key_name(key: SyntaxNode) -> str | None:
    """Return the text of a mapping key; None for a merge key and for a key that is not text."""
    if is_merge(key):
        return None
    return _Constructor().key(key, ())


class _Constructor:
    """Collects the problems of one document, and counts its expanded aliases."""

    def __init__(self) -> None:
        self.problems: list[DocumentProblem] = []
        self.aliased = 0
        self.within_alias = 0
        self.levels = 0

    def value(self, node: SyntaxNode, path: Path) -> Value:
        if self.within_alias:
            self.count(node, path)
        if node.kind == "scalar":
            return self.scalar(node, path)
        # Merge keys nest without a longer path, so levels are counted separately.
        self.levels += 1
        if self.levels > MAX_DEPTH:
            message = f"more than {MAX_DEPTH} levels of objects and lists, with aliases expanded"
            raise UnreadableError(
                DocumentProblem(codes.NESTED_TOO_DEEP, message, path[:3], node.start)
            )
        value = self.collection(node, path)
        self.levels -= 1
        return value

    def collection(self, node: SyntaxNode, path: Path) -> Value:
        children = node.children or []
        if node.kind == "alias":
            self.within_alias += 1
            value = self.value(children[0], path)
            self.within_alias -= 1
            return value
        if node.tag is not None and node.tag not in {_COLLECTIONS[node.kind], "!"}:
            self.report(codes.TAG_UNKNOWN, f"unknown tag {format_tag(node.tag)}", path, node)
        if node.kind == "sequence":
            return [self.value(child, (*path, at)) for at, child in enumerate(children)]
        return self.mapping(node, path)

    def count(self, node: SyntaxNode, path: Path) -> None:
        self.aliased += 1
        if self.aliased > MAX_ALIASED:
            message = f"the aliases of this document expand to more than {MAX_ALIASED} values"
            raise UnreadableError(
                DocumentProblem(codes.TOO_MANY_VALUES, message, path[:3], node.start)
            )

    def mapping(self, node: SyntaxNode, path: Path) -> dict[str, Value]:
        value: dict[str, Value] = {}
        seen: dict[tuple[str, bool], SyntaxNode] = {}
        for key, child in node.entries():
            merge = is_merge(key)
            name = _MERGE if merge else self.key(key, path)
            if name is None:
                continue
            # A merge key is not the quoted key "<<".
            first = seen.setdefault((name, merge), key)
            if first is not key:
                self.add_problem(duplicate_problem(name, path, first.start, key.start))
            if merge:
                # As in Kubernetes, keys apply in the order written, so later keys win.
                value.update(self.merged(child, path))
            else:
                value[name] = self.value(child, (*path, name))
        return value

    def key(self, key: SyntaxNode, path: Path) -> str | None:
        target = (key.children or [key])[0] if key.kind == "alias" else key
        if target.kind == "scalar":
            read = self.scalar(target, path)
            name = key_text(read)
            if name is not None:
                return name
            actual = "null" if read is None else target.text
        else:
            actual = "an object" if target.kind == "mapping" else "a list"
        self.report(codes.KEY_NOT_TEXT, f"a key must be text, but this key is {actual}", path, key)
        return None

    def merged(self, node: SyntaxNode, path: Path) -> dict[str, Value]:
        target = (node.children or [node])[0] if node.kind == "alias" else node
        sources = (target.children or []) if target.kind == "sequence" else [node]
        value: dict[str, Value] = {}
        # If several objects have a key, the first of them wins.
        for source in reversed(sources):
            merged = self.value(source, path)
            if isinstance(merged, dict):
                value.update(merged)
            else:
                message = "<< requires an object or a list of objects"
                self.report(codes.MERGE_WRONG, message, path, source)
        return value

    def scalar(self, node: SyntaxNode, path: Path) -> Value:
        if node.tag is None:
            if node.style:
                return node.text
            value = resolve_scalar(node.text)
        elif node.tag in {"!", f"{_TAG}str"}:
            return node.text
        else:
            value = self.tagged(node, path)
        if isinstance(value, float) and not math.isfinite(value):
            self.report(codes.VALUE_UNREADABLE, f"JSON cannot represent {node.text}", path, node)
            return None
        return value

    def tagged(self, node: SyntaxNode, path: Path) -> Value:
        tag = (node.tag or "").removeprefix(_TAG)
        value = resolve_scalar(node.text)
        match tag, value:
            case ("int", int()) | ("bool", bool()) if (tag == "bool") is isinstance(value, bool):
                return value
            case ("float", int() | float()) if not isinstance(value, bool):
                return float(value)
            case "null", None:
                return None
            case ("timestamp", str()) if _DATE.fullmatch(value):
                return value
            case "binary", _:
                return self.binary(node, path)
            case (("int" | "float" | "bool" | "null" | "timestamp"), _):
                self.report(
                    codes.VALUE_UNREADABLE, f"{clip(node.text)} is not a valid !!{tag}", path, node
                )
            case _:
                message = f"unknown tag {format_tag(node.tag or '')}"
                self.report(codes.TAG_UNKNOWN, message, path, node)
        return None

    def binary(self, node: SyntaxNode, path: Path) -> Value:
        try:
            joined = "".join(node.text.split())
            return base64.b64decode(joined, validate=True).decode()
        except (binascii.Error, ValueError):
            message = "the value of !!binary is not UTF-8 text in base64"
            self.report(codes.VALUE_UNREADABLE, message, path, node)
            return None

    def report(self, code: Code, message: str, path: Path, node: SyntaxNode) -> None:
        self.add_problem(DocumentProblem(code, message, path, node.start))

    def add_problem(self, problem: DocumentProblem) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def duplicate_problem(name: str, path: Path, first: int, second: int) -> DocumentProblem:
    """Make the problem of a duplicate key, at the position of the second key."""
    message = f"duplicate key {clip(name)}"
    return DocumentProblem(codes.DUPLICATE_KEY, message, (*path, name), second, first)


def format_tag(tag: str) -> str:
    """Write a tag as it appears in a file."""
    return clip(tag.replace(_TAG, "!!", 1))


def clip(text: str) -> str:
    """Shorten a text of any length to one line."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
