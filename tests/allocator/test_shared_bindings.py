"""Pods that share claims are bound one after the other, or at the same time."""

import pytest
from msgspec.structs import replace

from allocator.writes.cluster_writes import Check
from drawbridge.dra.claim import Claim
from tests.allocator.binding_rig import Rig

pytestmark = pytest.mark.asyncio


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_shared_claim_that_is_allocated_gets_only_another_consumer(rig: Rig) -> None:
    rig.reservations.reserve("first", "a")
    assert not await rig.bind("first")
    rig.reservations.reserve("second", "a", "b")
    assert not await rig.bind("second")
    assert rig.cluster.writes[3:] == ["mark b", "consumers a", "allocate b", "bind"]
    assert rig.consumers("a") == ["first", "second"]


async def test_pods_with_claims_of_their_own_share_one_that_is_allocated_between_their_writes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.reservations.reserve("first", "a")
    rig.reservations.reserve("second", "a", "b")
    original = rig.cluster.mark

    async def mark(claim: Claim, text: str, check: Check) -> Claim:
        if claim.metadata.name == "b":
            assert not await rig.bind("first")
        return await original(claim, text, check)

    monkeypatch.setattr(rig.cluster, "mark", mark)
    assert not await rig.bind("second")
    assert rig.consumers("a") == ["first", "second"]


async def test_a_pod_shares_a_claim_whose_allocation_no_watch_has_shown(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.reservations.reserve("first", "a")
    rig.reservations.reserve("second", "a")
    before = rig.claim("a")
    assert not await rig.bind("first")
    monkeypatch.setattr(rig.cluster, "get", lambda *_: before)
    assert not await rig.bind("second")
    assert rig.consumers("a") == ["first", "second"]


async def test_a_pod_is_not_bound_to_another_allocation_of_a_shared_claim(rig: Rig) -> None:
    rig.reservations.reserve("first", "a")
    assert not await rig.bind("first")
    rig.reservations.reserve("pod", "a")  # counts on the allocation
    status = rig.claim("a").status
    rig.cluster.put(replace(rig.claim("a"), status=type(status)()))
    rig.reservations.reserve("second", "a", device="gpu-7")
    assert not await rig.bind("second")
    assert await rig.bind() == "claim n/a got another allocation meanwhile"
