"""`drawbridge completion`: prints the completion script of a shell.

The program `kubectl_complete-drawbridge` completes `kubectl drawbridge`: kubectl runs it with the
words so far, and reads one candidate per line with its meaning, and a last line `:N`.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from cli.terminal.completion_scripts import bash_script, fish_script, zsh_script
from cli.terminal.completion_table import CompletedCommand, complete, completion_table
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams

NAME = "completion"
EXIT_CODES = {DONE: "printed", BAD: "bad input"}
_SCRIPTS: Final = {"bash": bash_script, "fish": fish_script, "zsh": zsh_script}
# The directives of kubectl's completion: files are offered, or only the candidates.
_FILES, _NO_FILES = 0, 4


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", metavar="SHELL", choices=[*_SCRIPTS], help="bash, fish or zsh")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the script."""
    streams.out.write(_SCRIPTS[options.shell](build_table()))
    return DONE


def build_table() -> dict[str, CompletedCommand]:
    """Return the table of all commands."""
    from cli.main import COMMANDS, parser_for  # noqa: PLC0415  # main imports the commands

    return completion_table(parser_for(COMMANDS, "drawbridge"))


def complete_for_kubectl(words: Sequence[str]) -> str:
    """Return the candidates for the last of `words` in the form that kubectl reads."""
    found = complete(build_table(), words)
    lines = [f"{word}\t{summary}".rstrip() for word, summary in found.words]
    directive = _FILES if found.files else _NO_FILES
    return "".join(f"{line}\n" for line in [*lines, f":{directive}"])


def main() -> int:
    """Run `kubectl_complete-drawbridge`."""
    sys.stdout.write(complete_for_kubectl(sys.argv[1:]))
    return DONE
