"""What the API says about device quotas: what is used and left, and why a pod waits."""

from typing import Any

import pytest

from drawbridge.dra.device_quotas import DeviceQuota, QuotaKey
from drawbridge.dra.quantity import Quantity
from tests.allocator.api_served import ReviewServer, serving_api
from tests.allocator.clusters import Cluster, allocation_on, claim, pod

pytestmark = pytest.mark.asyncio
LIST = "GET /v1/quotas"
DEVICES = QuotaKey("gpu", "devices")


def three_namespaces() -> Cluster:
    """Each may have two GPUs, and all together five; one has one, the next has two."""
    limits = (("each", 2, False), ("all", 5, True))
    quotas = [
        DeviceQuota(name, lambda _name, _labels: True, {}, {DEVICES: Quantity.of(most)}, together)
        for name, most, together in limits
    ]
    cluster = Cluster(quotas=quotas, n1=8)
    for number, namespace in enumerate(("a", "b", "b")):
        held = allocation_on("n1", number)
        cluster.add_claim(claim(f"c{number}", namespace=namespace, allocation=held, pods=["p"]))
    return cluster


async def listed(cluster: Cluster, query: str) -> tuple[list[str], str]:
    """The lines of a page, and the token of the next one."""
    async with serving_api(cluster, ReviewServer({}, {}), is_local=True) as served:
        status, body, _ = await served.send(f"{LIST}{query}")
    assert status == 200, body
    lines = [
        f"{each['quota']} {each['namespace'] or '*'} {each['used']}/{each['limit']} {each['left']}"
        for each in body["items"]
    ]
    return lines, body["continue"]


async def test_all_namespaces_with_devices_are_listed_in_pages() -> None:
    lines, token = await listed(three_namespaces(), "?limit=1")
    assert lines == ["all * 3/5 2", "each a 1/2 1"]
    lines, token = await listed(three_namespaces(), f"?limit=1&continue={token}")
    assert (lines, token) == (["each b 2/2 0"], "")


async def test_a_namespace_has_its_own_totals_and_the_common_ones() -> None:
    assert (await listed(three_namespaces(), "?namespace=b"))[0] == ["each b 2/2 0", "all * 3/5 2"]
    assert (await listed(three_namespaces(), "?namespace=new"))[0] == [
        "each new 0/2 2",
        "all * 3/5 2",
    ]


async def test_a_line_names_class_and_amount() -> None:
    async with serving_api(three_namespaces(), ReviewServer({}, {}), is_local=True) as served:
        _, body, _ = await served.send(f"{LIST}?namespace=a")
    assert body["items"][0] == {
        "quota": "each",
        "namespace": "a",
        "deviceClass": "gpu",
        "amount": "devices",
        "limit": "2",
        "used": "1",
        "left": "1",
    }


async def explain(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    async with serving_api(cluster, ReviewServer({}, {}), is_local=True) as served:
        cluster.add_claim(claim(f"of-{name}", namespace=namespace))
        served.add_pod(pod(name, f"of-{name}", namespace=namespace))
        body = {"namespace": namespace, "name": name}
        status, reply, _ = await served.send("POST /v1/explain", None, body)
    assert status == 200, reply
    return dict(reply)


async def test_a_pod_over_quota_is_explained() -> None:
    reply = await explain(three_namespaces(), "b", "waits")
    assert reply["state"] == "Waiting"
    assert [each["code"] for each in reply["reasons"]] == ["DeviceQuotaUsedUp"]
    assert [each["left"] for each in reply["quotas"]] == ["0", "2"]


async def test_a_pod_within_its_quotas_fits() -> None:
    assert (await explain(three_namespaces(), "a", "fits"))["state"] == "Fits"
