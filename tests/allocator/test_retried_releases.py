"""A pod whose claims cannot be released yet is tried again; no change of the cluster wakes it."""

import asyncio

import pytest

from allocator.writes.binding import RETRY_SECONDS
from drawbridge.api_error import ApiError
from drawbridge.dra.claim import Claim
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


def test_a_claim_that_may_not_be_released_keeps_no_others_of_its_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        rig = Rig()
        rig.reservations.reserve("pod", "a", "b")
        rig.cluster.faults[5] = "refuse"
        assert await rig.bind()
        rig.reservations.reserve("pod", "a", "b")
        deallocate = rig.cluster.deallocate

        async def refuse(claim: Claim) -> Claim:
            if claim.metadata.name == "a":
                raise ApiError(403, "Forbidden", "a policy")
            return await deallocate(claim)

        monkeypatch.setattr(rig.cluster, "deallocate", refuse)
        reply = await rig.binder.release("uid-pod")
        assert (reply.released, "a policy" in reply.message) == (("n/b",), True)

    run_virtually(story)
