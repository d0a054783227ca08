"""Edits the objects of manifests in their text, for `translate` and `undo`.

An unreadable document, and an object with an error, stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from drawbridge.documents.document import Document, LayoutCache, LocatedFinding, Source
from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_objects
from drawbridge.documents.splice import FormerLines, apply_to_text, rewrite_file
from drawbridge.documents.values import Value
from drawbridge.translate.changes.template import ClaimTemplate, has_same_content
from drawbridge.translate.manifests.codes import TEMPLATE_IN_INPUT_DIFFERS
from drawbridge.translate.manifests.objects import TranslatedObject

TEMPLATE_KIND: Final = "ResourceClaimTemplate"
EditObject = Callable[[Document], TranslatedObject]
# Namespace and name as text, because those of a file can be of any type.
TemplateKey = tuple[str, str]


@dataclass(frozen=True)
class EditedFile:
    """An input file, and its text after the edits."""

    source: Source
    text: bytes


@dataclass(frozen=True)
class EditedObject:
    """An object of the input, and its translation."""

    document: Document
    result: TranslatedObject
    changed: bool


@dataclass
class EditResult:
    """The result for all files.

    `values` has one value for each input document; a List is one. `changed` counts documents, and
    `objects` are all readable objects, which include the items of Lists.
    """

    files: list[EditedFile] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    objects: list[EditedObject] = field(default_factory=list)
    templates: dict[TemplateKey, Mapping[str, Value]] = field(default_factory=dict)
    input_templates: dict[TemplateKey, Document] = field(default_factory=dict)
    findings: list[LocatedFinding] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)  # names of files of which nothing is left
    changed: int = 0
    is_json: bool = True  # all documents with content

    def edit_file(self, source: Source, edit: EditObject, former: FormerLines) -> None:
        """Edit the objects of a file."""
        layouts = LayoutCache()
        results: list[tuple[Document, TranslatedObject]] = []
        for document in read_objects(source):
            self.findings += document.findings
            if document.empty:
                continue
            self.is_json &= document.format == "json" and not document.findings
            result = edit(document)
            self.findings += (document.locate_finding(each, layouts) for each in result.findings)
            results.append((document, result))
            if get_value(document.value, ("kind",)) == TEMPLATE_KIND:
                self.input_templates[template_key(document.value)] = document
        edited = [(document, result.edits) for document, result in results if result.edits]
        data, errors = rewrite_file(source, edited, former) if edited else (source.data, ())
        self.findings += errors
        refused = _unwritable(edited) if errors else frozenset[int]()
        self._add_objects(results, refused)
        self.files.append(EditedFile(source, data))

    def _add_objects(
        self, results: Sequence[tuple[Document, TranslatedObject]], refused: frozenset[int]
    ) -> None:
        """Add the objects of a file, with the items of each List in one value."""
        kept: list[tuple[Document, Value, bool]] = []
        for document, result in results:
            changes = bool(result.edits) and id(document) not in refused
            before = document.refused if document.findings else document.value
            if changes:
                self.templates |= {template_key(dict(each)): each for each in result.templates}
            # Only mappings can be objects; the text of all other documents is in the file.
            if isinstance(before, dict):
                after = apply_edits(before, result.edits) if changes else before
                kept.append((document, after, changes))
                if not document.findings:
                    self.objects.append(EditedObject(document, result, changes))
        for _, group in groupby(kept, key=lambda each: id(each[0].envelope or each[0])):
            parts = list(group)
            envelope = parts[0][0].envelope
            items = [value for _, value, _ in parts]
            self.values.append({**envelope.fields, "items": items} if envelope else items[0])
            self.changed += any(changes for _, _, changes in parts)

    def drop_input_templates(self) -> None:
        """Drop new templates that the input has already; report those with different content."""
        for key, document in self.input_templates.items():
            new = self.templates.pop(key, None)
            existing = document.value
            if new is None or not isinstance(existing, dict):
                continue
            if not has_same_content(existing, ClaimTemplate(key[1], dict(new))):
                message = f"{key[1]} exists in the input with different content"
                finding = TEMPLATE_IN_INPUT_DIFFERS.at("spec", message, object=document.name)
                self.findings.append(document.locate_finding(finding))


def template_key(object_: Value, name: str | None = None) -> TemplateKey:
    """Return what identifies a template in a cluster, or one that an object refers to by name."""
    namespace, own = (get_value(object_, ("metadata", key)) for key in ("namespace", "name"))
    return f"{namespace}", f"{own}" if name is None else name


def _unwritable(edited: Sequence[tuple[Document, Sequence[Edit]]]) -> frozenset[int]:
    """Return the documents whose text cannot be edited."""
    return frozenset(
        id(document)
        for document, edits in edited
        if not isinstance(apply_to_text(document, edits), bytes)
    )
