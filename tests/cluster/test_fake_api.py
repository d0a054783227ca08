"""The fake API server answers in process, and leaves nothing open when it stops over HTTP.

What it leaves open fails a later test, during which it is collected.
"""

import asyncio
import datetime as dt
import gc
import random
import socket
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.server import Server
from tests.cluster.fake.store import Store
from tests.cluster.fake.trouble import Seen

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def test_a_connection_that_is_accepted_during_the_stop_is_closed(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def stop_soon(rounds: int) -> None:
        async with FakeApi() as api:
            address = urlsplit(api.url)
            with socket.create_connection((address.hostname, address.port)):
                for _ in range(rounds):
                    await asyncio.sleep(0)

    for rounds in range(6):
        asyncio.run(stop_soon(rounds))
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


def _started(seed: int) -> Server:
    return Server(store=Store(lambda: NOW, random.Random(seed)))


def _create(server: Server, name: str) -> dict[str, Any]:
    body = msgspec.json.encode({"metadata": {"generateName": name}, "spec": {}})
    created: dict[str, Any] = msgspec.json.decode(
        server.answer(Seen("POST", CLAIMS, body=body)).body
    )
    return created


def test_a_clock_and_a_seed_decide_everything_that_a_server_stores() -> None:
    assert _create(_started(1), "a-") == _create(_started(1), "a-")
    assert _create(_started(1), "a-") != _create(_started(2), "a-")


def test_a_watch_without_http_hears_a_write_before_its_answer() -> None:
    server, lines = _started(1), list[bytes | None]()
    watcher = server.watch(Seen("GET", CLAIMS, {"watch": "1"}), lines.append)
    created = _create(server, "a-")
    (line,) = lines
    assert line is not None
    assert msgspec.json.decode(line) == {"type": "ADDED", "object": created}
    server.end(watcher)
    _create(server, "a-")
    assert len(lines) == 1


def test_two_servers_can_have_one_store() -> None:
    server = _started(1)
    created = _create(server, "a-")
    assert Server(store=server.store).get("resourceclaims", created["metadata"]["name"]) == created
