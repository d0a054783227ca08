"""`drawbridge completion`: prints the completion script of a shell.

The program `kubectl_complete-drawbridge` completes `kubectl drawbridge`: kubectl runs it with the
words so far, and reads one candidate per line with its meaning, and a last line `:N`.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cli.commands import COMMANDS, parser_for
from cli.terminal.command_parser import CommandParser
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams, for_data

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
    values = tuple(
        f"{choice}" for action in parser.positionals() for choice in action.choices or ()
    )
    options = tuple(
        CompletedOption(
            tuple(action.option_strings),
            (action.help or "").replace("%%", "%"),
            takes_value=action.nargs != 0,
            values=tuple(f"{choice}" for choice in action.choices or ()),
            files=any(word in f"{action.metavar}" for word in _OF_FILES),
        )
        for action in parser.options()
    )
    table = {name: CompletedCommand(parser.description or "", options, tuple(inner), values)}
    for word, subparser in inner.items():
        table |= completion_table(subparser, f"{name} {word}".strip())
    return table


def complete(table: CompletionTable, words: Sequence[str]) -> Completions:
    """Return what can replace the last of `words`; the words do not include the program."""
    *before, word = words or ("",)
    name = ""
    for typed in before:
        if typed in table[name].subcommands:
            name = f"{name} {typed}".strip()
    command = table[name]
    option_name, equals, value = word.partition("=")
    if equals and word.startswith("--"):
        completions = _complete_value(command, option_name, value)
        prefixed = tuple((f"{option_name}={text}", summary) for text, summary in completions.words)
        return Completions(prefixed, completions.files)
    previous = _find_option(command, before[-1]) if before else None
    if previous and previous.takes_value and not word.startswith("-"):
        return _complete_value(command, before[-1], word)
    return _complete_word(table, name, word)


def _complete_value(command: CompletedCommand, option: str, word: str) -> Completions:
    matching = _find_option(command, option)
    if matching is None:
        return Completions()
    values = tuple((each, "") for each in matching.values if each.startswith(word))
    return Completions(values, matching.files)


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


_BASH = """\
_drawbridge_files() {
    # A name with spaces is one word.
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$word"))
    compopt -o filenames 2>/dev/null
}
_drawbridge() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" index
    local words=""
    COMPREPLY=()
    # bash splits --option=value into three words.
    if [[ "$word" == "=" ]]; then
        word=""
    elif [[ "$before" == "=" ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "$command/${COMP_WORDS[index]}" in
@COMMANDS@
        esac
    done
    if [[ "$word" != -* ]]; then
        case "$command/$before" in
@VALUES@
        esac
    fi
    case "$command/${word:0:1}" in
@OPTIONS@
@WORDS@
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
"""
_ZSH = """\
#compdef drawbridge
whence compdef >/dev/null || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""
# From a folder of fpath, zsh runs the file at the first completion, and expects candidates.
_ZSH_FIRST = """\
if (( ${+compstate} )); then
    _bash_complete -F _drawbridge
fi
"""
_REGISTER = "complete -F _drawbridge drawbridge\n"


def bash_script(table: CompletionTable) -> str:
    """Return the script for bash."""
    return f"# bash completion of drawbridge\n{_bash_function(table)}{_REGISTER}"


def zsh_script(table: CompletionTable) -> str:
    """Return the script for zsh, which runs the function for bash."""
    return f"{_ZSH}{_bash_function(table)}{_REGISTER}{_ZSH_FIRST}"


def _bash_function(table: CompletionTable) -> str:
    parts = {
        "COMMANDS": [f'{_pattern(name)}) command="{name}" ;;' for name in table if name],
        "VALUES": [line for name, each in table.items() for line in _bash_values(name, each)],
        "OPTIONS": [f'"{name}/-") words="{_options(each)}" ;;' for name, each in table.items()],
        "WORDS": [f'"{name}/"*) words="{_words(each)}" ;;' for name, each in table.items()],
    }
    text = _BASH
    for key, lines in parts.items():
        indent = " " * (12 if key in ("COMMANDS", "VALUES") else 8)
        text = text.replace(f"@{key}@", "\n".join(f"{indent}{line}" for line in lines))
    return text


def _pattern(name: str) -> str:
    """Return what the loop compares: the command so far, and its next word."""
    above, _, last = name.rpartition(" ")
    return f'"{above}/{last}"'


def _bash_values(name: str, command: CompletedCommand) -> Iterator[str]:
    """Yield the cases of the options that take a value."""
    for completed in command.options:
        if not completed.takes_value:
            continue
        pattern = "|".join(f'"{name}/{option}"' for option in completed.names)
        if completed.files:
            yield f"{pattern}) _drawbridge_files; return ;;"
        else:
            values = " ".join(completed.values)
            yield f'{pattern}) COMPREPLY=($(compgen -W "{values}" -- "$word")); return ;;'


def _options(command: CompletedCommand) -> str:
    return " ".join(name for each in command.options for name in each.names)


def _words(command: CompletedCommand) -> str:
    return " ".join([*command.subcommands, *command.values])


def fish_script(table: CompletionTable) -> str:
    """Return the script for fish."""
    return "\n".join(["# fish completion of drawbridge", *_fish_lines(table)]) + "\n"


def _fish_lines(table: CompletionTable) -> Iterator[str]:
    yield "complete -c drawbridge -f"
    for name, command in table.items():
        condition = _fish_condition(name, command)
        for word in (*command.subcommands, *command.values):
            inner = table.get(f"{name} {word}".strip())
            told = f" -d {_quote(inner.summary)}" if inner else ""
            yield f"complete -c drawbridge -n {condition} -a {word}{told}"
        for option in command.options:
            yield f"complete -c drawbridge -n {condition} {_fish_option(option)}"


def _fish_condition(name: str, command: CompletedCommand) -> str:
    if not name:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
    if command.subcommands:
        inner = " ".join(command.subcommands)
        seen += f"; and not __fish_seen_subcommand_from {inner}"
    return _quote(seen)


def _fish_option(option: CompletedOption) -> str:
    names = [
        f"-l {name.removeprefix('--')}" if name.startswith("--") else f"-s {name[1:]}"
        for name in option.names
    ]
    if option.files:
        names.append("-r -F")
    elif option.takes_value:
        names.append(f"-x -a {_quote(' '.join(option.values))}" if option.values else "-x")
    return f"{' '.join(names)} -d {_quote(option.summary)}"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


EXIT_CODES = {DONE: "printed", BAD: "bad input"}
_SCRIPTS: Final = {"bash": bash_script, "fish": fish_script, "zsh": zsh_script}
# The directives of kubectl's completion: files are offered, or only the candidates.
_FILES, _NO_FILES = 0, 4


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", metavar="SHELL", choices=[*_SCRIPTS], help="bash, fish or zsh")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the script."""
    for_data(streams.out).write(_SCRIPTS[options.shell](build_table()))
    return DONE


def build_table() -> dict[str, CompletedCommand]:
    """Return the table of all commands."""
    return completion_table(parser_for(COMMANDS, "drawbridge"))


def complete_for_kubectl(words: Sequence[str]) -> str:
    """Return the candidates for the last of `words` in the form that kubectl reads."""
    completions = complete(build_table(), words)
    lines = [f"{word}\t{summary}".rstrip() for word, summary in completions.words]
    directive = _FILES if completions.files else _NO_FILES
    return "".join(f"{line}\n" for line in [*lines, f":{directive}"])


def main() -> int:
    """Run `kubectl_complete-drawbridge`."""
    sys.stdout.write(complete_for_kubectl(sys.argv[1:]))
    return DONE
