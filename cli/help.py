"""`drawbridge help`: explains a finding's code, or lists all codes by what a person does."""

import argparse
import difflib
from collections.abc import Iterable, Iterator
from itertools import groupby
from textwrap import wrap
from typing import Final

from cli.commands import COMMANDS, parser_for
from cli.former_commands import FORMER, renew
from cli.terminal import output
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.finding import EXPLAINED, Code
from drawbridge.report.tables import align_columns, escape_unprintable

EXIT_CODES = {DONE: "printed", BAD: "neither a code nor a command"}
_WIDTH: Final = 100
_MOST_NEAR: Final = 3


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the code and the output format."""
    parser.add_argument(
        "topic",
        nargs="?",
        metavar="CODE|COMMAND",
        help="the word in brackets behind a finding, in any case, or the name of a command",
    )
    output.add_format_option(parser, "text", "json", "yaml")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print one code, the usage of a command, or the list of all codes."""
    if options.topic is None:
        _print_all(options.output, streams)
        return DONE
    topic = options.topic.strip("[]").lower()
    codes = {name.lower(): code for name, code in EXPLAINED.items()}
    if topic in codes:
        _print_code(codes[topic], options.output, streams)
        return DONE
    if topic in FORMER:
        renewed = renew(topic, ())
        streams.err.write(renewed.describe(topic, "drawbridge"))
        topic = renewed.words[0]
    if topic in COMMANDS:
        parser_for((topic,), "drawbridge").subparsers()[topic].print_help(streams.out)
        return DONE
    names = [*(code.name for code in codes.values()), *COMMANDS]
    streams.err.write(f"{_describe_unknown(options.topic, names)}\n")
    return BAD


def _describe_unknown(topic: str, names: Iterable[str]) -> str:
    by_lower = {name.lower(): name for name in names}
    lower = topic.lower()
    near = difflib.get_close_matches(lower, by_lower, n=_MOST_NEAR, cutoff=0.5)
    near += (each for each in by_lower if lower in each and each not in near)
    shown = " or ".join(by_lower[each] for each in near[:_MOST_NEAR])
    hint = f"did you mean {shown}?" if shown else "run `drawbridge help` for the list of codes"
    return f"error: {escape_unprintable(topic)} is neither a code nor a command; {hint}"


def _print_code(code: Code, form: str, streams: Streams) -> None:
    output.print_answer(form, _code_as_data(code), format_code(code), streams.out)


def format_code(code: Code) -> Iterator[str]:
    """Format the meaning, an example and the remedy of a code as paragraphs."""
    yield f"{code.name} ({code.severity})"
    for title, text in (("", code.text), ("Example: ", code.example), ("Remedy: ", code.remedy)):
        yield ""
        yield from wrap(f"{title}{text}", _WIDTH, break_long_words=False, break_on_hyphens=False)


def _print_all(form: str, streams: Streams) -> None:
    listed = [_code_as_data(code) for code in EXPLAINED.values()]
    output.print_answer(form, {"codes": listed}, _format_list(), streams.out)


def _format_list() -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for activity, codes in groupby(EXPLAINED.values(), key=lambda code: code.activity):
        rows += [("",), (f"{activity}:",)] if rows else [(f"{activity}:",)]
        rows += [(f"  {code.name}", f"{code.severity}", _summary(code)) for code in codes]
    yield from align_columns(rows)
    yield ""
    yield "Run `drawbridge help CODE` for the meaning, an example and the remedy of a code."


def _summary(code: Code) -> str:
    """Return the first sentence of the meaning."""
    return code.text.partition(". ")[0].rstrip(".")


def _code_as_data(code: Code) -> dict[str, object]:
    return {
        "name": code.name,
        "severity": code.severity.value,
        "text": code.text,
        "example": code.example,
        "remedy": code.remedy,
        "activity": code.activity,
    }
