"""The command `drawbridge`, also installed as `kubectl-drawbridge`.

Imports the module of the subcommand only, runs it, and returns its exit code.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from cli import INTERRUPTED
from cli.commands import COMMANDS, parser_for
from cli.former_commands import FORMER, renew
from cli.terminal.command_error import CommandError
from cli.terminal.command_parser import UsageError
from cli.terminal.exit_codes import BAD, DONE, NOTICE, ExitCodes
from cli.terminal.streams import Streams, process_streams

BUG, BROKEN_PIPE = 3, 141
_INPUT = "-"
EXIT_CODES: ExitCodes = {
    DONE: "success",
    NOTICE: "as the command states",
    BAD: "errors, bad input, wrong usage or a failed write",
    BUG: "an unhandled exception, which is a bug",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the reader of the output closed the pipe",
}


def program_name(argument: str) -> str:
    """Return the name in usage texts: `kubectl drawbridge` if kubectl started it as a plugin."""
    name = argument.rpartition("/")[2]
    return "kubectl drawbridge" if name.startswith("kubectl-drawbridge") else "drawbridge"


def parse(arguments: Sequence[str], streams: Streams, called: str) -> argparse.Namespace | int:
    """Return the options, or the exit code after help, version or wrong usage."""
    at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), 0)
    if arguments and arguments[at] in FORMER:
        renewed = renew(arguments[at], arguments[at + 1 :])
        streams.err.write(renewed.describe(arguments[at], called))
        arguments = [*arguments[:at], *renewed.words, *renewed.options]
    is_command = bool(arguments) and arguments[at] in COMMANDS
    names = (arguments[at],) if is_command else COMMANDS
    unknown = "" if is_command or not arguments else arguments[at]
    with contextlib.redirect_stdout(streams.out), contextlib.redirect_stderr(streams.err):
        try:
            return parser_for(names, called, loads=is_command).parse_command(arguments, at)
        except UsageError as error:
            if not arguments:
                error.parser.print_help(streams.err)
                return BAD
            error.parser.print_usage(streams.err)
            streams.err.write(f"{error.parser.prog}: error: {error}{_suggest(unknown)}\n")
            return BAD
        except SystemExit as exit_:
            return exit_.code if isinstance(exit_.code, int) else 0


def _suggest(word: str) -> str:
    """Return the command that is most similar to an unknown word, if any is."""
    from drawbridge.dra.similar_names import suggest  # noqa: PLC0415  # for wrong usage only

    return suggest(word, COMMANDS)


def report_bug(bug: Exception, streams: Streams, called: str, *, debug: bool) -> int:
    """Print the unhandled exception on one line, after its traceback with `--debug`."""
    if debug:
        import traceback  # noqa: PLC0415  # needed for unhandled exceptions only

        traceback.print_exception(bug, file=streams.err)
    hint = "" if debug else " (run again with --debug and report the output)"
    what = " ".join(f"{type(bug).__name__}: {bug}".split())
    streams.err.write(f"{called}: internal error, this is a bug in Drawbridge{hint}: {what}\n")
    return BUG


def _run(options: argparse.Namespace, streams: Streams) -> int:
    """Run the command, unless several options would share the standard input."""
    readers = [name for name, value in vars(options).items() if _names_input(value)]
    if len(readers) > 1:
        from cli.input.files import refuse_readers  # noqa: PLC0415  # for wrong usage only
        from cli.terminal import output  # noqa: PLC0415

        return output.print_unreadable([refuse_readers(readers)], options, streams)
    try:
        return int(options.run(options, streams))
    except CommandError as error:
        from cli.terminal import output  # noqa: PLC0415  # the command has loaded it

        return output.print_unreadable(error.findings, options, streams)


def _names_input(value: object) -> bool:
    """Whether the value of an option names the standard input."""
    return _INPUT in value if isinstance(value, list) else value == _INPUT


def dispatch(arguments: Sequence[str], streams: Streams, called: str) -> int:
    """Run the command that `arguments` name, and return its exit code."""
    options: argparse.Namespace | int = BUG
    try:
        options = parse(arguments, streams, called)
        code = options if isinstance(options, int) else _run(options, streams)
        # Flush here. At interpreter exit a closed pipe would print a traceback.
        streams.out.flush()
        streams.err.flush()
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
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        try:
            streams.err.write(f"{program_name(sys.argv[0])}: {error}\n")
            streams.err.flush()
        except OSError:
            os.dup2(nowhere, 2)
        return BAD


if __name__ == "__main__":
    sys.exit(main())
