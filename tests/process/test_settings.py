"""A process uses the configuration in its ConfigMap, and keeps the last valid one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.agreement.offered_configuration import read_offered
from drawbridge.cluster.session import Session
from drawbridge.config.model import Configuration
from drawbridge.names import CONFIGURATION_CONFIG_MAP, CONFIGURATION_IN_USE_CONFIG_MAP, NAMESPACE
from drawbridge.process import metrics
from drawbridge.process.run import run_background
from drawbridge.process.settings import Settings, WatchedConfiguration, watch_in_use
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import HEAD, accept, offer

RENAMED = f"{HEAD}legacy: {{renames: {{example.com/gpu: nvidia.com/gpu}}}}\n"
WRONG = f"{HEAD}placement: natve\n"


def good() -> float | None:
    return metrics.REGISTRY.get_sample_value("drawbridge_configuration_good")


@contextlib.asynccontextmanager
async def watching(
    api: FakeApi, folder: Path, *, offered: bool = False, reads_copy: bool = True
) -> AsyncIterator[Settings]:
    kubeconfig = str(api.kubeconfig(folder / "kubeconfig"))
    async with await Session.open(kubeconfig, None, NAMESPACE) as session:
        own = WatchedConfiguration(session, CONFIGURATION_CONFIG_MAP, read_offered)
        settings = Settings((watch_in_use(session), *((own,) if offered else ())))
        running = settings.watched if reads_copy else settings.watched[1:]
        async with run_background(each.cache.run() for each in running):
            yield settings


def synced(name: str) -> float | None:
    labels = {"resource": f"configmaps/{name}"}
    return metrics.REGISTRY.get_sample_value("drawbridge_cache_synced", labels)


async def changed(settings: Settings) -> None:
    """Wait for the next configuration."""
    received = asyncio.Event()
    settings.subscribe(lambda _: received.set())
    await received.wait()


async def changed_map(settings: Settings) -> None:
    """Wait for the next change of a ConfigMap."""
    received = asyncio.Event()
    for watched in settings.watched:
        watched.subscribe(received.set)
    await received.wait()


def test_the_watches_are_measured_as_those_of_other_objects(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, watching(api, tmp_path, offered=True) as settings:
            with metrics.registered(lambda: metrics.collect_caches(settings.caches)):
                assert synced(CONFIGURATION_CONFIG_MAP) == 0
                for watched in settings.watched:
                    await watched.cache.wait_until_synced()
                assert synced(CONFIGURATION_CONFIG_MAP) == 1
                assert synced(CONFIGURATION_IN_USE_CONFIG_MAP) == 1

    asyncio.run(play())


def test_without_a_config_map_the_defaults_are_used() -> None:
    settings = Settings()
    assert settings.current == Configuration()
    assert settings.find_missing() == []


def test_a_changed_configuration_is_used_and_passed_to_listeners(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(accept(HEAD))
            async with watching(api, tmp_path) as settings:
                await settings.wait()
                assert settings.current == Configuration()
                assert good() == 1
                api.put(accept(RENAMED))
                await changed(settings)
                assert dict(settings.current.legacy.renames) == {
                    "example.com/gpu": "nvidia.com/gpu"
                }
                assert settings.text == RENAMED

    asyncio.run(asyncio.wait_for(play(), 30))


def test_without_a_configuration_in_use_a_process_says_what_it_waits_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api, watching(api, tmp_path) as settings:
            waiting = asyncio.create_task(settings.wait())
            await settings.watched[0].cache.wait_until_synced()
            (missing,) = settings.find_missing()
            assert CONFIGURATION_IN_USE_CONFIG_MAP in missing
            assert not waiting.done()
            api.put(accept(HEAD))
            await waiting
            assert settings.find_missing() == []

    asyncio.run(asyncio.wait_for(play(), 30))


REFUSED = {
    "a copy that this version refuses": accept(WRONG, offered=RENAMED),
    "a later configuration that is refused": accept(RENAMED, offered=WRONG),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_last_valid_configuration_stays_in_use(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(accept(RENAMED))
            async with watching(api, tmp_path) as settings:
                await settings.wait()
                before = settings.current
                api.put(REFUSED[name])
                await changed_map(settings)
                assert settings.current is before
                assert good() == 0
                text = caplog.records[-1].getMessage()
                assert text == "configuration rejected, the last valid one stays in use"
                api.put(accept(RENAMED))
                await changed_map(settings)
                assert good() == 1

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_deleted_copy_stays_in_use(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(accept(RENAMED))
            async with watching(api, tmp_path) as settings:
                await settings.wait()
                api.remove("configmaps", CONFIGURATION_IN_USE_CONFIG_MAP, NAMESPACE)
                await changed_map(settings)
                assert settings.current.legacy.renames
                assert good() == 0

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_restart_uses_the_last_valid_configuration_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(accept(RENAMED, offered=WRONG))
            async with watching(api, tmp_path) as settings:
                await settings.wait()
                assert settings.current.legacy.renames
                assert good() == 0
                assert "placement" in str(caplog.records[-1].fields)  # type: ignore[attr-defined]

    asyncio.run(asyncio.wait_for(play(), 30))


def test_who_reads_both_starts_with_the_offered_one_if_none_was_accepted(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(offer(RENAMED))
            async with watching(api, tmp_path, offered=True) as settings:
                await settings.wait()
                assert settings.text == RENAMED
                assert good() == 1
                api.put(accept(HEAD))
                await changed(settings)
                assert settings.text == HEAD
                api.remove("configmaps", CONFIGURATION_CONFIG_MAP, NAMESPACE)
                await changed_map(settings)
                assert settings.text == HEAD
                assert good() == 0

    asyncio.run(asyncio.wait_for(play(), 30))


def test_the_offered_one_is_not_used_before_the_one_in_use_is_read(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(offer(RENAMED))
            async with watching(api, tmp_path, offered=True, reads_copy=False) as settings:
                await changed_map(settings)
                await settings.watched[1].cache.wait_until_synced()
                api.put(offer(HEAD))
                await changed_map(settings)
                assert settings.text == ""
                (missing,) = settings.find_missing()
                assert CONFIGURATION_IN_USE_CONFIG_MAP in missing

    asyncio.run(asyncio.wait_for(play(), 30))


@pytest.mark.parametrize(
    ("objects", "start"),
    [
        ((), "starts"),
        ((offer(WRONG),), "starts"),
        ((accept(WRONG, offered=HEAD), offer(WRONG)), "waits"),
        ((accept(WRONG, offered=HEAD), offer(HEAD)), "starts"),
    ],
    ids=["nothing", "first refused", "both refused", "only the copy refused"],
)
def test_a_controller_takes_part_unless_it_refuses_what_is_in_use(
    objects: tuple[dict[str, object], ...], start: str, tmp_path: Path
) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            for value in objects:
                api.put(value)
            async with watching(api, tmp_path, offered=True) as settings:
                waiting = asyncio.create_task(settings.wait_unless_first())
                for watched in settings.watched:
                    await watched.cache.wait_until_synced()
                if start == "starts":
                    await waiting
                else:
                    (missing,) = settings.find_missing()
                    assert "placement" in missing
                    api.put(offer(f"{WRONG}unsetGroups: all\n"))
                    await changed_map(settings)
                    assert not waiting.done()
                    waiting.cancel()

    asyncio.run(asyncio.wait_for(play(), 30))
