"""Reads the documents of YAML and JSON files, for every command.

`read_documents` reads a stream as written. `read_objects` also splits Lists, and checks that each
document is a Kubernetes object. Any bytes give documents, each with a value or with findings.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from drawbridge.documents import codes, jsontext
from drawbridge.documents.construct import construct
from drawbridge.documents.document import (
    Document,
    DocumentFormat,
    ListEnvelope,
    Source,
    decode_text,
)
from drawbridge.documents.manifest import check_object, find_template, may_have_placeholders
from drawbridge.documents.nodes import compose
from drawbridge.documents.paths import format_path
from drawbridge.documents.problems import DocumentProblem, UnreadableError
from drawbridge.documents.split import BOM, Chunk, split_documents
from drawbridge.documents.values import Value


class Recognized(NamedTuple):
    """An object of a List that was decoded to a struct: its type and metadata, and the results."""

    value: Value
    decoded: object
    whole: object  # the struct whose JSON has all fields of the object, if they are known


# Decodes the JSON of an item of a List with this apiVersion and kind of items; None if it is not
# an object that the caller recognizes.
Recognize: TypeAlias = Callable[[bytes, str, str], Recognized | None]

MAX_BYTES = 16 * 1024 * 1024
MAX_UNREADABLE = 1000

_UNSUPPORTED_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def read_documents(source: Source) -> Iterator[Document]:
    """Read the documents of a file in order, including those without content."""
    return _limit_unreadable(_read_document(document) for document in _iterate_chunks(source))


def read_objects(source: Source, recognize: Recognize | None = None) -> Iterator[Document]:
    """Read the Kubernetes objects of a file; splits Lists, and reports all other documents.

    A List in JSON is read item by item, whatever its size. `recognize` may decode its items: a
    third of the time, without a value of what it decodes.
    """
    return _limit_unreadable(_iterate_objects(source, recognize))


def _iterate_objects(source: Source, recognize: Recognize | None) -> Iterator[Document]:
    for document in _iterate_chunks(source):
        raw = document.raw.removeprefix(BOM)
        shell = jsontext.open_list(raw) if document.format == "json" else None
        if shell is not None:
            for item in _split_json_list(document, shell):
                unfinished = may_have_placeholders(item.raw)
                recognized = None if unfinished else _recognize(item, shell, recognize)
                yield recognized or _checked_object(_typed(item, shell), unfinished=unfinished)
        else:
            unfinished = may_have_placeholders(raw)
            for item in split_list(_read_document(document)):
                yield _checked_object(item, unfinished=unfinished)


def _limit_unreadable(read: Iterator[Document]) -> Iterator[Document]:
    """Stop at the limit of unreadable documents, so that one file gives few findings."""
    unreadable = 0
    for document in read:
        unreadable += bool(document.findings)
        if unreadable > MAX_UNREADABLE:
            message = f"{MAX_UNREADABLE} documents before this one could not be read"
            problem = DocumentProblem(
                codes.MORE_UNREADABLE, f"{message}; the rest of the file is not checked"
            )
            rest = replace(document, value=None, findings=(), end=len(document.source.data))
            yield replace(rest, findings=(rest.make_finding(problem, ""),))
            return
        yield document


def split_list(document: Document) -> Iterator[Document]:
    """Yield the objects of a List, or the document itself if it is not a List."""
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or not kind.endswith("List"):
        yield document
        return
    if not isinstance(items, list) or not items:
        yield document
        return
    version = value.get("apiVersion")
    envelope = ListEnvelope({key: field for key, field in value.items() if key != "items"})
    for at, item in enumerate(items):
        typed = _add_type(item, kind, version)
        place = ("items", at)
        yield replace(
            document, value=typed, index=at + 1, item=place, within=place, envelope=envelope
        )


def _add_type(item: Value, kind: str, version: Value) -> Value:
    """Add the type to an item of a typed list (`PodList`), where it is optional."""
    if not isinstance(item, dict) or kind == "List":
        return item
    return {"apiVersion": version, "kind": kind.removesuffix("List"), **item}


def _iterate_chunks(source: Source) -> Iterator[Document]:
    """Yield the unread documents of a file; counts those with content."""
    position = line = 1
    counted = 0
    for chunk in (
        [Chunk(0, len(source.data))]
        if _detect_encoding(source.data)
        else split_documents(source.data)
    ):
        line += source.data.count(b"\n", counted, chunk.start)
        counted = chunk.start
        head = source.data[chunk.start : chunk.start + 512].removeprefix(BOM).lstrip()
        like_json = head[:1] in {b"{", b"["} and head[:2] not in {b"{{", b"{%"}
        form: DocumentFormat = "json" if like_json or source.name.endswith(".json") else "yaml"
        yield Document(source, position, chunk.start, chunk.end, line, form)
        position += not chunk.blank


def _detect_encoding(data: bytes) -> str | None:
    """Return the encoding if it is not UTF-8; None otherwise."""
    for mark, name in _UNSUPPORTED_MARKS:
        if data.startswith(mark):
            return name
    return "UTF-16" if b"\0" in data[:2] else None


def _read_document(document: Document) -> Document:
    """Read one document; problems become its findings."""
    raw = document.raw.removeprefix(BOM)
    try:
        if document.format == "json":
            return _read_json(document, raw)
        return replace(document, value=_yaml_value(raw))
    except UnreadableError as error:
        text = decode_text(raw)
        return replace(
            document, findings=tuple(document.make_finding(p, text) for p in error.problems)
        )


def _read_json(document: Document, raw: bytes) -> Document:
    """Read JSON; falls back to YAML unless the file name ends with .json."""
    try:
        _check_size(raw, "object")
        return replace(document, value=jsontext.decode(raw))
    except UnreadableError as error:
        syntax = error.problems[0].code is codes.JSON_SYNTAX
        if not syntax or document.source.name.endswith(".json"):
            raise
        try:
            return replace(document, value=_yaml_value(raw), format="yaml")
        except UnreadableError as other:
            # If it is not YAML either, a text that starts like a JSON object was meant as JSON.
            raise (error if raw.lstrip(b" \t\r\n{[")[:1] in {b'"', b"}"} else other) from None


def _yaml_value(raw: bytes) -> Value:
    _check_size(raw, "document")
    if encoding := _detect_encoding(raw):
        raise UnreadableError(
            DocumentProblem(codes.NOT_UTF8, f"the file is encoded in {encoding}, not UTF-8")
        )
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise UnreadableError(jsontext.encoding_problem(raw)) from None
    try:
        root = compose(text)
        return None if root is None else construct(root)
    except UnreadableError as error:
        template = find_template(text)
        broken = error.problems[0].code in {codes.YAML_SYNTAX, codes.KEY_NOT_TEXT}
        if broken and template is not None:
            raise UnreadableError(template) from None
        raise


def _check_size(raw: bytes, noun: str) -> None:
    if len(raw) > MAX_BYTES:
        message = f"the {noun} has {len(raw)} bytes, but at most {MAX_BYTES} are supported"
        raise UnreadableError(DocumentProblem(codes.DOCUMENT_TOO_LARGE, message))


def _split_json_list(document: Document, shell: jsontext.ListShell) -> Iterator[Document]:
    """Yield the unread items of a List in JSON, each with its own bytes."""
    data = document.source.data
    base = document.end - len(document.raw.removeprefix(BOM))
    line, counted = document.line, document.start
    envelope = ListEnvelope(shell.fields)
    for at, piece in enumerate(shell.items):
        start, end = base + piece.start, base + piece.end
        line += data.count(b"\n", counted, start)
        counted = start
        yield replace(
            document, index=at + 1, start=start, end=end, line=line, item=("items", at),
            envelope=envelope,
        )  # fmt: skip


def _typed(item: Document, shell: jsontext.ListShell) -> Document:
    """Read an item, and add its type."""
    item = _read_document(item)
    typed = _add_type(item.value, shell.kind, shell.api_version)
    return item if item.findings else replace(item, value=typed)


def _recognize(
    item: Document, shell: jsontext.ListShell, recognize: Recognize | None
) -> Document | None:
    if recognize is None or item.end - item.start > MAX_BYTES:
        return None
    raw, kind = item.raw, shell.kind.removesuffix("List")
    recognized = recognize(raw, shell.api_version if kind else "", kind)
    if recognized is None or not jsontext.is_all_of(raw, recognized.whole):
        return None
    return replace(item, value=recognized.value, decoded=recognized.decoded)


def _checked_object(document: Document, *, unfinished: bool) -> Document:
    """Replace the value of a document that is not a Kubernetes object with a finding."""
    # A null in a List is an error, unlike a document with only comments.
    if document.findings or (document.empty and not document.item):
        return document
    problem = check_object(document.value, unfinished=unfinished)
    value = document.value
    if problem is None and document.item and isinstance(value, dict) and value["kind"] == "List":
        message = "the item is a List; only the items of the outer List are read"
        problem = DocumentProblem(codes.LIST_IN_LIST, message)
    if problem is None:
        return document
    finding = problem.code.at(format_path(problem.path), problem.message, object=document.name)
    located = document.locate_finding(finding)
    refused = None if problem.code is codes.LIST_IN_LIST else value
    return replace(document, value=None, findings=(located,), refused=refused)
