"""The Secret is what this process wrote last, until the watch shows something newer."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from certs.authority import NONE
from certs.secret import SecretState, compose_secret
from certs.watched_secret import WatchedAuthorities
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.session import Session
from drawbridge.names import CA_SECRET
from drawbridge.process import metrics
from tests.certs.samples import LIFE, START, authorities
from tests.cluster.fake.api import FakeApi

OWN = "drawbridge-system"


def build(letters: list[str], version: str = "") -> dict[str, Any]:
    value = compose_secret(authorities(letters), None)
    value |= {"apiVersion": "v1", "kind": "Secret"}
    value["metadata"] |= {"namespace": OWN}
    if version:
        value["metadata"]["resourceVersion"] = version
    return value


async def until(is_reached: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_reached():  # noqa: ASYNC110
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def following(api: FakeApi, folder: Path) -> AsyncIterator[WatchedAuthorities]:
    async with Session(Credentials(str(api.kubeconfig(folder / "config")))) as session:
        secret = WatchedAuthorities(session, OWN)
        secret.now = lambda: START
        running = asyncio.create_task(secret.cache.run())
        try:
            yield secret
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def test_an_older_event_does_not_hide_what_was_written_and_a_deletion_does(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            assert secret.reading.state is SecretState.ABSENT
            api.put(build(["a"]))
            await until(lambda: secret.remembered == authorities(["a"]))
            due = metrics.AUTHORITIES.get_sample_value("drawbridge_ca_rotation_seconds")
            assert due == START + LIFE * 2 / 3
            seen: list[object] = []
            secret.subscribe(lambda: seen.append(secret.reading.stored))
            newer = build(["a", "b"], "999999999")
            secret.remember(newer, authorities(["a", "b"]))
            assert secret.reading.stored == authorities(["a", "b"])
            late = build(["a"])
            late["metadata"]["annotations"] = {"changed": "before our write"}
            api.put(late)
            await until(lambda: seen)
            assert seen == [authorities(["a", "b"])]
            api.remove("secrets", CA_SECRET, OWN)
            await until(lambda: secret.live is None)
            assert secret.reading.state is SecretState.ABSENT
            assert secret.remembered == authorities(["a", "b"])

    asyncio.run(play())


def test_a_newer_event_replaces_what_was_written(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            secret.remember(build(["a"], "1"), authorities(["a"]))
            api.put(build(["a", "b"]))
            await until(lambda: secret.reading.stored == authorities(["a", "b"]))
            assert secret.remembered == authorities(["a", "b"])

    asyncio.run(play())


def test_the_secret_of_another_name_is_not_seen(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            other = copy.deepcopy(build(["a"]))
            other["metadata"]["name"] = "other"
            api.put(other)
            await secret.cache.wait_until_synced()
            assert secret.live is None
            assert secret.remembered == NONE

    asyncio.run(play())
