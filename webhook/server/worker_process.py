"""Run functions in another process, one at a time, and end it if the caller does not wait longer.

The two processes exchange pickled values over pipes, each with its length. The other process ends
when its standard input closes, also during a call and if this process is killed.
"""

import asyncio
import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, Final, TypeVar, TypeVarTuple, Unpack

from drawbridge.process.fair_turns import NOBODY, FairTurns, NoTurnError, TurnKey
from drawbridge.process.stack import call_with_stack
from webhook.admission.protocols import WorkerError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
# The calls that wait keep their bodies in memory.
MAX_WAITING: Final = 64
_LENGTH: Final = struct.Struct(">Q")
_READ_BUFFER: Final = 1024 * 1024
_REVIEWS: Final = "webhook.admission.large_reviews"
_CLOSE_SECONDS: Final = 5.0


class WorkerProcess:
    """Runs functions of modules in another process. Calls wait for each other, keys in turn.

    The process imports `preload` before the first call.
    """

    def __init__(self, max_waiting: int = MAX_WAITING, preload: str = _REVIEWS) -> None:
        self._preload = preload
        self._turns = FairTurns(max_waiting)
        self._process: asyncio.subprocess.Process | None = None

    async def run(
        self, function: Callable[[Unpack[Ts]], T], *args: *Ts, key: TurnKey = NOBODY
    ) -> T:
        """Return the result of a function. The function and all values must support pickle.

        A key with many calls waits longer. Raise WorkerError if too many calls wait, or if the
        process ends. An exception of the function becomes a RuntimeError. A cancelled call ends the
        process.
        """
        try:
            async with self._turns.take(key):
                result: T = await self._call(pickle.dumps((function, args)))
                return result
        except NoTurnError as error:
            raise WorkerError(str(error)) from None

    async def run_named(self, name: str, *args: object, key: TurnKey = NOBODY) -> object:
        """Return the result of `module:function`, which only the other process imports."""
        return await self.run(call_named, name, args, key=key)

    async def start(self) -> None:
        """Start the process, so that the first call does not wait for it."""
        async with self._turns.take(NOBODY):
            await self._ensure_started()

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            # asyncio also waits until the pipes are closed, also by processes that ours started.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await process.wait()

    async def _call(self, message: bytes) -> Any:  # noqa: ANN401  # the result of the function
        try:
            reader, writer = await self._ensure_started()
            writer.writelines((_LENGTH.pack(len(message)), message))
            await writer.drain()
            size = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
            result, error = pickle.loads(await reader.readexactly(size))  # noqa: S301  # our own
        except (OSError, asyncio.IncompleteReadError) as lost:
            await self.aclose()
            raise WorkerError("the process ended") from lost
        except BaseException:  # cancelled: the result would be that of the next call
            self._abandon()
            raise
        if error is not None:
            raise RuntimeError(error)
        return result

    def _abandon(self) -> None:
        """Kill the process without waiting for its end."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process = None

    async def _ensure_started(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", __name__, self._preload),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_READ_BUFFER,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        reader, writer = self._process.stdout, self._process.stdin
        if reader is None or writer is None:
            raise WorkerError("the process has no pipes")
        return reader, writer


def call_named(name: str, args: tuple[object, ...]) -> object:
    """Call `module:function`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)(*args)


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Run the functions that `source` delivers until it closes."""
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        message = source.read(_LENGTH.unpack(head)[0])
        function, args = pickle.loads(message)  # noqa: S301  # from the parent process
        try:
            reply = pickle.dumps((function(*args), None))
        except Exception:  # noqa: BLE001  # the caller reports it
            reply = pickle.dumps((None, traceback.format_exc()))
        target.write(_LENGTH.pack(len(reply)))
        target.write(reply)
        target.flush()
        # Collections during a call would visit every object of a large body again and again.
        del message, function, args, reply
        gc.collect()


def _end_with_parent() -> None:
    """End this process when its standard input closes, whatever the main thread does."""
    closed = select.poll()
    closed.register(sys.stdin.fileno(), 0)  # reports only that the other end is closed
    closed.poll()
    os._exit(1)


def main() -> None:
    """Serve standard input and output. Only the parent process ends this one."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # text on standard output would break replies
    threading.Thread(target=_end_with_parent, daemon=True).start()
    importlib.import_module(sys.argv[1])  # slow, before the first call
    gc.freeze()
    gc.disable()
    call_with_stack(lambda: serve(sys.stdin.buffer, target))


if __name__ == "__main__":
    main()
