"""The Secret is what this process wrote last, until the watch shows something newer."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

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
        value["metadata"] |= {"uid": "ours", "resourceVersion": version}
    return value


async def until(is_reached: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_reached():  # noqa: ASYNC110
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def following(api: FakeApi, folder: Path) -> AsyncIterator[WatchedAuthorities]:
    async with Session(
        Credentials(str(api.kubeconfig(folder / "config"))), namespace=OWN
    ) as session:
        secret = WatchedAuthorities(session)
        secret.now = lambda: START
        running = asyncio.create_task(secret.cache.run())
        try:
            yield secret
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def changed(letters: list[str], note: str) -> dict[str, Any]:
    value = build(letters)
    value["metadata"]["annotations"] = {"changed": note}
    return value


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_was_written_counts_until_the_watch_reaches_it(
    tmp_path: Path,
    is_deleted: bool,  # noqa: FBT001  # a case
) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            assert secret.reading.state is SecretState.ABSENT
            api.put(build(["a"]))
            await until(lambda: secret.remembered == authorities(["a"]))
            due = metrics.AUTHORITIES.get_sample_value("drawbridge_ca_rotation_seconds")
            assert due == START + LIFE * 2 / 3
            seen: list[object] = []
            secret.subscribe(lambda: seen.append(secret.reading.stored))
            written = build(["a", "b"], f"{api.store.version + 2}")
            secret.remember(written, authorities(["a", "b"]))
            assert secret.live is written
            if is_deleted:
                api.remove("secrets", CA_SECRET, OWN)
            else:
                api.put(changed(["a"], "before our write"))
            await until(lambda: seen)
            assert seen == [authorities(["a", "b"])]
            assert secret.live is written
            api.put(changed(["a", "b", "c"], "after it"))
            await until(lambda: secret.live is not written)
            assert seen[1:] == [authorities(["a", "b", "c"])]

    asyncio.run(play())


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_late_response_does_not_hide_what_the_watch_has_shown(
    tmp_path: Path,
    is_deleted: bool,  # noqa: FBT001  # a case
) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            await secret.cache.wait_until_synced()
            written = api.put(build(["a"]))
            await until(lambda: secret.live)
            if is_deleted:
                api.remove("secrets", CA_SECRET, OWN)
            else:
                api.put(changed(["a", "b"], "before the response to our write"))
            await until(lambda: secret.cache.version == f"{api.store.version}")
            shown = secret.live
            secret.remember(written, authorities(["a"]))
            assert secret.live is shown
            assert secret.reading.state is (SecretState.ABSENT if is_deleted else SecretState.VALID)
            assert secret.remembered == authorities(["a"])

    asyncio.run(play())


def test_a_deletion_hides_what_was_written(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            api.put(build(["a"]))
            await until(lambda: secret.live)
            written = build(["a"], f"{api.store.version + 1}")
            secret.remember(written, authorities(["a"]))
            assert secret.live is written
            api.remove("secrets", CA_SECRET, OWN)
            await until(lambda: secret.live is None)
            assert secret.remembered == authorities(["a"])

    asyncio.run(play())


def test_a_list_without_what_was_written_is_a_change(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, following(api, tmp_path) as secret:
            await secret.cache.wait_until_synced()
            await api.until(lambda: api.store.watchers)
            secret.remember(build(["a"], f"{api.store.version + 1}"), authorities(["a"]))
            assert secret.live is not None
            seen: list[object] = []
            secret.subscribe(lambda: seen.append(secret.live))
            api.store.version += 2  # it was created and deleted
            api.expire()
            await until(lambda: seen)
            assert seen == [None]
            assert secret.remembered == authorities(["a"])

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
