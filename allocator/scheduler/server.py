"""Serves the calls of the scheduler plugin on a unix socket.

The file permissions of the socket decide who can call: only processes of the same user or group.
"""

import asyncio
import contextlib
import inspect
import logging
import os
import socket
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from allocator.scheduler.calls import SchedulerCalls
from allocator.scheduler.protocol import (
    BIND,
    CALLS,
    EVENTS,
    HEADER,
    HTTP_STATUS,
    MAX_BODY_BYTES,
    POST_FILTER,
    PRE_FILTER,
    PRE_FILTER_GROUP,
    PREEMPT,
    RESERVE,
    STATUS,
    UNRESERVE,
    VERSION_TEXT,
    ErrorCode,
    ErrorDetail,
    ErrorReply,
    ProtocolCall,
    ProtocolError,
    StreamEvent,
    check_version,
    shorten_message,
)
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder
from drawbridge.process import metrics
from drawbridge.process.http_server import HTTPServer
from drawbridge.process.logs import connection_logger, log_event

_LOG: Final = logging.getLogger("allocator.scheduler.server")
_HEARTBEAT_SECONDS: Final = 1.0
# A stream that the plugin does not read is closed; the next one starts with all pods.
_MAX_PENDING_EVENTS: Final = 1024
_SOCKET_UMASK: Final = 0o117  # read and write for the user and the group
# All members of a gang are bound at once, each on a connection of its own.
_BACKLOG: Final = 2048
_FOLDER_MODE: Final = 0o750
_READ_BYTES: Final = 64 * 1024
_NO_PLUGIN: Final = (
    f"no scheduler plugin that accepts protocol {VERSION_TEXT} is connected; the log of the "
    "kube-scheduler beside this allocator says why"
)


class ActivationStreams:
    """The open event streams. Each starts with all pods, so that no event is needed before it.

    They also tell whether plugin and allocator accept each other: a plugin keeps its stream open,
    whether its scheduler leads or not, and closes that of an allocator whose version it refuses.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._queues: set[asyncio.Queue[StreamEvent | None]] = set()
        # Those that the plugin has kept open for the time of a heartbeat.
        self._kept: set[asyncio.Queue[StreamEvent | None]] = set()
        self._refusal = ""
        self._now = now

    def note_refusal(self, message: str) -> None:
        """Remember why a call of the plugin was refused for its version."""
        if message != self._refusal:
            self._refusal = message
            log_event(_LOG, logging.WARNING, "plugin refused", reason=message)

    def find_problems(self) -> list[str]:
        """Return why the plugin beside this allocator cannot use it."""
        return [] if self._kept else [self._refusal or _NO_PLUGIN]

    def publish(self, pod_uids: tuple[str, ...]) -> None:
        """Tell the plugin to schedule pods now."""
        self._send(StreamEvent(activate=pod_uids))

    def publish_all(self) -> None:
        """Tell the plugin to schedule all pods now, because it is unknown which pods wait."""
        self._send(StreamEvent(activate_all=True))

    def _send(self, event: StreamEvent) -> None:
        for queue in tuple(self._queues):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                self._close(queue)

    def close(self) -> None:
        """End all streams."""
        for queue in tuple(self._queues):
            self._close(queue)

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of a new stream, with a heartbeat each second, until it is closed."""
        queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue(_MAX_PENDING_EVENTS)
        self._queues.add(queue)
        opened = self._now()
        try:
            yield StreamEvent(activate_all=True)
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    event = StreamEvent()
                if event is None:
                    return
                yield event
                # The event was written, so the plugin has not closed the stream.
                if self._now() - opened >= _HEARTBEAT_SECONDS:
                    self._kept.add(queue)
                    self._refusal = ""
        finally:
            self._forget(queue)

    def _forget(self, queue: "asyncio.Queue[StreamEvent | None]") -> None:
        self._queues.discard(queue)
        self._kept.discard(queue)

    def _close(self, queue: "asyncio.Queue[StreamEvent | None]") -> None:
        self._forget(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


class _Handlers:
    """Maps requests to calls, and errors to replies."""

    def __init__(self, calls: SchedulerCalls, streams: ActivationStreams) -> None:
        self._streams = streams
        handlers: Mapping[ProtocolCall, Callable[[Any], Any]] = {
            STATUS: calls.status,
            PRE_FILTER: calls.prefilter,
            PRE_FILTER_GROUP: calls.prefilter_group,
            RESERVE: calls.reserve,
            UNRESERVE: calls.unreserve,
            BIND: calls.bind,
            PREEMPT: calls.preempt,
            POST_FILTER: calls.release,
        }
        self._handlers: dict[tuple[str, str], tuple[ForeignDecoder[Any], Callable[[Any], Any]]] = {
            (call.method, call.path): (ForeignDecoder(call.request), handle)
            for call, handle in handlers.items()
        }
        self._paths = {call.path: call.path.rpartition("/")[2] for call in CALLS}
        for call in self._paths.values():
            metrics.ALLOCATOR_CALLS.declare(call)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        call = self._paths.get(request.path, "unknown")
        try:
            check_version(request.headers.get(HEADER))
            if (request.method, request.path) == (EVENTS.method, EVENTS.path):
                return await self._stream(request)
            decoder, handle = self._find_handler(request)
            started = time.perf_counter()
            reply = handle(_decode(decoder, await _read_body(request)))
            reply = await reply if inspect.isawaitable(reply) else reply
            metrics.ALLOCATOR_LATENCY.add(call, time.perf_counter() - started)
        except ProtocolError as error:
            metrics.ALLOCATOR_CALLS.add(call, error.code)
            if error.code is ErrorCode.VERSION:
                self._streams.note_refusal(error.message)
            return _error(error.code, error.message)
        except ConnectionError:  # the plugin is gone
            raise
        except Exception:  # noqa: BLE001  # a bug in one call must not end the process
            metrics.ALLOCATOR_CALLS.add(call, ErrorCode.BUG)
            _LOG.exception("unhandled exception in a call", extra={"fields": {"call": call}})
            return _error(ErrorCode.BUG, "unhandled exception; the log of the allocator has more")
        metrics.ALLOCATOR_CALLS.add(call, "OK")
        return _response(200, reply)

    def _find_handler(
        self, request: web.BaseRequest
    ) -> tuple[ForeignDecoder[Any], Callable[[Any], Any]]:
        handler = self._handlers.get((request.method, request.path))
        if handler is None:
            text = f"there is no call {request.method} {request.path}"
            raise ProtocolError(ErrorCode.BAD_REQUEST, text)
        return handler

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={HEADER: VERSION_TEXT})
        response.content_type = "application/x-ndjson"
        # The plugin is gone if a write fails.
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            async with contextlib.aclosing(self._streams.events()) as events:
                async for event in events:
                    await response.write(msgspec.json.encode(event) + b"\n")
        return response


@contextlib.asynccontextmanager
async def serve_calls(
    path: str, calls: SchedulerCalls, streams: ActivationStreams
) -> AsyncIterator[None]:
    """Serve on a socket file until the context exits; raises OSError."""
    handlers = _Handlers(calls, streams)
    server = HTTPServer(handlers.handle, logger=connection_logger(), access_log=None)
    file = Path(path)
    opened = _open_socket(file)
    listening = await asyncio.get_running_loop().create_unix_server(
        server, sock=opened, backlog=_BACKLOG
    )
    log_event(_LOG, logging.INFO, "listening", name="calls of the scheduler", address=path)
    try:
        yield
    finally:
        listening.close()
        streams.close()
        await server.shutdown(1)
        _remove_socket(file)


def _open_socket(file: Path) -> socket.socket:
    """Return a socket in place of that of an earlier process; raises OSError."""
    file.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    _remove_socket(file)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(_SOCKET_UMASK)
        try:
            opened.bind(str(file))
        finally:
            os.umask(before)
    except OSError as error:
        opened.close()
        raise OSError(error.errno, f"cannot listen on {file}: {error.strerror or error}") from None
    opened.setblocking(False)  # noqa: FBT003  # the signature of the socket module
    return opened


def _remove_socket(file: Path) -> None:
    """Remove a socket file, but no other file."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(file.lstat().st_mode):
            file.unlink()


def _decode(decoder: ForeignDecoder[Any], body: bytes) -> object:
    try:
        return decoder.decode(body or b"{}")
    except UNDECODABLE as error:
        raise ProtocolError(ErrorCode.BAD_REQUEST, shorten_message(f"{error}")) from None


async def _read_body(request: web.BaseRequest) -> bytes:
    """Read the body; raises ProtocolError above the limit."""
    body = bytearray()
    while chunk := await request.content.read(_READ_BYTES):
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            text = f"the request has more than {MAX_BODY_BYTES} bytes"
            raise ProtocolError(ErrorCode.TOO_LARGE, text)
    return bytes(body)


def _error(code: ErrorCode, message: str) -> web.Response:
    return _response(HTTP_STATUS[code], ErrorReply(error=ErrorDetail(code=code, message=message)))


def _response(status: int, reply: msgspec.Struct) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(reply),
        content_type="application/json",
        headers={HEADER: VERSION_TEXT},
    )
