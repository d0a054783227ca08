"""`drawbridge serve webhook` as a process of its own, with its lines and its ports."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tests.runtime import http_client
from tests.runtime.http_client import Answer, request
from tests.runtime.key_pairs import Pair, pair, put, trusting

ROOT = Path(__file__).parents[3]
Line = dict[str, Any]


class Process:
    """A process that was started, and what it said."""

    def __init__(self, running: asyncio.subprocess.Process, one: Pair) -> None:
        self.running = running
        self.pair = one
        self.lines: list[Line] = []

    async def until(self, msg: str, **fields: object) -> Line:
        """Wait for a line, or find the one that was there; RuntimeError at the end of all."""
        wanted = {"msg": msg, **fields}.items()
        for line in self.lines:
            if wanted <= _simple(line).items():
                return line
        if self.running.stderr is None:
            raise RuntimeError("nobody listens")
        while raw := await self.running.stderr.readline():
            line = json.loads(raw)
            self.lines.append(line)
            if wanted <= _simple(line).items():
                return line
        raise RuntimeError(f"no line {msg}, only {self.lines}")

    async def port(self, name: str) -> int:
        """Where it listens for something."""
        line = await self.until("listening", name=name)
        return int(line["address"].rpartition(":")[2])

    async def ask(self, data: bytes) -> Answer:
        """Ask admission once, on a connection of its own."""
        async with http_client.line(await self.port("admission"), trusting(self.pair)) as line:
            return await line.ask(data)

    async def look(self, name: str, path: str) -> Answer:
        """Ask health or metrics."""
        async with http_client.line(await self.port(name)) as line:
            return await line.ask(request("GET", path))

    async def ready(self, good: Callable[[Answer], bool]) -> Answer:
        """Ask for readiness until it is as wanted; the test's own time limit is the bound."""
        while not good(answer := await self.look("health", "/readyz")):  # noqa: ASYNC110
            await asyncio.sleep(0)
        return answer


def _simple(line: Line) -> Line:
    return {name: value for name, value in line.items() if isinstance(value, str | int | float)}


@contextlib.asynccontextmanager
async def webhook(
    folder: Path, kubeconfig: Path, *options: str, one: Pair | None = None
) -> AsyncIterator[Process]:
    """Start it; it is gone at the end whatever happens."""
    one = one or pair()
    certificate, key = put(folder, one)
    addresses = [f"--{each}=127.0.0.1:0" for each in ("listen", "health", "metrics")]
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "cli.main", "serve", "webhook", "--namespace=drawbridge-system"),
        *(f"--tls-cert={certificate}", f"--tls-key={key}", f"--kubeconfig={kubeconfig}"),
        *(*addresses, *options),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    try:
        yield Process(running, one)
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
        await running.communicate()
