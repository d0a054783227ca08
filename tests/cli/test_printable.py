"""Nothing that was read controls the terminal."""

import io
import json
import os
from pathlib import Path
from typing import TextIO, cast

import pytest
import yaml

from cli.main import dispatch
from cli.terminal.printable import PrintableStream
from cli.terminal.streams import Streams, for_data, make_safe, unescaped, unfolded

# Escape sequences, one of C1, the delete character, carriage return, marks for the direction.
CONTROLS = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r\u202e\u2066\u200f"
POD = {
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
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": f"node{CONTROLS}", "labels": {f"l{CONTROLS}": CONTROLS}},
    "status": {"allocatable": {"nvidia.com/gpu": "8", f"{CONTROLS}/gpu": "1"}},
}


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    folder = tmp_path / "a\u202e\x1b[2Jb"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"kind": "List", "items": [POD, NODE]}), "utf-8")
    (folder / "b.yaml").write_text(f"kind: {CONTROLS}\n", "utf-8")
    return str(folder)


def _is_shown(character: str) -> bool:
    return character in "\n\t" or character.isprintable()


COMMANDS = [
    "translate -f FOLDER -o report",
    "translate -f FOLDER -v",
    "translate -f FOLDER --cluster FOLDER --diff",
    "translate -f FOLDER --output-dir FOLDER",
    "undo -f FOLDER -o report",
    "check -f FOLDER --cluster FOLDER -v",
    "simulate -f FOLDER --cluster FOLDER",
    "simulate -f FOLDER --cluster FOLDER --explain",
    "explain -f FOLDER --cluster FOLDER NAME",
    "audit --cluster FOLDER",
    "audit --cluster FOLDER -o csv",
    "usage --cluster FOLDER -o csv",
    "usage --cluster FOLDER",
    "help NAME",
    "NAME",
]


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("is_terminal", [False, True])
def test_no_command_prints_what_controls_a_terminal(
    words: str, hostile: str, *, is_terminal: bool
) -> None:
    text = _Terminal() if is_terminal else io.StringIO()
    safe = make_safe(text)
    replaced = {"FOLDER": hostile, "NAME": f"p{CONTROLS}"}
    arguments = [replaced.get(each, each) for each in words.split()]
    dispatch(arguments, Streams(io.BytesIO(), safe, safe), "drawbridge")
    printed = text.getvalue()
    assert printed
    if is_terminal or "translate -f FOLDER -v" not in words:
        assert not [each for each in printed if not _is_shown(each)]


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
    files = {each["file"] for each in load(text.getvalue())["findings"]}
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


def test_a_terminal_shows_escaped_text_folded_or_not() -> None:
    master, slave = os.openpty()
    try:
        with open(slave, "w", encoding="utf-8", closefd=False) as terminal:
            safe = make_safe(terminal)
            assert isinstance(unfolded(safe), PrintableStream)
            safe.write(f"a{CONTROLS}\n")
            safe.flush()
            for_data(cast("TextIO", safe)).write(f"b{CONTROLS}\n")
            safe.flush()
            unfolded(safe).flush()
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(master)
        os.close(slave)
    assert not [each for each in shown.replace("\r\n", "\n") if not _is_shown(each)]
