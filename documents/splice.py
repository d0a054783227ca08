"""Edits written back into the text they are about.

Only what changes is written, at the places the parser marked and in the style around them; every
other byte stays. What comes out is read again and compared, so that a text is either right or
refused with a finding. Knows nothing of why anything is edited.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from documents import codes, jsontext
from documents.construct import construct
from documents.cuts import EditRefusedError, apply_changes, column, starts_line
from documents.document import Document, LocatedFinding, Source
from documents.nodes import SyntaxNode, compose
from documents.patch import Edit, EditError, apply_edits
from documents.paths import format_path
from documents.problems import UnreadableError
from documents.revise import revise_text
from documents.split import BOM
from documents.values import Value, equal_json
from documents.write import TextStyle
from dra.finding import Finding


def apply_to_text(document: Document, edits: Sequence[Edit]) -> bytes | Finding:
    """Return the bytes of the document with the edits made, or why they cannot be.

    For an object of a List in YAML these are the bytes of the whole List.
    """
    bom = BOM if document.raw.startswith(BOM) else b""
    try:
        if document.findings:
            raise EditRefusedError("the document cannot be read")  # noqa: TRY301  # one way out
        return bom + _applied(document, _from_root(document, edits)).encode()
    except (EditError, EditRefusedError, UnreadableError) as error:
        path = edits[0].path if edits else ()
        return codes.EDIT_REFUSED.at(format_path(path), f"{error}", object=document.name)


def rewrite_file(
    source: Source, changes: Sequence[tuple[Document, Sequence[Edit]]]
) -> tuple[bytes, tuple[LocatedFinding, ...]]:
    """Return a whole file with the edits of its objects made; refused objects stay as they were."""
    pieces: list[bytes] = []
    refused: list[LocatedFinding] = []
    at = 0
    for start, group in sorted(_by_text(changes).items()):
        first = group[0][0]
        text, findings = _together(group)
        refused += findings
        pieces += [source.data[at:start], text]
        at = first.end
    return b"".join([*pieces, source.data[at:]]), tuple(refused)


def _by_text(
    changes: Sequence[tuple[Document, Sequence[Edit]]],
) -> dict[int, list[tuple[Document, Sequence[Edit]]]]:
    """Group what is written into the same text: the objects of one List in YAML."""
    groups: dict[int, list[tuple[Document, Sequence[Edit]]]] = {}
    for document, edits in changes:
        groups.setdefault(document.start, []).append((document, edits))
    return groups


def _together(
    group: Sequence[tuple[Document, Sequence[Edit]]],
) -> tuple[bytes, list[LocatedFinding]]:
    """Make the edits of several objects in one text; where they fail, all that can be made."""
    whole = replace(group[0][0], within=())
    edits = [edit for each, its in group for edit in _from_root(each, its)]
    text = apply_to_text(whole, edits)
    if isinstance(text, bytes):
        return text, []
    alone = [(each, its, apply_to_text(each, its)) for each, its in group]
    refused = [(each, done) for each, _, done in alone if isinstance(done, Finding)]
    rest = [(each, its) for each, its, done in alone if isinstance(done, bytes)]
    if len(rest) in {0, len(group)}:
        refused = refused or [(each, text) for each, _ in group]
        return whole.raw, [each.locate_finding(finding) for each, finding in refused]
    written, more = _together(rest)
    return written, [each.locate_finding(finding) for each, finding in refused] + more


def _from_root(document: Document, edits: Sequence[Edit]) -> list[Edit]:
    return [Edit(each.op, (*document.within, *each.path), each.value) for each in edits]


def _applied(document: Document, edits: Sequence[Edit]) -> str:
    text = document.raw.removeprefix(BOM).decode()
    as_json = document.format == "json"
    root, old = _read(text, as_json=as_json)
    if root is None:
        raise EditRefusedError("the document is empty")
    new = apply_edits(old, edits)
    changed = apply_changes(
        text, revise_text(text, detect_style(text, root, as_json=as_json), root, old, new)
    )
    try:
        said = _read(changed, as_json=as_json)[1]
    except UnreadableError:
        said = None
    if not equal_json(said, new):
        raise EditRefusedError(_why(root))
    return changed


def _read(text: str, *, as_json: bool) -> tuple[SyntaxNode | None, Value]:
    if as_json:
        value = jsontext.decode(text.encode())
        return jsontext.root_node(text), value
    root = compose(text)
    return root, None if root is None else construct(root)


def _why(root: SyntaxNode) -> str:
    """Guess why a change would have changed something else: most likely it is shared."""
    anchors = sorted({node.anchor for node in _nodes(root) if node.anchor is not None})
    if anchors:
        return f"the values at this place are shared with others through the anchor &{anchors[0]}"
    return "the text is written in a way that this change cannot be fitted into"


def _nodes(root: SyntaxNode) -> Iterator[SyntaxNode]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.kind != "alias":
            waiting += reversed(node.children or [])


def detect_style(text: str, root: SyntaxNode, *, as_json: bool) -> TextStyle:
    """See how a document is written: the first of everything counts."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if as_json:
        return _json_style(text, root, newline)
    step = list_step = None
    for node in _nodes(root):
        if node.kind != "mapping" or node.flow:
            continue
        for key, value in node.entries():
            if value.flow or not value.children or value.kind == "alias":
                continue
            if starts_line(text, value.start) and value.anchor is None and value.tag is None:
                deeper = column(text, value.start) - column(text, key.start)
                if value.kind == "mapping":
                    step = step or deeper
                elif list_step is None:
                    list_step = deeper
        if step is not None and list_step is not None:
            break
    return TextStyle(newline, step or 2, list_step or 0)


def _json_style(text: str, root: SyntaxNode, newline: str) -> TextStyle:
    """See the spaces of JSON at its first object."""
    children = jsontext.read_children(text, root)
    if root.kind != "mapping" or not children:
        return TextStyle(newline, json=True)
    step = 2
    if starts_line(text, children[0].start) and starts_line(text, root.end - 1):
        # The first line of an object in a List does not show how far in it stands; the last does.
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
