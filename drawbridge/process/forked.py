"""Runs functions on a copy of this process, so that nothing they do has an effect here.

A fork is a frozen copy of the state at the cost of some milliseconds, whatever its size. The copy
has no socket, so it cannot write to the API server or answer the scheduler, and it has less
priority. Its CPU time and memory are limited, and it can be ended at any moment: the event loop of
this process never waits for it.

What a copy reaches of its limits is said of the function. A copy that dies within them says nothing
about it: the machine lacks memory, or something crashed.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import struct
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

_LOG: Final = logging.getLogger("drawbridge.process")
# Each message has its kind and its length before it. The last one is an exception, or empty.
_HEADER: Final = struct.Struct(">BI")
_MESSAGE: Final = 0
_END: Final = 1
_READ_BYTES: Final = 1 << 16
_OOM_FIRST: Final = "1000"
# The kernel counts CPU time in ticks, and its limit of memory counts what is not in use, too.
_PART_OF_LIMIT: Final = 0.75


class ForkLimits(NamedTuple):
    """The limits of one copy: time, CPU time, further memory, and the size of its result."""

    seconds: float = 5.0
    cpu_seconds: int = 3
    more_bytes: int = 256 << 20
    result_bytes: int = 8 << 20
    nice: int = 10


DEFAULT_FORK_LIMITS: Final = ForkLimits()


class ForkEndedError(Exception):
    """A copy reached one of its limits."""


class ForkSlowError(ForkEndedError):
    """A copy did not end in time, within its other limits: others use the machine."""


class ForkRefusedError(Exception):
    """The system refuses one more process or file descriptor."""


class ForkKilledError(ForkRefusedError):
    """A signal ended a copy within its limits: another one may come to its end."""


class ForkFailedError(Exception):
    """The function raised an exception; the text is its traceback."""


class Written(NamedTuple):
    """What a copy wrote, and why it did not come to its end: a limit, or an exception.

    One that `was_slow` did not end in time, within its other limits. One that `was_killed` reached
    none: a signal ended it.
    """

    messages: list[bytes]
    limit: str = ""
    was_slow: bool = False
    was_killed: bool = False
    traceback: str = ""


async def run_forked(
    function: Callable[[], bytes], limits: ForkLimits = DEFAULT_FORK_LIMITS
) -> bytes:
    """Return what a function returns in a copy of this process."""

    def run(write: Callable[[bytes], None]) -> None:
        write(function())

    written = await run_partly(run, limits)
    if written.traceback:
        raise ForkFailedError(written.traceback)
    if written.was_killed:
        raise ForkKilledError(written.limit)
    if written.limit:
        raise (ForkSlowError if written.was_slow else ForkEndedError)(written.limit)
    return b"".join(written.messages)


async def run_partly(
    function: Callable[[Callable[[bytes], None]], None], limits: ForkLimits = DEFAULT_FORK_LIMITS
) -> Written:
    """Return the messages that a function writes in a copy of this process, up to its end."""
    copy, data, is_late = _fork(function, limits), bytearray(), False
    try:
        async with asyncio.timeout(limits.seconds):
            await _read_all(copy.result, limits.result_bytes, data)
    except TimeoutError:
        is_late = True
    finally:
        end = await _end(copy)
    messages, raised = _split(data)
    if is_late:
        return Written(messages, f"no result within {limits.seconds:g} s", was_slow=True)
    if len(data) > limits.result_bytes:
        return Written(messages, f"the result has more than {limits.result_bytes} bytes")
    if raised is not None:
        return Written(messages, traceback=raised)
    if end.signal and not end.is_near(limits):
        _LOG.warning("a copy of this process was killed by signal %d", end.signal)
        return Written(messages, f"no result: signal {end.signal} killed it", was_killed=True)
    allowed = f"{limits.cpu_seconds} s of CPU time and {limits.more_bytes >> 20} MiB of memory"
    return Written(messages, f"no result with {allowed}")


def _split(data: bytearray) -> tuple[list[bytes], str | None]:
    """Return the messages that are complete, and the exception at the end, if it was reached."""
    messages: list[bytes] = []
    start = 0
    while start + _HEADER.size <= len(data):
        kind, length = _HEADER.unpack_from(data, start)
        start += _HEADER.size
        if start + length > len(data):
            break
        message = bytes(data[start : start + length])
        if kind == _END:
            return messages, message.decode(errors="replace")
        messages.append(message)
        start += length
    return messages, None


class _Copy(NamedTuple):
    """A copy: its process ID, file descriptors of the process and of its result, and its memory.

    Its memory is what was in use when it began, in bytes.
    """

    pid: int
    process: int
    result: int
    memory: int


class _End(NamedTuple):
    """How a copy ended: the signal if one ended it, its CPU time and its further memory."""

    signal: int
    cpu_seconds: float
    more_bytes: int

    def is_near(self, limits: ForkLimits) -> bool:
        """Whether it was so near to a limit that the signal can come from it.

        The kernel kills a copy at the limit of CPU time. Without memory, Python raises MemoryError,
        but a library can crash.
        """
        cpu_seconds = _within_hard_limit(resource.RLIMIT_CPU, limits.cpu_seconds)
        return (
            self.cpu_seconds >= _PART_OF_LIMIT * cpu_seconds
            or self.more_bytes >= _PART_OF_LIMIT * limits.more_bytes
        )


def _fork(function: Callable[[Callable[[bytes], None]], None], limits: ForkLimits) -> _Copy:
    """Start a copy; raises ForkRefusedError, and leaves nothing open then."""
    with contextlib.ExitStack() as opened:
        try:
            _, memory = _read_memory()
            result, target = os.pipe2(os.O_CLOEXEC)
            opened.callback(os.close, result)
            with contextlib.closing(os.fdopen(target, "wb")), warnings.catch_warnings():
                # Python warns of locks that other threads hold. Those of this process resolve
                # names, and the copy takes no lock that they take.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
                if pid == 0:
                    _run_copy(function, target, limits)
            opened.callback(_end_now, pid)
            process = os.pidfd_open(pid)
        except OSError as error:
            raise ForkRefusedError(f"{error}") from None
        opened.pop_all()
    return _Copy(pid, process, result, memory)


def _end_now(pid: int) -> None:
    """End a copy that has just begun; this takes some milliseconds at most."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def _end(copy: _Copy) -> _End:
    """End a copy, unless it has ended, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(copy.process, signal.SIGKILL)
    # The wait goes on without a caller that is cancelled meanwhile.
    return await asyncio.shield(_start_wait(copy))


_waits: set[asyncio.Task[_End]] = set()  # for copies that are killed, so milliseconds each


def _start_wait(copy: _Copy) -> asyncio.Task[_End]:
    wait = asyncio.ensure_future(_wait_for_end(copy))
    _waits.add(wait)
    wait.add_done_callback(_waits.discard)
    return wait


async def _wait_for_end(copy: _Copy) -> _End:
    """Wait for the end of a killed copy, and remove it from the table of processes."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(copy.process, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(copy.process)
        os.close(copy.process)
        # It has ended, or is killed while the loop ends.
        _, status, usage = os.wait4(copy.pid, 0)  # noqa: ASYNC222
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    grown = (usage.ru_maxrss << 10) - copy.memory
    return _End(number, usage.ru_utime + usage.ru_stime, grown)


async def _read_all(descriptor: int, most: int, data: bytearray) -> None:
    """Read until the end of the copy, or until there is more than the limit."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(descriptor, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        while len(data) <= most and (chunk := await reader.read(_READ_BYTES)):
            data += chunk
    finally:
        transport.close()


def _run_copy(
    function: Callable[[Callable[[bytes], None]], None], target: int, limits: ForkLimits
) -> NoReturn:
    """Run a function in the copy, which ends here."""
    try:
        # The end of the process closes it: whoever reads to the end can ask how it ended.
        with open(target, "wb", buffering=0, closefd=False) as file:  # a descriptor

            def write(message: bytes, kind: int = _MESSAGE) -> None:
                left = memoryview(_HEADER.pack(kind, len(message)) + message)
                while left:
                    left = left[file.write(left) or 0 :]

            try:
                _isolate(target, limits)
                function(write)
                write(b"", _END)
            except MemoryError:
                pass  # a copy that does not come to its end has reached a limit
            except BaseException:  # noqa: BLE001  # the process that waits reports it
                write(traceback.format_exc().encode(), _END)
    finally:
        # Nothing else of the copied process may run, such as its event loop or exit handlers.
        os._exit(0)


def _isolate(target: int, limits: ForkLimits) -> None:
    """Take from the copy what connects it to others, and limit it."""
    gc.disable()  # a collection would copy all memory
    os.closerange(3, target)
    os.closerange(target + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    # The handlers of the copied process would tell its event loop, which is gone.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.nice(limits.nice)
    Path("/proc/self/oom_score_adj").write_text(_OOM_FIRST, encoding="ascii")
    size, _ = _read_memory()
    for kind, most in (
        (resource.RLIMIT_AS, size + limits.more_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    ):
        allowed = _within_hard_limit(kind, most)
        resource.setrlimit(kind, (allowed, allowed))


def _read_memory() -> tuple[int, int]:
    """Return the size of the address space of this process, and what is in use of it, in bytes."""
    size, used, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(size) * resource.getpagesize(), int(used) * resource.getpagesize()


def _within_hard_limit(kind: int, limit: int) -> int:
    """Return a limit, or the hard limit of this process, which nothing may raise, if it is less."""
    hard = resource.getrlimit(kind)[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
