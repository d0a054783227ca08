"""Calls to the API server: JSON as bytes over one aiohttp session, with time limits and retries.

Knows methods, paths and errors; nothing of objects, and nothing of how credentials are found.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

import aiohttp
import msgspec

from cluster.credentials import Access, Credentials
from cluster.errors import AccessError, ApiError, UnreachableError, from_answer
from cluster.lines import Lines

__all__ = ["AccessError", "ApiError", "Session", "UnreachableError"]

ATTEMPTS: Final = 5
FIRST_PAUSE: Final = 0.1
CONNECT_SECONDS: Final = 10.0
# Two bookmarks, which come once a minute, may be missed before a watch counts as dead.
QUIET_SECONDS: Final = 150.0
# A create may have happened although its answer was lost; these may be said twice.
_AGAIN: Final = frozenset({"GET", "PUT", "DELETE", "PATCH"})
_ONCE: Final = "application/json-patch+json"  # it may add to a list
_UNAVAILABLE: Final = frozenset({500, 502, 503, 504})
_NONE: Final[Mapping[str, str]] = {}
_BUFFER: Final = 1024 * 1024


class Session:
    """The way to one API server, as one user; an async context manager."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._credentials = credentials
        self._pause = pause
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            # Both ends would spend more on compression than a cluster's network does on bytes.
            headers={"User-Agent": "drawbridge", "Accept-Encoding": "identity"},
            read_bufsize=_BUFFER,
        )

    @classmethod
    async def open(cls, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Find credentials and make the session; AccessError says why there are none."""
        credentials = Credentials(kubeconfig, context)
        await credentials.access()
        return cls(credentials)

    @property
    def namespace(self) -> str:
        """The account's namespace in a pod, else the context's, else `default`."""
        return self._credentials.namespace

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def call(  # noqa: PLR0913  # all but two by name
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = _NONE,
        body: object = None,
        content: str = "application/json",
        seconds: float = 30,
        guard: Callable[[], Awaitable[None]] | None = None,
    ) -> bytes:
        """Make a call and give the body of its answer; ApiError for anything but success.

        `seconds` covers everything, repetitions included. What cannot have happened, and what may
        happen twice, is tried again; a create is repeated only where the server refused to begin.
        `guard` is asked before every attempt, and may raise.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        request = _Request(method, path, query, data, content)
        deadline = asyncio.get_running_loop().time() + seconds
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with asyncio.timeout_at(deadline):
                    if guard is not None:
                        await guard()
                    return await self._authorised(request)
            except TimeoutError:
                raise UnreachableError(f"{method} {path}: no answer in {seconds:g} s") from None
            except ApiError as error:
                wait = _pause_before_retry(request, error, attempt)
                if wait is None or asyncio.get_running_loop().time() + wait > deadline:
                    raise
            await self._pause(wait)
        raise AssertionError  # the last attempt raised

    async def _authorised(self, request: "_Request") -> bytes:
        access = await self._access(None)
        try:
            return await self._once(access, request)
        except ApiError as error:
            if error.code != 401:
                raise
        # The token may have ended early, or been renewed in its file a moment ago.
        return await self._once(await self._access(access), request)

    async def _access(self, refused: Access | None) -> Access:
        try:
            if refused is not None:
                return await self._credentials.renew(refused)
            return await self._credentials.access()
        except AccessError as error:
            raise UnreachableError(f"credentials: {error}", hopeless=True) from None

    async def _once(self, access: Access, request: "_Request") -> bytes:
        try:
            async with self._send(access, request) as response:
                answer = await response.read()
                if response.status >= 400:
                    raise from_answer(response.status, response.headers, answer)
                return answer
        except _BROKEN as error:
            raise _unreachable(request, error) from None

    def _send(
        self, access: Access, request: "_Request", quiet: float | None = None
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Accept": "application/json", **access.headers}
        if request.data is not None:
            headers["Content-Type"] = request.content
        return self._http.request(
            request.method,
            access.server + request.path,
            params=request.query,
            data=request.data,
            headers=headers,
            ssl=access.tls or True,
            server_hostname=access.server_name,
            proxy=access.proxy,
            # A redirect would carry the token to wherever it points.
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=quiet),
        )

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = _NONE,
        quiet: float = QUIET_SECONDS,
    ) -> AsyncIterator[AsyncGenerator[list[bytes], None]]:
        """Open a watch; what it gives are the lines that came together, of any length.

        Ends when the server ends it. UnreachableError when it breaks, and when nothing at all was
        heard for `quiet` seconds: a connection that a firewall forgot looks alive forever.
        """
        request = _Request("GET", path, query)
        refused: Access | None = None
        while True:
            access = await self._access(refused)
            async with contextlib.AsyncExitStack() as stack:
                try:
                    sent = self._send(access, request, quiet)
                    response = await stack.enter_async_context(sent)
                    failed = await response.read() if response.status >= 400 else b""
                except _BROKEN as error:
                    raise _unreachable(request, error) from None
                if response.status == 401 and refused is None:
                    refused = access
                    continue
                if response.status >= 400:
                    raise from_answer(response.status, response.headers, failed)
                yield _lines(response, request)
                return

    async def version(self) -> str:
        """Give the server's minor version, as in `1.36`."""
        said = msgspec.json.decode(await self.call("GET", "/version"), type=_Version)
        # Some distributions say `36+`.
        return f"{said.major}.{said.minor.rstrip('+')}"


class _Version(msgspec.Struct):
    major: str
    minor: str


class _Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    data: bytes | None = None
    content: str = ""


_BROKEN: Final = (aiohttp.ClientError, OSError, TimeoutError)
_NEVER_BEGAN: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


async def _lines(
    response: aiohttp.ClientResponse, request: _Request
) -> AsyncGenerator[list[bytes], None]:
    lines = Lines()
    try:
        async for chunk in response.content.iter_any():
            if found := lines.feed(chunk):
                yield found
    except _BROKEN as error:
        raise _unreachable(request, error) from None


def _unreachable(request: _Request, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"{request.method} {request.path}: {str(error) or type(error).__name__}",
        began=not isinstance(error, _NEVER_BEGAN),
        hopeless=isinstance(error, aiohttp.ClientSSLError),
    )


def _pause_before_retry(request: _Request, error: ApiError, attempt: int) -> float | None:
    """Say how long to wait before the next attempt; None where there must be none."""
    if attempt == ATTEMPTS:
        return None
    again = request.method in _AGAIN and request.content != _ONCE
    pause = FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + random.random())  # noqa: S311  # jitter
    if isinstance(error, UnreachableError):
        if error.hopeless:
            return None
        return pause if again or not error.began else None
    if error.code == 429:  # refused before anything was begun
        return error.retry_after if error.retry_after is not None else pause
    if error.code in _UNAVAILABLE and error.retry_after is not None and again:
        return error.retry_after
    return None
