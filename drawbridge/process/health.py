"""Serve health probes and metrics over plain HTTP, on two separate ports."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from drawbridge.process.addresses import Address
from drawbridge.process.listener import ListenerLimits, TLSListener
from drawbridge.process.metrics import write_metrics

# Probes and Prometheus open few connections. With those that come and go, a listener has up to 128.
_LIMITS: Final = ListenerLimits(connections=64, handshakes=32, head=8 * 1024, part=8)
_CLOSE_SECONDS: Final = 1.0
_METHODS: Final = ("GET", "HEAD")
# Returns the reasons why the process is not ready.
ReadinessCheck = Callable[[], Sequence[str]]
_Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


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

    listener = TLSListener(at, None, handle, name=name, limits=_LIMITS)
    await listener.open()
    try:
        yield
    finally:
        await listener.close(_CLOSE_SECONDS)


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
