"""The requests of the write path that read and write claims."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from allocator.writes.api_server import ApiServerWrites, WriteFence
from allocator.writes.cluster_writes import check_nothing
from drawbridge.api_error import ApiError
from drawbridge.cluster.session import Session
from tests.allocator.clusters import claim
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio


class OpenFence:
    """The fence of a process that leads."""

    async def check(self) -> None:
        """Allow the write."""

    async def confirm(self) -> None:
        """Allow the allocation."""


class Watch:
    """A watch of claims that has seen version 50, and what was written since."""

    newest = "50"

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []

    def compare_written(self, version: str, since: str) -> None:
        """Note the versions."""
        self.written.append((version, since))


class Compared:
    """A watch that is compared with the API server as soon as it is told."""

    def __init__(self) -> None:
        self.is_verified = asyncio.Event()

    @property
    def verified(self) -> bool:
        """Whether the comparison has ended."""
        return self.is_verified.is_set()

    async def wait_until_verified(self) -> None:
        """Wait for the comparison."""
        await self.is_verified.wait()


async def test_a_write_waits_until_all_that_was_read_is_compared_with_the_api_server() -> None:
    watches = Compared(), Compared()
    waiting = asyncio.create_task(WriteFence(OpenFence(), *watches).check())
    for watch in watches:
        await asyncio.sleep(0)
        assert not waiting.done()
        watch.is_verified.set()
    await asyncio.wait_for(waiting, 10)


async def test_a_write_waits_for_what_is_in_doubt_while_it_waits_for_something_else() -> None:
    """The watches of an API server that is stopped end one after another."""
    nodes, claims = Compared(), Compared()
    nodes.is_verified.set()
    waiting = asyncio.create_task(WriteFence(OpenFence(), nodes, claims).check())
    await asyncio.sleep(0)
    nodes.is_verified.clear()
    claims.is_verified.set()
    for _ in range(9):
        await asyncio.sleep(0)
        assert not waiting.done()
    nodes.is_verified.set()
    await asyncio.wait_for(waiting, 10)


async def test_the_version_of_each_write_is_compared_with_what_was_seen_before(
    tmp_path: Path,
) -> None:
    watch = Watch()
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        writes = ApiServerWrites(session, OpenFence(), watch)
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        api.put({**claim("a"), **head})
        read = await writes.read_claim("default", "a")
        assert read is not None
        marked = await writes.mark(read, "{}", check_nothing)
        reserved = await writes.set_consumers(marked, ())
        assert watch.written == [
            (each.metadata.resource_version, "50")
            for before, each in ((read, marked), (marked, reserved))
            if each.metadata.resource_version != before.metadata.resource_version
        ]
        assert watch.written


async def test_a_claim_that_cannot_be_read_does_not_stop_the_recovery_of_the_others(
    tmp_path: Path,
) -> None:
    unreadable = {**claim("bad"), "kind": "ResourceClaim", "spec": {"devices": {"requests": 7}}}
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        writes = ApiServerWrites(session, OpenFence(), Watch())
        items = [claim("a"), unreadable, claim("b")]
        page = {"kind": "ClaimList", "metadata": {"resourceVersion": "1"}, "items": items}
        api.fail(200, part="resourceclaims", body=msgspec.json.encode(page))
        assert [each.metadata.name async for each in writes.list_claims()] == ["a", "b"]
        api.fail(200, part="resourceclaims", body=msgspec.json.encode(unreadable))
        with pytest.raises(ApiError, match="bad cannot be read") as raised:
            await writes.read_claim("n", "bad")
        assert not raised.value.unknown
