"""Health and metrics on ports of their own, plain HTTP, for kubelets and Prometheus.

Both processes use it. Knows nothing of what readiness depends on: it is told what is missing.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from runtime.addresses import Address, address
from runtime.logs import of_connections, say
from runtime.metrics import REGISTRY

_LOG: Final = logging.getLogger("runtime")
_METHODS: Final = ("GET", "HEAD")
__all__ = ["Address", "address", "listener", "operations"]
Ready = Callable[[], Sequence[str]]


def listener(at: Address, name: str) -> socket.socket:
    """Open a socket that listens, and say so in the log."""
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((at.host, at.port))
        opened.listen(512)
    except OSError as error:
        opened.close()
        message = f"{name} cannot listen on {at.host}:{at.port}: {error.strerror or error}"
        raise OSError(error.errno, message) from None
    opened.setblocking(False)  # noqa: FBT003  # the socket's own form
    say(_LOG, logging.INFO, "listening", name=name, address=shown(opened))
    return opened


def shown(opened: socket.socket) -> str:
    """Write the address of a listener as a client would."""
    host, port = opened.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.asynccontextmanager
async def operations(health: Address, metrics: Address, ready: Ready) -> AsyncIterator[None]:
    """Serve /healthz and /readyz on one port and /metrics on another, until left."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(_served(health, "health", _health(ready)))
        await stack.enter_async_context(_served(metrics, "metrics", _metrics))
        yield


Handler = Callable[[web.BaseRequest], web.Response]


@contextlib.asynccontextmanager
async def _served(at: Address, name: str, answer: Handler) -> AsyncIterator[None]:
    async def handle(request: web.BaseRequest) -> web.Response:
        if request.method not in _METHODS:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        return answer(request)

    server = web.Server(handle, logger=of_connections(), access_log=None, keepalive_timeout=75)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, sock=listener(at, name))
    try:
        yield
    finally:
        listening.close()
        await server.shutdown(1)


def _health(ready: Ready) -> Handler:
    def answer(request: web.BaseRequest) -> web.Response:
        # That this is answered at all is what liveness asks: the loop turns.
        if request.path in ("/healthz", "/livez"):
            return web.Response(text="ok\n")
        if request.path != "/readyz":
            return web.Response(status=404, text="there are /healthz and /readyz\n")
        missing = ready()
        text = "".join(f"{each}\n" for each in missing) or "ok\n"
        return web.Response(status=503 if missing else 200, text=text)

    return answer


def _metrics(request: web.BaseRequest) -> web.Response:
    if request.path != "/metrics":
        return web.Response(status=404, text="there is /metrics\n")
    headers = {"Content-Type": CONTENT_TYPE_LATEST}
    return web.Response(body=generate_latest(REGISTRY), headers=headers)
