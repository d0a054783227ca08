"""The listener of what others call: TLS, bounded connections, and a graceful shutdown.

The API server reuses open connections to a process that is about to stop. A graceful shutdown
therefore has three steps: responses close their connection, the listener accepts no new
connections, and the remaining requests get a limited time.
"""

import asyncio
import contextlib
import logging
import socket
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from drawbridge.process.addresses import Address, open_listening_socket
from drawbridge.process.descriptors import find_limit
from drawbridge.process.http_server import MAX_HEAD_BYTES, HandleFunction, HTTPServer
from drawbridge.process.known_heads import FindResponder, Responder, WholeResponse
from drawbridge.process.logs import connection_logger, log_event
from drawbridge.process.network_peers import (
    OVERDUE_SECONDS,
    Holding,
    find_greediest,
    find_peer,
)
from drawbridge.process.tls import CertificateSource

_LOG: Final = logging.getLogger("drawbridge.process")
# Longer than the 90 s for which the API server keeps an idle connection. A shorter timeout could
# close a connection while a request is on its way.
_IDLE_TIMEOUT: Final = 120.0
_HANDSHAKE_TIMEOUT: Final = 10.0
_TLS_SHUTDOWN_TIMEOUT: Final = 2.0
# A response that is sent before the whole request has arrived is lost, unless the rest of the
# request is still read for a while.
LINGER: Final = 1.0
MAX_CONNECTIONS: Final = 800
# A handshake takes milliseconds, and no client has shown who it is. An API server creates 200 pods
# at once unless it is told otherwise, each over a connection of its own. This is enough for two.
MAX_HANDSHAKES: Final = 400
# How many connections the kernel keeps until they are accepted. It drops others without a word, and
# the client tries again after a second.
_QUEUE: Final = MAX_HANDSHAKES
# How many connections asyncio accepts in a turn of the loop, if there are as many handshakes.
_ACCEPTED: Final = 100


# asyncio allocates this much for each TLS connection when it accepts it: 256 KiB unless changed.
# Only a full garbage collection frees the memory of a failed handshake, because asyncio's exception
# refers to itself.
SSLProtocol.max_size = 32 * 1024


class ListenerLimits(NamedTuple):
    """How many connections a listener has, before and after the handshake, and bytes of a head.

    They have at most one of so many parts of the file descriptors of the process. If there are too
    few, their number is smaller. The parts of all listeners leave a quarter to what else is open.
    """

    connections: int = MAX_CONNECTIONS
    handshakes: int = MAX_HANDSHAKES
    head: int = MAX_HEAD_BYTES
    part: int = 2

    @property
    def accepted(self) -> int:
        """How many connections are accepted in a turn of the loop."""
        # Plain connections beyond all others end two turns after the turn that accepts them.
        return min(max(1, 2 * self.handshakes // 3), _ACCEPTED)

    def fit(self, descriptors: int) -> "ListenerLimits":
        """Return the limits for a process with so many file descriptors."""
        # Those that are accepted in a turn, beyond all others, end in the next turn.
        most = self.connections + 2 * self.handshakes
        room = descriptors // self.part
        if most <= room:
            return self
        connections, handshakes = (
            max(1, number * room // most) for number in (self.connections, self.handshakes)
        )
        return self._replace(connections=connections, handshakes=handshakes)


DEFAULT_LISTENER_LIMITS: Final = ListenerLimits()


@dataclass(slots=True)
class _Connection:
    """What a connection does since a time: it waits, or `request` arrives or is handled."""

    peer: str
    since: float
    request: web.BaseRequest | None = None
    has_sent_review: bool = False
    begun: Awaitable[web.StreamResponse] | None = None  # the response to the next request

    def wants_request(self) -> bool:
        """Return whether no request of it has ever been answered, or one is arriving."""
        if self.request is None:
            return not self.has_sent_review
        return not self.request.content.is_eof()


class _BoundedServer(HTTPServer):
    """Bounds the number of connections after the TLS handshake.

    A new one ends one whose request is overdue, else one that is idle, else one whose request is
    arriving. A request that has arrived is always answered: the handler limits their number.
    """

    def __init__(
        self,
        handle: HandleFunction,
        max_connections: int,
        handshakes: "_Handshakes",
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(self._handle_tracked, **options)
        self._handle = handle
        self._max_connections = max_connections
        self._handshakes = handshakes
        self._open: dict[RequestHandler, _Connection] = {}

    def respond(
        self, connection: RequestHandler, responder: Responder, body: bytes
    ) -> WholeResponse | None:
        """Respond to a whole request, unless that has to be awaited."""
        tracked = self._open.get(connection)
        if tracked is None:  # a new connection has ended this one
            return None
        response = responder(body, tracked.peer)
        if not isinstance(response, WholeResponse):
            tracked.begun = response
            return None
        tracked.has_sent_review |= response.status == HTTPStatus.OK
        tracked.since = self._loop.time()
        return response

    async def _handle_tracked(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = self._open.get(request.protocol)
        if connection is None:  # a new connection has ended this one
            raise ConnectionAbortedError
        connection.request, connection.since = request, self._loop.time()
        try:
            begun, connection.begun = connection.begun, None
            response = await (begun or self._handle(request))
            connection.has_sent_review |= response.status == HTTPStatus.OK
            return response
        finally:
            connection.request, connection.since = None, self._loop.time()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._handshakes.complete(transport.get_extra_info("socket"))
        if len(self._open) >= self._max_connections:
            self._end_one()
        host = (transport.get_extra_info("peername") or ("",))[0]
        self._open[handler] = _Connection(find_peer(host), self._loop.time())

    def _end_one(self) -> None:
        now = self._loop.time()
        wanting = {
            handler: Holding(connection.peer, connection.since)
            for handler, connection in self._open.items()
            if connection.wants_request()
        }
        overdue = {
            handler: holding
            for handler, holding in wanting.items()
            if now - holding.since > OVERDUE_SECONDS
        }
        idle = {
            handler: Holding(connection.peer, connection.since)
            for handler, connection in self._open.items()
            if connection.request is None and connection.has_sent_review
        }
        ended = next(filter(None, (find_greediest(k, now) for k in (overdue, idle, wanting))), None)
        if ended is not None and ended.transport is not None:
            del self._open[ended]
            # The API server retries on a new connection. A graceful end would wait for the client.
            ended.transport.abort()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)


class _Handshakes:
    """Bounds the number of connections before the end of the TLS handshake.

    A new one ends the one that keeps its place from others for longest. The protocol of a
    connection learns nothing of a handshake that fails.
    """

    def __init__(self, max_handshakes: int) -> None:
        self._max_handshakes = max_handshakes
        self._pending: dict[int, _AcceptedSocket] = {}  # by descriptor

    def begin(self, accepted: "_AcceptedSocket") -> None:
        """Add a connection, and end another one if there are too many."""
        if len(self._pending) >= self._max_handshakes:
            holdings = {number: each.holding for number, each in self._pending.items()}
            ended = find_greediest(holdings, time.monotonic())
            if ended is not None:
                with contextlib.suppress(OSError):  # the client has closed it
                    self._pending.pop(ended).shutdown(socket.SHUT_RDWR)
        self._pending[accepted.fileno()] = accepted

    def complete(self, accepted: Any) -> None:  # noqa: ANN401  # a socket, or asyncio's view of one
        """Remove a connection, if it is still there."""
        self._pending.pop(accepted.fileno(), None)


class _ListeningSocket(socket.socket):
    """A listening socket that tells of each connection that it accepts, if it has a handshake."""

    handshakes: _Handshakes | None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        accepted, address = super().accept()
        if self.handshakes is None:
            return accepted, address
        tracked = _AcceptedSocket(
            accepted.family, accepted.type, accepted.proto, fileno=accepted.detach()
        )
        tracked.handshakes = self.handshakes
        tracked.holding = Holding(find_peer(address[0]), time.monotonic())
        self.handshakes.begin(tracked)
        return tracked, address

    def listen(self, backlog: int = _QUEUE) -> None:
        """Listen with a queue that is not shorter than a burst."""
        super().listen(max(backlog, _QUEUE))


class _AcceptedSocket(socket.socket):
    """A connection that tells of its end."""

    handshakes: _Handshakes
    holding: Holding

    def close(self) -> None:
        """Close the connection."""
        if self.fileno() >= 0:
            self.handshakes.complete(self)
        super().close()


class TLSListener:
    """Accepts TLS connections from `open` to `close`; without a certificate, plain connections."""

    def __init__(  # noqa: PLR0913  # what is served, and its limits
        self,
        at: Address,
        certificate: CertificateSource | None,
        handle: HandleFunction,
        *,
        name: str = "admission",
        limits: ListenerLimits = DEFAULT_LISTENER_LIMITS,
        linger: float = LINGER,
        find_responder: FindResponder | None = None,
    ) -> None:
        self._at = at
        self._certificate = certificate
        self._handle = handle
        self._name = name
        self._wanted, self._limits = limits, limits.fit(find_limit())
        self._handshakes = _Handshakes(self._limits.handshakes)
        self._linger = linger
        self._find_responder = find_responder
        self._server: _BoundedServer | None = None
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Start to listen. Raise OSError if the address is not available."""
        if self._limits != self._wanted:
            text = f"the limit of file descriptors allows the {self._name} listener few connections"
            most, wanted = self._limits.connections, self._wanted.connections
            log_event(_LOG, logging.WARNING, text, connections=most, wanted=wanted)
        self._server = _BoundedServer(
            self._handle,
            self._limits.connections,
            self._handshakes,
            find_responder=self._find_responder,
            max_head=self._limits.head,
            logger=connection_logger(),
            access_log=None,
            keepalive_timeout=_IDLE_TIMEOUT,
            lingering_time=self._linger,
            auto_decompress=False,
        )
        self._listening = await asyncio.get_running_loop().create_server(
            self._server,
            sock=self._open_socket(),
            backlog=self._limits.accepted,
            **self._tls_options(),
        )

    def _tls_options(self) -> dict[str, Any]:
        if self._certificate is None:
            return {}
        return {
            "ssl": self._certificate.context,
            "ssl_handshake_timeout": _HANDSHAKE_TIMEOUT,
            "ssl_shutdown_timeout": _TLS_SHUTDOWN_TIMEOUT,
        }

    def _open_socket(self) -> socket.socket:
        opened = open_listening_socket(self._at, self._name)
        listening = _ListeningSocket(opened.family, opened.type, opened.proto, opened.detach())
        # Plain connections count from their start among those that are open.
        listening.handshakes = self._handshakes if self._certificate is not None else None
        listening.setblocking(False)  # noqa: FBT003  # the signature of the socket module
        return listening

    @property
    def port(self) -> int:
        """The port number."""
        if self._listening is None:
            raise RuntimeError("the listener is not open")
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def close(self, seconds: float) -> None:
        """Accept no more connections, and give open requests this many seconds."""
        if self._listening is None or self._server is None:
            return
        self._listening.close()
        self._server.pre_shutdown()
        await self._server.shutdown(seconds)
        log_event(_LOG, logging.INFO, f"{self._name} listener closed")
