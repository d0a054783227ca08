"""What processes use, by their PID or until they end, and the trees whose processes take turns."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
# With the variable BASELINE, the path of another checkout, its processes run in turns with ours.
BASELINE: Final = Path(os.environ["BASELINE"]).resolve() if "BASELINE" in os.environ else None
TREES: Final[Mapping[str, Path]] = {"ours": ROOT} | ({"baseline": BASELINE} if BASELINE else {})
# Starts a command, and writes what it used. Linux counts the largest memory of who starts a process
# as that of the process, so it has to be small.
_STARTER: Final = """
import os, sys
started = os.fork()
if not started:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(started, 0)
exit = os.waitstatus_to_exitcode(status)
print(exit, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10, file=sys.stderr)
"""


class Spent(NamedTuple):
    """What a command printed, and what it used: CPU seconds and the largest resident memory."""

    exit_code: int
    seconds: float
    mebibytes: int
    printed: bytes


def run_python(words: list[str], folder: Path, environment: Mapping[str, str]) -> Spent:
    """Run Python to its end."""
    done = subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-ISc", _STARTER, sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=True,
    )
    code, seconds, mebibytes = done.stderr.split()
    return Spent(int(code), float(seconds), int(mebibytes), done.stdout)


class Worker:
    """A process that runs a script of this folder with the code of one tree, and answers."""

    def __init__(
        self, tree: Path, script: str, words: Sequence[str] = (), command: Sequence[str] = ()
    ) -> None:
        """Start the process, under a `command` that measures it, if any."""
        path = str(ROOT / "bench" / script)
        self._process = subprocess.Popen(  # noqa: S603  # ours
            [*command, sys.executable, "-P", path, *words],  # not the script's folder
            cwd=tree,
            # The same hashes in all trees: the order of sets changes the work.
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if command else None,
        )

    def ask(self, question: bytes) -> str:
        """Return the line that answers a question."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(question)
            process.stdin.flush()
        if not (line := process.stdout.readline()):
            raise SystemExit(f"the worker ended with code {process.wait()}")
        return line.decode()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def last_lines(written: bytes) -> str:
    """Return the end of what a process wrote to its standard error, which says why it ended."""
    return written[-2_000:].decode(errors="replace").strip() or "it wrote nothing"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads, which other processes of the machine do not delay."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text("ascii").split()[0]) for each in threads) / 1e9


def peak_mebibytes(pid: int) -> float:
    """Return the largest resident memory."""
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return int(peak[1]) / 1024 if peak else 0.0


def resident_mebibytes(pid: int) -> float:
    """Return the resident memory now."""
    resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return int(resident[1]) / 1024 if resident else 0.0
