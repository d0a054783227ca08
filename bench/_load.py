"""A load generator with low overhead: keep-alive TLS connections that send prepared requests.

It parses only as much of HTTP as it needs to find the end of a response.
"""

import asyncio
import itertools
import ssl
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MARK: Final = b"00000000"
_LENGTH: Final = b"Content-Length: "
_END: Final = b"\r\n\r\n"


class Kind(NamedTuple):
    """Requests of one kind, in parts that are joined by a number of eight digits."""

    name: str
    pieces: Sequence[tuple[bytes, ...]]


class Connection(asyncio.Protocol):
    """Sends the next request when the response to the previous one is complete."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.done: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._requests: Iterator[bytes] = iter(())
        self._until = 0.0
        self._started = 0.0
        self._left = -1
        self._head = b""
        self.last = b""  # the beginning of the last response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def go(self, requests: Iterator[bytes], until: float) -> "asyncio.Future[None]":
        """Start a round."""
        self._requests, self._until, self.times = requests, until, []
        self.done = asyncio.get_running_loop().create_future()
        self._next()
        return self.done

    def _next(self) -> None:
        data = next(self._requests)
        self._left, self._head = -1, b""
        self._started = time.perf_counter()
        if self._transport:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._left >= 0:
            self._left -= len(data)
        else:
            self._head += data
            end = self._head.find(_END)
            if end < 0:
                return
            if not self._head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"unexpected response: {self._head[:400]!r}")
            start = self._head.index(_LENGTH) + len(_LENGTH)
            self.last = self._head
            size = int(self._head[start : self._head.index(b"\r\n", start)])
            self._left = size - (len(self._head) - end - len(_END))
        if self._left == 0:
            self._answered()

    def _answered(self) -> None:
        now = time.perf_counter()
        self.times.append(now - self._started)
        if now < self._until:
            self._next()
        elif self.done:
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.done and not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server ended the connection"))


def numbered(kind: Kind, counter: "itertools.count[int]") -> Iterator[bytes]:
    """Yield requests of a kind without end; requests with a number are all different."""
    for pieces in itertools.cycle(kind.pieces):
        yield (b"%08d" % next(counter)).join(pieces)


async def connect(port: int, authority: str, name: str, count: int) -> list[Connection]:
    """Open this many connections, without TLS if there is no authority."""
    context = ssl.create_default_context(cadata=authority) if authority else None
    loop = asyncio.get_running_loop()
    made = []
    for _ in range(count):
        _, connection = await loop.create_connection(
            Connection, "127.0.0.1", port, ssl=context, server_hostname=name if context else None
        )
        made.append(connection)
    return made
