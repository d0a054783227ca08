"""The HTTP server of all listeners: its responses do not tell the versions of what runs."""

from aiohttp import web
from aiohttp.hdrs import SERVER
from aiohttp.web_protocol import RequestHandler


class HTTPServer(web.Server):
    """Serves connections, and also responds to malformed requests without a version."""

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        # aiohttp adds its own version and that of Python to a response without this header. All
        # responses pass here, also those that aiohttp composes itself.
        if isinstance(resp, web.StreamResponse):
            resp.headers[SERVER] = "drawbridge"
        return await super().finish_response(request, resp, start_time)
