"""Nothing that was read controls the terminal."""

import asyncio
import contextlib
import io
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from cli.commands import COMMANDS, parser_for
from cli.main import dispatch
from cli.terminal.command_parser import CommandParser
from cli.terminal.printable import PrintableStream
from cli.terminal.streams import Streams, for_data, make_safe, unescaped, unfolded
from drawbridge.usage.accounts import Account, UsedAmount
from drawbridge.usage.book import DAY, BookEntry, add_entry, open_book
from drawbridge.usage.stored_books import compose_config_map
from tests.cluster.fake.api import FakeApi

# Escape sequences, one of C1, the delete character, carriage return, marks for the direction.
CONTROLS = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r\u202e\u2066\u200f"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": f"p{CONTROLS}", "namespace": f"n{CONTROLS}"},
    "spec": {
        "containers": [
            {
                "name": f"c{CONTROLS}",
                "resources": {"limits": {"nvidia.com/gpu": f"1{CONTROLS}", f"a/{CONTROLS}": 1}},
            }
        ]
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": f"node{CONTROLS}", "labels": {f"l{CONTROLS}": CONTROLS}},
    "status": {"allocatable": {"nvidia.com/gpu": "8", f"{CONTROLS}/gpu": "1"}},
}


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    folder = tmp_path / "a\u202e\x1b[2Jb"
    folder.mkdir()
    (folder / "a.json").write_text(
        json.dumps({"kind": "List", "items": [POD, NODE, *others()]}), "utf-8"
    )
    (folder / "b.yaml").write_text(f"kind: {CONTROLS}\n", "utf-8")
    return str(folder)


def _is_shown(character: str) -> bool:
    return character in "\n\t" or character.isprintable()


def names_of(number: int) -> dict[str, str]:
    return {"name": f"{number}{CONTROLS}", "namespace": f"n{CONTROLS}", "uid": f"u{CONTROLS}"}


def others() -> list[dict[str, Any]]:
    """Objects of a cluster whose names and texts are hostile, and a book of who used devices."""
    account = Account(f"n{CONTROLS}", f"c{CONTROLS}", f"Job/{CONTROLS}")
    used = {account: UsedAmount(Fraction(3600), Fraction(0), Fraction(0))}
    book = add_entry(open_book(20_000 * DAY), BookEntry(20_000 * DAY + 3600, used, {}))
    config_map = compose_config_map(book, None)
    config_map["metadata"]["namespace"] = "drawbridge-system"
    result = dict.fromkeys(("driver", "pool", "device", "request"), CONTROLS)
    request = {"name": CONTROLS, "exactly": {"deviceClassName": CONTROLS}}
    dra = {"apiVersion": "resource.k8s.io/v1"}
    slice_spec = {
        "driver": CONTROLS,
        "nodeName": NODE["metadata"]["name"],
        "pool": {"name": CONTROLS, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": CONTROLS, "attributes": {CONTROLS: {"string": CONTROLS}}}],
    }
    return [
        config_map,
        {**dra, "kind": "ResourceSlice", "metadata": names_of(1), "spec": slice_spec},
        {**dra, "kind": "DeviceClass", "metadata": names_of(2), "spec": {}},
        {
            **dra,
            "kind": "ResourceClaim",
            "metadata": names_of(3),
            "spec": {"devices": {"requests": [request]}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {**names_of(4), "labels": {"drawbridge.dev/mode": CONTROLS}},
        },
    ]


# What programs read. A terminal shows it escaped, too.
DATA = frozenset({"json", "yaml", "diff", "html"})
# These end with a signal, and log or answer a browser.
SERVERS = frozenset({"page", "serve"})


class Words(NamedTuple):
    """What a command is called with, and whether it prints what programs read."""

    words: tuple[str, ...]
    is_data: bool


def parsers() -> Iterator[tuple[tuple[str, ...], CommandParser]]:
    """Yield each command and subcommand with its parser."""
    for name in sorted(COMMANDS.keys() - SERVERS):
        of_command = parser_for([name], "drawbridge").subparsers()[name]
        inner = of_command.subparsers()
        yield from (((name, word), each) for word, each in inner.items())
        if not inner:
            yield (name,), of_command


def calls() -> Iterator[Words]:
    """Yield calls with each form of output and each flag, on files and on a live cluster."""
    for name, parser in parsers():
        options = {action.option_strings[-1]: action for action in parser.options()}
        named = [
            next(iter(action.choices)) if action.choices else "NAME"
            for action in parser.positionals()
        ]
        files = ["-f", "FOLDER"] if "--filename" in options else []
        sources = [["--context"]] if "--context" in options else []
        if "--inventory" in options:
            sources.append(["--cluster", "FOLDER"])
        forms = list(options["--output"].choices or ()) if "--output" in options else [""]
        flags = [word for word, each in options.items() if each.nargs == 0 and word != "--help"]
        for source, form in itertools.product(sources or [[]], forms):
            given = [*name, *named, *files, *source, *(["-o", form] if form else [])]
            is_data = form in DATA or name[0] in {"completion", "config"}
            yield Words(tuple(given), is_data)
            if form == forms[0]:
                yield from (Words((*given, flag), is_data) for flag in flags)


CALLS = list(calls())
PROGRESS = "\r\033[K"  # our own


@pytest.mark.parametrize("called", CALLS, ids=lambda each: " ".join(each.words))
def test_no_command_prints_what_controls_a_terminal(
    called: Words, hostile: str, tmp_path: Path
) -> None:
    for text in (_Terminal(), *([] if called.is_data else [io.StringIO()])):
        safe = make_safe(text)
        _call(called.words, Streams(io.BytesIO(), safe, safe), hostile, tmp_path)
        shown = text.getvalue().replace(PROGRESS, "")
        assert not [each for each in shown if not _is_shown(each)]


async def _run_on_live_cluster(words: list[str], streams: Streams, folder: Path) -> None:
    async with FakeApi() as api:
        for each in (POD, NODE, *others()):
            api.put(each)
        access = ("--kubeconfig", str(api.kubeconfig(folder / "kubeconfig")))
        await asyncio.to_thread(dispatch, [*words, *access], streams, "drawbridge")


SHOWN = [
    "usage --cluster FOLDER -o csv",
    "audit --context -o csv",
    "explain NAME -f FOLDER --cluster FOLDER",
    "check -f FOLDER --cluster FOLDER",
]


@pytest.mark.parametrize("words", SHOWN)
def test_hostile_names_are_shown_as_codes(words: str, hostile: str, tmp_path: Path) -> None:
    text = io.StringIO()
    safe = make_safe(text)
    _call(words.split(), Streams(io.BytesIO(), safe, safe), hostile, tmp_path)
    assert "u202e" in text.getvalue()


def _call(words: Sequence[str], streams: Streams, hostile: str, folder: Path) -> None:
    replaced = {"FOLDER": hostile, "NAME": f"p{CONTROLS}"}
    given = [replaced.get(each, each) for each in words]
    if "--context" in given:
        asyncio.run(_run_on_live_cluster(given, streams, folder))
    else:
        dispatch(given, streams, "drawbridge")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_is_unchanged_where_programs_read_it(form: str, hostile: str) -> None:
    text = io.StringIO()
    safe = make_safe(text)
    arguments = ["check", "-f", hostile, "-o", form]
    dispatch(arguments, Streams(io.BytesIO(), safe, safe), "drawbridge")
    load = json.loads if form == "json" else yaml.safe_load
    findings = load(text.getvalue())["findings"]
    files = {each["file"] for each in findings if "file" in each}
    assert files
    assert all("\u202e\x1b[2J" in each for each in files)


def test_json_in_a_terminal_is_still_json() -> None:
    text = _Terminal()
    for_data(make_safe(text)).write(json.dumps([f"{CONTROLS}\U000e0001"], ensure_ascii=False))
    assert json.loads(text.getvalue()) == [f"{CONTROLS}\U000e0001"]
    assert text.getvalue().isprintable()


def test_colours_lines_and_letters_stay_and_our_own_sequences_pass() -> None:
    text = _Terminal()
    safe = make_safe(text)
    kept = "\033[31merror\033[0m: caf\u00e9\t\u4e2d\n"
    safe.write(kept)
    assert text.getvalue() == kept
    unescaped(safe).write("\r\033[K")
    assert text.getvalue().endswith("\r\033[K")


def _read_to_end(master: int, slave: int) -> str:
    """Close one end of a terminal, and read all that was written there."""
    os.close(slave)
    shown = b""
    # Linux says so at the end.
    with contextlib.suppress(OSError):
        while part := os.read(master, 1 << 16):
            shown += part
    return shown.decode()


def test_a_terminal_shows_escaped_text_folded_or_not() -> None:
    master, slave = os.openpty()
    try:
        with open(slave, "w", encoding="utf-8", closefd=False) as terminal:
            safe = make_safe(terminal)
            assert isinstance(unfolded(safe), PrintableStream)
            safe.write(f"a{CONTROLS}\n")
            safe.flush()
            for_data(safe).write(f"b{CONTROLS}\n")
            safe.flush()
            unfolded(safe).flush()
        shown = _read_to_end(master, slave)
    finally:
        os.close(master)
    assert not [each for each in shown.replace("\r\n", "\n") if not _is_shown(each)]


def test_an_audit_shows_its_progress_on_one_line_of_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(POD))
    master, slave = os.openpty()
    try:
        with open(slave, "w", encoding="utf-8", closefd=False) as terminal:
            streams = Streams(io.BytesIO(), io.StringIO(), make_safe(terminal))
            dispatch(["audit", "--cluster", str(tmp_path)], streams, "drawbridge")
            streams.err.flush()
        shown = _read_to_end(master, slave)
    finally:
        os.close(master)
    assert f"{PROGRESS}reading the devices{PROGRESS}" in shown
    assert "\\r" not in shown
