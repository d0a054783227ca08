"""Runs a command in network, mount and PID namespaces of its own, and checks what it leaves.

Everything in the namespaces ends with the first process of the PID namespace, and that one with
this process, also when this process is killed. What remains then are cgroups and files, which the
next run removes.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from e2e.controlplane.processes import TIED
from e2e.realnodes import cgroups
from e2e.realnodes.machine_state import differences, read_state

HERE = Path(__file__).parent
INIT = HERE / "init.py"
RUNS = HERE.parent.parent / ".cache" / "realnodes" / "runs"
# Set for the command: the folder of the run, whose name is that of its cgroup too.
RUN = "DRAWBRIDGE_E2E_RUN"
# In that folder: a process on this machine whose network and mounts are those of the run.
PID_FILE = "pid"
PREFIX = "drawbridge-"
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
TOOLS = ("unshare", "nsenter", "setpriv", "mount", "ip", "cp")


def lacking() -> str:
    """Say what this machine lacks to run nodes; empty when nothing is missing."""
    if not sys.platform.startswith("linux"):
        return "Linux is needed"
    checks = (_lacks_rights, _lacks_tools, _lacks_kernel_features, _lacks_namespaces)
    return next((reason for check in checks if (reason := check())), "")


def _lacks_rights() -> str:
    return "root is needed, to make namespaces, mounts and cgroups" if os.geteuid() else ""


def _lacks_tools() -> str:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not on the PATH: {', '.join(missing)}" if missing else ""


def _lacks_kernel_features() -> str:
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="ascii").split():
        return "the kernel has no overlay file system"
    return "" if cgroups.hierarchies() else f"no cgroups are mounted at {cgroups.TOP}"


def _lacks_namespaces() -> str:
    tried = subprocess.run(
        ["unshare", *NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/run"],  # noqa: S607  # of the PATH
        check=False,
        capture_output=True,
        text=True,
    )
    problem = tried.stderr.strip()
    return f"namespaces or mounts are not permitted: {problem}" if tried.returncode else ""


def run_inside(command: Sequence[str], say: Callable[[str], None]) -> int:
    """Run a command inside; its exit code, or 1 when the machine is not as it was before."""
    remove_ended_runs()
    RUNS.mkdir(parents=True, exist_ok=True)
    before = read_state()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=RUNS))
    tied = [sys.executable, "-ES", str(TIED), str(os.getpid()), shutil.which("unshare") or ""]
    init = [sys.executable, "-ES", str(INIT), *command]
    environment = os.environ | {RUN: str(folder), "TMPDIR": str(folder)}
    with subprocess.Popen([*tied, *NAMESPACES, "--", *init], env=environment) as process:
        (folder / PID_FILE).write_text(f"{process.pid}", encoding="ascii")
        code = _wait(process)
    _remove(folder)
    left = [*differences(before, read_state()), *cgroups.left(folder.name)]
    for line in left:
        say(f"LEFT  the machine is not as it was: {line}")
    return 1 if left else code


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the end; a signal asks the first process inside to end."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for child in children(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    before = [
        (number, signal.signal(number, pass_on)) for number in (signal.SIGTERM, signal.SIGINT)
    ]
    try:
        return process.wait()
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def children(pid: int) -> list[int]:
    """List the child processes of a process with one thread."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def remove_ended_runs() -> None:
    """Remove cgroups and files of runs that were killed."""
    for folder in RUNS.glob(f"{PREFIX}*") if RUNS.exists() else ():
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            _remove(folder)


def _remove(folder: Path) -> None:
    cgroups.remove(folder.name)
    shutil.rmtree(folder, ignore_errors=True)
