"""The requests of the write path that read and write claims."""

from pathlib import Path

import msgspec
import pytest

from allocator.writes.api_server import ApiServerWrites
from drawbridge.api_error import ApiError
from drawbridge.cluster.session import Session
from tests.allocator.clusters import claim
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio


class OpenFence:
    """The fence of a process that leads."""

    async def check(self) -> None:
        """Allow the write."""


async def test_a_claim_that_cannot_be_read_does_not_stop_the_recovery_of_the_others(
    tmp_path: Path,
) -> None:
    unreadable = {**claim("bad"), "spec": {"devices": {"requests": 7}}}
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        writes = ApiServerWrites(session, OpenFence())
        page = {"metadata": {}, "items": [claim("a"), unreadable, claim("b")]}
        api.fail(200, part="resourceclaims", body=msgspec.json.encode(page))
        assert [each.metadata.name for each in await writes.list_claims()] == ["a", "b"]
        api.fail(200, part="resourceclaims", body=msgspec.json.encode(unreadable))
        with pytest.raises(ApiError, match="bad cannot be read") as raised:
            await writes.read_claim("n", "bad")
        assert not raised.value.unknown
