"""Templates in the API server: seen, made, read and renewed, and nothing raised but StoreError."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cluster.cache import Cache
from cluster.resources import TEMPLATES
from cluster.session import Session
from cluster.write import Writer
from tests.cluster.fake.api import FakeApi
from webhook.admission.protocols import StoreError
from webhook.server.cluster_view import OURS, Anything
from webhook.server.template_store import Store

KEY, VALUE = OURS.split("=")
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "drawbridge-1", "labels": {KEY: VALUE}},
    "spec": {"spec": {"devices": {}}},
}


class House(NamedTuple):
    """The store, and the server behind it."""

    api: FakeApi
    store: Store
    cache: Cache[Any]


@contextlib.asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    """Start with no templates."""
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(folder / "c"))) as session:
        cache = Cache(session, TEMPLATES, Anything, labels=OURS)
        following = asyncio.create_task(cache.run())
        await cache.until_synced()
        try:
            yield House(api, Store(cache, Writer(session)), cache)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def changed(there: House) -> None:
    """Wait for one change to arrive."""
    news = asyncio.Event()
    there.cache.subscribe(lambda *_: news.set())
    await news.wait()


def test_what_is_made_is_seen_and_what_is_deleted_is_not(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as there:
            assert there.store.seen("default", "drawbridge-1") is None
            arrived = asyncio.create_task(changed(there))
            made = await there.store.create("default", TEMPLATE)
            assert made is not None
            await arrived
            seen = there.store.seen("default", "drawbridge-1")
            assert seen is not None
            assert seen["spec"] == TEMPLATE["spec"]
            assert there.store.seen("default", "drawbridge-1") is seen
            gone = asyncio.create_task(changed(there))
            there.api.remove("ResourceClaimTemplate", "drawbridge-1", "default")
            await gone
            assert there.store.seen("default", "drawbridge-1") is None

    asyncio.run(play())


def test_a_name_that_is_taken_is_no_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as there:
            await there.store.create("default", TEMPLATE)
            assert await there.store.create("default", TEMPLATE) is None
            assert await there.store.read("default", "nowhere") is None
            read = await there.store.read("default", "drawbridge-1")
            assert read is not None

    asyncio.run(play())


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as there:
            assert await there.store.create("default", TEMPLATE, dry_run=True) is not None
            assert there.api.all("ResourceClaimTemplate") == []

    asyncio.run(play())


def test_use_is_noted_and_what_is_gone_is_no_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as there:
            await there.store.create("default", TEMPLATE)
            await there.store.touch("default", "drawbridge-1", {"drawbridge.dev/used": "now"})
            await there.store.touch("default", "nowhere", {"drawbridge.dev/used": "now"})
            kept = there.api.get("resourceclaimtemplates", "drawbridge-1", namespace="default")
            assert kept is not None
            assert kept["metadata"]["annotations"] == {"drawbridge.dev/used": "now"}

    asyncio.run(play())


@pytest.mark.parametrize("code", [403, 404, 409, 500])
def test_every_no_of_the_server_is_a_store_error_with_the_name(code: int, tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as there:
            there.api.fail(code, method="POST", part="resourceclaimtemplates", times=9)
            with pytest.raises(StoreError, match="default/drawbridge-1") as raised:
                await there.store.create("default", TEMPLATE)
            # What would be said again is for the user; the rest is for later.
            assert raised.value.refused.startswith(f"{code} " if code in (403, 404) else "")
            assert bool(raised.value.refused) == (code in (403, 404))

    asyncio.run(play())


def test_a_connection_that_is_cut_is_a_store_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as there:
            there.api.cut(method="POST", part="resourceclaimtemplates")
            with pytest.raises(StoreError):
                await there.store.create("default", TEMPLATE)

    asyncio.run(play())
