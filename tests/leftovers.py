"""What a test can leave behind in its process, where the tests after it would meet it."""

import contextlib
import logging
import os
import signal
import socket
from pathlib import Path
from typing import NamedTuple

_OF_PYTEST = b"PYTEST_CURRENT_TEST"  # the name of the running test
LOGGERS = ("aiohttp.access", "asyncio")  # whose levels our processes set
_SIGNALS = (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class ProcessState(NamedTuple):
    """The state of this process that all tests of a worker share."""

    children: frozenset[str]
    directory: str
    environment: frozenset[tuple[bytes, bytes]]
    logging: tuple[object, ...]
    signals: tuple[object, ...]
    socket_timeout: float | None


def process_state() -> ProcessState:
    """Return the state of this process.

    Open files and threads are left out: they may end a moment after the test that has closed them.
    """
    root = logging.getLogger()
    levels = (logging.getLogger(name).level for name in LOGGERS)
    variables = os.environ._data.items()  # type: ignore[attr-defined]  # noqa: SLF001  # decodes nothing
    return ProcessState(
        children=children(),
        directory=os.getcwd(),  # noqa: PTH109  # faster
        environment=frozenset(pair for pair in variables if pair[0] != _OF_PYTEST),
        logging=(root.level, root.manager.disable, *levels, *root.handlers),
        signals=tuple(map(signal.getsignal, _SIGNALS)),
        socket_timeout=socket.getdefaulttimeout(),
    )


def children() -> frozenset[str]:
    """Return the processes that this process has started and not waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    while True:
        # A thread that ends meanwhile leaves its children to another one.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            tasks = Path("/proc/self/task").glob("*/children")
            return frozenset(pid for task in tasks for pid in task.read_text("ascii").split())


def differences(before: ProcessState, after: ProcessState) -> list[str]:
    """Say what has changed."""
    return [
        f"{name}: before {_shown(old, new)}, after {_shown(new, old)}"
        for name, old, new in zip(ProcessState._fields, before, after, strict=True)
        if old != new
    ]


def _shown(value: object, other: object) -> object:
    if isinstance(value, frozenset) and isinstance(other, frozenset):
        return sorted(value - other)
    return value
