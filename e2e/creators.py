"""Creates objects as fast as an API server accepts them, at little cost of its own.

Kept-alive TLS connections send prepared bytes, one request after another. A client detects only the
end of a response and its status code.
"""

import asyncio
import ssl
import time
from collections.abc import Iterator

CREATED = b"HTTP/1.1 201"
_HEAD_END, _CHUNKS_END = b"\r\n\r\n", b"\r\n0\r\n\r\n"
_LENGTH = b"content-length: "


class CreatingClient(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.made = 0
        self._transport: asyncio.Transport | None = None
        self._requests: Iterator[bytes] = iter(())
        self._until = 0.0
        self._answer = b""
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def go(self, requests: Iterator[bytes], until: float) -> "asyncio.Future[None]":
        """Send requests until this time; done when the last one has a response."""
        self.made, self._requests, self._until = 0, requests, until
        self._done = asyncio.get_running_loop().create_future()
        self._next()
        return self._done

    def close(self) -> None:
        """End the connection."""
        if self._transport:
            self._transport.abort()

    def _next(self) -> None:
        self._answer = b""
        if self._transport:
            self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Send the next request when the response is complete."""
        self._answer += data
        if not _is_complete(self._answer) or self._done is None:
            return
        if not self._answer.startswith(CREATED):
            self._done.set_exception(AssertionError(self._answer.decode(errors="replace")))
            return
        self.made += 1
        if time.perf_counter() < self._until:
            self._next()
        else:
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the error to the caller of `go`."""
        if self._done and not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server ended the connection"))


def _is_complete(answer: bytes) -> bool:
    """Return whether a response is complete."""
    head, separator, body = answer.partition(_HEAD_END)
    if not separator:
        return False
    lower = head.lower()
    at = lower.find(_LENGTH)
    if at < 0:
        return answer.endswith(_CHUNKS_END)
    return len(body) >= int(lower[at + len(_LENGTH) :].partition(b"\r\n")[0])


def request(path: str, token: str, body: bytes) -> bytes:
    """Format one request to create an object."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: kubernetes\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def connect(port: int, authority: str, count: int) -> list[CreatingClient]:
    """Open `count` connections to an API server of this machine."""
    context = ssl.create_default_context(cadata=authority)
    loop = asyncio.get_running_loop()
    made = []
    for _ in range(count):
        _, creator = await loop.create_connection(
            CreatingClient, "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
        )
        made.append(creator)
    return made
