"""The commands and options that a shell completes, read from the parser of the command line."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cli.terminal.command_parser import CommandParser

_OF_FILES: Final = ("FILE", "DIR", "PATH")


class CompletedOption(NamedTuple):
    """An option: its names and meaning, and what follows it."""

    names: tuple[str, ...]
    summary: str
    takes_value: bool
    values: tuple[str, ...] = ()
    files: bool = False


class CompletedCommand(NamedTuple):
    """A command or subcommand: its options, its subcommands, and the words that it takes."""

    summary: str
    options: tuple[CompletedOption, ...]
    subcommands: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


# By the words of the command; the program itself has none.
CompletionTable = Mapping[str, CompletedCommand]


class Completions(NamedTuple):
    """The words that can come next, each with its meaning, and whether files can."""

    words: tuple[tuple[str, str], ...] = ()
    files: bool = False


def completion_table(parser: CommandParser, name: str = "") -> dict[str, CompletedCommand]:
    """Return the table of a parser and the parsers of its subcommands."""
    inner = parser.subparsers()
    values = tuple(f"{each}" for action in parser.positionals() for each in action.choices or ())
    options = tuple(
        CompletedOption(
            tuple(action.option_strings),
            (action.help or "").replace("%%", "%"),
            takes_value=action.nargs != 0,
            values=tuple(f"{each}" for each in action.choices or ()),
            files=any(word in f"{action.metavar}" for word in _OF_FILES),
        )
        for action in parser.options()
    )
    table = {name: CompletedCommand(parser.description or "", options, tuple(inner), values)}
    for word, each in inner.items():
        table |= completion_table(each, f"{name} {word}".strip())
    return table


def complete(table: CompletionTable, words: Sequence[str]) -> Completions:
    """Return what can replace the last of `words`; the words do not include the program."""
    *before, word = words or ("",)
    name = ""
    for each in before:
        if each in table[name].subcommands:
            name = f"{name} {each}".strip()
    command = table[name]
    option_name, equals, value = word.partition("=")
    if equals and word.startswith("--"):
        found = _complete_value(command, option_name, value)
        prefixed = tuple((f"{option_name}={text}", summary) for text, summary in found.words)
        return Completions(prefixed, found.files)
    previous = _find_option(command, before[-1]) if before else None
    if previous and previous.takes_value and not word.startswith("-"):
        return _complete_value(command, before[-1], word)
    return _complete_word(table, name, word)


def _complete_value(command: CompletedCommand, option: str, word: str) -> Completions:
    found = _find_option(command, option)
    if found is None:
        return Completions()
    values = tuple((each, "") for each in found.values if each.startswith(word))
    return Completions(values, found.files)


def _complete_word(table: CompletionTable, name: str, word: str) -> Completions:
    command = table[name]
    if word.startswith("-"):
        names = [(each, one.summary) for one in command.options for each in one.names]
    else:
        names = [(each, table[f"{name} {each}".strip()].summary) for each in command.subcommands]
        names += [(each, "") for each in command.values]
    return Completions(tuple(each for each in names if each[0].startswith(word)))


def _find_option(command: CompletedCommand, name: str) -> CompletedOption | None:
    return next((each for each in command.options if name in each.names), None)
