"""Pools that only the policy keeps from others are not used while it is older than required."""

import asyncio

import pytest
from msgspec.structs import replace

from drawbridge.agreement.owned_pools import FENCE
from drawbridge.config.model import NodeFence
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from tests.allocator.test_plugin_holders import CONFIGURATION, DRIVER, ENTRY, SLICE, Caches

OPEN = replace(CONFIGURATION, owned_pools=(replace(ENTRY, unfenced=False, fence=NodeFence.RULES),))
ON_OPEN, ON_TAINTED = PoolID(DRIVER, "n"), PoolID(DRIVER, "t")


@pytest.mark.asyncio
async def test_a_policy_that_is_behind_suspends_the_pools_that_have_no_other_fence() -> None:
    behind = [False]
    caches = Caches(
        *(Node("n"), Node("t", taints=(FENCE,))),
        *(SLICE, replace(SLICE, name="s2", pool="t", node_name="t")),
        configuration=OPEN,
        guarded=(ON_OPEN, ON_TAINTED),
        lacks_policy=lambda: behind[-1],
    )
    live, state = caches.live, caches.live.cluster
    await asyncio.sleep(0)
    assert caches.offered == ["n", "t"]
    for is_behind, owned in ((True, ["t"]), (False, ["n", "t"])):
        behind.append(is_behind)
        live.fences.follow_lease()
        assert [each.name for each in (ON_OPEN, ON_TAINTED) if state.find_owned(each)] == owned
        await asyncio.sleep(0)
        assert caches.offered == owned
