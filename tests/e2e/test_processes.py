"""What a rig starts ends with it, also when the rig is killed."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.controlplane.processes import Process, StartError

ROOT = Path(__file__).parents[2]
CHILD = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(1)"
RIG = """
import sys
from pathlib import Path
from e2e.controlplane.processes import Process
Process("child", [sys.executable, "-c", sys.argv[1], sys.argv[2]], Path(sys.argv[3]))
sys.stdin.read()
"""


def test_a_process_ends_when_the_rig_is_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", RIG, CHILD, port, str(tmp_path / "log")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT) as rig:  # noqa: S603  # our own
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                rig.kill()
                assert connection.recv(1) == b"", "only its end closes the child's side"


def test_a_process_keeps_its_own_pid_and_ends_when_told(tmp_path: Path) -> None:
    program = "import os; print(os.getpid(), flush=True)\n"
    program += "import signal; signal.pause()"
    process = Process("child", [sys.executable, "-c", program], tmp_path / "log")
    process.wait_ready(lambda: bool(process.tail()))
    assert process.tail() == str(process.child.pid)
    process.stop()
    assert process.child.poll() is not None


def test_a_program_that_is_not_there_is_said_with_its_name(tmp_path: Path) -> None:
    process = Process("child", [tmp_path / "missing"], tmp_path / "log")
    with pytest.raises(StartError, match="missing"):
        process.wait_ready(lambda: False)


def test_a_process_tells_what_it_has_logged_and_not_what_one_before_it_has(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for said in ("the reason", "nothing"):
        process = Process(said, ["/bin/echo", said], log)
        process.child.wait()
    assert log.read_text().splitlines() == ["the reason", "nothing"]
    assert process.tail() == "nothing"
