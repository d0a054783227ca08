"""A process starts again when the API server serves other resources than it has caches of."""

import asyncio
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allocator.process import _create_caches, stop_if_served_differs
from allocator.state.caches import AllocatorCaches, find_what_is_served
from drawbridge.cluster.backoff import Backoff
from drawbridge.cluster.session import Session
from drawbridge.process.run import StopSignal
from tests.cluster.fake.api import FakeApi


@pytest.mark.asyncio
@pytest.mark.parametrize(("leading", "pauses"), [(False, 10), (True, 13)])
@pytest.mark.parametrize("part", ["scheduling.x-k8s.io", "resource.k8s.io/v1"])
async def test_a_process_stops_when_the_api_server_serves_other_resources(
    tmp_path: Path, part: str, pauses: int, *, leading: bool
) -> None:
    """PodGroups of Coscheduling, or taint rules at another version, as after an upgrade."""
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        api.fail(404, part=part, times=1)
        caches = await AllocatorCaches.create(session, "drawbridge-system")
        parts: Any = SimpleNamespace(caches=caches, term=SimpleNamespace(leading=leading))
        stop = StopSignal()
        await stop_if_served_differs(session, parts, stop, pause)
        assert (len(waited), stop.is_requested) == (pauses, True)
        new = await AllocatorCaches.create(session, "drawbridge-system")
        assert new.served != caches.served


@pytest.mark.asyncio
async def test_groups_whose_server_is_away_stop_no_other_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An APIService can name a server that is away, when the process starts and ever after."""
    monkeypatch.setattr(Backoff, "pause", lambda _self: 0.0)
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        api.fail(503, part="scheduling.x-k8s.io", times=math.inf)
        async with asyncio.timeout(10):
            caches = await _create_caches(session, "drawbridge-system", StopSignal())
        assert caches is not None
        assert caches.served.groups, "they may be served, so the members of groups wait"
        assert caches.find_unread_groups()
        assert "Coscheduling" in caplog.text
        api.heal()
        assert await find_what_is_served(session) == caches.served


@pytest.mark.asyncio
async def test_it_is_told_when_it_is_known_at_last_what_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(Backoff, "pause", lambda _self: 0.0)
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        api.fail(403, times=1)
        await _create_caches(session, "drawbridge-system", StopSignal())
    text = "it is known after 0 s what the API server serves"
    assert [each for each in caplog.messages if "API server serves" in each][1:] == [text]


@pytest.mark.asyncio
@pytest.mark.parametrize("is_pausing", [False, True])
async def test_a_process_that_asks_what_is_served_stops(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_pausing: bool,  # noqa: FBT001  # a case
) -> None:
    """The API server accepts requests without a response, or fails them."""
    monkeypatch.setattr(Backoff, "pause", lambda _self: 1e6)
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        if is_pausing:
            api.fail(500, times=math.inf)
        else:
            api.hold(times=math.inf)
        stop = StopSignal()
        creating = asyncio.create_task(_create_caches(session, "drawbridge-system", stop))
        await api.until(lambda: api.requests)
        stop.request()
        assert await asyncio.wait_for(creating, 5) is None
