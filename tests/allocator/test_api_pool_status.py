"""What the API says about pools: how many of their devices are free."""

from typing import Any

import pytest

from allocator.api.pool_status import MAX_DEVICES, describe_pool
from drawbridge.dra.device import Taint
from drawbridge.dra.gates import DEFAULTS
from drawbridge.dra.inventory import PoolID, build_inventory
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from tests.allocator.api_served import ReviewServer, serving_api
from tests.allocator.clusters import DRIVER, Cluster, allocation_on, as_slice, claim, gpu_slice

pytestmark = pytest.mark.asyncio
LIST = "GET /v1/pools"
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}


async def listed(cluster: Cluster, query: str = "") -> dict[str, Any]:
    """The answer to the administrator of the machine."""
    async with serving_api(cluster, ReviewServer({}, {}), is_local=True) as served:
        status, body, _ = await served.send(f"{LIST}{query}")
    assert status == 200, body
    return dict(body)


async def test_each_device_counts_once() -> None:
    cluster = Cluster(n1=8)
    cluster.add_claim(claim("c0", allocation=allocation_on("n1", 0, 1), pods=["p"]))
    waiting = claim("c1")
    cluster.add_claim(waiting)
    cluster.prefilter("q", waiting)
    assert not cluster.reserve("q", "n1")
    body = await listed(cluster)
    assert body == {
        "poolCount": 1,
        "pools": [
            {
                "driver": DRIVER,
                "poolName": "n1",
                "generation": 1,
                "nodeName": "n1",
                "resourceSliceCount": 1,
                "totalDevices": 8,
                "allocatedDevices": 2,
                "reservedDevices": 1,
                "availableDevices": 5,
                "unavailableDevices": 0,
            }
        ],
        "leading": True,
        "continue": "",
    }


async def test_admin_access_holds_nothing() -> None:
    cluster, seen = Cluster(n1=2), allocation_on("n1", 0)
    seen["devices"]["results"][0]["adminAccess"] = True
    cluster.add_claim(claim("c0", allocation=seen, pods=["p"]))
    (pool,) = (await listed(cluster))["pools"]
    assert (pool["allocatedDevices"], pool["availableDevices"]) == (0, 2)


def count(held: dict[str, bool], *rules: DeviceTaintRule, **fields: object) -> tuple[object, ...]:
    """Total, allocated, reserved, available and unavailable devices of a pool of four."""
    gates = DEFAULTS.with_taint_rules()
    inventory = build_inventory([gpu_slice("n1", 4, **fields)], rules, gates)
    pool = describe_pool(inventory, PoolID(DRIVER, "n1"), held)
    counts = (pool.total_devices, pool.allocated_devices, pool.reserved_devices)
    return (*counts, pool.available_devices, pool.unavailable_devices)


async def test_a_taint_makes_free_devices_unavailable() -> None:
    everything = DeviceTaintRule("r", Taint("k", "NoExecute"), TaintSelector(pool="n1"))
    single = DeviceTaintRule("r", Taint("k", "NoSchedule"), TaintSelector(device="gpu-3"))
    told = DeviceTaintRule("r", Taint("k", "None"), TaintSelector(pool="n1"))
    nothing = DeviceTaintRule("r", Taint("k", "NoSchedule"))
    assert count({}) == (4, 0, 0, 4, 0)
    assert count({"gpu-0": True, "gpu-1": False}) == (4, 1, 1, 2, 0)
    assert count({"gpu-0": True}, taints=[TAINT]) == (4, 1, 0, 0, 3)
    assert count({"gpu-0": True}, everything) == (4, 1, 0, 0, 3)
    assert count({"gpu-0": True}, single) == (4, 1, 0, 2, 1)
    assert count({"gpu-3": True}, single) == (4, 1, 0, 3, 0)
    assert count({}, told) == count({}, nothing) == (4, 0, 0, 4, 0)


async def test_a_device_that_is_no_longer_published_does_not_count() -> None:
    assert count({"gone": True}) == (4, 0, 0, 4, 0)


async def test_an_incomplete_pool_has_an_error_instead_of_counts() -> None:
    pool = {"name": "n1", "generation": 7, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    cluster = Cluster(as_slice({"metadata": {"name": "half"}, "spec": spec}))
    assert (await listed(cluster))["pools"] == [
        {
            "driver": DRIVER,
            "poolName": "n1",
            "generation": 7,
            "nodeName": "n1",
            "validationError": "the pool is incomplete: 1 of 2 slices are published",
        }
    ]


async def test_pools_are_selected_and_listed_in_pages() -> None:
    cluster = Cluster(n1=1, n2=1, n3=1)
    body = await listed(cluster, "?limit=2")
    assert [each["poolName"] for each in body["pools"]] == ["n1", "n2"]
    assert body["poolCount"] == 3
    body = await listed(cluster, f"?limit=2&continue={body['continue']}")
    assert [each["poolName"] for each in body["pools"]] == ["n3"]
    assert (body["poolCount"], body["continue"]) == (3, "")
    body = await listed(cluster, f"?driver={DRIVER}&poolName=n2")
    assert [each["poolName"] for each in body["pools"]] == ["n2"]
    assert (await listed(cluster, "?driver=other"))["poolCount"] == 0
    assert (await listed(cluster, "?poolName=n4"))["pools"] == []


async def test_a_page_ends_after_many_devices() -> None:
    cluster = Cluster(n1=MAX_DEVICES, n2=1)
    body = await listed(cluster)
    assert [each["poolName"] for each in body["pools"]] == ["n1"]
    body = await listed(cluster, f"?continue={body['continue']}")
    assert [each["poolName"] for each in body["pools"]] == ["n2"]


async def test_only_who_may_list_slices_is_answered() -> None:
    rights = {"reader": ["list resourceslices in *"], "nobody": []}
    reviews = ReviewServer({name: name for name in rights}, rights)
    async with serving_api(Cluster(n1=1), reviews) as served:
        for user, status in (("reader", 200), ("nobody", 403), ("unknown", 401)):
            assert (await served.send(LIST, user))[0] == status, user
