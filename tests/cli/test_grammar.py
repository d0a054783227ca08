"""An option means the same in every command, and does not take the positional argument."""

import argparse
import io
import re
from collections.abc import Iterator

import pytest

from cli import commands, main
from cli.terminal.streams import Streams
from tests.cli.running import command
from tests.tables import every_row
from tools.commands_page import command_parsers, render_page

# The processes in pods have other defaults, such as the service account.
COMMANDS = {name: each for name, each in command_parsers().items() if "serve" not in name}


def options() -> Iterator[tuple[str, argparse.Action]]:
    for parser in COMMANDS.values():
        for action in parser.options():
            yield from ((name, action) for name in action.option_strings)


def test_equal_options_mean_equal_things() -> None:
    meanings: dict[str, tuple[object, ...]] = {}
    for name, action in options():
        # The formats and the default of -o differ, and --help lists them.
        choices = () if name in ("-o", "--output") else (action.choices, action.default)
        fields = (action.help, action.type, action.nargs, action.metavar, action.const, action.dest)
        # An optional -f has the default [], to which files are appended.
        told = (*fields, *((each or None) for each in choices))
        assert meanings.setdefault(name, told) == told, name


def test_equal_destinations_have_equal_options() -> None:
    names: dict[str, list[str]] = {}
    # Former options lead to the one that replaces them.
    for _, action in options():
        if action.help == argparse.SUPPRESS:
            continue
        assert names.setdefault(action.dest, action.option_strings) == action.option_strings


def test_the_page_lists_each_option_of_each_command_once() -> None:
    section = render_page().partition("## Options")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")
    ]
    listed = [
        (name, command)
        for option, *_, commands in rows
        for name in re.findall(r"`([^`]+)`", option)
        for command in re.findall(r"`([^`]+)`", commands) or COMMANDS
    ]
    expected = [
        (name, command)
        for command, parser in COMMANDS.items()
        for action in parser.options()
        for name in action.option_strings
        if action.dest != "help"
    ]
    assert sorted(listed) == sorted(expected)


def test_the_first_format_is_the_default() -> None:
    for name, parser in COMMANDS.items():
        for action in parser.options():
            # These have a second default, for errors and for --output-dir.
            others = ("config print", "config facts", "translate", "undo")
            if action.dest == "output" and name not in others:
                assert action.choices
                assert action.default == next(iter(action.choices))


def parsed(line: str) -> argparse.Namespace:
    streams = Streams(io.BytesIO(), io.StringIO(), io.StringIO())
    parsed = main.parse(line.split(), streams, "drawbridge")
    assert isinstance(parsed, argparse.Namespace), line
    return parsed


@every_row(
    ("line", "context", "pod"),
    [
        ("explain --context p", "", "p"),
        ("explain --context c p", "c", "p"),
        ("explain p --context c", "c", "p"),
        ("explain p --context", "", "p"),
        ("explain -n x --context p -o json", "", "p"),
        ("explain --context=c p", "c", "p"),
        ("--debug explain --context p", "", "p"),
    ],
)
def test_a_bare_context_does_not_take_the_pod(line: str, context: str, pod: str) -> None:
    options = parsed(line)
    assert (options.context, options.pod) == (context, pod)


@pytest.mark.parametrize(
    ("line", "cluster", "expression"),
    [
        ("cel --cluster a b true", ["a", "b"], "true"),
        ("cel true --cluster a b", ["a", "b"], "true"),
        ("cel --cluster a true -o json", ["a"], "true"),
        ("cel --cluster a b --batch x", ["a", "b"], None),
        ("cel --cluster a --inventory b true", ["a", "b"], "true"),
    ],
)
def test_the_cluster_does_not_take_the_expression(
    line: str, cluster: list[str], expression: str | None
) -> None:
    options = parsed(line)
    assert (options.cluster, options.expression) == (cluster, expression)


@pytest.mark.parametrize(
    ("line", "usage", "error"),
    [
        ("explain p --nope", "explain", "unrecognized arguments: --nope"),
        ("config print --nope", "config print", "unrecognized arguments: --nope"),
        ("check -f a b", "check", "unrecognized arguments: b"),
        ("cel --cluster a", "cel", "one of the arguments EXPR --batch is required"),
        ("explain --context", "explain", "the following arguments are required: POD|TYPE/NAME"),
    ],
)
def test_wrong_usage_shows_the_usage_of_the_subcommand(line: str, usage: str, error: str) -> None:
    code, _, text = command(*line.split())
    assert code == 2
    assert text.startswith(f"usage: drawbridge {usage} [-h]")
    assert text.endswith(f"drawbridge {usage}: error: {error}\n")


@every_row("name", COMMANDS)
def test_help_lists_the_exit_codes(name: str) -> None:
    codes = commands.load(name.split(maxsplit=1)[0]).EXIT_CODES
    assert {0, 2} <= set(codes) <= {0, 1, 2}
    text = COMMANDS[name].format_help()
    assert "\nexit codes:\n" in text
    for code, meaning in codes.items():
        assert f"\n  {code}  {meaning}\n" in text
