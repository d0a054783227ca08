"""Serves the page on loopback, to whoever knows its URL.

Every process and every user of this machine can connect to loopback, and so can every web page
that is open in a browser here. Therefore:

- The first part of the path is a secret. Without it there is nothing, whatever is asked.
- The Host must be this server: a name that a foreign site lets point here (DNS rebinding) is not.
- A browser must say that the request comes from this page or from its user, not from another site.
- The page loads and sends nothing, may not be framed, is not stored, and tells nobody its URL.

There is no cookie: a browser would send it to every other port of this machine.
"""

import asyncio
import hmac
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.hdrs import HOST, ORIGIN

from cli.served_page.snapshots import Snapshots
from drawbridge.process.addresses import Address
from drawbridge.process.listener import ListenerLimits, TLSListener
from drawbridge.report.page.script import SCRIPT, SEARCH
from drawbridge.report.page.written import AUDIT
from drawbridge.report.style import STYLE

LOOPBACK: Final = "127.0.0.1"
EVENTS: Final = "events"
MAX_CONNECTIONS: Final = 64
# A browser opens six connections to one server.
MAX_STREAMS: Final = 16
ALIVE_SECONDS: Final = 5.0
SLOW_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
_SECRET_BYTES: Final = 32
_METHODS: Final = ("GET", "HEAD")
_HTML: Final = "text/html; charset=utf-8"
# What a browser says about a request of this page, and about one that its user typed.
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(SCRIPT)} {_hash(SEARCH)}",
        f"style-src {_hash(STYLE)}",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# Returns the page of the audit, as HTML.
WriteAudit = Callable[[], Awaitable[str]]


class PageServer:
    """Serves the page from `open` to `close`."""

    def __init__(  # noqa: PLR0913  # what is served, and its limits by name
        self,
        snapshots: Snapshots,
        write_audit: WriteAudit,
        port: int = 0,
        *,
        max_connections: int = MAX_CONNECTIONS,
        max_streams: int = MAX_STREAMS,
        alive_seconds: float = ALIVE_SECONDS,
    ) -> None:
        self._snapshots = snapshots
        self._write_audit = write_audit
        self._secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._streams = 0
        self._max_streams = max_streams
        self._alive_seconds = alive_seconds
        self._stopping = asyncio.Event()
        at = Address(LOOPBACK, port)
        limits = ListenerLimits(max_connections, handshakes=MAX_CONNECTIONS)
        self._listener = TLSListener(at, None, self.handle, name="page", limits=limits)

    async def open(self) -> None:
        """Start to listen. Raise OSError if the port is not available."""
        await self._listener.open()

    async def close(self) -> None:
        """End all streams, and accept nothing more."""
        self._stopping.set()
        await self._listener.close(CLOSE_SECONDS)

    @property
    def port(self) -> int:
        """The port number."""
        return self._listener.port

    @property
    def url(self) -> str:
        """The URL of the page, with its secret."""
        return f"http://{LOOPBACK}:{self.port}/{self._secret}/"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        refused = self._refuse(request)
        if refused is not None:
            return refused
        match request.rel_url.raw_path.split("/")[2:]:
            case [""]:
                return web.Response(body=self._snapshots.body, headers=_headers(_HTML))
            case [name] if name == AUDIT:
                text = await self._write_audit()
                return web.Response(body=text.encode(errors="replace"), headers=_headers(_HTML))
            case [name] if name == EVENTS and request.method == "GET":
                return await self._stream(request)
            case _:
                return _say(HTTPStatus.NOT_FOUND, "not found")

    def _refuse(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request that gets nothing; without the secret it tells nothing."""
        hosts = [f"{name}:{self.port}" for name in (LOOPBACK, "localhost")]
        named = request.headers.getall(HOST, [])
        if len(named) != 1 or named[0] not in hosts:
            return _say(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        origins = request.headers.getall(ORIGIN, [])
        sites = request.headers.getall("Sec-Fetch-Site", [])
        if {*origins} - {f"http://{named[0]}"} or {*sites} - _OWN_SITES:
            advice = "not for other sites: copy the URL into the address bar of the browser"
            return _say(HTTPStatus.FORBIDDEN, advice)
        first = request.rel_url.raw_path.split("/")[1:2]
        asked = first[0].encode(errors="replace") if first else b""
        if not hmac.compare_digest(asked, self._secret.encode()):
            return _say(HTTPStatus.NOT_FOUND, "not found")
        if request.method not in _METHODS:
            refused = _say(HTTPStatus.METHOD_NOT_ALLOWED, "this page is only read")
            refused.headers["Allow"] = ", ".join(_METHODS)
            return refused
        return None

    # --- changes -------------------------------------------------------------------------------

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send what changes as server-sent events, until the browser leaves."""
        if self._streams >= self._max_streams:
            return _say(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
        self._streams += 1
        try:
            response = web.StreamResponse(headers=_headers("text/event-stream"))
            await response.prepare(request)
            await self._send_changes(response, _read_version(request))
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._streams -= 1
        return response

    async def _send_changes(self, response: web.StreamResponse, version: int) -> None:
        while not self._stopping.is_set():
            changes = self._snapshots.find_changes(version)
            if changes is None:
                await _send(response, "alive", version, "")
                await self._wait(version)
                continue
            version = changes.version
            if changes.is_frame:
                await _send(response, "frame", version, "")
            else:
                data = msgspec.json.encode(changes.parts).decode()
                await _send(response, "parts", version, data)

    async def _wait(self, version: int) -> None:
        """Wait for another version, for the end, or until it is time to say that this lives."""
        waits = [
            asyncio.ensure_future(each)
            for each in (self._snapshots.wait(version), self._stopping.wait())
        ]
        try:
            await asyncio.wait(
                waits, timeout=self._alive_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waits:
                each.cancel()


async def _send(response: web.StreamResponse, event: str, version: int, data: str) -> None:
    # A slow reader keeps nothing in memory but this: what changed is asked again after it.
    async with asyncio.timeout(SLOW_SECONDS):
        await response.write(f"event: {event}\nid: {version}\ndata: {data}\n\n".encode())


def _read_version(request: web.BaseRequest) -> int:
    """Return the version that a page has; a browser that connects again names the last event."""
    named = request.headers.get("Last-Event-ID") or request.rel_url.query.get("since")
    text = named or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else -1


def _headers(content: str) -> Mapping[str, str]:
    return {**HEADERS, "Content-Type": content}


def _say(status: HTTPStatus, text: str) -> web.Response:
    headers = _headers("text/plain; charset=utf-8")
    return web.Response(status=status, text=f"{text}\n", headers=headers)
