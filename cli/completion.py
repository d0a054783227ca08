"""`drawbridge completion`: prints the completion script of a shell.

The scripts ask the program `kubectl_complete-drawbridge`, which completes `kubectl drawbridge` as
well: it is given the words so far, and prints one candidate per line with its meaning, and a last
line `:N`.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cli.commands import COMMANDS, parser_for
from cli.terminal.command_parser import CommandParser
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams, write_data

EXIT_CODES = {DONE: "printed", BAD: "bad input"}
_OF_FILES: Final = ("FILE", "DIR", "PATH")
# The directives of kubectl's completion: files are offered, or only the candidates.
_FILES, _NO_FILES = 0, 4


class Completions(NamedTuple):
    """The words that can come next, each with its meaning, and whether files can."""

    words: tuple[tuple[str, str], ...] = ()
    files: bool = False


def complete(words: Sequence[str]) -> Completions:
    """Return what can replace the last of `words`; the words do not include the program."""
    *before, word = words or ("",)
    parser = _find_parser(before)
    name, equals, value = word.partition("=")
    if equals and word.startswith("--"):
        values = _complete_value(_find_option(parser, name), value)
        return values._replace(words=tuple((f"{name}={text}", "") for text, _ in values.words))
    previous = _find_option(parser, before[-1]) if before else None
    if previous and previous.nargs != 0 and not word.startswith("-"):
        return _complete_value(previous, word)
    return _select(_list_words(parser, of_options=word.startswith("-")), word)


def _find_parser(before: Sequence[str]) -> CommandParser:
    """Return the parser of the command that is named; loads no other command."""
    named = [each for each in before if each in COMMANDS][:1]
    parser = parser_for(named or COMMANDS, "drawbridge", loads=bool(named))
    for word in before:
        parser = parser.subparsers().get(word, parser)
    return parser


def _find_option(parser: CommandParser, name: str) -> argparse.Action | None:
    return next((each for each in parser.options() if name in each.option_strings), None)


def _complete_value(option: argparse.Action | None, word: str) -> Completions:
    choices = [(f"{choice}", "") for choice in option.choices or ()] if option else []
    of_files = option is not None and any(each in f"{option.metavar}" for each in _OF_FILES)
    return _select(choices, word)._replace(files=of_files)


def _list_words(parser: CommandParser, *, of_options: bool) -> Iterable[tuple[str, str]]:
    if of_options:
        for option in parser.options():
            meaning = (option.help or "").replace("%%", "%")
            yield from ((name, meaning) for name in option.option_strings)
    else:
        yield from ((name, each.description or "") for name, each in parser.subparsers().items())
        for action in parser.positionals():
            yield from ((f"{choice}", "") for choice in action.choices or ())


def _select(words: Iterable[tuple[str, str]], word: str) -> Completions:
    return Completions(tuple(each for each in words if each[0].startswith(word)))


_BASH: Final = """\
# bash completion of drawbridge
_drawbridge() {
    local word line last=""
    local -a typed
    # bash splits --option=value into three words.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ "$word" == "=" || "$last" == --*= ]]; then
            last="$last$word"
            typed[${#typed[@]}-1]="$last"
        else
            last="$word"
            typed+=("$last")
        fi
    done
    word="${COMP_WORDS[COMP_CWORD]#=}"
    local IFS=$'\\n'
    COMPREPLY=()
    for line in $(kubectl_complete-drawbridge "${typed[@]}" 2>/dev/null); do
        case "$line" in
            :0) COMPREPLY=($(compgen -f -- "$word")); compopt -o filenames 2>/dev/null ;;
            :*) ;;
            *) line="${line%%$'\\t'*}"; COMPREPLY+=("${line#"${last%"$word"}"}") ;;
        esac
    done
}
complete -F _drawbridge drawbridge
"""
# From a folder of fpath, zsh runs the file at the first completion, and expects candidates.
_ZSH: Final = """\
#compdef drawbridge
whence compdef >/dev/null || { autoload -U +X compinit && compinit; }
_drawbridge() {
    local line
    local -a candidates
    for line in "${(@f)$(kubectl_complete-drawbridge "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case "$line" in
            :0) _files ;;
            :*) ;;
            *) candidates+=("${${line//:/\\\\:}/$'\\t'/:}") ;;
        esac
    done
    (( $#candidates )) && _describe drawbridge candidates
}
compdef _drawbridge drawbridge
if [[ "$funcstack[1]" == _drawbridge ]]; then
    _drawbridge "$@"
fi
"""
_FISH: Final = """\
# fish completion of drawbridge
function __drawbridge_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (kubectl_complete-drawbridge $words[2..] 2>/dev/null)
        switch $line
            case ':0'
                __fish_complete_path (commandline -ct | string replace -r '^--[^=]*=' '')
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c drawbridge -f -a '(__drawbridge_complete)'
"""
_SCRIPTS: Final = {"bash": _BASH, "fish": _FISH, "zsh": _ZSH}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", metavar="SHELL", choices=[*_SCRIPTS], help="bash, fish or zsh")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the script."""
    write_data(streams.out, _SCRIPTS[options.shell])
    return DONE


def complete_for_kubectl(words: Sequence[str]) -> str:
    """Return the candidates for the last of `words` in the form that kubectl reads."""
    completions = complete(words)
    lines = [f"{word}\t{summary}".rstrip() for word, summary in completions.words]
    directive = _FILES if completions.files else _NO_FILES
    return "".join(f"{line}\n" for line in [*lines, f":{directive}"])


def main() -> int:
    """Run `kubectl_complete-drawbridge`."""
    sys.stdout.write(complete_for_kubectl(sys.argv[1:]))
    return DONE
