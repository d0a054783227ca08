"""The command `drawbridge`, also installed as `kubectl-drawbridge`.

Imports the module of the subcommand only, runs it, and returns its exit code. A subcommand is a
module with `NAME`, `HELP`, `EXIT_CODES`, `arguments(parser)` and `run(options, streams) -> int`.
To add one, write the module and add its line to `COMMANDS`.
"""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from cli.command_parser import CommandParser, UsageError
from cli.exit_codes import BAD, DONE, NOTICE, ExitCodes
from cli.streams import Streams, process_streams

COMMANDS = {
    "cel": "cli.cel",
    "check": "cli.check",
    "config": "cli.config",
    "doctor": "cli.doctor",
    "explain": "cli.explain",
    "facts": "cli.facts",
    "help": "cli.help",
    "lint": "cli.lint",
    "serve": "cli.serve",
    "simulate": "cli.simulate",
    "translate": "cli.translate",
    "undo": "cli.undo",
}

BUG, INTERRUPTED, BROKEN_PIPE = 3, 130, 141
EXIT_CODES: ExitCodes = {
    DONE: "success",
    NOTICE: "as the command states",
    BAD: "errors, bad input, wrong usage or a failed write",
    BUG: "an unhandled exception, which is a bug",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the reader of the output closed the pipe",
}


class Command(Protocol):
    """What the module of a command exports."""

    NAME: str
    HELP: str
    EXIT_CODES: ExitCodes

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments on `parser`."""

    def run(self, options: argparse.Namespace, streams: Streams) -> int:
        """Run the command, and return the exit code."""


class _Version(argparse.Action):
    """Prints the version. Reads it on demand, because that doubles the start-up time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from runtime.build_info import UNKNOWN, read_build_info  # noqa: PLC0415  # takes 20 ms

        info = read_build_info()
        commit = "unknown, not a built release" if info.commit == UNKNOWN else info.commit
        print(f"drawbridge {info.version} (commit {commit}; Python {info.python})")  # noqa: T201  # as argparse does
        parser.exit()


def program_name(argument: str) -> str:
    """Return the name in usage texts: `kubectl drawbridge` if kubectl started it as a plugin."""
    name = argument.rpartition("/")[2]
    return "kubectl drawbridge" if name.startswith("kubectl-drawbridge") else "drawbridge"


def load(name: str) -> Command:
    """Import the module of the command `name`."""
    return cast("Command", importlib.import_module(COMMANDS[name]))


def _shared_options() -> CommandParser:
    shared = CommandParser(add_help=False)
    # Without SUPPRESS, the default of a subparser overwrites a `--debug` before the command.
    shared.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the traceback of an unhandled exception",
    )
    return shared


def parser_for(names: Iterable[str], called: str) -> CommandParser:
    """Build the parser for the commands `names`; the help lists only those."""
    shared = _shared_options()
    parser = CommandParser(
        prog=called,
        description="Migrates pods from device plugins to Dynamic Resource Allocation.",
        epilog=f"Run `{called} COMMAND --help` for the options of a command.",
        allow_abbrev=False,
        parents=[shared],
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print version and commit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        command = load(name)
        subparser = commands.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            allow_abbrev=False,
            parents=[shared],
        )
        command.arguments(subparser)
        subparser.add_exit_codes(command.EXIT_CODES)
        subparser.set_defaults(run=command.run)
    return parser


def parse(arguments: Sequence[str], streams: Streams, called: str) -> argparse.Namespace | int:
    """Return the options, or the exit code after help, version or wrong usage."""
    at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), 0)
    if arguments and arguments[at] in COMMANDS:
        names: Iterable[str] = (arguments[at],)
    else:
        names = () if arguments and arguments[0] == "--version" else COMMANDS
    with contextlib.redirect_stdout(streams.out), contextlib.redirect_stderr(streams.err):
        try:
            return parser_for(names, called).parse_command(arguments, at)
        except UsageError as error:
            error.parser.print_usage(streams.err)
            streams.err.write(f"{error.parser.prog}: error: {error}\n")
            return BAD
        except SystemExit as exit_:
            return exit_.code if isinstance(exit_.code, int) else 0


def report_bug(bug: Exception, streams: Streams, called: str, *, debug: bool) -> int:
    """Print the unhandled exception on one line, after its traceback with `--debug`."""
    if debug:
        import traceback  # noqa: PLC0415  # needed for unhandled exceptions only

        traceback.print_exception(bug, file=streams.err)
    hint = "" if debug else " (run again with --debug and report the output)"
    what = " ".join(f"{type(bug).__name__}: {bug}".split())
    streams.err.write(f"{called}: internal error, this is a bug in Drawbridge{hint}: {what}\n")
    return BUG


def dispatch(arguments: Sequence[str], streams: Streams, called: str) -> int:
    """Run the command that `arguments` name, and return its exit code."""
    options: argparse.Namespace | int = BUG
    try:
        options = parse(arguments, streams, called)
        code = options if isinstance(options, int) else int(options.run(options, streams))
        # Flush here. At interpreter exit a closed pipe would print a traceback.
        streams.out.flush()
    except OSError:
        raise
    except Exception as bug:  # noqa: BLE001  # any unhandled exception has its own exit code
        return report_bug(bug, streams, called, debug=getattr(options, "debug", False))
    return code


def main() -> int:
    """Run this process's command line."""
    streams = process_streams(os.environ)
    try:
        return dispatch(sys.argv[1:], streams, program_name(sys.argv[0]))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # The interpreter flushes stdout once more at exit. Discard that output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        streams.err.write(f"{program_name(sys.argv[0])}: {error}\n")
        return BAD


if __name__ == "__main__":
    sys.exit(main())
