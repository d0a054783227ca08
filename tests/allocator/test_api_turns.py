"""Many requests to the API delay the calls of the scheduler, on the same event loop, no more."""

import asyncio

import pytest

from allocator.api.callers import CallerAccess
from allocator.api.reviews import MAX_TOKEN_BYTES, Caller
from tests.allocator.api_served import ReviewServer, serving_api
from tests.allocator.clusters import Cluster
from tests.process import http_client
from tests.process.http_client import Connection, request

pytestmark = pytest.mark.asyncio
SENT = 3  # requests of each connection at once


class Turns:
    """Counts the turns of the event loop until it is stopped."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.get_running_loop().call_soon(self._tick)

    def stop(self) -> None:
        """Count no more."""
        self._next.cancel()

    def _tick(self) -> None:
        self.count += 1
        self._next = asyncio.get_running_loop().call_soon(self._tick)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer unknown"}])
@pytest.mark.parametrize("path", ["/v1/allocations", "/v1/absent"])
async def test_a_turn_of_the_loop_begins_one_request(
    path: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, begun = Turns(), list[int]()

    class Access(CallerAccess):
        async def authenticate(self, request: object) -> Caller:
            begun.append(turns.count)
            return await super().authenticate(request)  # type: ignore[arg-type]  # a request

    monkeypatch.setattr("tests.allocator.api_served.CallerAccess", Access)
    sent = request("GET", path, headers=headers) * SENT

    async def ask(connection: Connection) -> list[int]:
        await connection.send(sent)
        return [(await connection.read_response()).status for _ in range(SENT)]

    async with serving_api(Cluster(n1=1), ReviewServer({}, {})) as served:
        opened = [http_client.connect(served.port) for _ in range(20)]
        connections = [await each.__aenter__() for each in opened]
        statuses = await asyncio.gather(*map(ask, connections))
        for each in opened:
            await each.__aexit__(None, None, None)
    turns.stop()
    assert {status for each in statuses for status in each} == {401}
    assert len(begun) == len(set(begun)) == 20 * SENT


async def test_a_token_may_be_as_long_as_is_checked() -> None:
    token = "t" * MAX_TOKEN_BYTES
    user = "system:serviceaccount:red:dev"
    reviews = ReviewServer({token: user}, {user: ["list resourceclaims in red"]})
    async with serving_api(Cluster(n1=1), reviews) as served:
        path = "GET /v1/allocations?namespace=red"
        assert (await served.send(path, token))[0] == 200
        assert (await served.send(path, f"{token}t"))[0] == 401
