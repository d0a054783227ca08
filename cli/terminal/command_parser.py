"""The argument parser of commands, with errors that show the usage of the subcommand.

Options with a variable number of values (`--context`, `--cluster`) do not take the positional
argument: if it is missing, the last word of such an option becomes the positional argument.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from cli.terminal.exit_codes import ExitCodes, describe_exit_codes

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class UsageError(Exception):
    """Wrong usage of a command; `parser` is that of the subcommand."""

    def __init__(self, parser: "CommandParser", message: str) -> None:
        super().__init__(message)
        self.parser = parser


class CommandParser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise UsageError(self, message)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print a help text; argparse ignores it if that fails."""
        (file or sys.stderr).write(message)

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for the namespace
        self, args: Sequence[str] | None = None, namespace: object = None
    ) -> tuple[Any, list[str]]:
        """Parse, and report unknown arguments here, with the usage of this command."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def add_exit_codes(self, codes: ExitCodes) -> None:
        """List the exit codes at the end of the help texts of this command and its subcommands."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self.epilog = describe_exit_codes(codes)
        for subparser in self.subparsers().values():
            subparser.add_exit_codes(codes)

    def subparsers(self) -> dict[str, "CommandParser"]:
        """Return the parsers of the subcommands by name."""
        for action in self._actions:
            if _has_subcommands(action):
                return dict(cast("dict[str, CommandParser]", action.choices))
        return {}

    def options(self) -> Iterator[argparse.Action]:
        """Yield the options, without subcommands and positional arguments."""
        return (action for action in self._actions if action.option_strings)

    def positionals(self) -> Iterator[argparse.Action]:
        """Yield the positional arguments, without subcommands."""
        for action in self._actions:
            if not action.option_strings and not _has_subcommands(action):
                yield action

    def parse_command(self, arguments: Sequence[str], at: int) -> argparse.Namespace:
        """Parse `arguments`, whose command is the word `at`; raises UsageError."""
        try:
            return self.parse_args(arguments)
        except UsageError as error:
            for number in _words_to_release(error.parser, arguments):
                word = arguments[number]
                rest = [*arguments[:number], *arguments[number + 1 :]]
                try:
                    return self.parse_args([*rest[: at + 1], word, *rest[at + 1 :]])
                except UsageError:
                    continue
            raise


def _has_subcommands(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)  # noqa: SLF001  # argparse has no public way


def _words_to_release(parser: CommandParser, arguments: Sequence[str]) -> Iterator[int]:
    """Yield the positions of words that an option can spare, from the end."""
    least = {
        name: 0 if action.nargs == "?" else 1
        for action in parser.options()
        if action.nargs in ("?", "+")
        for name in action.option_strings
    }
    for number in range(len(arguments) - 1, 0, -1):
        word = arguments[number]
        if word.startswith("-") and word != "-":
            continue
        start = number
        while start > 0 and not arguments[start - 1].startswith("-"):
            start -= 1
        values = number - start + 1
        option = arguments[start - 1] if start else ""
        last = number + 1 == len(arguments) or arguments[number + 1].startswith("-")
        if last and values > least.get(option, values):
            yield number
