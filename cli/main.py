"""The command `drawbridge`, also installed as `kubectl-drawbridge`.

Imports the module of the subcommand only, runs it, and returns its exit code. A subcommand is a
module with `NAME`, `EXIT_CODES`, `arguments(parser)` and `run(options, streams) -> int`. To add
one, write the module and add its line to `COMMANDS`.
"""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from cli.__main__ import INTERRUPTED
from cli.terminal.command_parser import CommandParser, UsageError
from cli.terminal.exit_codes import BAD, DONE, NOTICE, ExitCodes
from cli.terminal.streams import Streams, process_streams
from drawbridge.process.collection import rare_collections

# The module and the summary of each command. The help needs the summaries without the modules.
COMMANDS = {
    "adjust": (
        "cli.adjust",
        "show whether an allocation could grow, how far, and what would have to go",
    ),
    "audit": (
        "cli.audit",
        "show what was translated, left and refused, by namespace and owner",
    ),
    "cel": (
        "cli.cel",
        "evaluate a CEL selector on the devices of an inventory, or a batch of selectors",
    ),
    "check": (
        "cli.check",
        "judge claims, pods, workloads, classes and slices before they are applied",
    ),
    "completion": ("cli.completion", "print the completion script of a shell"),
    "config": ("cli.config", "print the configuration with its defaults, or its JSON Schema"),
    "defrag": (
        "cli.defrag",
        "show which few pods would have to move so that a pod fits, with the commands",
    ),
    "doctor": ("cli.doctor", "check a live cluster, the installation and your rights"),
    "explain": (
        "cli.explain",
        "show the requests of a pod or workload, its claims and problems, or the devices of a node",
    ),
    "facts": ("cli.facts", "print the facts about a cluster that decide translations"),
    "help": (
        "cli.help",
        "explain the code of a finding, or a command; without an argument, list all codes",
    ),
    "lint": ("cli.lint", "check ResourceSlices, DeviceClasses and claims of files for errors"),
    "off": ("cli.off", "switch all webhooks of a live cluster off, and say which pods wait"),
    "on": ("cli.on", "switch the webhooks on again, with the namespaces as they are labelled"),
    "page": (
        "cli.page",
        "serve a local page of nodes, devices, holders, waiting pods and the migration",
    ),
    "serve": ("cli.serve", "run the admission webhook, the judge, the controller or the allocator"),
    "simulate": (
        "cli.simulate",
        "place pods and workloads in memory, and print which devices they get or why none",
    ),
    "translate": (
        "cli.translate",
        "translate device-plugin requests in manifests into resource claims",
    ),
    "undo": ("cli.undo", "restore the original requests in translated manifests"),
    "usage": ("cli.usage", "show who used how many device-hours, by namespace, class or owner"),
    "who": ("cli.who", "show the claims and pods that hold devices, also of device plugins"),
}

_UNTIL_A_SIGNAL = frozenset({"page", "serve"})  # the commands that do not end by themselves
BUG, BROKEN_PIPE = 3, 141
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

    @property
    def NAME(self) -> str:  # noqa: N802  # a constant of a module
        """The word that selects it."""

    @property
    def EXIT_CODES(self) -> ExitCodes:  # noqa: N802
        """What its exit codes mean."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments on `parser`."""

    def run(self, options: argparse.Namespace, streams: Streams) -> int:
        """Run the command, and return the exit code."""


if TYPE_CHECKING:
    # All commands, so that a type checker compares each with the protocol.
    from cli import (
        adjust,
        audit,
        cel,
        check,
        completion,
        config,
        defrag,
        doctor,
        explain,
        facts,
        lint,
        off,
        on,
        page,
        serve,
        simulate,
        translate,
        undo,
        usage,
        who,
    )
    from cli import help as help_

    _: tuple[Command, ...] = (
        adjust, audit, cel, check, completion, config, defrag, doctor, explain, facts, help_, lint,
        off, on, page, serve, simulate, translate, undo, usage, who,
    )  # fmt: skip


class _Version(argparse.Action):
    """Prints the version. Reads it on demand, because that doubles the start-up time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from drawbridge.process.build_info import UNKNOWN, read_build_info  # noqa: PLC0415  # takes 20 ms

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
    return cast("Command", importlib.import_module(COMMANDS[name][0]))


def _add_debug_option(parser: CommandParser) -> None:
    # Without SUPPRESS, the default of a subparser overwrites a `--debug` before the command.
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the traceback of an unhandled exception",
    )


def parser_for(names: Iterable[str], called: str, *, loads: bool = True) -> CommandParser:
    """Build the parser for the commands `names`; the help lists only those.

    Without `loads`, it can print the list of commands only, which is much faster.
    """
    parser = CommandParser(
        prog=called,
        description="Migrates pods from device plugins to Dynamic Resource Allocation.",
        epilog=f"Run `{called} COMMAND --help` for the options of a command.",
        allow_abbrev=False,
    )
    _add_debug_option(parser)
    parser.add_argument("--version", action=_Version, nargs=0, help="print version and commit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        summary = COMMANDS[name][1]
        subparser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        _add_debug_option(subparser)
        if loads:
            command = load(name)
            command.arguments(subparser)
            for inner in subparser.subparsers().values():
                _add_debug_option(inner)
            subparser.add_exit_codes(command.EXIT_CODES)
            ends = name not in _UNTIL_A_SIGNAL
            subparser.set_defaults(run=rare_collections()(command.run) if ends else command.run)
    return parser


def parse(arguments: Sequence[str], streams: Streams, called: str) -> argparse.Namespace | int:
    """Return the options, or the exit code after help, version or wrong usage."""
    at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), 0)
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


def dispatch(arguments: Sequence[str], streams: Streams, called: str) -> int:
    """Run the command that `arguments` name, and return its exit code."""
    options: argparse.Namespace | int = BUG
    try:
        options = parse(arguments, streams, called)
        code = options if isinstance(options, int) else int(options.run(options, streams))
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
