"""Reads the bodies of HTTP requests with limits: size, time, and the total size of all bodies."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from aiohttp import StreamReader, web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_TYPE
from aiohttp.web_protocol import RequestPayloadError

from drawbridge.process.network_peers import (
    OVERDUE_SECONDS,
    Holding,
    find_greediest,
    find_peer,
)

JSON: Final = "application/json"
_SMALL: Final = 64 * 1024
# How often a body without room looks for one that is overdue by then.
_ROOM_SECONDS: Final = 0.1


class RejectedRequestError(Exception):
    """A request that is rejected before it reaches its handler."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _ArrivingBody:
    """A body of which parts are missing."""

    def __init__(self, peer: str, since: float, timer: asyncio.Timeout) -> None:
        self.peer = peer
        self.since = since
        self.received = bytearray()
        self.is_refused = False
        self._timer = timer

    def refuse(self) -> None:
        """Stop to read the body."""
        self.is_refused = True
        self._timer.reschedule(0)


class RequestBodies:
    """Reads bodies. `held` is the total size of the bodies that are being handled.

    Bodies that are arriving share a quarter of the memory. If it is full, they are not read on
    until there is room: what is overdue is refused, first the body of the peer that keeps most of
    it for longest. Another quarter is divided among the peers, so what arrives from a peer with
    little is read at once. What is sent again after a refusal only waits.
    """

    def __init__(
        self,
        most: int,
        most_in_total: int,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._most_arriving = max(most, most_in_total // 4)
        self._most_held = most_in_total - 2 * self._most_arriving
        self._seconds = seconds
        self._now = now
        self._arriving: dict[_ArrivingBody, None] = {}
        self._bytes_arriving = 0
        self._removed = asyncio.Event()
        self.held = 0

    async def read(self, request: web.BaseRequest, seconds: float) -> bytes:
        """Read a body within a time; raises RejectedRequestError."""
        content = request.content
        if content.is_eof():  # a small body arrives together with the headers
            body = content.read_nowait()
            if len(body) > self._most:
                raise self._too_large()
            return body
        if (request.content_length or 0) > self._most:
            raise self._too_large()
        await _send_continue(request)
        timeout = min(seconds, self._seconds)
        timer = asyncio.timeout(timeout)
        arriving = _ArrivingBody(find_peer(request.remote or ""), self._now(), timer)
        try:
            async with timer:
                return await self._read_chunks(content, arriving)
        except TimeoutError:
            if arriving.is_refused:
                raise _too_many_bytes() from None
            message = f"the body did not arrive within {timeout:g} seconds"
            raise RejectedRequestError(408, message, Connection="close") from None
        except RequestPayloadError as error:
            message = f"the body is malformed: {error}"
            raise RejectedRequestError(400, message, Connection="close") from None

    def hold(self, body: bytes) -> None:
        """Count a body that is being handled, until `let_go`; raises RejectedRequestError.

        A small body is never refused: the number of requests limits the memory of all of them.
        """
        if len(body) > _SMALL and self.held + len(body) > self._most_held:
            raise _too_many_bytes()
        self.held += len(body)

    def let_go(self, body: bytes) -> None:
        """Count a body no more."""
        self.held -= len(body)

    async def _read_chunks(self, content: StreamReader, arriving: _ArrivingBody) -> bytes:
        """Read a body in chunks. The total size of all such bodies is bounded."""
        self._arriving[arriving] = None
        received = arriving.received
        try:
            while not content.at_eof():
                await self._wait_for_room(arriving)
                chunk = await content.readany()
                received += chunk
                self._bytes_arriving += len(chunk)
                if len(received) > self._most:
                    raise self._too_large()
        finally:
            self._remove(arriving)
        return bytes(received)

    async def _wait_for_room(self, arriving: _ArrivingBody) -> None:
        """Wait until a body can be read on; refuses those that are overdue."""
        while self._is_full_for(arriving.peer):
            now = self._now()
            overdue = {
                body: Holding(body.peer, body.since, len(body.received))
                for body in self._arriving
                if body.received and now - body.since > OVERDUE_SECONDS
            }
            greediest = find_greediest(overdue, now)
            if greediest is None:
                self._removed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_ROOM_SECONDS):
                        await self._removed.wait()
                continue
            greediest.refuse()
            self._remove(greediest)
            if greediest is arriving:
                raise _too_many_bytes()

    def _is_full_for(self, peer: str) -> bool:
        if self._bytes_arriving < self._most_arriving:
            return False
        peers = {body.peer for body in self._arriving}
        held = sum(len(body.received) for body in self._arriving if body.peer == peer)
        return held * len(peers) >= self._most_arriving

    def _remove(self, body: _ArrivingBody) -> None:
        if body in self._arriving:
            del self._arriving[body]
            self._bytes_arriving -= len(body.received)
            self._removed.set()

    def _too_large(self) -> RejectedRequestError:
        message = f"the body must not exceed {self._most} bytes"
        return RejectedRequestError(413, message, Connection="close")


def check_content(request: web.BaseRequest) -> None:
    """Raise RejectedRequestError unless the body is JSON without compression."""
    headers = request.headers
    if headers.get(CONTENT_TYPE) != JSON and request.content_type != JSON:
        raise RejectedRequestError(415, f"Content-Type must be {JSON}", Accept_Post=JSON)
    if headers.get(CONTENT_ENCODING, "identity") != "identity":
        message = "compressed requests are not supported"
        raise RejectedRequestError(415, message, Accept_Encoding="identity")


def _too_many_bytes() -> RejectedRequestError:
    message = "the bodies of all requests are too large"
    return RejectedRequestError(429, message, Retry_After="1", Connection="close")


async def _send_continue(request: web.BaseRequest) -> None:
    """Send 100 Continue to a client that expects it."""
    expects = request.headers.get("Expect")
    if expects is None:
        return
    if expects.lower() != "100-continue":
        message = "the only supported expectation is 100-continue"
        raise RejectedRequestError(417, message, Connection="close")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # Otherwise aiohttp takes these bytes for the start of the response.
    request.writer.output_size = 0
