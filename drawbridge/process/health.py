"""Serve health probes and metrics over plain HTTP, on two separate ports."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from drawbridge.process.addresses import Address
from drawbridge.process.http_server import HTTPServer
from drawbridge.process.logs import connection_logger, log_event
from drawbridge.process.metrics import write_metrics

_LOG: Final = logging.getLogger("drawbridge.process")
# What a kernel without IPv6, and an interface without an IPv6 address, report.
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT)
_METHODS: Final = ("GET", "HEAD")
# Returns the reasons why the process is not ready.
ReadinessCheck = Callable[[], Sequence[str]]
_Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


def open_listening_socket(at: Address, name: str) -> socket.socket:
    """Open a listening socket, and log its address."""
    try:
        opened = _bind_to_all_families(at.port) if not at.host else _bind(at.host, at.port)
    except OSError as error:
        message = f"{name} cannot listen on {at.host}:{at.port}: {error.strerror or error}"
        raise OSError(error.errno, message) from None
    opened.setblocking(False)  # noqa: FBT003  # the signature of the socket module
    log_event(_LOG, logging.INFO, "listening", name=name, address=format_address(opened))
    return opened


def _bind_to_all_families(port: int) -> socket.socket:
    """Listen for IPv6 and IPv4; for IPv4 alone on a node without IPv6."""
    try:
        return _bind("::", port, dual_stack=True)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return _bind("0.0.0.0", port)  # noqa: S104  # probes and the API server come from outside


def _bind(host: str, port: int, *, dual_stack: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if dual_stack:
            # The default depends on a sysctl of the node.
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind((host, port))
        opened.listen(512)
    except OSError:
        opened.close()
        raise
    return opened


def format_address(opened: socket.socket) -> str:
    """Return the address of a socket as a client writes it."""
    host, port = opened.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.asynccontextmanager
async def serve_operations(
    health: Address, metrics: Address, check_ready: ReadinessCheck
) -> AsyncIterator[None]:
    """Serve /healthz and /readyz on one port and /metrics on another, until the context exits."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(_serve(health, "health", _health_handler(check_ready)))
        await stack.enter_async_context(_serve(metrics, "metrics", _handle_metrics))
        yield


@contextlib.asynccontextmanager
async def _serve(at: Address, name: str, handler: _Handler) -> AsyncIterator[None]:
    async def handle(request: web.BaseRequest) -> web.Response:
        if request.method not in _METHODS:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        return await handler(request)

    server = HTTPServer(handle, logger=connection_logger(), access_log=None, keepalive_timeout=75)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, sock=open_listening_socket(at, name))
    try:
        yield
    finally:
        listening.close()
        await server.shutdown(1)


def _health_handler(check_ready: ReadinessCheck) -> _Handler:
    async def handle(request: web.BaseRequest) -> web.Response:
        # Any response proves that the event loop runs, which is all that liveness checks.
        if request.path in ("/healthz", "/livez"):
            return web.Response(text="ok\n")
        if request.path != "/readyz":
            return web.Response(status=404, text="the valid paths are /healthz and /readyz\n")
        missing = check_ready()
        text = "".join(f"{each}\n" for each in missing) or "ok\n"
        return web.Response(status=503 if missing else 200, text=text)

    return handle


async def _handle_metrics(request: web.BaseRequest) -> web.Response:
    if request.path != "/metrics":
        return web.Response(status=404, text="the valid path is /metrics\n")
    headers = {"Content-Type": CONTENT_TYPE_LATEST}
    return web.Response(body=await write_metrics(), headers=headers)
