"""Prints findings and values in the same form for every command.

A finding in text form begins with `file:line:`, so that editors and CI systems can link to it.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TextIO, TypeVar

import msgspec

from cli.terminal.exit_codes import BAD
from cli.terminal.streams import Streams, unescaped, write_data
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Severity
from drawbridge.report.tables import escape_unprintable

_COLOURS: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}
# The forms that programs read. Where one is for manifests, `data_forms` of the options lacks it.
_DATA_FORMS: Final = ("json", "yaml")
_RANK: Final = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


def add_format_option(parser: argparse.ArgumentParser, *choices: str) -> None:
    """Declare `-o`; the first choice is the default."""
    parser.add_argument(
        "-o",
        "--output",
        choices=choices,
        default=choices[0],
        help="output format (default: the first)",
    )


def add_detail_options(parser: argparse.ArgumentParser) -> None:
    """Declare `-q` and `-v`, which select what text output shows."""
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument(
        "-q", "--quiet", action="store_true", help="print errors only; no warnings and no progress"
    )
    detail.add_argument(
        "-v", "--verbose", action="store_true", help="print info findings and all objects, too"
    )


def add_strict_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--strict`."""
    parser.add_argument("--strict", action="store_true", help="exit with code 1 for warnings")


def add_findings_format(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command whose output is findings."""
    add_strict_option(parser)
    add_detail_options(parser)
    add_format_option(parser, "text", "json", "yaml")


def print_found(
    findings: Sequence[LocatedFinding], options: argparse.Namespace, streams: Streams
) -> None:
    """Print the findings as the options of `add_findings_format` say."""
    if options.output == "text":
        shown = select_findings(findings, quiet=options.quiet, verbose=options.verbose)
        print_findings(shown, streams.out, color=streams.color)
        if not options.quiet:
            print_hidden(len(findings) - len(shown), streams.out)
    else:
        print_value(findings_as_data(findings), options.output, streams.out)


def print_hidden(count: int, stream: TextIO) -> None:
    """Say that this many info findings are not shown, and how to see them."""
    if count:
        pronoun = "it" if count == 1 else "them"
        stream.write(f"{count_noun(count, 'info finding')} not shown; -v prints {pronoun}\n")


def select_findings(
    findings: Iterable[LocatedFinding], *, quiet: bool = False, verbose: bool = False
) -> list[LocatedFinding]:
    """Return the findings for a person: without infos, with `quiet` without warnings."""
    least = Severity.ERROR if quiet else Severity.INFO if verbose else Severity.WARNING
    return [each for each in findings if _RANK[each.finding.severity] >= _RANK[least]]


def print_findings(
    located: Iterable[LocatedFinding], stream: TextIO, *, color: bool = False
) -> None:
    """Print each finding on one line, and its remedy on the next."""
    for located_finding in located:
        finding = located_finding.finding
        severity = str(finding.severity)
        if color:
            severity = f"\033[{_COLOURS[finding.severity]}m{severity}\033[0m"
        place = (
            f"{located_finding.source}:{located_finding.line}"
            if located_finding.line
            else located_finding.source
        )
        # The object of a finding about a whole file is the file, which is printed before it.
        about = "" if finding.object == located_finding.source else finding.object
        subject = " ".join(part for part in (about, finding.path) if part)
        # A message may quote input. Control characters in it must not reach the terminal.
        prefix = f"{escape_unprintable(place)}: " if place else ""
        text = escape_unprintable(": ".join(part for part in (subject, finding.message) if part))
        stream.write(f"{prefix}{severity}: {text} [{finding.code}]\n")
        stream.write(f"    {escape_unprintable(finding.remedy)}\n")


def write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Write lines of text. What a name from elsewhere contains stays on its line."""
    stream.writelines(f"{escape_unprintable(line)}\n" for line in lines)


def print_answer(form: str, data: object, lines: Iterable[str], stream: TextIO) -> None:
    """Print what a command found: as lines of text, or else as data."""
    if form == "text":
        write_lines(lines, stream)
    else:
        print_value(data, form, stream)


def print_value(data: object, form: str, stream: TextIO) -> None:
    """Print plain data as `json` or `yaml`."""
    if form == "json":
        write_data(stream, f"{json.dumps(data, indent=2, ensure_ascii=False)}\n")
        return
    import yaml  # noqa: PLC0415  # takes 15 ms, which JSON output does not need

    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    write_data(stream, text)


def findings_as_data(located: Iterable[LocatedFinding]) -> dict[str, list[object]]:
    """Convert findings to the form that every command prints in JSON and YAML."""
    return {"findings": [_as_data(each) for each in located]}


def _as_data(located: LocatedFinding) -> dict[str, object]:
    """Convert a finding; one from a file has the file, and its line and column if known."""
    data: dict[str, object] = msgspec.to_builtins(located.finding)
    if located.source:
        data["file"] = located.source
    return {**data, "line": located.line, "column": located.column} if located.line else data


T = TypeVar("T")
# Fewer files are done before a person can read the line.
_LEAST, _EVERY = 200, 50
_CLEAR = "\r\033[K"


def progress_writer(options: argparse.Namespace, streams: Streams) -> Callable[[str], None]:
    """Return a function that shows on a terminal what is done; an empty text removes it."""
    terminal = unescaped(streams.err)

    def report(text: str) -> None:
        if not options.quiet and terminal.isatty():
            terminal.write(f"{_CLEAR}{escape_unprintable(text)}")
            terminal.flush()

    return report


def with_progress(files: Sequence[T], options: argparse.Namespace, streams: Streams) -> Iterator[T]:
    """Yield the files, and print their number on stderr if that is a terminal."""
    if len(files) < _LEAST:
        yield from files
        return
    report = progress_writer(options, streams)
    try:
        for number, file in enumerate(files):
            if number % _EVERY == 0:
                report(f"{number:,} of {len(files):,} files")
            yield file
    finally:
        report("")


def print_unreadable(
    findings: Sequence[LocatedFinding], options: argparse.Namespace, streams: Streams
) -> int:
    """Print why a command has no result, as data if `-o` asks for it; returns the exit code."""
    form = getattr(options, "output", "")
    if form in getattr(options, "data_forms", _DATA_FORMS):
        print_value(findings_as_data(findings), form, streams.out)
    else:
        print_findings(findings, streams.err)
    return BAD
