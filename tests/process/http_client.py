"""An HTTP client that sends raw bytes and reads one response after another."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from tests.process.key_pairs import NAME


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:  # noqa: ANN401  # JSON
        """Decode the body."""
        return json.loads(self.body)


class Connection:
    """An open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def read_response(self) -> Response:
        """Read one response. Raise IncompleteReadError if the connection ends before."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Response(int(first.split()[1]), headers, body)

    async def send_request(self, data: bytes) -> Response:
        """Send a request and read the response."""
        await self.send(data)
        return await self.read_response()

    async def wait_closed(self) -> bool:
        """Wait until the server closes the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    def read_certificate(self) -> bytes:
        """Return the certificate of the server in DER."""
        shown: bytes = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown


@contextlib.asynccontextmanager
async def connect(
    port: int,
    context: ssl.SSLContext | None = None,
    name: str | None = NAME,
    local: tuple[str, int] | None = None,
) -> AsyncIterator[Connection]:
    """Open a connection. With a context it uses TLS, and `name` is the server name."""
    server = name if context else None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=server, limit=1 << 24, local_addr=local
    )
    try:
        yield Connection(reader, writer)
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
    """Build a request. `headers` replace the default headers of a review."""
    all_headers = {
        "Host": NAME,
        "User-Agent": "kube-apiserver-admission",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def review(uid: str = "u-1", padding: int = 0) -> bytes:
    """Build a review with this uid, and a number of padding bytes."""
    request_value = {"uid": uid, "operation": "CREATE", "object": {"padding": "x" * padding}}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request_value}
    ).encode()
