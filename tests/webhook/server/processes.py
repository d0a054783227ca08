"""Run `drawbridge serve webhook` or `drawbridge serve judge` as a separate process."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tests.process import http_client
from tests.process.http_client import Response, request
from tests.process.key_pairs import KeyPair, create_client_context, create_pair, write_pair

ROOT = Path(__file__).parents[3]
Line = dict[str, Any]


class Process:
    """A running process and its log lines."""

    def __init__(self, running: asyncio.subprocess.Process, pair: KeyPair) -> None:
        self.running = running
        self.pair = pair
        self.lines: list[Line] = []

    async def wait_for_line(self, msg: str, **fields: object) -> Line:
        """Wait for the first matching line. Raise RuntimeError at the end of the log."""
        wanted = {"msg": msg, **fields}.items()
        for line in self.lines:
            if wanted <= _simple(line).items():
                return line
        if self.running.stderr is None:
            raise RuntimeError("standard error is not a pipe")
        while raw := await self.running.stderr.readline():
            line = json.loads(raw)
            self.lines.append(line)
            if wanted <= _simple(line).items():
                return line
        raise RuntimeError(f"no line {msg}, only {self.lines}")

    async def port(self, name: str) -> int:
        """Return the port of a listener."""
        line = await self.wait_for_line("listening", name=name)
        return int(line["address"].rpartition(":")[2])

    async def send(self, data: bytes) -> Response:
        """Send one admission request on a new connection."""
        async with http_client.connect(
            await self.port("admission"), create_client_context(self.pair)
        ) as connection:
            return await connection.send_request(data)

    async def get(self, name: str, path: str) -> Response:
        """Send a GET request to the health or metrics port."""
        async with http_client.connect(await self.port(name)) as connection:
            return await connection.send_request(request("GET", path))

    async def wait_for_readyz(self, is_expected: Callable[[Response], bool]) -> Response:
        """Poll /readyz until the response is as expected."""
        while not is_expected(answer := await self.get("health", "/readyz")):  # noqa: ASYNC110
            await asyncio.sleep(0)
        return answer

    async def wait_until_only_facts_are_missing(self) -> Response:
        """Poll /readyz until nothing else is missing; return earlier if the process is ready."""

        def is_expected(answer: Response) -> bool:
            missing = answer.body.splitlines()
            return answer.status == 200 or (len(missing) == 1 and b"drawbridge-facts" in missing[0])

        return await self.wait_for_readyz(is_expected)


def _simple(line: Line) -> Line:
    return {name: value for name, value in line.items() if isinstance(value, str | int | float)}


@contextlib.asynccontextmanager
async def webhook(
    folder: Path,
    kubeconfig: Path,
    *options: str,
    pair: KeyPair | None = None,
    command: str = "webhook",
) -> AsyncIterator[Process]:
    """Run the process until the context exits."""
    pair = pair or create_pair()
    certificate, key = write_pair(folder, pair)
    addresses = [f"--{each}=127.0.0.1:0" for each in ("listen", "health", "metrics")]
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "cli.main", "serve", command, "--namespace=drawbridge-system"),
        *(f"--tls-cert={certificate}", f"--tls-key={key}", f"--kubeconfig={kubeconfig}"),
        *(*addresses, *options),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    try:
        yield Process(running, pair)
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
        await running.communicate()
