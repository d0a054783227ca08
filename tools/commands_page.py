"""Writes docs/commands.md: every option once with its meaning, and the exit codes."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from cli.commands import COMMANDS, load, parser_for
from cli.former_commands import FORMER
from cli.main import EXIT_CODES
from cli.terminal.command_parser import CommandParser
from cli.terminal.exit_codes import ExitCodes

_TEMPLATE = Path(__file__).parent / "commands.md"
_USUAL = ("printed", "no errors", "bad input", "errors, or bad input")
Row = tuple[str, str, str]  # the option, its values, its meaning


def command_parsers() -> dict[str, CommandParser]:
    """Return the parser of each command and subcommand by its words."""
    parsers: dict[str, CommandParser] = {}
    for name, parser in parser_for(COMMANDS, "drawbridge").subparsers().items():
        inner = parser.subparsers()
        parsers |= {f"{name} {word}": each for word, each in inner.items()} or {name: parser}
    return parsers


def render_page() -> str:
    """Return the page."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    parsers = command_parsers()
    for key, lines in {
        "COMMANDS": _commands(),
        "FORMER": _former(),
        "ALL_CODES": _rows(EXIT_CODES),
        "EXIT_CODES": _exit_codes(),
        "POSITIONALS": _positionals(parsers),
        "OPTIONS": _options(parsers),
    }.items():
        text = text.replace(f"<!-- {key} -->", "\n".join(lines))
    return text


def _commands() -> Iterator[str]:
    for name, summary in COMMANDS.items():
        yield f"| `{name}` | {summary} |"


def _former() -> Iterator[str]:
    for name, former in FORMER.items():
        argument = former.with_argument.format("NAME")
        yield f"| `{name}` | `{former.words}`{f', `{argument}`' if argument else ''} |"


def _exit_codes() -> Iterator[str]:
    """Yield what a command means by a code, unless it is what all commands mean."""
    for name in COMMANDS:
        for code, meaning in load(name).EXIT_CODES.items():
            if meaning not in _USUAL:
                yield f"| `{name}` | {code} | {meaning} |"


def _rows(codes: ExitCodes) -> Iterator[str]:
    for code, meaning in codes.items():
        yield f"| {code} | {meaning} |"


def _positionals(parsers: dict[str, CommandParser]) -> Iterator[str]:
    for name, parser in parsers.items():
        for action in parser.positionals():
            yield f"| `{name}` | `{action.metavar}` | {_cell(action.help)} |"


def _options(parsers: dict[str, CommandParser]) -> Iterator[str]:
    """Yield a row for each option and meaning, with the commands that take it.

    The processes in pods are left out: manifests start them.
    """
    rows: dict[Row, list[str]] = {}
    commands = {name: each for name, each in parsers.items() if not name.startswith("serve ")}
    for name, parser in commands.items():
        for action in parser.options():
            if action.dest != "help":
                rows.setdefault(_row(action), []).append(name)
    for (option, values, meaning), names in sorted(rows.items()):
        takers = "every command" if len(names) == len(commands) else _names(names)
        yield f"| {option} | {values} | {meaning} | {takers} |"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(action: argparse.Action) -> Row:
    option = ", ".join(f"`{name}`" for name in sorted(action.option_strings, key=len))
    values = ", ".join(f"`{each}`" for each in action.choices or ()) or (
        f"`{action.metavar}`" if action.metavar else ""
    )
    return option, values.replace("|", "\\|"), _cell(action.help)


def _cell(text: str | None) -> str:
    return (text or "").replace("%%", "%").replace("|", "\\|")
