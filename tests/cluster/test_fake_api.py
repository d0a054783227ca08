"""The fake API server leaves nothing open when it stops.

What it leaves open fails a later test, during which it is collected.
"""

import asyncio
import gc
import socket
from urllib.parse import urlsplit

import pytest

from tests.cluster.fake.api import FakeApi


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
