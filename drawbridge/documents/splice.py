"""Writes edits back into the text of documents.

Only the changed parts are written, at the positions from the parser and in the surrounding style;
all other bytes stay. The result is read again and compared, so that every text is either correct or
refused with a finding.
"""

import enum
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from drawbridge.documents import codes, jsontext
from drawbridge.documents.construct import construct
from drawbridge.documents.cuts import EditRefusedError, apply_changes, column, starts_line
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.former_lines import note_lines, put_back_lines, remove_notes
from drawbridge.documents.nodes import SyntaxNode, compose
from drawbridge.documents.patch import Edit, EditError, apply_edits
from drawbridge.documents.paths import format_path
from drawbridge.documents.problems import UnreadableError
from drawbridge.documents.revise import revise_text
from drawbridge.documents.split import BOM
from drawbridge.documents.values import Value, equal_json
from drawbridge.documents.write import TextStyle
from drawbridge.finding import Finding


class FormerLines(enum.Enum):
    """What becomes of the lines that an edit replaces. Only YAML has comments to note them in."""

    DROP = enum.auto()
    NOTE = enum.auto()
    """Comments at the end of the document have them."""
    PUT_BACK = enum.auto()
    """The lines of a note come back if they have the values that the edits give."""


_MOST_NOTES: Final = 4  # of a document, one of each translation


def apply_to_text(
    document: Document, edits: Sequence[Edit], former: FormerLines = FormerLines.DROP
) -> bytes | Finding:
    """Return the bytes of the document with the edits applied, or the finding that refuses them.

    For an object of a List in YAML, these are the bytes of the whole List.
    """
    bom = BOM if document.raw.startswith(BOM) else b""
    try:
        if document.findings:
            raise EditRefusedError("the document is unreadable", "Correct its errors first.")  # noqa: TRY301  # a single exit
        return bom + _apply_checked(document, _from_root(document, edits), former).encode()
    except (EditError, EditRefusedError, UnreadableError) as error:
        path = edits[0].path if edits else ()
        message, remedy = f"{error}", getattr(error, "remedy", None)
        if b"\r" in document.raw and b"\n" not in document.raw:
            message = "the lines end with a carriage return (CR) alone"
            remedy = "Save the file with lines that end with LF or CRLF."
        return codes.EDIT_REFUSED.at(
            format_path(path), message, object=document.name, remedy=remedy
        )


def rewrite_file(
    source: Source,
    changes: Sequence[tuple[Document, Sequence[Edit]]],
    former: FormerLines = FormerLines.DROP,
) -> tuple[bytes, tuple[LocatedFinding, ...]]:
    """Return a file with the edits of its objects applied; refused objects stay as they are."""
    pieces: list[bytes] = []
    refused: list[LocatedFinding] = []
    at = 0
    for start, group in sorted(_group_by_start(changes).items()):
        first = group[0][0]
        text, findings = _apply_group(group, former)
        refused += findings
        if source.data.startswith(b"---", first.end) and not text.endswith(b"\n"):
            text += b"\r\n" if b"\r\n" in text else b"\n"  # before the next document
        pieces += [source.data[at:start], text]
        at = first.end
    return b"".join([*pieces, source.data[at:]]), tuple(refused)


def _group_by_start(
    changes: Sequence[tuple[Document, Sequence[Edit]]],
) -> dict[int, list[tuple[Document, Sequence[Edit]]]]:
    """Group the changes of one text: those of the objects of one List in YAML."""
    groups: dict[int, list[tuple[Document, Sequence[Edit]]]] = {}
    for document, edits in changes:
        groups.setdefault(document.start, []).append((document, edits))
    return groups


def _apply_group(
    group: Sequence[tuple[Document, Sequence[Edit]]], former: FormerLines
) -> tuple[bytes, list[LocatedFinding]]:
    """Apply the edits of several objects to one text; if they fail, as many as possible."""
    document = replace(group[0][0], within=())
    edits = [edit for each, its in group for edit in _from_root(each, its)]
    text = apply_to_text(document, edits, former)
    if isinstance(text, bytes):
        return text, []
    alone = [(each, its, apply_to_text(each, its)) for each, its in group]
    refused = [(each, done) for each, _, done in alone if isinstance(done, Finding)]
    rest = [(each, its) for each, its, done in alone if isinstance(done, bytes)]
    if len(rest) in {0, len(group)}:
        refused = refused or [(each, text) for each, _ in group]
        return document.raw, [each.locate_finding(finding) for each, finding in refused]
    written, more = _apply_group(rest, former)
    return written, [each.locate_finding(finding) for each, finding in refused] + more


def _from_root(document: Document, edits: Sequence[Edit]) -> list[Edit]:
    return [Edit(each.op, (*document.within, *each.path), each.value) for each in edits]


def _apply_checked(document: Document, edits: Sequence[Edit], former: FormerLines) -> str:
    text = document.raw.removeprefix(BOM).decode()
    as_json = document.format == "json"
    root, old = _parse(text, as_json=as_json)
    if root is None:
        raise EditRefusedError("the document is empty")
    new = apply_edits(old, edits)
    if former is FormerLines.PUT_BACK and not as_json:
        before = _put_back(text, new)
        if before is not None:
            return before
        text = remove_notes(text)
        root = compose(text) or root
    style = detect_style(text, root, as_json=as_json)
    changes = revise_text(text, style, root, old, new)
    is_noted = former is FormerLines.NOTE and not as_json
    changed = note_lines(text, changes, style.newline) if is_noted else apply_changes(text, changes)
    if not _has_value(changed, new, as_json=as_json):
        raise _explain_refusal(root)
    return changed


def _put_back(text: str, new: Value) -> str | None:
    """Return the text before its translations if it has this value."""
    for _ in range(_MOST_NOTES):
        before = put_back_lines(text)
        if before is None:
            break
        if _has_value(before, new, as_json=False):
            return before
        text = before
    return None


def _has_value(text: str, value: Value, *, as_json: bool) -> bool:
    try:
        return equal_json(_parse(text, as_json=as_json)[1], value)
    except UnreadableError:
        return False


def _parse(text: str, *, as_json: bool) -> tuple[SyntaxNode | None, Value]:
    if as_json:
        value = jsontext.decode(text.encode())
        return jsontext.root_node(text), value
    root = compose(text)
    return root, None if root is None else construct(root)


def _explain_refusal(root: SyntaxNode) -> EditRefusedError:
    """Explain why a change would affect other values; most likely they are shared."""
    anchors = sorted({node.anchor for node in _nodes(root) if node.anchor is not None})
    if anchors:
        return EditRefusedError(
            f"other values share this one through the anchor &{anchors[0]}",
            f"Replace each alias *{anchors[0]} with its value, and remove the anchor.",
        )
    return EditRefusedError("the change does not fit the style of the text")


def _nodes(root: SyntaxNode) -> Iterator[SyntaxNode]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.kind != "alias":
            waiting += reversed(node.children or [])


def detect_style(text: str, root: SyntaxNode, *, as_json: bool) -> TextStyle:
    """Detect the style of a document from the first occurrence of each construct."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if as_json:
        return _json_style(text, root, newline)
    indents: dict[str, int] = {}  # by kind of collection
    for kind, indent in _find_indents(text, root):
        indents.setdefault(kind, indent)
        if len(indents) == 2:
            break
    return TextStyle(newline, indents.get("mapping") or 2, indents.get("sequence", 0))


def _find_indents(text: str, root: SyntaxNode) -> Iterator[tuple[str, int]]:
    """Yield the kind of each block below a key, and its indentation relative to the key."""
    for node in _nodes(root):
        if node.kind != "mapping" or node.flow:
            continue
        for key, value in node.entries():
            is_block = value.children and not value.flow and value.kind != "alias"
            is_plain = value.anchor is None and value.tag is None
            if is_block and is_plain and starts_line(text, value.start):
                yield value.kind, column(text, value.start) - column(text, key.start)


def _json_style(text: str, root: SyntaxNode, newline: str) -> TextStyle:
    """Detect the spacing of JSON from its first object."""
    children = jsontext.read_children(text, root)
    if root.kind != "mapping" or not children:
        return TextStyle(newline, json=True)
    step = 2
    if starts_line(text, children[0].start) and starts_line(text, root.end - 1):
        # The first line of an object in a List does not show its indentation; the last line does.
        step = column(text, children[0].start) - column(text, root.end - 1)
    spaced = text[children[0].end : children[1].start].endswith(" ")
    commas = len(children) > 2 and text[children[1].end : children[2].start] == ","
    return TextStyle(
        newline,
        step=max(1, step),
        json=True,
        comma="," if commas and not spaced else ", ",
        colon=": " if spaced else ":",
    )
