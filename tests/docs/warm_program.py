"""`drawbridge` as a program that has imported its modules before it starts.

A new process of the command needs most of its time for imports, and the pages run many commands. A
server imports all commands once. The program `drawbridge` of a page sends it its arguments,
variables, folder and open files, and the server runs the command in a fork of itself.
"""

import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
NAMES = ("drawbridge", "kubectl-drawbridge")
_STREAMS = (0, 1, 2)
# Only what a small script needs, because each command starts one.
_PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = dict(arguments=sys.argv, folder=os.getcwd(), variables=dict(os.environ))
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps(call).encode())
    server.shutdown(socket.SHUT_WR)
    code = server.recv(1)
os._exit(code[0] if code else {crashed})
"""
CRASHED = 3


@contextlib.contextmanager
def serve_commands(folder: Path) -> Iterator[Path]:
    """Start the server; yield the folder of the programs, which is to be first on the PATH."""
    address = folder / "commands"
    programs = folder / "bin"
    programs.mkdir()
    for name in NAMES:
        text = _PROGRAM.format(python=sys.executable, address=str(address), crashed=CRASHED)
        (programs / name).write_text(text, "utf-8")
        (programs / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        words = [sys.executable, "-m", "tests.docs.warm_program", str(listener.fileno())]
        with subprocess.Popen(words, cwd=ROOT, pass_fds=[listener.fileno()]):  # noqa: S603  # our words
            try:
                yield programs
            finally:
                listener.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Import all commands, and run each call until the listener is shut down."""
    from cli.commands import COMMANDS, load  # noqa: PLC0415  # only the server needs it

    for name in COMMANDS:
        load(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as listener, contextlib.suppress(OSError):
        while True:
            caller, _ = listener.accept()
            with caller:
                if not os.fork():
                    _answer(caller)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _answer(caller: socket.socket) -> None:
    """Run the call of one program in this process, send its exit code, and end."""
    _, files, _, _ = socket.recv_fds(caller, 1, len(_STREAMS))
    with caller.makefile("rb") as sent:
        call = json.load(sent)
    for stream, file in zip(_STREAMS, files, strict=True):
        os.dup2(file, stream)
        os.close(file)
    code = CRASHED
    try:
        code = _run(call)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
    finally:
        caller.sendall(bytes([code]))
        os._exit(0)


def _run(call: dict[str, Any]) -> int:
    from cli.__main__ import main as command  # noqa: PLC0415  # only the server needs it

    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["variables"])
    sys.argv = call["arguments"]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # open for life
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    return command()


if __name__ == "__main__":
    main()
