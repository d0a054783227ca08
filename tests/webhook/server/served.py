"""The door and the gate on a real socket, with somebody behind them who answers as told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from runtime.health import Address
from runtime.listener import CONNECTIONS, Gate
from runtime.review import decode
from runtime.tls import Certificate
from tests.runtime import http_client
from tests.runtime.key_pairs import NAME, Pair, pair, put, trusting
from webhook.admission.handler import Reply
from webhook.server.http_handler import LIMITS, Door, Limits

ANY = Address("127.0.0.1", 0)


class Answering:
    """Allows everything, once `go` is set; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, float | None]] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.bug: Exception | None = None
        self._news = asyncio.Event()

    async def pods(self, body: bytes, seconds: float | None = None) -> Reply:
        """Answer about a pod."""
        return await self._answer("pods", body, seconds)

    async def workloads(self, body: bytes, seconds: float | None = None) -> Reply:
        """Answer about a workload."""
        return await self._answer("workloads", body, seconds)

    async def asked_by(self, count: int) -> None:
        """Wait until so many have asked."""
        while len(self.asked) < count:
            self._news.clear()
            await self._news.wait()

    async def _answer(self, where: str, body: bytes, seconds: float | None) -> Reply:
        self.asked.append((where, body, seconds))
        self.begun.set()
        self._news.set()
        if self.bug:
            raise self.bug
        await self.go.wait()
        uid = decode(body).uid
        if not uid:
            return Reply(status=400, body=b"{}", outcome="error")
        response = {"response": {"uid": uid, "allowed": True}}
        return Reply(status=200, body=msgspec.json.encode(response), uid=uid, operation="CREATE")


class Served(NamedTuple):
    """What a test looks at."""

    answering: Answering
    door: Door
    gate: Gate
    certificate: Certificate
    folder: Path
    pair: Pair

    def line(
        self, *, trust: Pair | None = None, name: str | None = NAME
    ) -> contextlib.AbstractAsyncContextManager[http_client.Line]:
        """Open a connection that trusts the pair it was started with."""
        context = trusting(trust or self.pair)
        context.check_hostname = name is not None
        return http_client.line(self.gate.port, context, name)

    async def ask(self, data: bytes) -> http_client.Answer:
        """Ask once on a connection of its own."""
        async with self.line() as line:
            return await line.ask(data)


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    *,
    missing: Callable[[], list[str]] = list,
    limits: Limits = LIMITS,
    most: int = CONNECTIONS,
) -> AsyncIterator[Served]:
    """Open the gate, and close it at the end."""
    answering, one = Answering(), pair()
    certificate = Certificate(*put(folder, one))
    certificate.refresh()
    door = Door(answering, missing, limits)
    gate = Gate(ANY, certificate, door.handle, most=most, linger=0.05)
    await gate.open()
    try:
        yield Served(answering, door, gate, certificate, folder, one)
    finally:
        answering.go.set()
        await gate.close(1)
