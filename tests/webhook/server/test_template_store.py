"""The template store over a fake API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.resources import TEMPLATES
from drawbridge.cluster.session import Session
from drawbridge.memory_shares import MemoryShares
from drawbridge.names import MANAGED_SELECTOR
from tests.cluster.fake.api import FakeApi
from webhook.server.cluster_view import watch_templates
from webhook.server.template_store import WatchedTemplateStore

KEY, VALUE = MANAGED_SELECTOR.split("=")
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "drawbridge-1", "labels": {KEY: VALUE}},
    "spec": {"spec": {"devices": {}}},
}
NAME = f"drawbridge-{'0' * 32}"
OWNED: Any = {**TEMPLATE, "metadata": {"name": NAME, "labels": {KEY: VALUE}}}


class StoreHarness(NamedTuple):
    """A template store and its API server."""

    api: FakeApi
    store: WatchedTemplateStore
    cache: Cache[Any]


@contextlib.asynccontextmanager
async def run_store(folder: Path) -> AsyncIterator[StoreHarness]:
    """Run a store without templates."""
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(folder / "c"))) as session:
        cache = watch_templates(session, MemoryShares())
        watch = asyncio.create_task(cache.run())
        await cache.wait_until_synced()
        client = ResourceClient(session, TEMPLATES, decode_object)
        try:
            yield StoreHarness(api, WatchedTemplateStore(cache, client), cache)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


async def wait_for_change(harness: StoreHarness) -> None:
    """Wait for one watch event."""
    news = asyncio.Event()
    harness.cache.subscribe(lambda *_: news.set())
    await news.wait()


def test_the_cache_follows_creation_and_deletion(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_store(tmp_path) as harness:
            assert harness.store.get_cached("default", NAME) is None
            arrived = asyncio.create_task(wait_for_change(harness))
            made = await harness.store.create("default", OWNED)
            assert made is not None
            await arrived
            seen = harness.store.get_cached("default", NAME)
            assert seen is not None
            assert seen.content is not None
            assert msgspec.json.decode(seen.content)["spec"] == TEMPLATE["spec"]
            assert harness.store.get_cached("default", NAME) == seen
            gone = asyncio.create_task(wait_for_change(harness))
            harness.api.remove("ResourceClaimTemplate", NAME, "default")
            await gone
            assert harness.store.get_cached("default", NAME) is None

    asyncio.run(play())


def test_an_existing_name_is_not_an_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_store(tmp_path) as harness:
            await harness.store.create("default", TEMPLATE)
            assert await harness.store.create("default", TEMPLATE) is None
            assert await harness.store.read("default", "nowhere") is None
            read = await harness.store.read("default", "drawbridge-1")
            assert read is not None

    asyncio.run(play())


def test_a_dry_run_creates_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_store(tmp_path) as harness:
            assert await harness.store.create("default", TEMPLATE, dry_run=True) is not None
            assert harness.api.all("ResourceClaimTemplate") == []

    asyncio.run(play())


def test_use_is_recorded_and_a_missing_template_is_not_an_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_store(tmp_path) as harness:
            await harness.store.create("default", TEMPLATE)
            await harness.store.touch("default", "drawbridge-1", {"drawbridge.dev/used": "now"})
            await harness.store.touch("default", "nowhere", {"drawbridge.dev/used": "now"})
            kept = harness.api.get("resourceclaimtemplates", "drawbridge-1", namespace="default")
            assert kept is not None
            assert kept["metadata"]["annotations"] == {"drawbridge.dev/used": "now"}

    asyncio.run(play())


def test_a_failed_request_is_logged_with_the_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with run_store(tmp_path) as harness:
            harness.api.fail(403, method="POST", part="resourceclaimtemplates")
            with pytest.raises(ApiError, match="403 "):
                await harness.store.create("default", TEMPLATE)

    asyncio.run(play())
    (record,) = [each for each in caplog.records if "request failed" in each.getMessage()]
    fields = record.__dict__["fields"]
    assert (fields["namespace"], fields["name"]) == ("default", "drawbridge-1")


def test_templates_without_a_recorded_use_are_counted(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_store(tmp_path) as harness:
            for change in (
                harness.store.create("default", OWNED),
                harness.store.create("default", TEMPLATE),
                harness.store.touch("default", NAME, {"drawbridge.dev/used": "now"}),
            ):
                arrived = asyncio.create_task(wait_for_change(harness))
                await asyncio.sleep(0)
                await change
                await arrived
                used = change.__name__ == "touch"
                # The name of the second template is not the hash of any content.
                assert harness.store.count_unused("default") == (0 if used else 1)
            assert harness.store.count_unused("other") == 0

    asyncio.run(play())


def test_a_template_that_somebody_else_applied_takes_no_place_of_admission(tmp_path: Path) -> None:
    """Such as those in Git, which `drawbridge translate` printed."""

    async def play() -> None:
        async with run_store(tmp_path) as harness:
            arrived = asyncio.create_task(wait_for_change(harness))
            await asyncio.sleep(0)
            harness.api.put({**OWNED, "metadata": {**OWNED["metadata"], "namespace": "default"}})
            await arrived
            assert harness.store.get_cached("default", NAME) is not None
            assert harness.store.count_unused("default") == 0

    asyncio.run(play())
