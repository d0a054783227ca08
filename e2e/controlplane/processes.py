"""Processes that a rig starts, watches and ends, each by its own pid; none outlives the rig.

Knows nothing of Kubernetes: a process has a command line, a log file, and a question that says
whether it is ready.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Ready = Callable[[], bool]
POLL_SECONDS = 0.05
TAIL_LINES = 60
TIED = Path(__file__).with_name("tied.py")


class StartError(Exception):
    """A process ended early or was not ready in time; carries the end of its log."""


def free_port() -> int:
    """Find a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """One child process with its log.

    It ends with the thread that started it, also when that is killed: start from one that stays.
    """

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        self.port = 0
        with log.open("ab") as out:
            self._begin = out.tell()
            self.child = subprocess.Popen(  # the command line is the rig's own
                [sys.executable, "-ES", str(TIED), str(os.getpid()), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # Ctrl-C goes to the rig alone, which ends its children in the right order.
                start_new_session=True,
            )

    def wait_ready(self, ready: Ready, seconds: float = 60) -> None:
        """Wait until `ready` says so; StartError when the process ends or time runs out."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.child.poll() is not None:
                raise StartError(f"{self.name} ended with {self.child.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} not ready after {seconds:g} s\n{self.tail()}")
            time.sleep(POLL_SECONDS)

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the end of what this process has logged."""
        return "\n".join(self.text().splitlines()[-lines:])

    def text(self) -> str:
        """Return what this process has logged, without others that have the same log."""
        with self.log.open("rb") as log:
            log.seek(self._begin)
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.child.kill()
        self.child.wait()

    def stop(self, seconds: float = 15) -> None:
        """End it, first politely; returns when it is gone."""
        if self.child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()


@contextlib.contextmanager
def suspended(process: Process) -> Iterator[None]:
    """Suspend a process."""
    process.child.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.child.send_signal(signal.SIGCONT)
