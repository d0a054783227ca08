"""The fake API server leaves nothing open when it stops.

What it leaves open fails a later test, during which it is collected.
"""

import asyncio
import gc
import socket
from urllib.parse import urlsplit

import pytest

from tests.cluster.fake.api import FakeApi


@pytest.mark.parametrize("rounds", range(6))
def test_a_connection_that_is_accepted_during_the_stop_is_closed(
    rounds: int, recwarn: pytest.WarningsRecorder
) -> None:
    async def stop_soon() -> None:
        async with FakeApi() as api:
            address = urlsplit(api.url)
            with socket.create_connection((address.hostname, address.port)):
                for _ in range(rounds):
                    await asyncio.sleep(0)

    asyncio.run(stop_soon())
    gc.collect()
    assert [str(each.message) for each in recwarn] == []
