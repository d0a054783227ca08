"""Forwards connections to a port of a pod through the API server, as `kubectl port-forward` does.

Each connection has a websocket of its own with the subprotocol `v4.channel.k8s.io`: the first byte
of a binary message is its channel, and each channel begins with the port.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import aiohttp

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import UnreachableError
from drawbridge.cluster.resources import PODS

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = 0
_ERROR: Final = 1
_PORT_BYTES: Final = 2
_CHUNK: Final = 32 * 1024
_MAX_MESSAGE_BYTES: Final = 1024 * 1024
# The container runtime can quote the output of a command.
_MAX_ERROR_BYTES: Final = 500


@contextlib.asynccontextmanager
async def forward_port(
    session: "Session", namespace: str, pod: str, port: int
) -> AsyncIterator[int]:
    """Listen on a free port of 127.0.0.1, and forward its connections to the pod until the exit.

    Yields the local port. If forwarding fails, the local connection ends, and an exception that
    the body raises because of that is replaced by the ApiError with the reason.
    """
    forward = _PortForward(session, namespace, pod, port)
    server = await asyncio.start_server(forward.accept, "127.0.0.1", 0, limit=_CHUNK)
    try:
        yield server.sockets[0].getsockname()[1]
    except Exception:
        if forward.failure is not None:
            raise forward.failure from None
        raise
    finally:
        server.close()
        await forward.close()


class _PortForward:
    """The connections to one port of a pod; `failure` is the first error of any of them."""

    def __init__(self, session: "Session", namespace: str, pod: str, port: int) -> None:
        self._session = session
        self._path = f"{PODS.path(namespace, pod)}/portforward"
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: ApiError | None = None

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Start to forward a connection."""
        task = asyncio.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = {"ports": f"{self._port}"}
        try:
            async with self._session.websocket(
                self._path, _PROTOCOL, query=query, max_message_bytes=_MAX_MESSAGE_BYTES
            ) as socket:
                await self._copy(socket, reader, writer)
        except ApiError as error:
            self.failure = self.failure or error
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _copy(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Copy in both directions until one of them ends, which ends the other one.

        The protocol cannot close one direction only.
        """
        sender = asyncio.create_task(_send(socket, reader))
        receiver = asyncio.create_task(self._receive(socket, writer))
        both = (sender, receiver)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            ended_here = sender.done() and sender.exception() is None
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        if ended_here:
            return
        error = None if receiver.cancelled() else receiver.exception()
        if isinstance(error, ApiError):
            raise error
        raise self._failed("the connection ended")

    async def _receive(
        self, socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter
    ) -> None:
        """Write what the pod sends until the websocket ends; an error of it is raised."""
        # Each channel begins with the port.
        to_skip = {_DATA: _PORT_BYTES, _ERROR: _PORT_BYTES}
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            skipped = min(len(data), to_skip.get(channel, 0))
            if skipped:
                to_skip[channel] -= skipped
                data = data[skipped:]
            if channel == _DATA and data:
                writer.write(data)
                await writer.drain()
            elif channel == _ERROR and data:
                raise self._failed(data[:_MAX_ERROR_BYTES].decode(errors="replace").strip())

    def _failed(self, reason: str) -> UnreachableError:
        return UnreachableError(f"GET {self._path}: port {self._port}: {reason}")


async def _send(socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader) -> None:
    """Send what the local client writes, until it ends the connection."""
    while data := await _read(reader):
        await socket.send_bytes(bytes([_DATA]) + data)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except ConnectionError:
        return b""
