"""Ports of pods are forwarded through the API server, byte by byte, and errors are readable."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.api_error import ApiError
from drawbridge.cluster.port_forward import forward_port
from drawbridge.cluster.session import Session
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio
PORT = 9443
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}


@contextlib.asynccontextmanager
async def pod_that_echoes(folder: Path, **user: str) -> AsyncIterator[tuple[FakeApi, Session]]:
    """Serve an API with a pod that returns what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(echo(reader, writer)))

    tasks: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with FakeApi() as api:
        api.put(POD)
        api.forwards["p", PORT] = server.sockets[0].getsockname()[1]
        async with await Session.open(f"{api.kubeconfig(folder / 'config', **user)}") as session:
            yield api, session
    server.close()
    # The pod sees the end of each connection.
    await asyncio.gather(*tasks)


async def exchange(session: Session, content: bytes, pod: str = "p", port: int = PORT) -> None:
    """Send through a forwarded port, and expect the same back."""
    async with forward_port(session, "default", pod, port) as local:
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        try:
            writer.write(content)
            received = await reader.readexactly(len(content))
        finally:
            writer.close()
    assert received == content


async def test_bytes_pass_in_both_directions(tmp_path: Path) -> None:
    async with pod_that_echoes(tmp_path) as (api, session):
        await exchange(session, os.urandom(300_000))
        await exchange(session, b"again")
    assert [each.query for each in api.asked("GET", "portforward")] == [{"ports": "9443"}] * 2


async def test_connections_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    async with (
        pod_that_echoes(tmp_path) as (_, session),
        forward_port(session, "default", "p", PORT) as local,
    ):
        opened = [await asyncio.open_connection("127.0.0.1", local) for _ in range(3)]
        for number, (_, writer) in enumerate(opened):
            writer.write(b"%d" % number)
        assert [await reader.readexactly(1) for reader, _ in opened] == [b"0", b"1", b"2"]
        for _, writer in opened:
            writer.close()


async def test_credentials_are_read_again_after_a_rejection(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with pod_that_echoes(tmp_path, tokenFile=f"{token}") as (api, session):
        api.tokens = {"new"}
        token.write_text("new")
        await exchange(session, b"x")


async def test_a_forbidden_forward_says_so(tmp_path: Path) -> None:
    async with pod_that_echoes(tmp_path) as (api, session):
        api.fail(403, part="portforward", message="jane cannot create pods/portforward")
        with pytest.raises(ApiError) as raised:
            await exchange(session, b"x")
    assert (raised.value.code, raised.value.message) == (403, "jane cannot create pods/portforward")


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with pod_that_echoes(tmp_path) as (api, session):
        api.fail(302, part="portforward", body=b"elsewhere")
        with pytest.raises(ApiError) as raised:
            await exchange(session, b"x")
    assert "status 302 Found" in raised.value.message
    assert raised.value.unknown


@pytest.mark.parametrize(
    ("pod", "port", "text"),
    [
        ("q", PORT, 'pods "q" not found'),
        ("p", 1, "port 1: connection refused: port 1 of p"),
    ],
)
async def test_an_error_of_the_forward_has_the_reason(
    tmp_path: Path, pod: str, port: int, text: str
) -> None:
    async with pod_that_echoes(tmp_path) as (_, session):
        with pytest.raises(ApiError) as raised:
            await exchange(session, b"x", pod, port)
    assert raised.value.message.endswith(text)


async def test_a_connection_that_is_lost_in_the_middle_is_an_error(tmp_path: Path) -> None:
    async with pod_that_echoes(tmp_path) as (api, session):
        api.forwarded_bytes = 50_000
        with pytest.raises(ApiError) as raised:
            await exchange(session, bytes(100_000))
    assert raised.value.message.endswith("/pods/p/portforward: port 9443: the connection ended")


async def test_an_error_of_the_body_is_not_replaced(tmp_path: Path) -> None:
    async with pod_that_echoes(tmp_path) as (_, session):
        with pytest.raises(KeyError):
            async with forward_port(session, "default", "p", PORT):
                raise KeyError
