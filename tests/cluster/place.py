"""A namespace on an API server, for the tests of API server behaviour.

DRAWBRIDGE_TEST_KUBECONFIG selects a server. The scenario
`cluster-tests-pass-on-the-real-api-server` runs the tests on a real API server.
The default is the fake API server, so the tests compare the fake with a real server.
"""

# ruff: noqa: D102  # the methods have descriptive names

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import CONFIG_MAPS, NAMESPACES
from drawbridge.cluster.session import ApiError, Session
from drawbridge.cluster.write import ApiObject, Writer
from tests.cluster.fake.api import FakeApi

REAL = os.environ.get("DRAWBRIDGE_TEST_KUBECONFIG")


class Text(msgspec.Struct):
    """The fields of a ConfigMap that the caches below decode."""

    data: dict[str, str] = {}


class Place:
    """A namespace on a server, with a session and a writer."""

    def __init__(self, session: Session, namespace: str) -> None:
        self.session = session
        self.namespace = namespace
        self.writer = Writer(session, manager="ours")

    def as_manager(self, name: str) -> Writer:
        return Writer(self.session, manager=name)

    async def make(self, name: str, **data: str) -> ApiObject:
        value = {"metadata": {"name": name}, "data": data}
        return await self.writer.create(CONFIG_MAPS, value, namespace=self.namespace)

    async def find(self, name: str) -> ApiObject:
        found = await self.writer.read(CONFIG_MAPS, name, namespace=self.namespace)
        assert found is not None
        return found

    def path(self, name: str = "") -> str:
        return CONFIG_MAPS.path(self.namespace, name)

    def cache(self, **options: Any) -> Cache[Text]:  # noqa: ANN401  # the cache's own
        return Cache(self.session, CONFIG_MAPS, Text, namespace=self.namespace, **options)


@contextlib.asynccontextmanager
async def placed(folder: Path) -> AsyncIterator[Place]:
    async with contextlib.AsyncExitStack() as stack:
        config = REAL
        if config is None:
            api = await stack.enter_async_context(FakeApi())
            config = str(api.kubeconfig(folder / "config"))
        session = await stack.enter_async_context(await Session.open(config))
        name = f"test-{secrets.token_hex(4)}"
        writer = Writer(session)
        await writer.create(NAMESPACES, {"metadata": {"name": name}})
        try:
            yield Place(session, name)
        finally:
            await writer.delete(NAMESPACES, name)


async def refused(call: Awaitable[object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value
