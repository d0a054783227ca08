"""`drawbridge cel`: evaluates a selector on devices, or a batch of selectors.

Compiles and evaluates as Kubernetes does.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from cli.input.facts_file import choose_gates
from cli.terminal import output
from cli.terminal.cluster_options import VERSION, add_shared_options
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams, write_data
from drawbridge.cel.dra.advice import describe_problem
from drawbridge.cel.dra.environment import device_variables
from drawbridge.cel.dra.selectors import Selectors, position
from drawbridge.cel.environment import Program
from drawbridge.cel.errors import CompileError, EvaluationError, Problem
from drawbridge.dra import gates
from drawbridge.dra.counted import count_noun
from drawbridge.dra.device import Device

if TYPE_CHECKING:
    from cli.input.cluster_objects import ClusterObjects

EXIT_CODES = {
    DONE: "compiled, and no device failed",
    NOTICE: "compiled, and it fails on some devices",
    BAD: "an expression does not compile, or bad input",
}
# Lines of the text output, without -v.
_MOST_DEVICES: Final = 20
_MOST_CAUSES: Final = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the expression, the devices and the batch."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("expression", nargs="?", metavar="EXPR", help="the selector expression")
    add_shared_options(parser, "--cluster")
    either.add_argument(
        "--batch",
        metavar="FILE|-",
        help='JSON lines {"device", "expression", "list_attributes"}; prints one result per line',
    )
    add_shared_options(parser, *VERSION)
    output.add_detail_options(parser)
    output.add_format_option(parser, "text", "json")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Evaluate either an expression or a batch."""
    files = _read_files(options.cluster, streams)
    enabled = choose_gates(options, files.version if files else gates.NEWEST)
    if not isinstance(enabled, gates.Gates):
        return output.print_unreadable(enabled, options, streams)
    if options.batch is not None:
        return run_batch(options, enabled, streams)
    return run_expression(options, enabled, files, streams)


def run_batch(options: argparse.Namespace, enabled: gates.Gates, streams: Streams) -> int:
    """Evaluate JSON lines, each with its own gate; the result of a malformed line is its error."""
    from cli.checking.cel_batch import evaluate_lines  # noqa: PLC0415  # loads process pools

    code = DONE
    try:
        for result in evaluate_lines(_lines(options.batch, streams), enabled.version):
            code = max(code, BAD if not result.compiled else NOTICE if result.failed else DONE)
            write_data(streams.out, result.line + b"\n")
    except OSError as error:
        if options.batch == "-" or isinstance(error, BrokenPipeError):
            raise
        streams.err.write(f"cel: {options.batch}: {error.strerror}\n")
        return BAD
    return code


def _lines(name: str, streams: Streams) -> Iterator[bytes]:
    """Yield the lines of a file or of the standard input that are not empty."""
    with nullcontext(streams.stdin) if name == "-" else Path(name).open("rb") as stream:
        yield from (line for line in stream if line.strip())


def run_expression(
    options: argparse.Namespace,
    enabled: gates.Gates,
    files: "ClusterObjects | None",
    streams: Streams,
) -> int:
    """Evaluate one expression on every device of the inventory."""
    selectors = Selectors.of_gates(enabled)
    source = options.expression
    admitted, refused = selectors.check_admission(source)
    try:
        program = selectors.stored.compile(source)
    except CompileError as error:
        return _print_compile_errors(source, error.problems, options.output, streams)
    devices, readable = _list_devices(files, streams) if files else ([], True)
    rows = [_evaluate(program, selectors, device) for device in devices]
    if options.output == "json":
        shown = {
            "compile": "ok",
            "admitted": admitted,
            "error": refused and _problem_text(refused),
            "devices": [{key: row[key] for key in _SHOWN} for row in rows],
        }
        write_data(streams.out, msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
    else:
        if not admitted:
            streams.err.write(f"{_describe_refusal(program, refused)}\n")
        lines = [*_format_results(source, rows, options)] if options.cluster else ["compiles"]
        if rows and not options.quiet and all(row["result"] is False for row in rows):
            from cli.checking.cel_why import explain_no_match  # noqa: PLC0415  # loaded on demand

            views = [
                device_variables(driver, device, list_attributes=selectors.lists)
                for driver, _, device in devices
            ]
            lines += explain_no_match(source, program, selectors, views)
        output.write_lines(lines, streams.out)
    if not readable:
        return BAD
    return NOTICE if any(row["result"] == "error" for row in rows) else DONE


_SHOWN = ("driver", "pool", "device", "result", "error")
DeviceResult = dict[str, object]
PooledDevice = tuple[str, str, Device]


def _read_files(paths: Sequence[str], streams: Streams) -> "ClusterObjects | None":
    """Read an inventory, if there is one."""
    if not paths:
        return None
    from cli.input.cluster_objects import sort_documents  # noqa: PLC0415  # a batch does not need it
    from cli.input.files import read_documents  # noqa: PLC0415

    return sort_documents(read_documents(paths, streams.stdin))


def _list_devices(files: "ClusterObjects", streams: Streams) -> tuple[list[PooledDevice], bool]:
    """Return the devices of an inventory, and whether it was read without errors."""
    output.print_findings(files.findings, streams.err)
    devices = [(each.driver, each.pool, device) for each in files.slices for device in each.devices]
    return devices, not any(located.finding.severity == "error" for located in files.findings)


def _evaluate(program: Program, selectors: Selectors, place: PooledDevice) -> DeviceResult:
    driver, pool, device = place
    row: DeviceResult = {
        "driver": driver,
        "pool": pool,
        "device": device.name,
        "error": None,
        "offset": -1,
    }
    try:
        result = program.evaluate(device_variables(driver, device, list_attributes=selectors.lists))
    except EvaluationError as error:
        return {**row, "result": "error", "error": error.message, "offset": error.offset}
    return {**row, "result": result.value}


def _print_compile_errors(
    source: str, problems: Sequence[Problem], form: str, streams: Streams
) -> int:
    if form == "json":
        shown = {
            "compile": "error",
            "admitted": False,
            "error": _problem_text(problems[0]),
            "devices": [],
        }
        write_data(streams.out, msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
        return BAD
    for problem in problems:
        place = (problem.line, problem.column) if problem.line > 0 else None
        message = describe_problem(problem, source)
        streams.err.write(f"error: {message}\n{_caret(source, place)}")
    return BAD


def _problem_text(problem: Problem) -> str:
    """Format a problem on one line, as cel-go does."""
    place = f"{problem.line}:{problem.column}: " if problem.line > 0 else ""
    return f"{place}{problem.message}"


def _describe_refusal(program: Program, refused: Problem | None) -> str:
    reason = refused.message if refused else f"estimated cost {program.max_cost}, or too long"
    return f"warning: the API server rejects new objects with this selector: {reason}"


def _format_results(
    source: str, rows: Sequence[DeviceResult], options: argparse.Namespace
) -> Iterator[str]:
    """Yield the number of devices that match, their names, and the errors by cause.

    With `-v`, the result of each device comes first, and with `-q` no device is named.
    """
    if options.verbose:
        for row in rows:
            yield _device_name(row) + f": {row['result']}".lower()
    matching = [row for row in rows if row["result"] is True]
    verb = "matches" if len(matching) == 1 else "match"
    yield f"{len(matching):,} of {count_noun(len(rows), 'device')} {verb}"
    if not (options.quiet or options.verbose):
        yield from (f"  {_device_name(row)}" for row in matching[:_MOST_DEVICES])
        yield from _describe_hidden(len(matching) - _MOST_DEVICES, "device")
    causes: dict[tuple[object, object], list[DeviceResult]] = {}
    for row in rows:
        if row["result"] == "error":
            causes.setdefault((row["error"], row["offset"]), []).append(row)
    by_number = sorted(causes.items(), key=lambda each: -len(each[1]))
    for (message, offset), failed in by_number[:_MOST_CAUSES]:
        yield _describe_cause(message, failed, len(rows))
        place = position(source, offset) if isinstance(offset, int) else None
        yield from _caret(source, place).splitlines()
    yield from _describe_hidden(len(causes) - _MOST_CAUSES, "cause")


def _describe_cause(message: object, failed: Sequence[DeviceResult], number: int) -> str:
    example = f", for example {_device_name(failed[0])}" if len(failed) > 1 else ""
    name = f" ({_device_name(failed[0])})" if len(failed) == 1 else ""
    verb = "fails" if len(failed) == 1 else "fail"
    devices = f"{len(failed):,} of {count_noun(number, 'device')} {verb}{name}"
    return f"{devices}: {message}{example}"


def _describe_hidden(number: int, noun: str) -> Iterator[str]:
    if number > 0:
        yield f"  and {count_noun(number, f'more {noun}')}; -v prints each device"


def _device_name(row: DeviceResult) -> str:
    return f"{row['driver']}/{row['pool']}/{row['device']}"


def _caret(source: str, place: tuple[int, int] | None) -> str:
    """Return the source line with a caret under the place; empty if the place is unknown."""
    if place is None:
        return ""
    line, column = place
    lines = source.split("\n")
    if line > len(lines):
        return ""
    shown = lines[line - 1].replace("\t", " ")
    return f"  {shown}\n  {' ' * (column - 1)}^\n"
