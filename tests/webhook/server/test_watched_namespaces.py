"""Namespaces that the watch does not show yet are read, with bounded work."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from drawbridge.cluster.session import Session
from tests.cluster.fake.api import FakeApi
from webhook.server import watched_namespaces
from webhook.server.watched_namespaces import WatchedNamespaces

LABELS = {"team": "x"}
pytestmark = pytest.mark.asyncio


class Read(NamedTuple):
    """A fake API server, and the namespaces that are read from it."""

    api: FakeApi
    namespaces: WatchedNamespaces

    def put(self, name: str) -> None:
        """Create a namespace with labels."""
        metadata = {"name": name, "labels": LABELS}
        self.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    async def ask(self, *names: str) -> Sequence[asyncio.Task[object]]:
        """Begin to read namespaces, and wait until the API server has the requests."""
        reads = [self.namespaces.read_namespace_labels(name, 10) for name in names]
        tasks = [asyncio.create_task(each) for each in reads]
        await self.api.until(
            lambda: all(self.api.asked("GET", f"namespaces/{name}") for name in names)
        )
        return tasks


@contextlib.asynccontextmanager
async def read_from(folder: Path, *names: str) -> AsyncIterator[Read]:
    async with (
        FakeApi() as api,
        await Session.open(str(api.kubeconfig(folder / "config"))) as session,
    ):
        read = Read(api, WatchedNamespaces(session))
        for name in names:
            read.put(name)
        yield read


async def test_a_caller_that_gives_up_leaves_the_request_to_the_others(tmp_path: Path) -> None:
    async with read_from(tmp_path, "a") as read:
        gate = read.api.hold(part="namespaces/a")
        (patient,) = await read.ask("a")
        assert await read.namespaces.read_namespace_labels("a", 0.01) is None
        gate.set()
        assert await patient == LABELS
        assert len(read.api.asked("GET", "namespaces/a")) == 1


async def test_only_some_namespaces_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_namespaces, "MAX_REQUESTS", 2)
    async with read_from(tmp_path, "a", "b", "c") as read:
        gate = read.api.hold(part="namespaces/", times=2)
        waiting = await read.ask("a", "b")
        assert await read.namespaces.read_namespace_labels("c", 10) is None
        gate.set()
        assert await asyncio.gather(*waiting) == [LABELS, LABELS]
        assert await read.namespaces.read_namespace_labels("c", 10) == LABELS


@pytest.mark.parametrize(("seconds", "labels"), [(60.0, LABELS), (0.0, None)])
async def test_what_was_read_is_trusted_for_a_short_time(
    seconds: float,
    labels: dict[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched_namespaces, "TRUSTED_SECONDS", seconds)
    async with read_from(tmp_path, "a") as read:
        assert await read.namespaces.read_namespace_labels("a", 10) == LABELS
        assert read.namespaces.namespace_labels("a") == labels


async def test_what_was_read_is_forgotten_when_the_watch_shows_the_namespace(
    tmp_path: Path,
) -> None:
    async with read_from(tmp_path, "a") as read:
        namespaces = read.namespaces
        await namespaces.read_namespace_labels("a", 10)
        assert namespaces.recently_read("a") == LABELS
        watch = asyncio.create_task(namespaces.cache.run())
        await namespaces.cache.wait_until_synced()
        watch.cancel()
        assert namespaces.recently_read("a") is None
        assert namespaces.namespace_labels("a") == LABELS


async def test_a_namespace_that_does_not_exist_stays_unknown(tmp_path: Path) -> None:
    async with read_from(tmp_path) as read:
        assert await read.namespaces.read_namespace_labels("nowhere", 5) is None
        read.api.fail(503, part="namespaces", times=1000, retry_after=0.01)
        assert await read.namespaces.read_namespace_labels("elsewhere", 0.2) is None
        assert read.namespaces.namespace_labels("elsewhere") is None
