"""Every outcome of a command has an exit code and at most one line on stderr."""

import fcntl
import gc
import io
import os
import re
import struct
import subprocess
import sys
import termios
import types
import typing
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, cast

import pytest

from cli import commands, main
from cli.terminal.folding import FoldingStream, fold_line
from cli.terminal.streams import Streams
from tests.cli.running import command
from tests.tables import every_row

ROOT = Path(__file__).parent.parent.parent

# A process with the additional command `boom`, which runs the captured code.
WITH_BOOM = """
import sys, types
from cli import commands, main
module = types.ModuleType("boom")
module.EXIT_CODES = {{0: "done"}}
module.arguments = lambda parser: None
def run(options, streams):
    {body}
module.run = run
sys.modules["cli.boom"] = module
commands.COMMANDS["boom"] = "goes boom"
sys.argv = ["drawbridge", "boom"]
sys.exit(main.main())
"""


def process(
    *arguments: str, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )


@pytest.fixture
def boom(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Register a command `boom` that runs the captured function."""

    def register(body: Callable[[], int]) -> None:
        def run(_options: Namespace, _streams: Streams) -> int:
            return body()

        def arguments(parser: ArgumentParser) -> None:
            parser.add_argument("--loud", action="store_true")

        module = types.ModuleType("boom")
        vars(module).update(EXIT_CODES={0: "done"})
        vars(module).update(arguments=arguments, run=run)
        monkeypatch.setitem(sys.modules, "cli.boom", module)
        monkeypatch.setitem(commands.COMMANDS, "boom", "goes boom")

    return register


@every_row("name", commands.COMMANDS)
def test_every_command_implements_the_protocol(name: str) -> None:
    command = commands.load(name)
    for function, wanted in (
        (command.arguments, commands.Command.arguments),
        (command.run, commands.Command.run),
    ):
        assert typing.get_type_hints(function) == typing.get_type_hints(wanted)
    # A process also says that it has to start again.
    assert set(command.EXIT_CODES) <= ({0, 1, 2, 4} if name == "serve" else {0, 1, 2})
    summary = commands.COMMANDS[name]
    assert summary
    assert not summary.endswith(".")
    command.arguments(ArgumentParser())


@every_row("name", commands.COMMANDS)
def test_every_command_has_a_usage_text(name: str) -> None:
    code, out, err = command(name, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: drawbridge {name}")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_exit_code_is_that_of_the_command(boom: Callable[..., None], code: int) -> None:
    boom(lambda: code)
    assert command("boom").code == code


def test_a_command_gets_its_options(boom: Callable[..., None]) -> None:
    boom(lambda: 0)
    streams = Streams(io.BytesIO(), io.StringIO(), io.StringIO())
    options = main.parse(["boom", "--loud"], streams, "drawbridge")
    assert isinstance(options, Namespace)
    assert options.loud


def test_a_command_that_ends_collects_garbage_rarely(boom: Callable[..., None]) -> None:
    usual = gc.get_threshold()
    boom(lambda: int(gc.get_threshold() > usual))
    assert command("boom").code == 1
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("arguments", [("serve", "webhook"), ("page",)])
def test_a_command_that_lasts_collects_garbage_as_usual(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    usual = gc.get_threshold()
    module = commands.load(arguments[0])
    monkeypatch.setattr(module, "run", lambda *_: int(gc.get_threshold() == usual))
    assert command(*arguments).code == 1


@every_row(
    "arguments",
    [
        [],
        ["--nonsense"],
        ["nonsense"],
        ["config"],
        ["config", "nonsense"],
        ["config", "--nonsense"],
        ["config", "schema", "--con", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert "drawbridge" in err


def test_an_unknown_command_names_the_similar_one_and_none_lists_all() -> None:
    assert command("transalte", "-f", "x").err.endswith("; did you mean translate?\n")
    listed = command().err
    assert all(name in listed for name in commands.COMMANDS)


def test_help_lists_every_command_on_stdout() -> None:
    code, out, _ = command("--help")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("    ")]
    assert code == 0
    assert set(commands.COMMANDS) <= set(listed)


@pytest.mark.parametrize(
    ("argument", "called"),
    [
        ("/usr/bin/drawbridge", "drawbridge"),
        ("drawbridge", "drawbridge"),
        ("/home/a/bin/kubectl-drawbridge", "kubectl drawbridge"),
        ("kubectl-drawbridge", "kubectl drawbridge"),
        ("/kubectl-drawbridge/drawbridge", "drawbridge"),
    ],
)
def test_usage_has_the_name_of_the_program(argument: str, called: str) -> None:
    assert main.program_name(argument) == called
    assert command("config", "--help", called=called).out.startswith(f"usage: {called} config")


def crash() -> int:
    raise KeyError("a\nb")


def test_an_unhandled_exception_exits_with_3_and_one_line(boom: Callable[..., None]) -> None:
    boom(crash)
    code, _, err = command("boom")
    (line,) = err.splitlines()
    assert code == 3
    assert "this is a bug" in line
    assert "KeyError" in line
    assert "--debug" in line


@pytest.mark.parametrize("arguments", [["--debug", "boom"], ["boom", "--debug"]], ids=" ".join)
def test_debug_prints_the_traceback(boom: Callable[..., None], arguments: list[str]) -> None:
    boom(crash)
    code, out, err = command(*arguments)
    assert (code, "in crash" in err, "in crash" in out) == (3, True, False)


def test_an_import_error_exits_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(commands.COMMANDS, "there_is_no_such_module", "x")
    code, _, err = command("there_is_no_such_module")
    assert (code, "ModuleNotFoundError" in err) == (3, True)


def test_only_the_command_that_is_run_is_imported(
    monkeypatch: pytest.MonkeyPatch, boom: Callable[..., None]
) -> None:
    boom(lambda: 0)
    monkeypatch.setitem(commands.COMMANDS, "there_is_no_such_module", "x")
    assert command("boom").code == 0
    assert command("--version").code == 0


def test_version() -> None:
    code, out, _ = command("--version")
    assert code == 0
    assert re.fullmatch(
        r"drawbridge \d+\.\d+\.\d+ \(commit unknown, not a built release; Python 3\.\d+\.\d+\)\n",
        out,
    )


def test_the_module_runs_as_a_program() -> None:
    done = process("-m", "cli.main", "--version")
    assert (done.returncode, done.stderr) == (0, b"")


def test_control_c_exits_with_130_silently() -> None:
    # In a background job of a shell, child processes ignore SIGINT.
    handler = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    body = f"import os, signal; {handler}; os.kill(os.getpid(), signal.SIGINT)"
    done = process("-c", WITH_BOOM.format(body=body))
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("size", [1, 10**6], ids=["at the last flush", "while writing"])
def test_a_closed_pipe_exits_with_141_silently(size: int) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = process(
            "-c", WITH_BOOM.format(body=f"streams.out.write('x' * {size}); return 0"), stdout=write
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_exits_with_2_and_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        body = "streams.out.write('x'); return 0"
        done = process("-c", WITH_BOOM.format(body=body), stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.startswith(b"drawbridge: ")
    assert done.stderr.count(b"\n") == 1


def test_text_outside_the_terminal_encoding_is_escaped() -> None:
    body = r"streams.out.write('\u2192 \udc80 a'); return 0"
    done = process("-c", WITH_BOOM.format(body=body), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, rb"\u2192 \udc80 a")


@pytest.mark.parametrize(("encoding", "able"), [("ascii", b"False"), ("utf-8", b"True")])
def test_unicode_is_used_only_with_a_utf_8_encoding(encoding: str, able: bytes) -> None:
    body = "print(streams.unicode, streams.color); return 0"
    done = process("-c", WITH_BOOM.format(body=body), PYTHONIOENCODING=encoding)
    assert done.stdout.split() == [able, b"False"]


def terminal(**environment: str) -> bytes:
    """Return what a process prints when stdout is a terminal."""
    master, slave = os.openpty()
    body = "streams.err.write(str(streams.color)); return 0"
    try:
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
        return subprocess.run(  # noqa: S603  # our own interpreter
            [sys.executable, "-c", WITH_BOOM.format(body=body)],
            cwd=ROOT,
            env={**kept, **environment},
            stdout=slave,
            stderr=subprocess.PIPE,
            check=True,
        ).stderr
    finally:
        os.close(master)
        os.close(slave)


def test_color_is_on_for_a_terminal() -> None:
    assert terminal(TERM="xterm") == b"True"
    assert terminal(TERM="xterm", NO_COLOR="") == b"True"


def test_color_is_off_with_no_color_or_a_dumb_terminal() -> None:
    assert terminal(TERM="xterm", NO_COLOR="1") == b"False"
    assert terminal(TERM="dumb") == b"False"


@every_row(
    ("words", "code"),
    [
        ("config schema <&- 2>&-", 0),
        ("config schema >&-", 2),
        ("--help >&-", 2),
        ("--help >/dev/full", 2),
        ("translate --help >/dev/full", 2),
        ("config schema >/dev/full 2>/dev/full", 2),
        ("config print --config none.yaml 2>/dev/full", 2),
        ("translate -f examples/legacy/nvidia.yaml -o diff 2>/dev/full", 2),
        ("--help | true; exit ${PIPESTATUS[0]}", 141),
        ("translate --help | true; exit ${PIPESTATUS[0]}", 141),
    ],
)
def test_lost_output_is_no_success(words: str, code: int) -> None:
    command = f'"{sys.executable}" -m cli {words}'
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=False)  # noqa: S603, S607  # only a shell closes streams
    assert done.returncode == code
    assert done.stderr.count(b"\n") == (code == 2 and "2>" not in words)


def test_control_c_while_importing_is_silent(tmp_path: Path) -> None:
    # The first import of the command interrupts the process.
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nos.read(0, 1)\n"
    (tmp_path / "argparse.py").write_text(text)
    start = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler)"
    body = f"{start}; runpy.run_module('cli', run_name='__main__')"
    done = process("-c", body, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@every_row(
    ("line", "parts"),
    [
        ("short enough", ["short enough"]),
        ("a line with more words than fit", ["a line with more", "    words than fit"]),
        ("  indented: two more words", ["  indented: two more", "      words"]),
        ("spec.template.spec.containers", ["spec.template.spec.", "    containers"]),
        ("x" * 40, ["x" * 20, f"    {'x' * 16}", "    xxxx"]),
        (f"{' ' * 30}deep", [" " * 10 + "deep"]),
        ("\033[31merror\033[0m: 15 more letters", ["\033[31merror\033[0m: 15 more", "    letters"]),
        ("語" * 11, ["語" * 10, "    語"]),
    ],
)
def test_a_line_is_folded_at_words(line: str, parts: list[str]) -> None:
    assert list(fold_line(line, 20)) == parts


LEGACY = "examples/legacy/koordinator.yaml"
INVENTORY = "examples/inventory"


@pytest.mark.parametrize(
    "words",
    [
        f"translate -f {LEGACY} --cluster {INVENTORY} -o report",
        f"translate -f {LEGACY} -q --config none.yaml",
        "check -f examples/check",
        "check -f examples/driver -v",
        f"explain -f {LEGACY} worker",
        f"simulate -f {LEGACY} --cluster {INVENTORY}",
        "help NotExpressible",
        "help",
        "--help",
        "translate --help",
        "transalte",
    ],
)
def test_nothing_is_wider_than_the_terminal(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "40")
    text = io.StringIO()
    folding = cast("TextIO", FoldingStream(text, 40))
    main.dispatch(words.split(), Streams(io.BytesIO(), folding, folding), "drawbridge")
    folding.flush()
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 40


def test_data_keeps_its_lines_in_a_terminal() -> None:
    text = io.StringIO()
    folding = cast("TextIO", FoldingStream(text, 20))
    for words in (["config", "schema"], ["completion", "bash"]):
        main.dispatch(words, Streams(io.BytesIO(), folding, folding), "drawbridge")
        assert text.getvalue() == command(*words).out
        text.truncate(text.seek(0))


def test_the_width_is_that_of_the_terminal() -> None:
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        done = process("-m", "cli", "help", "NotExpressible", stdout=slave)
        printed = os.read(master, 1 << 16).decode()
    finally:
        os.close(master)
        os.close(slave)
    assert (done.returncode, done.stderr) == (0, b"")
    assert max(map(len, printed.splitlines())) <= 40
