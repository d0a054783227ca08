"""The worker process: results, exceptions, cancellation, and a bounded queue."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from webhook.admission.protocols import WorkerError
from webhook.server.worker_process import WorkerProcess

pytestmark = pytest.mark.asyncio


@contextlib.asynccontextmanager
async def run_worker(max_waiting: int = 4) -> AsyncIterator[WorkerProcess]:
    async with contextlib.aclosing(WorkerProcess(max_waiting)) as worker:
        yield worker


async def test_a_function_runs_in_another_process() -> None:
    async with run_worker() as worker:
        await worker.start()
        first, second = await worker.run(os.getpid), await worker.run(os.getpid)
        assert first == second != os.getpid()


async def test_large_values_pass_in_both_directions() -> None:
    async with run_worker() as worker:
        assert await worker.run(bytes.upper, b"a" * 5_000_000) == b"A" * 5_000_000


async def test_an_exception_does_not_end_the_process() -> None:
    async with run_worker() as worker:
        before = await worker.run(os.getpid)
        with pytest.raises(RuntimeError, match="ValueError"):
            await worker.run(int, "x")
        assert await worker.run(os.getpid) == before


async def test_output_of_a_function_does_not_break_replies() -> None:
    async with run_worker() as worker:
        await worker.run(print, "text")
        assert await worker.run(len, "abc") == 3


async def test_a_call_that_outlives_its_deadline_is_ended() -> None:
    async with run_worker() as worker:
        before = await worker.run(os.getpid)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await worker.run(signal.pause)
        assert await worker.run(os.getpid) != before


async def test_a_lost_process_fails_one_call() -> None:
    async with run_worker() as worker:
        with pytest.raises(WorkerError, match="ended"):
            await worker.run(os._exit, 1)
        assert await worker.run(len, "abc") == 3


async def test_the_number_of_waiting_calls_is_bounded() -> None:
    async with run_worker(max_waiting=3) as worker:
        calls = [asyncio.create_task(worker.run(len, "abc")) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(WorkerError, match="too many"):
            await worker.run(len, "abc")
        assert await asyncio.gather(*calls) == [3, 3, 3, 3]
        assert await worker.run(len, "abc") == 3


async def test_the_process_ignores_signals_that_stop_the_webhook() -> None:
    async with run_worker() as worker:
        pid = await worker.run(os.getpid)
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        assert await worker.run(os.getpid) == pid


PARENT = """
import asyncio, os, signal
from webhook.server.worker_process import WorkerProcess

async def main():
    worker = WorkerProcess()
    pid = await worker.run(os.getpid)
    call = asyncio.create_task(worker.run(signal.pause))
    await asyncio.sleep(0)
    print(pid, flush=True)
    await call

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_process_ends_with_its_parent_during_a_call(number: signal.Signals) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    assert parent.stderr is not None
    pid = int(await parent.stdout.readline())
    try:
        parent.send_signal(number)
        async with asyncio.timeout(20):  # a failure, not a measurement
            await parent.stderr.read()  # the worker holds the other end until it ends
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await parent.wait()
