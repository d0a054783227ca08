"""`drawbridge undo`: restores the original requests in translated manifests from their annotation.

Leaves out the claim templates that the translation added and nothing in the input uses any more.
With `--context` and without files, reads the translated workloads of a namespace.
"""

import argparse
import io
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cli.input.files import read_sources
from cli.terminal.cluster_options import LIVE, add_manifests_option, add_shared_options
from cli.terminal.exit_codes import BAD, DONE, NOTICE, exit_code
from cli.terminal.output import print_value, with_progress
from cli.terminal.streams import Streams
from cli.translation import edit_output
from cli.translation.edited_manifests import (
    TEMPLATE_KIND,
    EditedFile,
    EditResult,
    TemplateKey,
    template_key,
)
from cli.translation.live_workloads import read_live_workloads
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.former_lines import says_unended
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_documents
from drawbridge.documents.splice import FormerLines, apply_to_text
from drawbridge.documents.values import Value, as_list
from drawbridge.translate.changes.template import has_generated_name
from drawbridge.translate.manifests.objects import TranslatedObject
from drawbridge.translate.manifests.readable_names import has_readable_name
from drawbridge.translate.manifests.undone import undo_object

_MARKER: Final = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
EXIT_CODES = {
    DONE: "undone, or nothing to undo",
    NOTICE: "with --exit-code: something changes; with --strict: warnings",
    BAD: "errors, or bad input",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the manifests and the output."""
    add_manifests_option(parser, required=False)
    add_shared_options(parser, *LIVE, "--namespace")
    edit_output.add_edit_options(parser)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the original manifests."""
    sources = list(_read_sources(options, streams))
    if not sources:
        text = "pass manifests with -f, or a cluster with --context"
        streams.err.write(f"drawbridge undo: error: {text}\n")
        return BAD
    result = EditResult()
    for source in with_progress(sources, options, streams):
        if isinstance(source, LocatedFinding):
            result.findings.append(source)
        else:
            result.edit_file(source, _undo_document, FormerLines.PUT_BACK)
    unused = _unused_templates(result)
    _leave_out(result, unused)
    edit_output.write_output_folder(result, options, streams)
    edit_output.print_result(result, options, streams, lambda: _describe(result, len(unused)))
    changed = options.exit_code and bool(result.changed)
    return exit_code(result.findings, strict=options.strict, changed=changed)


def _undo_document(document: Document) -> TranslatedObject:
    if document.findings:
        return TranslatedObject()
    return undo_object(document.value, document.name)


# --- templates that are no longer used -----------------------------------------------------------


def _unused_templates(result: EditResult) -> dict[TemplateKey, Document]:
    """Return the templates of translations that objects of the input referred to, but no longer."""
    before = {key for each in result.objects for key in _references(each.document.value)}
    after = {key for value in result.values for key in _references_of(value)}
    return {
        key: document
        for key, document in result.input_templates.items()
        if key in before - after
        and isinstance(document.value, dict)
        and (has_generated_name(document.value) or has_readable_name(document.value))
    }


def _references_of(value: Value) -> Iterator[TemplateKey]:
    """Yield the templates that an object or the objects of a List refer to."""
    items = get_value(value, ("items",))
    for item in items if isinstance(items, list) else [value]:
        yield from _references(item)


def _references(value: Value) -> Iterator[TemplateKey]:
    for name in _template_names(value):
        yield template_key(value, name)


def _template_names(value: Value) -> Iterator[str]:
    """Yield the names of templates anywhere in an object, also in the patches of workflows."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str) and key == "resourceClaimTemplateName":
                yield inner
            elif isinstance(inner, str) and key == "podSpecPatch":
                yield from inner.split('"')
            else:
                yield from _template_names(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _template_names(item)


def _leave_out(result: EditResult, unused: Mapping[TemplateKey, Document]) -> None:
    """Remove these templates from the text and from the values."""
    if not unused:
        return
    result.values = [
        _without_items(each, unused) for each in result.values if not _is_one_of(each, unused)
    ]
    names = {each.source.name for each in unused.values()}
    result.files = [
        _without(file, unused) if file.source.name in names else file for file in result.files
    ]
    left = [each for each in result.files if each.text.strip() or not each.source.data]
    result.emptied = [each.source.name for each in result.files if each not in left]
    result.files = left


def _without_items(value: Value, unused: Mapping[TemplateKey, Document]) -> Value:
    """Remove templates from a List; the List around one object and its templates goes too."""
    items = get_value(value, ("items",))
    if not isinstance(value, dict) or not isinstance(items, list):
        return value
    kept = [item for item in items if not _is_one_of(item, unused)]
    is_bare = value.keys() == {"apiVersion", "kind", "items"} and value["kind"] == "List"
    return kept[0] if is_bare and len(kept) == 1 < len(items) else {**value, "items": kept}


def _is_one_of(value: Value, unused: Mapping[TemplateKey, Document]) -> bool:
    return get_value(value, ("kind",)) == TEMPLATE_KIND and template_key(value) in unused


def _without(file: EditedFile, unused: Mapping[TemplateKey, Document]) -> EditedFile:
    """Cut the documents of templates, each with the separator before it, and items of Lists."""
    text = file.text
    for document in reversed(list(read_documents(Source(file.source.name, text)))):
        start, end = document.start, document.end
        if _is_one_of(document.value, unused):
            # Comments above a marker are about what stands before it.
            marker = _MARKER.search(text, start, end)
            start = marker.start() if marker else start
            text = text[:start] + text[end:]
            continue
        listed = as_list(get_value(document.value, ("items",)))
        numbers = [n for n, each in enumerate(listed) if _is_one_of(each, unused)]
        rest = _without_items(document.value, unused)
        if document.format == "json" and get_value(rest, ("items",)) is None and numbers:
            # `translate` printed the object and its templates as one JSON document.
            alone = io.StringIO()
            print_value(rest, "json", alone)
            text = text[:start] + alone.getvalue().encode() + text[end:]
            continue
        cut = apply_to_text(document, [Edit("remove", ("items", n)) for n in reversed(numbers)])
        if numbers and isinstance(cut, bytes):
            text = text[:start] + cut + text[end:]
    if says_unended(file.source.data.decode(errors="replace")):
        text = text.removesuffix(b"\n").removesuffix(b"\r")
    return EditedFile(file.source, text)


def _describe(result: EditResult, templates: int) -> tuple[list[str], list[str]]:
    from cli.translation.outcomes import Outcomes  # noqa: PLC0415  # only a report needs it

    return Outcomes(None).describe_undone(result, templates)


# --- a live cluster ------------------------------------------------------------------------------


def _read_sources(
    options: argparse.Namespace, streams: Streams
) -> Iterator[Source | LocatedFinding]:
    yield from read_sources(options.filename, streams.stdin)
    if options.context is not None:
        yield from read_live_workloads(options, lambda value: bool(undo_object(value, "").edits))
