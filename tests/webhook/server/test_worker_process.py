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


async def test_functions_run_in_one_other_process_whatever_they_do() -> None:
    async with run_worker() as worker:
        await worker.start()
        first = await worker.run(os.getpid)
        assert first != os.getpid()
        assert await worker.run(bytes.upper, b"a" * 5_000_000) == b"A" * 5_000_000
        with pytest.raises(RuntimeError, match="ValueError"):
            await worker.run(int, "x")
        await worker.run(print, "output is no reply")
        assert await worker.run(len, "abc") == 3
        for number in (signal.SIGTERM, signal.SIGINT):  # as those that stop the webhook
            os.kill(first, number)
        assert await worker.run(os.getpid) == first


async def test_a_call_that_outlives_its_deadline_is_ended() -> None:
    async with run_worker() as worker:
        before = await worker.run(os.getpid)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await worker.run(signal.pause)
        assert await worker.run(os.getpid) != before


async def test_a_lost_process_fails_one_call_and_waiting_calls_are_bounded() -> None:
    async with run_worker(max_waiting=3) as worker:
        with pytest.raises(WorkerError, match="ended"):
            await worker.run(os._exit, 1)
        calls = [asyncio.create_task(worker.run(len, "abc")) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(WorkerError, match="too many"):
            await worker.run(len, "abc")
        assert await asyncio.gather(*calls) == [3, 3, 3, 3]
        assert await worker.run(len, "abc") == 3


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
