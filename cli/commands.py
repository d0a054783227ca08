"""The commands with their summaries, and their parsers.

A command is a module of this package, named like its word, with `EXIT_CODES`, `arguments(parser)`
and `run(options, streams) -> int`. To add one, write the module and add its line to `COMMANDS`.
"""

import argparse
import importlib
from collections.abc import Iterable
from typing import Protocol, cast

from cli.terminal.command_parser import CommandParser
from cli.terminal.exit_codes import ExitCodes
from cli.terminal.streams import Streams
from drawbridge.process.collection import rare_collections

# The summary of each command. The help needs the summaries without the modules.
COMMANDS = {
    "audit": "show what was translated, left and refused, by namespace and owner",
    "cel": "evaluate a CEL selector on the devices of an inventory, or a batch of selectors",
    "check": "judge slices, classes, claims, pods and configurations before they are applied",
    "completion": "print the completion script of a shell",
    "config": "print the configuration with its defaults, its JSON Schema, or a cluster's facts",
    "doctor": "check a live cluster, the installation and your rights",
    "explain": "show the requests, claims and problems of a pod or workload, or who holds devices",
    "help": "explain the code of a finding, or a command; without an argument, list all codes",
    "off": "switch all webhooks of a live cluster off, and say which pods wait",
    "on": "switch the webhooks on again, with the namespaces as they are labelled",
    "page": "serve a local page of nodes, devices, holders, waiting pods and the migration",
    "serve": "run the admission webhook, the judge, the controller or the allocator",
    "simulate": "place pods in memory: which devices they get, why none, or what would have to go",
    "translate": "translate device-plugin requests in manifests into resource claims",
    "undo": "restore the original requests in translated manifests",
    "usage": "show who used how many device-hours, by namespace, class or owner",
}

_UNTIL_A_SIGNAL = frozenset({"page", "serve"})  # the commands that do not end by themselves


class Command(Protocol):
    """What the module of a command exports."""

    @property
    def EXIT_CODES(self) -> ExitCodes:  # noqa: N802
        """What its exit codes mean."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments on `parser`."""

    def run(self, options: argparse.Namespace, streams: Streams) -> int:
        """Run the command, and return the exit code."""


class _Version(argparse.Action):
    """Prints the version. Reads it on demand, because that doubles the start-up time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from drawbridge.process.build_info import UNKNOWN, read_build_info  # noqa: PLC0415  # takes 20 ms

        info = read_build_info()
        commit = "unknown, not a built release" if info.commit == UNKNOWN else info.commit
        print(f"drawbridge {info.version} (commit {commit}; Python {info.python})")  # noqa: T201  # as argparse does
        parser.exit()


def load(name: str) -> Command:
    """Import the module of the command `name`."""
    return cast("Command", importlib.import_module(f"cli.{name}"))


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
        summary = COMMANDS[name]
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
