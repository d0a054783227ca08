"""A process starts again when the API server serves other resources than it has caches of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allocator.process import stop_if_served_differs
from allocator.state.caches import AllocatorCaches
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
