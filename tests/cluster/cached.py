"""A fake server, a session and a cache for the tests of the cache; `fill` needs no server."""

# ruff: noqa: D102  # the methods have descriptive names

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject, read_header
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON

# What a proxy, or a server that fails, answers to the request for a list.
NO_LISTS = [
    b'{"items": [',
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":503}',
    b'{"kind":"ConfigMapList","metadata":{},"items":[]}',
    b'{"kind":"ConfigMapList","metadata":{"resourceVersion":""},"items":[]}',
    b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"0"},"items":[]}',
    b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"9999"}}',
    b'{"kind":"ConfigMap","metadata":{"resourceVersion":"9999"},"items":[]}',
    b'{"metadata":{"resourceVersion":"9999"},"items":[]}',
]


class Text(msgspec.Struct):
    """The decoded fields of a ConfigMap; `data` is required, so that some do not decode."""

    data: dict[str, str]


def text(name: str, value: str = "", **metadata: object) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"v": value},
    }


def fill(cache: Cache[Any], objects: Iterable[JSON]) -> None:
    """Let a cache read objects, as from its watch."""
    index = cache._index  # noqa: SLF001  # without a server
    for value in objects:
        kind = {"apiVersion": cache.resource.api_version, "kind": cache.resource.kind}
        raw = msgspec.json.encode({**kind, **value})
        header = read_header(raw)
        index.put(header.key, index.read(header, raw))


class Rig:
    """A fake server, a session and a cache; records the changes that the cache reports."""

    def __init__(self, api: FakeApi, session: Session, clock: Clock) -> None:
        self.api = api
        self.session = session
        self.clock = clock
        self.told: list[str] = []
        self.cache = self.made()

    def made(self, **options: Any) -> Cache[Text]:  # noqa: ANN401  # the cache's own
        self.cache = Cache(
            self.session,
            CONFIG_MAPS,
            Text,
            **{"now": self.clock.now, "pause": self.clock.pause, **options},
        )
        self.cache.subscribe(self.note)
        return self.cache

    def note(self, before: CachedObject[Text] | None, after: CachedObject[Text] | None) -> None:
        changed = after or before
        assert changed is not None
        sign = "+" if before is None else "-" if after is None else "~"
        self.told.append(f"{sign}{changed.name}")
        self.api.tell()

    def held(self) -> dict[str, str]:
        return {kept.name: kept.value.data["v"] for kept in self.cache.all()}

    async def holds(self, **wanted: str) -> None:
        await self.api.until(lambda: self.held() == wanted)

    async def watched(self) -> None:
        """Wait until the cache is synced and its watch is open."""
        await self.cache.wait_until_synced()
        await self.api.until(lambda: self.api.store.watchers)

    async def fresh(self, *, wanted: bool = True) -> None:
        """Wait until `fresh` has a value; polls, because the cache sends no notification."""
        while self.cache.fresh is not wanted:  # noqa: ASYNC110  # nothing says when
            await asyncio.sleep(0)

    async def young(self) -> None:
        """Wait until the server responded; polls, because the cache sends no notification."""
        while self.cache.age():  # noqa: ASYNC110  # nothing says when an answer was read
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.cache.run())
        try:
            yield
            assert not task.done(), "the cache gave up"
        finally:
            task.cancel()
            await asyncio.wait((task,))


@contextlib.asynccontextmanager
async def rigged(folder: Path) -> AsyncIterator[Rig]:
    async with FakeApi() as api:
        clock = Clock()
        credentials = Credentials(str(api.kubeconfig(folder / "config")))
        async with Session(credentials, pause=clock.pause) as session:
            yield Rig(api, session, clock)
