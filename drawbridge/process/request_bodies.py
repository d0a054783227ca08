"""Reads the bodies of HTTP requests with limits: size, time, and the total size of all bodies."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Final

from aiohttp import StreamReader, web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_TYPE
from aiohttp.web_protocol import RequestPayloadError

from drawbridge.process.fair_turns import FairTurns, TurnKey
from drawbridge.process.network_peers import (
    OVERDUE_SECONDS,
    Holding,
    PeerShares,
    find_greediest,
    find_peer,
)

JSON: Final = "application/json"
_SMALL: Final = 64 * 1024
# What is overdue is so for certain after this much more.
_SLACK_SECONDS: Final = 0.01
# More than there can be connections.
_MAX_READ: Final = 1 << 16


class RejectedRequestError(Exception):
    """A request that is rejected before it reaches its handler."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _ArrivingBody:
    """A body of which parts are missing, and since when it holds memory."""

    def __init__(self, peer: str, timer: asyncio.Timeout) -> None:
        self.peer = peer
        self.since = 0.0
        self.received = bytearray()
        self.is_refused = False
        self._timer = timer

    def refuse(self) -> None:
        """Stop to read the body."""
        self.is_refused = True
        if not self._timer.expired():  # otherwise it stops at this moment anyway
            self._timer.reschedule(0)


class RequestBodies:
    """Reads bodies, and counts those that are being handled.

    Bodies that are arriving share a quarter of the memory. If it is full, they are not read on
    until there is room: what is overdue is refused, first the body of the peer that keeps most of
    it for longest. Another quarter is divided among the peers, so what arrives from a peer with
    little is read at once. What is sent again after a refusal only waits. A small body neither
    counts nor waits: the number of connections limits the memory of all of them. The parts of
    others are read one in each turn of the event loop, so a flood of them delays no small body.
    Bodies of one size have as many turns as those of another, so the largest delay no other one.

    Of the rest of the memory, which is for bodies that are being handled, peers share three
    quarters, and one quarter is divided among them.
    """

    def __init__(
        self,
        most: int,
        most_in_total: int,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._now = now
        part = max(most, most_in_total // 4)
        held = most_in_total - 2 * part
        self._received = PeerShares(part, part)
        self._held = PeerShares(held - held // 4, held // 4)
        # Those that hold memory, in the order in which they began to.
        self._arriving: dict[_ArrivingBody, None] = {}
        self._removed = asyncio.Event()
        self._turns = FairTurns(_MAX_READ)

    async def read(self, request: web.BaseRequest, seconds: float) -> bytes:
        """Read a body within a time; raises RejectedRequestError."""
        content = request.content
        if content.is_eof():  # a small body arrives together with the headers
            body = content.read_nowait()
            if len(body) > self._most:
                raise self._too_large()
            return body
        length = request.content_length
        if (length or 0) > self._most:
            raise self._too_large()
        await _send_continue(request)
        timeout = min(seconds, self._seconds)
        timer = asyncio.timeout(timeout)
        arriving = _ArrivingBody(find_peer(request.remote or ""), timer)
        try:
            async with timer:
                if length is not None and length <= _SMALL:
                    return await content.read()
                return await self._read_chunks(content, arriving)
        except TimeoutError:
            if arriving.is_refused:
                raise _too_many_bytes() from None
            message = f"the body did not arrive within {timeout:g} seconds"
            raise RejectedRequestError(408, message, Connection="close") from None
        except RequestPayloadError as error:
            message = f"the body is malformed: {error}"
            raise RejectedRequestError(400, message, Connection="close") from None

    def check_room(self, peer: str, body: bytes) -> None:
        """Raise RejectedRequestError if a body cannot be handled now.

        A small body is never refused: the number of requests limits the memory of all of them.
        """
        if len(body) > _SMALL and not self._held.has_room(peer, len(body)):
            raise _too_many_bytes()

    def hold(self, peer: str, body: bytes) -> None:
        """Count a body that is being handled, until `let_go`."""
        self._held.add(peer, len(body))

    def let_go(self, peer: str, body: bytes) -> None:
        """Count a body no more."""
        self._held.remove(peer, len(body))

    async def _read_chunks(self, content: StreamReader, arriving: _ArrivingBody) -> bytes:
        """Read a body in chunks. The total size of all such bodies is bounded."""
        received = arriving.received
        try:
            while not content.at_eof():
                await self._wait_for_room(arriving)
                chunk = await content.readany()
                if arriving.is_refused:  # meanwhile, so it counts no more
                    raise _too_many_bytes()
                if not received:
                    arriving.since = self._now()
                    self._arriving[arriving] = None
                received += chunk
                self._received.add(arriving.peer, len(chunk))
                if len(received) > self._most:
                    raise self._too_large()
                if not content.at_eof():
                    key = TurnKey(arriving.peer, f"{len(received).bit_length()}")
                    async with self._turns.take(key):
                        await asyncio.sleep(0)
        finally:
            self._remove(arriving)
        return bytes(received)

    async def _wait_for_room(self, arriving: _ArrivingBody) -> None:
        """Wait until a body can be read on; refuses those that are overdue."""
        while not self._received.has_room(arriving.peer):
            now = self._now()
            overdue = {
                body: Holding(body.peer, body.since, len(body.received))
                for body in takewhile(
                    lambda body: now - body.since > OVERDUE_SECONDS,  # noqa: B023  # used at once
                    self._arriving,
                )
            }
            greediest = find_greediest(overdue, now)
            if greediest is None:
                await self._wait_for_removal(now - next(iter(self._arriving)).since)
                continue
            greediest.refuse()
            self._remove(greediest)
            if greediest is arriving:
                raise _too_many_bytes()

    async def _wait_for_removal(self, age: float) -> None:
        """Wait until a body is removed, or until the oldest one is overdue."""
        self._removed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OVERDUE_SECONDS - age + _SLACK_SECONDS):
                await self._removed.wait()

    def _remove(self, body: _ArrivingBody) -> None:
        if body in self._arriving:
            del self._arriving[body]
            self._received.remove(body.peer, len(body.received))
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
