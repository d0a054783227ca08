"""The TLS listener of the webhook: bounded connections, and a graceful shutdown.

The API server reuses open connections to a process that is about to stop. A graceful shutdown
therefore has three steps: responses close their connection, the listener accepts no new
connections, and the remaining requests get a limited time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from runtime.health import Address, open_listening_socket
from runtime.http_server import HTTPServer
from runtime.logs import connection_logger, log_event
from runtime.tls import CertificateSource

_LOG: Final = logging.getLogger("runtime")
# Longer than the 90 s for which the API server keeps an idle connection. A shorter timeout could
# close a connection while a request is on its way.
_IDLE_TIMEOUT: Final = 120.0
_HANDSHAKE_TIMEOUT: Final = 10.0
_TLS_SHUTDOWN_TIMEOUT: Final = 2.0
# A response that is sent before the whole request has arrived is lost, unless the rest of the
# request is still read for a while.
LINGER: Final = 1.0
MAX_CONNECTIONS: Final = 800
HandleFunction = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _BoundedServer(HTTPServer):
    """Bounds the number of idle connections. A new one closes the longest idle one."""

    def __init__(
        self,
        handle: HandleFunction,
        max_connections: int,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(self._handle_tracked, **options)
        self._handle = handle
        self._max_connections = max_connections
        self._idle: dict[object, RequestHandler] = {}  # in the order of their last response

    async def _handle_tracked(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._idle.pop(connection, None)
        try:
            return await self._handle(request)
        finally:
            if connection.transport is not None:
                self._idle[connection] = connection

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._idle) >= self._max_connections:
            # The API server retries on a new connection. A request in progress is never closed.
            next(iter(self._idle.values())).force_close()
        self._idle[handler] = handler

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._idle.pop(handler, None)
        super().connection_lost(handler, exc)


class TLSListener:
    """Accepts TLS connections from `open` to `close`."""

    def __init__(
        self,
        at: Address,
        certificate: CertificateSource,
        handle: HandleFunction,
        *,
        max_connections: int = MAX_CONNECTIONS,
        linger: float = LINGER,
    ) -> None:
        self._at = at
        self._certificate = certificate
        self._handle = handle
        self._max_connections = max_connections
        self._linger = linger
        self._server: _BoundedServer | None = None
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Start to listen. Raise OSError if the address is not available."""
        self._server = _BoundedServer(
            self._handle,
            self._max_connections,
            logger=connection_logger(),
            access_log=None,
            keepalive_timeout=_IDLE_TIMEOUT,
            lingering_time=self._linger,
            auto_decompress=False,
        )
        self._listening = await asyncio.get_running_loop().create_server(
            self._server,
            sock=open_listening_socket(self._at, "admission"),
            ssl=self._certificate.context,
            ssl_handshake_timeout=_HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=_TLS_SHUTDOWN_TIMEOUT,
        )

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
        log_event(_LOG, logging.INFO, "admission listener closed")
