"""A pod whose claims cannot be released yet is tried again; no change of the cluster wakes it."""

import asyncio

import pytest

from allocator.writes.binding import RETRY_SECONDS
from tests.allocator.binding_rig import Rig
from tests.virtual_time import run_virtually


def test_a_pod_is_woken_once_when_its_claims_can_be_released() -> None:
    async def story() -> None:
        rig = Rig()
        rig.reservations.reserve("pod", "a")
        rig.cluster.faults[3] = "refuse"
        assert await rig.bind() == "403 Forbidden: forbidden"
        rig.reservations.reserve("pod", "a")
        rig.cluster.is_down = True
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            assert (await rig.binder.release("uid-pod")).released == ()
        rig.cluster.is_down = False
        assert await rig.woken.get() == "uid-pod"
        waited = asyncio.get_running_loop().time() - began
        assert waited == pytest.approx(RETRY_SECONDS, abs=0.1)
        assert (await rig.binder.release("uid-pod")).released == ("n/a",)
        await asyncio.sleep(10 * RETRY_SECONDS)
        assert rig.woken.empty()

    run_virtually(story)
