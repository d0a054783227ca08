"""Functions on a copy of the process: their results, their limits, and that they have no effect."""

import asyncio
import errno
import os
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from drawbridge.process.forked import (
    ForkEndedError,
    ForkFailedError,
    ForkKilledError,
    ForkLimits,
    ForkRefusedError,
    run_forked,
)
from tests.leftovers import children

pytestmark = pytest.mark.asyncio
LIMITED = (resource.RLIMIT_CPU, resource.RLIMIT_AS)


async def test_a_result_arrives_and_the_state_stays_as_it_was() -> None:
    state = {"free": 3}

    def take() -> bytes:
        state["free"] -= 1
        return b"%d" % state["free"] * 100_000

    assert await run_forked(take) == b"2" * 100_000
    assert state == {"free": 3}


async def test_a_copy_has_no_socket() -> None:
    inherited, other = socket.socketpair()
    with inherited, other:
        number = inherited.fileno()

        def send() -> bytes:
            try:
                os.write(number, b"written")
            except OSError as error:
                return b"%d" % error.errno
            return b"written"

        assert await run_forked(send) == b"9"  # EBADF
        inherited.close()
        assert other.recv(1) == b""


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def _loop() -> bytes:
    while True:
        pass


def _grow() -> bytes:
    grown = []
    while True:
        grown.append(bytearray(1 << 20))


@pytest.mark.parametrize(
    ("function", "limits"),
    [
        (_loop, ForkLimits(seconds=0.2)),
        (_loop, ForkLimits(cpu_seconds=1)),
        (lambda: time.sleep(60) or b"", ForkLimits(seconds=0.2)),
        (_grow, ForkLimits(more_bytes=32 << 20)),
        (lambda: b"x" * 2000, ForkLimits(result_bytes=1000)),
        (lambda: _die(used_seconds=0.9), ForkLimits(cpu_seconds=1)),
        (lambda: _die(used_bytes=240 << 20), ForkLimits()),
    ],
    ids=["time", "cpu", "sleep", "memory", "result", "near cpu", "near memory"],
)
async def test_a_copy_ends_at_its_limits(function: object, limits: ForkLimits) -> None:
    before = children()
    with pytest.raises(ForkEndedError):
        await run_forked(function, limits)  # type: ignore[arg-type]
    assert children() == before


async def test_a_copy_that_lacks_memory_reached_its_limit_however_fast_its_end_is_seen() -> None:
    for _ in range(30):
        with pytest.raises(ForkEndedError):
            await run_forked(lambda: b"x" * (1 << 40))


def _die(
    number: signal.Signals = signal.SIGKILL, *, used_seconds: float = 0, used_bytes: int = 0
) -> bytes:
    """End this process by a signal, after it has used much."""
    used = b"x" * used_bytes
    while time.process_time() < used_seconds:
        pass
    os.kill(os.getpid(), number)
    return used


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_copy_that_is_killed_within_its_limits_reached_none(
    number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    before = children()
    with pytest.raises(ForkKilledError, match=f"signal {number:d}"):
        await run_forked(lambda: _die(number, used_seconds=0.1, used_bytes=16 << 20))
    assert children() == before
    assert [each.levelname for each in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("call", ["pipe2", "fork", "pidfd_open"])
async def test_a_copy_that_cannot_start_leaves_nothing_open(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EAGAIN, "no more")

    await run_forked(lambda: b"")  # opens what the event loop keeps
    before = children(), open_descriptors()
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ForkRefusedError, match="no more"):
        await run_forked(_loop)
    assert (children(), open_descriptors()) == before


async def test_an_exception_arrives_with_its_traceback() -> None:
    with pytest.raises(ForkFailedError, match="ZeroDivisionError"):
        await run_forked(lambda: b"%d" % (1 // 0))


async def test_an_error_before_the_function_arrives_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_by: int) -> int:
        raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "nice", refuse)
    with pytest.raises(ForkFailedError, match="not here"):
        await run_forked(lambda: b"")


async def test_a_copy_keeps_to_the_hard_limits_of_its_process() -> None:
    def read_limits() -> bytes:
        return b"%d %d" % tuple(resource.getrlimit(kind)[1] for kind in LIMITED)

    def fork_again() -> bytes:
        more = ForkLimits(cpu_seconds=20, more_bytes=1 << 40)
        assert asyncio.run(run_forked(read_limits, more)) == read_limits()
        return b"equal"

    assert await run_forked(fork_again) == b"equal"


async def test_a_cancelled_call_ends_its_copy() -> None:
    before = children()
    task = asyncio.create_task(run_forked(_loop))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == before


async def test_a_call_that_is_cancelled_again_while_its_copy_ends_leaves_no_process() -> None:
    before = children()
    task = asyncio.create_task(run_forked(_loop))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)  # the copy is killed, and its end is awaited
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        while children() != before:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0)


async def test_the_event_loop_runs_while_a_copy_works() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    with pytest.raises(ForkEndedError):
        await run_forked(_loop, ForkLimits(seconds=0.2))
    counting.cancel()
    assert turns > 100


async def test_a_copy_that_is_not_ended_ends_by_itself_with_its_cpu_time() -> None:
    assert await run_forked(_cpu_limit, ForkLimits(cpu_seconds=2)) == b"2"


def _cpu_limit() -> bytes:
    import resource  # noqa: PLC0415  # in the copy

    return b"%d" % resource.getrlimit(resource.RLIMIT_CPU)[0]
