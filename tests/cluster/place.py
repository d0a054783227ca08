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

from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.resources import CONFIG_MAPS, NAMESPACES, ApiObject, Resource
from drawbridge.cluster.session import Session
from tests.cluster.fake.api import FakeApi

REAL = os.environ.get("DRAWBRIDGE_TEST_KUBECONFIG")


class Text(msgspec.Struct):
    """The fields of a ConfigMap that the caches below decode."""

    data: dict[str, str] = {}


class Place:
    """A namespace on a server, with a session and a client of its ConfigMaps."""

    def __init__(self, session: Session, namespace: str) -> None:
        self.session = session
        self.namespace = namespace
        self.maps = self.client(CONFIG_MAPS)

    def client(self, resource: Resource, manager: str = "ours") -> ResourceClient[ApiObject]:
        """Return a client with this namespace as the default."""
        return ResourceClient(
            self.session, resource, decode_object, namespace=self.namespace, manager=manager
        )

    async def make(self, name: str, **data: str) -> ApiObject:
        return await self.maps.create({"metadata": {"name": name}, "data": data})

    async def find(self, name: str) -> ApiObject:
        stored = await self.maps.read(name)
        assert stored is not None
        return stored

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
        namespaces = ResourceClient(session, NAMESPACES, decode_object)
        await namespaces.create({"metadata": {"name": name}})
        try:
            yield Place(session, name)
        finally:
            await namespaces.delete(name)


async def refused(call: Awaitable[object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value
