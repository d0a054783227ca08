"""The listener of admission: TLS, bounds on what strangers can hold open, and a graceful end.

The API server goes on using the connections it has to a process that is about to stop, so the end
has an order: answers that close their connection, then no new connections, then the rest is given
a bounded time. Knows nothing of what is asked and answered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from runtime.health import Address, listener
from runtime.logs import of_connections, say
from runtime.tls import Certificate

_LOG: Final = logging.getLogger("runtime")
# Longer than the 90 s for which the API server keeps an idle connection: were we first, a request
# already on its way would be lost.
_IDLE: Final = 120.0
_HANDSHAKE: Final = 10.0
_GOODBYE: Final = 2.0
# An answer given before its request was read is lost unless somebody still takes the rest.
LINGER: Final = 1.0
CONNECTIONS: Final = 800
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Bounded(web.Server):
    """Serves so many connections; above that the one that has been silent longest goes."""

    def __init__(self, handle: Handle, most: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(self._busy, **options)
        self._handle = handle
        self._most = most
        self._idle: dict[object, RequestHandler] = {}  # in the order of their last answer

    async def _busy(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._idle.pop(connection, None)
        try:
            return await self._handle(request)
        finally:
            if connection.transport is not None:
                self._idle[connection] = connection

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._idle) >= self._most:
            # The API server asks again on a new connection; a request that came is never cut.
            next(iter(self._idle.values())).force_close()
        self._idle[handler] = handler

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._idle.pop(handler, None)
        super().connection_lost(handler, exc)


class Gate:
    """Listens from `open` to `close`."""

    def __init__(
        self,
        at: Address,
        certificate: Certificate,
        handle: Handle,
        *,
        most: int = CONNECTIONS,
        linger: float = LINGER,
    ) -> None:
        self._at = at
        self._certificate = certificate
        self._handle = handle
        self._most = most
        self._linger = linger
        self._server: _Bounded | None = None
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen; OSError when the address cannot be had."""
        self._server = _Bounded(
            self._handle,
            self._most,
            logger=of_connections(),
            access_log=None,
            keepalive_timeout=_IDLE,
            lingering_time=self._linger,
            auto_decompress=False,
        )
        self._listening = await asyncio.get_running_loop().create_server(
            self._server,
            sock=listener(self._at, "admission"),
            ssl=self._certificate.context,
            ssl_handshake_timeout=_HANDSHAKE,
            ssl_shutdown_timeout=_GOODBYE,
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._listening is None:
            raise RuntimeError("the gate is not open")
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def close(self, seconds: float) -> None:
        """Take no more connections, and give the requests that are there so long."""
        if self._listening is None or self._server is None:
            return
        self._listening.close()
        self._server.pre_shutdown()
        await self._server.shutdown(seconds)
        say(_LOG, logging.INFO, "admission closed")
