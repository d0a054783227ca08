"""The command `drawbridge`, also installed as `kubectl-drawbridge`.

Finds the command in a table, imports only that one, and turns whatever happens into an exit code.
Knows nothing of what commands do. A command is a module with `NAME`, `HELP`, `arguments(parser)`
and `run(options, streams) -> int`; to add one, write the module and add its line to `COMMANDS`.

Exit codes: 0 and 1 as each command says, 2 for bad input, wrong usage or a full disk,
3 for a bug of ours, 130 after Ctrl-C, 141 when the reader of our output went away.
"""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from cli.streams import Streams, of_process

COMMANDS = {
    "cel": "cli.cel",
    "config": "cli.config",
    "explain": "cli.explain",
    "facts": "cli.facts",
    "lint": "cli.lint",
    "serve": "cli.serve",
    "simulate": "cli.simulate",
    "translate": "cli.translate",
}

BAD, BUG, INTERRUPTED, BROKEN_PIPE = 2, 3, 130, 141


class Command(Protocol):
    """What the module of a command exports."""

    NAME: str
    HELP: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments on `parser`."""

    def run(self, options: argparse.Namespace, streams: Streams) -> int:
        """Do it, and return the exit code."""


class _Version(argparse.Action):
    """Prints the version; looked up only when asked, because that costs as much as all the rest."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415  # 20 ms that only this needs

        print(f"drawbridge {version('drawbridge')}")  # noqa: T201  # argparse prints, so do we
        parser.exit()


def program(argument: str) -> str:
    """What the user typed to call us: `kubectl drawbridge` when kubectl found us as its plug-in."""
    name = argument.rpartition("/")[2]
    return "kubectl drawbridge" if name.startswith("kubectl-drawbridge") else "drawbridge"


def load(name: str) -> Command:
    """Import the module of the command `name`."""
    return cast("Command", importlib.import_module(COMMANDS[name]))


def parser_for(names: Iterable[str], called: str) -> argparse.ArgumentParser:
    """The parser with the commands `names`; the help shows only those."""
    shared = argparse.ArgumentParser(add_help=False)
    # Suppressed, because a sub-parser's default would overwrite what stood before the command.
    shared.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of bugs"
    )
    parser = argparse.ArgumentParser(
        prog=called,
        description="Carries pods from device plugins to Dynamic Resource Allocation.",
        epilog=f"`{called} COMMAND --help` says more about a command.",
        allow_abbrev=False,
        parents=[shared],
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        command = load(name)
        one = commands.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            allow_abbrev=False,
            parents=[shared],
        )
        command.arguments(one)
        one.set_defaults(run=command.run)
    return parser


def parse(arguments: Sequence[str], streams: Streams, called: str) -> argparse.Namespace | int:
    """The options, or the exit code when there is nothing to run: help, version, wrong usage."""
    first = next((word for word in arguments if not word.startswith("-")), None)
    if first in COMMANDS:
        names: Iterable[str] = (first,)
    else:
        names = () if arguments and arguments[0] == "--version" else COMMANDS
    with contextlib.redirect_stdout(streams.out), contextlib.redirect_stderr(streams.err):
        try:
            return parser_for(names, called).parse_args(arguments)
        except SystemExit as exit_:
            return exit_.code if isinstance(exit_.code, int) else 0


def report(bug: Exception, streams: Streams, called: str, *, debug: bool) -> int:
    """Say in one line that this is our mistake, with the traceback when asked for."""
    if debug:
        import traceback  # noqa: PLC0415  # only a bug needs it

        traceback.print_exception(bug, file=streams.err)
    hint = "" if debug else ", please report it with what --debug prints"
    what = " ".join(f"{type(bug).__name__}: {bug}".split())
    streams.err.write(f"{called}: this is a bug{hint}: {what}\n")
    return BUG


def dispatch(arguments: Sequence[str], streams: Streams, called: str) -> int:
    """Run the command that `arguments` name, and return its exit code."""
    options: argparse.Namespace | int = BUG
    try:
        options = parse(arguments, streams, called)
        code = options if isinstance(options, int) else int(options.run(options, streams))
        # Here and not at exit, where a reader that went away would be a traceback.
        streams.out.flush()
    except OSError:
        raise
    except Exception as bug:  # noqa: BLE001  # a bug ends the run with its own code, whatever it is
        return report(bug, streams, called, debug=getattr(options, "debug", False))
    return code


def main() -> int:
    """Run this process's command line."""
    streams = of_process(os.environ)
    try:
        return dispatch(sys.argv[1:], streams, program(sys.argv[0]))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # The interpreter flushes once more at exit; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        streams.err.write(f"{program(sys.argv[0])}: {error}\n")
        return BAD


if __name__ == "__main__":
    sys.exit(main())
