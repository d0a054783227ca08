"""Reads the bodies of HTTP requests with limits: size, time, and the total size of all bodies."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_TYPE
from aiohttp.web_protocol import RequestPayloadError

JSON: Final = "application/json"


class RejectedRequestError(Exception):
    """A request that is rejected before it reaches its handler."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class RequestBodies:
    """Reads bodies. `held` is the total size of the bodies that are being read or handled."""

    def __init__(self, most: int, most_in_total: int, seconds: float) -> None:
        self._most = most
        self._most_in_total = most_in_total
        self._seconds = seconds
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
        try:
            async with asyncio.timeout(timeout):
                return await self._read_chunks(request)
        except TimeoutError:
            message = f"the body did not arrive within {timeout:g} seconds"
            raise RejectedRequestError(408, message, Connection="close") from None
        except RequestPayloadError as error:
            message = f"the body is malformed: {error}"
            raise RejectedRequestError(400, message, Connection="close") from None

    def hold(self, body: bytes) -> None:
        """Count a body that is being handled, until `let_go`; raises RejectedRequestError."""
        if self.held + len(body) > self._most_in_total:
            raise _too_many_bytes()
        self.held += len(body)

    def let_go(self, body: bytes) -> None:
        """Count a body no more."""
        self.held -= len(body)

    async def _read_chunks(self, request: web.BaseRequest) -> bytes:
        """Read a body in chunks. The total size of all such bodies is bounded."""
        body = bytearray()
        try:
            while chunk := await request.content.readany():
                body += chunk
                self.held += len(chunk)
                if len(body) > self._most:
                    raise self._too_large()
                if self.held > self._most_in_total:
                    raise _too_many_bytes()
        finally:
            self.held -= len(body)
        return bytes(body)

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
