"""A client that sends what it is told, byte for byte, and reads one answer after the other."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from tests.runtime.key_pairs import NAME


class Answer(NamedTuple):
    """One HTTP answer."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:  # noqa: ANN401  # whatever JSON says
        """Read the body."""
        return json.loads(self.body)


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """Read one answer; IncompleteReadError when the connection ends before."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(first.split()[1]), headers, body)

    async def ask(self, data: bytes) -> Answer:
        """Send and read."""
        await self.send(data)
        return await self.answer()

    async def ended(self) -> bool:
        """Wait for the other side to end the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    def certificate(self) -> bytes:
        """Give what the other side showed, in DER."""
        shown: bytes = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown


@contextlib.asynccontextmanager
async def line(
    port: int, context: ssl.SSLContext | None = None, name: str | None = NAME
) -> AsyncIterator[Line]:
    """Open a connection; with a context it is TLS, and `name` the server named."""
    server = name if context else None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=server, limit=1 << 24
    )
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def request(
    method: str = "POST",
    path: str = "/admit/pods",
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Write a request; headers given replace those that a review comes with."""
    said = {
        "Host": NAME,
        "User-Agent": "kube-apiserver-admission",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def review(uid: str = "u-1", padding: int = 0) -> bytes:
    """Write a review with this uid, and so many bytes more."""
    asked = {"uid": uid, "operation": "CREATE", "object": {"padding": "x" * padding}}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    ).encode()
