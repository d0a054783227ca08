"""Prints edited manifests: as text, as data, as differences, as a report, or into a folder."""

import argparse
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from cli.input.special_files import BUILD_NAME
from cli.terminal import output
from cli.terminal.streams import Streams, write_data
from cli.translation.edited_manifests import EditResult
from cli.translation.manifest_text import (
    describe_changes,
    detect_newline,
    join_documents,
    print_each,
)
from cli.translation.output_folder import compare_files, remove_emptied, write_folder
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun
from drawbridge.report.tables import escape_unprintable

# Returns the lines about the workloads, and the lines of the summary.
Describe = Callable[[], tuple[list[str], list[str]]]


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command that edits manifests."""
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with code 1 if something changes"
    )
    parser.add_argument(
        "--output-dir",
        metavar="DIR",
        help="write the manifests into this folder under their own names, and print the report",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="allow --output-dir to overwrite the input"
    )
    output.add_strict_option(parser)
    output.add_detail_options(parser)
    output.add_format_option(parser, "yaml", "json", "diff", "report")
    # With --output-dir, the default is the report. Findings must not reach `kubectl apply`.
    parser.set_defaults(output=None, data_forms=("json",))


def write_output_folder(result: EditResult, options: argparse.Namespace, streams: Streams) -> None:
    """Write the manifests into the folder of the options, if there is one."""
    if options.output_dir is None:
        return
    number, problems = write_folder(
        result, options.output_dir, options.filename, overwrite=options.overwrite
    )
    result.findings += problems
    emptied = [] if problems else [*remove_emptied(result, options.output_dir, options.filename)]
    if not options.quiet:
        written = count_noun(number, "file")
        streams.err.write(f"{written} written to {escape_unprintable(options.output_dir)}\n")
        for path, is_deleted in emptied:
            what = "is deleted" if is_deleted else "can be deleted"
            name = escape_unprintable(path)
            streams.err.write(f"{name} {what}: nothing in the input uses its templates\n")
        for file in result.files if number else ():
            folder = Path(file.source.name)
            if folder.name == BUILD_NAME:
                built = escape_unprintable(f"{folder.parent}")
                streams.err.write(
                    f"{built} was built with kustomize: its sources are not edited. To edit them, "
                    "pass the files one by one.\n"
                )


def print_result(
    result: EditResult, options: argparse.Namespace, streams: Streams, describe: Describe
) -> None:
    """Print the result in the format of the options."""
    form = options.output or ("yaml" if options.output_dir is None else "report")
    templates = list(result.templates.values())
    shown = output.select_findings(result.findings, quiet=options.quiet, verbose=options.verbose)
    if form == "json":
        output.print_value(_as_data(result), "json", streams.out)
    elif form == "report":
        lines, summary = describe()
        streams.out.writelines(f"{line}\n" for line in lines)
        findings = _sort(shown, result)
        findings = findings if options.verbose else _join_equal(findings)
        output.print_findings(findings, streams.out, color=streams.color)
        if not options.quiet:
            output.print_hidden(len(result.findings) - len(shown), streams.out)
        streams.out.writelines(f"{line}\n" for line in summary)
    else:
        if form == "yaml":
            write_data(streams.out, _as_stream(result, templates))
        else:
            # A patch applies to the bytes of a file, also to invalid text.
            changes = "".join(_diff(result, options))
            write_data(streams.out, changes.encode(errors="surrogateescape"))
        # The findings follow the manifests, also where both streams are one.
        streams.out.flush()
        joined = shown if options.verbose else _join_equal(shown, by_object=True)
        output.print_findings(joined, streams.err)


def _as_stream(result: EditResult, templates: Sequence[Mapping[str, Value]]) -> bytes:
    """Return the manifests as YAML documents, or as one JSON document if all of them are JSON."""
    objects = [*(item for each in result.values for item in _items(each)), *templates]
    if result.is_json and len(result.values) + len(templates) > 1:
        text = io.StringIO()
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        output.print_value(listed, "json", text)
        return text.getvalue().encode(errors="surrogatepass")
    texts = [each.text for each in result.files if each.text]
    # kubectl reads a stream that begins with JSON as JSON to its end.
    is_mixed = len(texts) + len(templates) > 1 and texts[0].lstrip()[:1] in (b"{", b"[")
    newline = detect_newline(texts)
    joined = join_documents([*texts, *print_each(templates, newline)], newline)
    return (b"---" + newline if is_mixed else b"") + joined


def _items(value: Value) -> list[Value]:
    """Return the objects of a List, or the object itself."""
    items = get_value(value, ("items",))
    is_list = f"{get_value(value, ('kind',))}".endswith("List")
    return items if is_list and isinstance(items, list) else [value]


def _as_data(result: EditResult) -> dict[str, object]:
    return {
        "objects": result.values,
        "templates": list(result.templates.values()),
        **output.findings_as_data(result.findings),
        "changed": result.changed,
    }


def _sort(findings: Sequence[LocatedFinding], result: EditResult) -> list[LocatedFinding]:
    """Sort the findings by file and line; those about no file are first."""
    order = {each.source.name: number for number, each in enumerate(result.files)}
    return sorted(findings, key=lambda each: (order.get(each.source, -1), each.line, each.column))


def _join_equal(
    findings: Sequence[LocatedFinding], *, by_object: bool = False
) -> list[LocatedFinding]:
    """Return the first finding of each message, or of each object, with the number of others."""
    groups: dict[object, list[LocatedFinding]] = {}
    for place in findings:
        key = (place.finding.severity, place.finding.code, place.finding.message)
        about = (place.source, place.finding.object) if by_object else ()
        groups.setdefault((key, about), []).append(place)
    return [_with_count(group[0], len(group) - 1) for group in groups.values()]


def _with_count(located: LocatedFinding, more: int) -> LocatedFinding:
    if not more:
        return located
    message = f"{located.finding.message} (the same in {count_noun(more, 'other place')})"
    finding = replace(located.finding, message=message)
    return LocatedFinding(finding, located.source, located.line, located.column)


def _diff(result: EditResult, options: argparse.Namespace) -> Iterator[str]:
    """Yield the differences between the inputs and the files that `--output-dir` writes."""
    for name, before, after in compare_files(result, options.filename):
        old = f"a/{name}" if before is not None else "/dev/null"
        yield from describe_changes(before or b"", after, old, f"b/{name}", whole=options.verbose)
