"""Pods whose claims cannot be released yet are tried again; no change of the cluster wakes them."""

import asyncio

import pytest

from allocator.writes.binding import LATE_SECONDS, RETRY_SECONDS
from tests.allocator.binding_rig import Rig
from tests.virtual_time import run_virtually

CAUSES = {"an earlier binding may arrive": LATE_SECONDS, "no connection": RETRY_SECONDS}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_pod_is_woken_once_when_its_claims_can_be_released(cause: str) -> None:
    async def story() -> None:
        rig = Rig()
        rig.reservations.reserve("pod", "a")
        rig.cluster.faults[3] = "refuse"
        assert await rig.bind() == "403 Forbidden: forbidden"
        rig.reservations.reserve("pod", "a")
        if cause == "no connection":
            rig.cluster.is_down = True
        else:
            await rig.recovery.begin_term()
            rig.reservations.reserve("pod", "a")
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            assert (await rig.binder.release("uid-pod")).released == ()
        rig.cluster.is_down = False
        assert await rig.woken.get() == "uid-pod"
        waited = asyncio.get_running_loop().time() - began
        assert waited == pytest.approx(CAUSES[cause], abs=0.1)
        assert (await rig.binder.release("uid-pod")).released == ("n/a",)
        await asyncio.sleep(2 * LATE_SECONDS)
        assert rig.woken.empty()

    run_virtually(story)
