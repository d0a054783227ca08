"""Every handshake verifies the client certificate, also that of a client with a TLS session."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from drawbridge.process.addresses import Address
from drawbridge.process.listener import TLSListener
from drawbridge.process.tls import ServingCertificate
from tests.cluster.certificates import Authority
from tests.process.http_client import request

HOST = "127.0.0.1"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
MODES = [ssl.VerifyMode.CERT_OPTIONAL, ssl.VerifyMode.CERT_REQUIRED]


class Visit(NamedTuple):
    """What a connection got; no response is the end of the connection, or an alert."""

    response: bytes = b""
    resumed: bool | None = None
    session: ssl.SSLSession | None = None


def visit(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> Visit:
    with socket.create_connection((HOST, port), timeout=5) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=HOST, session=session) as secured:
                secured.sendall(request("GET", "/", headers={"Connection": "close"}))
                received = b""
                while data := secured.recv(4096):
                    received += data
                return Visit(received[:15], secured.session_reused, secured.session)
        except (ssl.SSLError, ConnectionError):
            return Visit()


async def visit_twice(
    certificate: ServingCertificate, context: ssl.SSLContext, between: Callable[[], object]
) -> list[Visit]:
    """Visit a listener, and then again with the session of the first visit, twice."""

    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="ok")

    listener = TLSListener(Address(HOST, 0), certificate, handle)
    await listener.open()
    try:
        first = await asyncio.to_thread(visit, listener.port, context, None)
        between()
        return [first] + [
            await asyncio.to_thread(visit, listener.port, context, first.session) for _ in range(2)
        ]
    finally:
        await listener.close(1)


class Trust:
    """A server with a CA of its clients, which can become another one, and a client of the first.

    The server has a certificate of the first one, too.
    """

    def __init__(
        self, folder: Path, verify: ssl.VerifyMode, version: ssl.TLSVersion, *, asks: bool = True
    ) -> None:
        old, new = folder / "old", folder / "new"
        old.mkdir()
        new.mkdir()
        before, self._after = Authority(old), Authority(new)
        self._file = folder / "clients.crt"
        self._file.write_bytes(before.file.read_bytes())
        pair = [f"{each}" for each in before.signed(HOST)]
        client_ca = f"{self._file}" if asks else ""
        self.certificate = ServingCertificate(pair[0], pair[1], client_ca, verify)
        assert self.certificate.refresh()
        self.client = ssl.create_default_context(cafile=f"{before.file}")
        self.client.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        self.client.load_cert_chain(*before.signed("api-server"))
        self.client.maximum_version = version

    def change(self) -> None:
        """Trust clients of the second CA only."""
        self._file.write_bytes(self._after.file.read_bytes())
        assert self.certificate.refresh()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("verify", MODES)
def test_a_session_outlives_no_client_ca(
    verify: ssl.VerifyMode, version: ssl.TLSVersion, tmp_path: Path
) -> None:
    trust = Trust(tmp_path, verify, version)
    first, *later = asyncio.run(visit_twice(trust.certificate, trust.client, trust.change))
    assert first.response == b"HTTP/1.1 200 OK"
    assert [each.response for each in later] == [b"", b""]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_is_trusted_gets_a_handshake_in_place_of_its_session(
    version: ssl.TLSVersion, tmp_path: Path
) -> None:
    trust = Trust(tmp_path, ssl.VerifyMode.CERT_REQUIRED, version)
    visits = asyncio.run(visit_twice(trust.certificate, trust.client, lambda: None))
    assert not any(each.resumed for each in visits)
    # Only TLS 1.2 has sessions without a ticket: such a one fails once, and is forgotten.
    answered = [bool(each.response) for each in visits]
    assert answered == [True, version == ssl.TLSVersion.TLSv1_3, True]


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_client_ca_sessions_are_resumed(version: ssl.TLSVersion, tmp_path: Path) -> None:
    trust = Trust(tmp_path, ssl.VerifyMode.CERT_REQUIRED, version, asks=False)
    visits = asyncio.run(visit_twice(trust.certificate, trust.client, lambda: None))
    assert [each.resumed for each in visits] == [False, True, True]
