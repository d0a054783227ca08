"""`drawbridge cel`: tries a selector on devices, or many selectors at once.

Evaluates as Kubernetes does. Exit code 0 when everything compiled, 2 when something did not or
could not be read. Knows nothing of the language; that is `cel`.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from cel.dra.environment import view
from cel.dra.selectors import Selectors, position
from cel.environment import Program
from cel.errors import CompileError, EvaluationError, Problem
from cli.streams import Streams
from dra.device import Device

NAME = "cel"
HELP = "try a CEL selector on the devices of an inventory, or many selectors at once"

COMPILED, BAD = 0, 2
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
DEFAULT_VERSION = "1.36"


def arguments(parser: argparse.ArgumentParser) -> None:  # house: long, it is a table
    """Declare the expression, the devices to try it on, and the batch."""
    parser.add_argument("expression", nargs="?", metavar="EXPR", help="the selector")
    parser.add_argument(
        "--inventory",
        "--cluster",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        help="files and folders with ResourceSlices (- for standard input)",
    )
    parser.add_argument(
        "--batch",
        metavar="FILE|-",
        help='JSON lines {"device", "expression", "list_attributes"} to judge, one answer a line',
    )
    parser.add_argument(
        "--kubernetes-version",
        choices=VERSIONS,
        default=DEFAULT_VERSION,
        help=f"answer as this version does (default: {DEFAULT_VERSION})",
    )
    parser.add_argument(
        "--list-attributes",
        choices=("on", "off"),
        default="off",
        help="the feature gate DRAListTypeAttributes (default: off; a batch says it by line)",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format (default: text)"
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Judge what was given; either an expression or a batch."""
    if (options.expression is None) == (options.batch is None):
        streams.err.write("cel: give either an expression or --batch\n")
        return BAD
    if options.batch is not None:
        return batch(options, streams)
    return single(options, streams)


def batch(options: argparse.Namespace, streams: Streams) -> int:
    """Answer JSON lines, one each; a line that cannot be read is answered with its error."""
    from cli.cel_batch import answers  # noqa: PLC0415  # brings in what starts processes

    code = COMPILED
    try:
        for answer in answers(_lines(options.batch, streams), options.kubernetes_version):
            code = code if answer.compiled else BAD
            streams.out.write(answer.line.decode() + "\n")
    except OSError as error:
        if options.batch == "-" or isinstance(error, BrokenPipeError):
            raise
        streams.err.write(f"cel: {options.batch}: {error.strerror}\n")
        return BAD
    return code


def _lines(name: str, streams: Streams) -> Iterator[bytes]:
    if name == "-":
        yield from _said(streams.stdin)
        return
    with Path(name).open("rb") as stream:
        yield from _said(stream)


def _said(stream: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in stream if line.strip())


def single(options: argparse.Namespace, streams: Streams) -> int:
    """Try one expression on every device of the inventory."""
    selectors = Selectors(
        options.kubernetes_version, list_attributes=options.list_attributes == "on"
    )
    source = options.expression
    admitted, refused = selectors.admitted(source)
    try:
        program = selectors.stored.compile(source)
    except CompileError as error:
        return _refused(source, error.problems, options.output, streams)
    devices, readable = _devices(options.inventory, streams)
    rows = [_tried(program, selectors, device) for device in devices]
    if options.output == "json":
        shown = {
            "compile": "ok",
            "admitted": admitted,
            "error": refused and _plain(refused),
            "devices": [{key: row[key] for key in _SHOWN} for row in rows],
        }
        streams.out.write(msgspec.json.format(msgspec.json.encode(shown)).decode() + "\n")
    else:
        _print(source, program, rows, streams, admitted=admitted, refused=refused)
    return COMPILED if readable else BAD


_SHOWN = ("driver", "pool", "device", "result", "error")
Row = dict[str, object]
Placed = tuple[str, str, Device]


def _devices(paths: Sequence[str], streams: Streams) -> tuple[list[Placed], bool]:
    """The devices of an inventory, and whether all of it could be read."""
    if not paths:
        return [], True
    from cli import output  # noqa: PLC0415  # a batch needs no documents, and starts without
    from cli.input_files import read  # noqa: PLC0415
    from cli.world import world  # noqa: PLC0415

    files = world(read(paths, streams.stdin))
    output.findings(files.findings, streams.err)
    found = [(each.driver, each.pool, device) for each in files.slices for device in each.devices]
    return found, not any(located.finding.severity == "error" for located in files.findings)


def _tried(program: Program, selectors: Selectors, place: Placed) -> Row:
    driver, pool, device = place
    row: Row = {"driver": driver, "pool": pool, "device": device.name, "error": None, "offset": -1}
    try:
        found = program.evaluate(view(driver, device, list_attributes=selectors.lists))
    except EvaluationError as error:
        return {**row, "result": "error", "error": error.message, "offset": error.offset}
    return {**row, "result": found.value}


def _refused(source: str, problems: Sequence[Problem], output: str, streams: Streams) -> int:
    if output == "json":
        shown = {
            "compile": "error",
            "admitted": False,
            "error": _plain(problems[0]),
            "devices": [],
        }
        streams.out.write(msgspec.json.format(msgspec.json.encode(shown)).decode() + "\n")
        return BAD
    for problem in problems:
        place = (problem.line, problem.column) if problem.line > 0 else None
        streams.err.write(f"error: {problem.message}\n{_caret(source, place)}")
    return BAD


def _plain(problem: Problem) -> str:
    """A problem as one text, as the reference prints it."""
    place = f"{problem.line}:{problem.column}: " if problem.line > 0 else ""
    return f"{place}{problem.message}"


def _print(  # noqa: PLR0913  # what there is to say
    source: str,
    program: Program,
    rows: Sequence[Row],
    streams: Streams,
    *,
    admitted: bool,
    refused: Problem | None,
) -> None:
    if not admitted:
        why = refused.message if refused else f"estimated cost {program.max_cost}, or too long"
        streams.err.write(f"warning: a new object with this selector is refused: {why}\n")
    if not rows:
        streams.out.write("compiles\n")
    for row in rows:
        name = f"{row['driver']}/{row['pool']}/{row['device']}"
        if row["result"] == "error":
            streams.out.write(f"{name}: error: {row['error']}\n")
            offset = row["offset"]
            assert isinstance(offset, int)  # noqa: S101  # as _tried made it
            streams.out.write(_caret(source, position(source, offset)))
        else:
            streams.out.write(f"{name}: {'true' if row['result'] else 'false'}\n")


def _caret(source: str, place: tuple[int, int] | None) -> str:
    """The line of the source with a caret under the place, nothing where it is not known."""
    if place is None:
        return ""
    line, column = place
    lines = source.split("\n")
    if line > len(lines):
        return ""
    shown = lines[line - 1].replace("\t", " ")
    return f"  {shown}\n  {' ' * (column - 1)}^\n"
