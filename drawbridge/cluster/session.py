"""HTTP requests to the API server over one aiohttp session, with timeouts and retries.

Bodies are JSON as bytes; other modules interpret objects and read credentials.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias, TypeVar

import aiohttp
import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.credentials import Access, Credentials
from drawbridge.cluster.errors import (
    AccessError,
    UnreachableError,
    decode_json,
    error_from_response,
    naming_request,
)
from drawbridge.cluster.lines import LineSplitter
from drawbridge.cluster.reachability import Reachability, describe_failure
from drawbridge.cluster.server_clock import ServerClock

T = TypeVar("T")
# Raises before a request is sent that must not be sent any more.
Check: TypeAlias = Callable[[], Awaitable[None]]
MAX_ATTEMPTS: Final = 5
FIRST_RETRY_SECONDS: Final = 0.1
CONNECT_SECONDS: Final = 10.0
# A websocket is not needed any more when it is closed.
CLOSE_SECONDS: Final = 1.0
# Bookmarks arrive once a minute; a watch without data for this long has failed.
IDLE_SECONDS: Final = 150.0
# Idempotent methods. A create without a response may have succeeded, so it is not repeated.
_RETRYABLE: Final = frozenset({"GET", "PUT", "DELETE", "PATCH"})
_JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"  # not idempotent: it can append to a list
_UNAVAILABLE: Final = frozenset({500, 502, 503, 504})
_NONE: Final[Mapping[str, str]] = {}
_READ_BUFFER: Final = 1024 * 1024
_BULK_BYTES: Final = 64 * 1024  # while so much arrives at once, a watch is read without pauses


class Session:
    """A connection pool to one API server, as one user; an async context manager.

    `clock` tells the time of that server.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        namespace: str | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._credentials, self._namespace = credentials, namespace
        self._pause = pause
        self.reachability = Reachability()
        self.clock = ServerClock()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            # Compression costs more CPU time than it saves on a cluster network.
            headers={"User-Agent": "drawbridge", "Accept-Encoding": "identity"},
            read_bufsize=_READ_BUFFER,
        )

    @classmethod
    async def open(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
        *,
        prefers_pod: bool = False,
    ) -> Self:
        """Read credentials and open a session; raises AccessError if there are none."""
        credentials = Credentials(kubeconfig, context, prefers_pod=prefers_pod)
        await credentials.access()
        return cls(credentials, namespace=namespace)

    def with_new_connections(self) -> Self:
        """Return a session of the same user that shares no connection, for the caller to close.

        A Service or a load balancer selects an API server for each connection.
        """
        session = type(self)(self._credentials, namespace=self._namespace, pause=self._pause)
        session.reachability, session.clock = self.reachability, self.clock
        return session

    @property
    def namespace(self) -> str:
        """The given namespace; else that of the pod's service account or kubeconfig context."""
        return self._namespace or self._credentials.namespace

    async def access(self) -> Access:
        """Return the credentials of the next request."""
        return await self._access(None)

    async def close(self) -> None:
        """Close all connections."""
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
        content_type: str = _JSON,
        accept: str = _JSON,
        seconds: float = 30,
        check: Check | None = None,
    ) -> bytes:
        """Send a request and return the body of the response; raises ApiError unless it succeeds.

        `seconds` limits the whole call with its retries. Idempotent requests are retried, and so
        are requests that the server certainly did not process; a create is retried only then.
        `check` runs before every attempt and may raise.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        request = _Request(method, path, query, data, content_type, accept)
        deadline = asyncio.get_running_loop().time() + seconds
        started = self.reachability.now()

        async def send(access: Access) -> bytes:
            if check is not None:
                await check()
            return await self._send_once(access, request)

        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._authenticate(send)
            except TimeoutError:
                raise self._no_response(request, seconds, started) from None
            except ApiError as error:
                error.request = request.name
                pause = _pause_before_retry(request, error, attempt)
                if pause is None or asyncio.get_running_loop().time() + pause > deadline:
                    raise
            await self._pause(pause)
        raise AssertionError  # the last attempt raised

    async def _authenticate(self, send: Callable[[Access], Awaitable[T]]) -> T:
        """Send with the credentials, and again with renewed ones if the server rejects them."""
        access = await self._access(None)
        try:
            return await send(access)
        except ApiError as error:
            if error.code != 401:
                raise
        # The token may have expired early, or its file may have been renewed a moment ago.
        return await send(await self._access(access))

    async def _access(self, rejected: Access | None) -> Access:
        try:
            if rejected is not None:
                return await self._credentials.renew(rejected)
            return await self._credentials.access()
        except AccessError as error:
            raise UnreachableError(
                f"credentials: {error}", permanent=True, is_outage=True
            ) from None

    async def _send_once(self, access: Access, request: "_Request") -> bytes:
        started = self.reachability.now()
        try:
            async with self._open_request(access, request) as response:
                self.clock.observe(response.headers.get("Date"))
                body = await response.read()
                _require_answer(response)
                self.reachability.record_response()
                if response.status >= 400:
                    raise error_from_response(response.status, response.headers, body)
                return body
        except _CONNECTION_ERRORS as error:
            raise self._unreachable(request, error, started) from None

    def _no_response(self, request: "_Request", seconds: float, started: float) -> UnreachableError:
        reason = f"no response in {seconds:g} s"
        is_outage = self.reachability.record_failure(started, reason)
        return UnreachableError(f"{request.name}: {reason}", is_outage=is_outage)

    def _unreachable(
        self, request: "_Request", error: Exception, started: float
    ) -> UnreachableError:
        reason = describe_failure(error)
        is_outage = self.reachability.record_failure(started, reason)
        return UnreachableError(
            f"{request.name}: {reason}",
            is_outage=is_outage,
            unknown=not isinstance(error, _CONNECT_ERRORS),
            permanent=isinstance(error, aiohttp.ClientSSLError),
        )

    def _open_request(
        self, access: Access, request: "_Request", idle_seconds: float | None = None
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Accept": request.accept, **access.headers}
        if request.data is not None:
            headers["Content-Type"] = request.content_type
        return self._http.request(
            request.method,
            access.server + request.path,
            params=request.query,
            data=request.data,
            headers=headers,
            ssl=access.tls or True,
            server_hostname=access.server_name,
            proxy=access.proxy,
            # Following a redirect would send the token to another server.
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=idle_seconds),
        )

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = _NONE,
        idle_seconds: float = IDLE_SECONDS,
        gather_seconds: float = 0,
    ) -> AsyncIterator[AsyncGenerator[list[bytes], None]]:
        """Open a watch that yields lists of lines, as they arrive.

        After each short list, what arrives for `gather_seconds` is left to the next one: to read
        many events at once takes less CPU time for each.

        The watch ends when the server ends it. It raises UnreachableError if the connection breaks
        or delivers no data for `idle_seconds`, since a firewall can drop a connection silently.
        """
        request = _Request("GET", path, query)
        rejected: Access | None = None
        while True:
            access = await self._access(rejected)
            started = self.reachability.now()
            async with contextlib.AsyncExitStack() as stack:
                try:
                    opened = self._open_request(access, request, idle_seconds)
                    response = await stack.enter_async_context(opened)
                    self.clock.observe(response.headers.get("Date"))
                    error_body = await response.read() if response.status >= 400 else b""
                    _require_answer(response)
                except _CONNECTION_ERRORS as error:
                    raise self._unreachable(request, error, started) from None
                self.reachability.record_response()
                if response.status == 401 and rejected is None:
                    rejected = access
                    continue
                if response.status >= 400:
                    raise error_from_response(response.status, response.headers, error_body)
                yield self._read_lines(response, request, gather_seconds)
                return

    async def _read_lines(
        self, response: aiohttp.ClientResponse, request: "_Request", gather_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        splitter = LineSplitter()
        try:
            async for chunk in response.content.iter_any():
                if lines := splitter.feed(chunk):
                    yield lines
                if gather_seconds and len(chunk) < _BULK_BYTES:
                    await self._gather(response, gather_seconds)
        except _CONNECTION_ERRORS as error:
            # An API server that restarts ends all watches. In an outage, the next requests fail.
            raise UnreachableError(f"{request.name}: {describe_failure(error)}") from None

    async def _gather(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        """Let what arrives add up for a time; nothing can arrive any more at the end."""
        transport = response.connection and response.connection.transport
        if isinstance(transport, asyncio.ReadTransport):
            transport.pause_reading()
            await self._pause(seconds)
            transport.resume_reading()

    @contextlib.asynccontextmanager
    async def websocket(
        self,
        path: str,
        protocol: str,
        *,
        query: Mapping[str, str] = _NONE,
        max_message_bytes: int,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a websocket with a subprotocol; raises ApiError if the server does not accept it."""
        request = _Request("GET", path, query)
        opened = await self._authenticate(
            lambda access: self._open_websocket(access, request, protocol, max_message_bytes)
        )
        async with opened:
            if opened.protocol != protocol:
                raise UnreachableError(f"GET {path}: the server does not support {protocol}")
            yield opened

    async def _open_websocket(
        self, access: Access, request: "_Request", protocol: str, max_message_bytes: int
    ) -> aiohttp.ClientWebSocketResponse:
        started = self.reachability.now()
        try:
            # With the connections and headers of this session, and the check of the response.
            async with (
                asyncio.timeout(CONNECT_SECONDS),
                aiohttp.ClientSession(
                    connector=self._http.connector,
                    connector_owner=False,
                    headers=self._http.headers,
                    middlewares=(_require_upgrade,),
                ) as client,
            ):
                return await client.ws_connect(
                    access.server + request.path,
                    protocols=(protocol,),
                    params=request.query,
                    headers=access.headers,
                    ssl=access.tls or True,
                    server_hostname=access.server_name,
                    proxy=access.proxy,
                    max_msg_size=max_message_bytes,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                )
        except _CONNECTION_ERRORS as error:
            raise self._unreachable(request, error, started) from None

    async def version(self) -> str:
        """Return the minor version whose features the server has, such as `1.36`.

        This is the version that it emulates, if it says one. It is its own by default.
        """
        path = "/version"
        response = await self.call("GET", path)
        with naming_request(f"GET {path}"):
            version = decode_json(response, _Version)
        major = version.emulation_major or version.major
        minor = version.emulation_minor or version.minor
        # Some distributions report `36+`.
        return f"{major}.{minor.rstrip('+')}"


class _Version(msgspec.Struct, rename="camel"):
    major: str
    minor: str
    emulation_major: str = ""
    emulation_minor: str = ""


class _Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    data: bytes | None = None
    content_type: str = ""
    accept: str = _JSON

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


async def _require_upgrade(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Raise the error of a rejected websocket: aiohttp discards the body and follows redirects."""
    response = await send(request)
    if response.status >= 400:
        raise error_from_response(response.status, response.headers, await response.read())
    if response.status != 101:
        raise _no_answer(response)
    return response


def _require_answer(response: aiohttp.ClientResponse) -> None:
    """Raise an error of the connection if a response says neither success nor failure."""
    if not 200 <= response.status < 300 and response.status < 400:
        raise _no_answer(response)


def _no_answer(response: aiohttp.ClientResponse) -> aiohttp.ClientError:
    """Return the error of what the API server does not send, such as the redirect of a proxy."""
    return aiohttp.ClientError(f"the response has status {response.status} {response.reason}")


_CONNECTION_ERRORS: Final = (aiohttp.ClientError, OSError, TimeoutError)
_CONNECT_ERRORS: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


def _pause_before_retry(request: _Request, error: ApiError, attempt: int) -> float | None:
    """Return the pause before the next attempt; None if the request must not be retried."""
    if attempt == MAX_ATTEMPTS:
        return None
    is_idempotent = request.method in _RETRYABLE and request.content_type != _JSON_PATCH
    fraction = random.random()  # noqa: S311
    pause = FIRST_RETRY_SECONDS * 2 ** (attempt - 1) * (0.5 + fraction)
    asked_for = None if error.retry_after is None else error.retry_after * (1 + fraction / 4)
    if isinstance(error, UnreachableError):
        if error.permanent:
            return None
        return pause if is_idempotent or not error.unknown else None
    if error.code == 429:  # rejected before it was processed
        return pause if asked_for is None else asked_for
    return asked_for if error.code in _UNAVAILABLE and is_idempotent else None
