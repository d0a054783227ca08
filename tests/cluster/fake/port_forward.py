"""The websocket of a port-forward: messages begin with a channel, each channel with the port."""

import asyncio
import re
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from tests.cluster.fake import kinds, status
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.trouble import Seen

if TYPE_CHECKING:
    from tests.cluster.fake.api import FakeApi

PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/portforward$")
PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = b"\0", b"\1"


async def forward(api: "FakeApi", seen: Seen, request: web.Request) -> web.StreamResponse:
    """Forward a websocket to the local port that the test chose for the port of a pod."""
    match = PATH.match(seen.path)
    assert match
    namespace, pod = match.groups()
    if api.store.find(kinds.named("pods"), namespace, pod) is None:
        raise status.missing(kinds.named("pods"), pod)
    if "websocket" not in seen.headers.get("Upgrade", "").lower():
        raise RefusedError(400, "Upgrade request required")
    port = int(seen.query["ports"])
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    for channel in (DATA, ERROR):
        await socket.send_bytes(channel + port.to_bytes(2, "little"))
    local = api.forwards.get((pod, port))
    if local is None:
        await socket.send_bytes(ERROR + f"connection refused: port {port} of {pod}".encode())
        await socket.close()
        return socket
    reader, writer = await asyncio.open_connection("127.0.0.1", local)
    replies = asyncio.create_task(_reply(api, reader, socket, request))
    try:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == DATA:
                writer.write(message.data[1:])
    finally:
        replies.cancel()
        writer.close()
    return socket


async def _reply(
    api: "FakeApi",
    reader: asyncio.StreamReader,
    socket: web.WebSocketResponse,
    request: web.Request,
) -> None:
    """Send what the pod sends, with a message cut in two, as a proxy may do."""
    sent = 0
    while data := await reader.read(4096):
        if api.forwarded_bytes is not None and sent + len(data) > api.forwarded_bytes:
            if request.transport:
                request.transport.abort()
            return
        sent += len(data)
        await socket.send_bytes(DATA + data[:1])
        await socket.send_bytes(DATA + data[1:])
    await socket.close()
