"""Files to documents: the one reader of YAML and JSON for every command.

`documents` reads a stream as it is written; `objects` takes Lists apart as well and says of each
document whether it is a Kubernetes object. Any bytes give documents, each with a value or with
findings. Knows nothing of where bytes come from, nor of what objects mean.
"""

from collections.abc import Iterator
from dataclasses import replace

from documents import codes, jsontext
from documents.construct import construct
from documents.document import Document, DocumentFormat, Source, decode_text
from documents.manifest import check_object, find_template, may_have_placeholders
from documents.nodes import compose
from documents.paths import format_path
from documents.problems import DocumentProblem, UnreadableError
from documents.split import BOM, Chunk, split_documents
from documents.values import Value

MAX_BYTES = 16 * 1024 * 1024
MAX_UNREADABLE = 1000

_FOREIGN = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def read_documents(source: Source) -> Iterator[Document]:
    """Read the documents of a file in order; those without content are there too, empty."""
    return _bounded(_read(document) for document in _chunks(source))


def read_objects(source: Source) -> Iterator[Document]:
    """Read the Kubernetes objects of a file: Lists taken apart, anything else with a finding.

    A List in JSON is read item by item, whatever its size.
    """
    return _bounded(_objects(source))


def _objects(source: Source) -> Iterator[Document]:
    for document in _chunks(source):
        raw = document.raw.removeprefix(BOM)
        shell = jsontext.open_list(raw) if document.format == "json" else None
        if shell is not None:
            for item in _cut(document, shell):
                yield _recognised(item, unfinished=may_have_placeholders(item.raw))
        else:
            unfinished = may_have_placeholders(raw)
            for item in split_list(_read(document)):
                yield _recognised(item, unfinished=unfinished)


def _bounded(read: Iterator[Document]) -> Iterator[Document]:
    """Give up on a file that is nothing but mistakes: it must not become a longer list of them."""
    unreadable = 0
    for document in read:
        unreadable += bool(document.findings)
        if unreadable > MAX_UNREADABLE:
            message = f"{MAX_UNREADABLE} documents before this one could not be read"
            problem = DocumentProblem(
                codes.MORE_UNREADABLE, f"{message}; what follows is left as it is"
            )
            rest = replace(document, value=None, findings=(), end=len(document.source.data))
            yield replace(rest, findings=(rest.make_finding(problem, ""),))
            return
        yield document


def split_list(document: Document) -> Iterator[Document]:
    """Yield the objects of a List, or the document itself when it is none."""
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield document
        return
    version = value.get("apiVersion") if isinstance(value, dict) else None
    for at, item in enumerate(items):
        typed = _typed(item, kind, version)
        place = ("items", at)
        yield replace(document, value=typed, index=at + 1, item=place, within=place)


def _typed(item: Value, kind: str, version: Value) -> Value:
    """Give an item of a typed list (`PodList`) the type that it may leave out."""
    if not isinstance(item, dict) or kind == "List":
        return item
    return {"apiVersion": version, "kind": kind.removesuffix("List"), **item}


def _chunks(source: Source) -> Iterator[Document]:
    """Yield the documents of a file, not yet read; what has content is counted."""
    position = line = 1
    counted = 0
    for chunk in (
        [Chunk(0, len(source.data))] if _foreign(source.data) else split_documents(source.data)
    ):
        line += source.data.count(b"\n", counted, chunk.start)
        counted = chunk.start
        head = source.data[chunk.start : chunk.start + 512].removeprefix(BOM).lstrip()
        like_json = head[:1] in {b"{", b"["} and head[:2] not in {b"{{", b"{%"}
        form: DocumentFormat = "json" if like_json or source.name.endswith(".json") else "yaml"
        yield Document(source, position, chunk.start, chunk.end, line, form)
        position += not chunk.blank


def _foreign(data: bytes) -> str | None:
    """Name the encoding when it is one of those that are not read."""
    for mark, name in _FOREIGN:
        if data.startswith(mark):
            return name
    return "UTF-16" if b"\0" in data[:2] else None


def _read(document: Document) -> Document:
    """Read one document; what is wrong becomes its findings."""
    raw = document.raw.removeprefix(BOM)
    try:
        if document.format == "json":
            return _read_json(document, raw)
        return replace(document, value=_yaml_value(raw))
    except UnreadableError as error:
        text = decode_text(raw)
        return replace(document, findings=tuple(document.make_finding(p, text) for p in error.problems))


def _read_json(document: Document, raw: bytes) -> Document:
    """Read JSON; what only looks like it may be YAML, unless the name of the file says JSON."""
    try:
        _small_enough(raw, "object")
        return replace(document, value=jsontext.decode(raw))
    except UnreadableError as error:
        syntax = error.problems[0].code is codes.JSON_SYNTAX
        if not syntax or document.source.name.endswith(".json"):
            raise
        try:
            return replace(document, value=_yaml_value(raw), format="yaml")
        except UnreadableError as other:
            # Where even YAML finds no sense, what starts as an object of JSON was meant as one.
            raise (error if raw.lstrip(b" \t\r\n{[")[:1] in {b'"', b"}"} else other) from None


def _yaml_value(raw: bytes) -> Value:
    _small_enough(raw, "document")
    if encoding := _foreign(raw):
        raise UnreadableError(DocumentProblem(codes.NOT_UTF8, f"this is {encoding}, not UTF-8"))
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


def _small_enough(raw: bytes, what: str) -> None:
    if len(raw) > MAX_BYTES:
        message = f"the {what} has {len(raw)} bytes, at most {MAX_BYTES} are read"
        raise UnreadableError(DocumentProblem(codes.DOCUMENT_TOO_LARGE, message))


def _cut(document: Document, shell: jsontext.ListShell) -> Iterator[Document]:
    """Yield the items of a List in JSON, each read from bytes of its own."""
    data = document.source.data
    base = document.end - len(document.raw.removeprefix(BOM))
    line, counted = document.line, document.start
    for at, piece in enumerate(shell.items):
        start, end = base + piece.start, base + piece.end
        line += data.count(b"\n", counted, start)
        counted = start
        item = replace(document, index=at + 1, start=start, end=end, line=line, item=("items", at))
        item = _read(item)
        typed = _typed(item.value, shell.kind, shell.api_version)
        yield item if item.findings else replace(item, value=typed)


def _recognised(document: Document, *, unfinished: bool) -> Document:
    """Turn what is no Kubernetes object into a finding."""
    # A null in a List is no comment that could be passed over.
    if document.findings or (document.empty and not document.item):
        return document
    problem = check_object(document.value, unfinished=unfinished)
    if problem is None:
        return document
    finding = problem.code.at(format_path(problem.path), problem.message, object=document.name)
    return replace(document, value=None, findings=(document.locate_finding(finding),))
