"""Prints edited manifests: as text, as data, as differences, as a report, or into a folder."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from cli.terminal import output
from cli.terminal.streams import Streams
from cli.translation.edited_manifests import EditResult, template_key
from cli.translation.manifest_text import describe_changes, join_documents, print_each, write_bytes
from drawbridge.documents.document import LocatedFinding
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
    # With --output-dir, the default is the report.
    parser.set_defaults(output=None)


def write_output_folder(result: EditResult, options: argparse.Namespace, streams: Streams) -> None:
    """Write the manifests into the folder of the options, if there is one."""
    if options.output_dir is None:
        return
    from cli.translation.output_folder import write_folder  # noqa: PLC0415  # only this option needs it

    number, problems = write_folder(
        result, options.output_dir, options.filename, overwrite=options.overwrite
    )
    result.findings += problems
    if not options.quiet:
        written = count_noun(number, "file")
        streams.err.write(f"{written} written to {escape_unprintable(options.output_dir)}\n")


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
        streams.out.writelines(f"{line}\n" for line in summary)
    else:
        if form == "yaml":
            texts = [*(each.text for each in result.files), *print_each(templates)]
            write_bytes(streams.out, join_documents(texts))
        else:
            streams.out.writelines(_diff(result, templates, whole=options.verbose))
        # The findings follow the manifests, also where both streams are one.
        streams.out.flush()
        output.print_findings(shown, streams.err)


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


def _join_equal(findings: Sequence[LocatedFinding]) -> list[LocatedFinding]:
    """Return the first finding of each message, with the number of the other ones."""
    groups: dict[object, list[LocatedFinding]] = {}
    for place in findings:
        key = (place.finding.severity, place.finding.code, place.finding.message)
        groups.setdefault(key, []).append(place)
    return [_with_count(group[0], len(group) - 1) for group in groups.values()]


def _with_count(located: LocatedFinding, more: int) -> LocatedFinding:
    if not more:
        return located
    message = f"{located.finding.message} (and {more:,} more)"
    finding = replace(located.finding, message=message)
    return LocatedFinding(finding, located.source, located.line, located.column)


def _diff(
    result: EditResult, templates: Sequence[Mapping[str, Value]], *, whole: bool
) -> Iterator[str]:
    for file in result.files:
        name = file.source.name.lstrip("/")
        before, after = file.source.data, file.text
        yield from describe_changes(before, after, f"a/{name}", f"b/{name}", whole=whole)
    for template, text in zip(templates, print_each(templates), strict=True):
        name = f"b/{template_key(dict(template))[1]}.yaml"
        yield from describe_changes(b"", text, "/dev/null", name, whole=whole)
