"""The API over HTTP: paths, parameters, pages, and what a node has."""

import asyncio
from typing import Any

import pytest

from allocator.state.records import key_of
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import Hold
from tests.allocator.api_served import ReviewServer, ServedApi, serving_api
from tests.allocator.clusters import DRIVER, Cluster, allocation_on, claim, gpu_slice, pod

pytestmark = pytest.mark.asyncio
LIST = "GET /v1/allocations"


def nobody() -> ReviewServer:
    return ReviewServer({}, {})


async def ask(cluster: Cluster, call: str, **headers: str) -> tuple[int, Any]:
    """Send a request as a local caller."""
    async with serving_api(cluster, nobody(), is_local=True) as served:
        status, body, _ = await served.send(call, **headers)
    return status, body


@pytest.mark.parametrize(
    ("call", "status", "path"),
    [
        ("GET /", 404, ""),
        ("GET /v1", 404, ""),
        ("GET /v1/allocations/", 404, ""),
        ("GET /v1/nodes/", 404, ""),
        ("GET /v1/nodes/a/b", 404, ""),
        ("GET /v1/nodes/n1/", 404, ""),
        ("POST /v1/allocations", 405, ""),
        ("DELETE /v1/nodes/n1", 405, ""),
        ("GET /v1/nodes/%2e%2e", 404, ""),
        ("GET /v1/nodes/N1", 400, "name"),
        ("GET /v1/nodes/%00", 400, "name"),
        ("GET /v1/nodes/%ff", 400, "name"),
        (f"GET /v1/nodes/{'n' * 254}", 400, "name"),
        ("GET /v1/nodes/absent", 404, "name"),
        ("GET /v1/nodes/n1?verbose=1", 400, "verbose"),
        (f"{LIST}?limit=0", 400, "limit"),
        (f"{LIST}?limit=501", 400, "limit"),
        (f"{LIST}?limit=-1", 400, "limit"),
        (f"{LIST}?limit=ten", 400, "limit"),
        (f"{LIST}?limit=", 400, "limit"),
        (f"{LIST}?namespace=a/b", 400, "namespace"),
        (f"{LIST}?namespace={'n' * 64}", 400, "namespace"),
        (f"{LIST}?namespace=a&namespace=b", 400, "namespace"),
        (f"{LIST}?continue=!", 400, "continue"),
        (f"{LIST}?continue=_w", 400, "continue"),
        (f"{LIST}?{'&'.join(f'p{i}=1' for i in range(20))}", 400, ""),
        (f"{LIST}?watch=true", 400, "watch"),
    ],
)
async def test_a_request_that_is_not_valid_is_refused_with_its_field(
    call: str, status: int, path: str
) -> None:
    answered, body = await ask(Cluster(n1=1), call)
    assert answered == status, body
    assert body.get("path", "") == path
    assert body["message"]


async def test_a_page_continues_behind_the_last_one() -> None:
    cluster = Cluster(n1=5)
    for number in range(5):
        cluster.add_claim(claim(f"c{number}", allocation=allocation_on("n1", number)))
    cluster.add_claim(claim("waiting"))
    async with serving_api(cluster, nobody(), is_local=True) as served:
        seen, token = [], ""
        for _ in range(3):
            _, body, _ = await served.send(f"{LIST}?limit=2&continue={token}")
            seen.append([each["claim"] for each in body["items"]])
            token = body["continue"]
    assert (seen, token) == ([["c0", "c1"], ["c2", "c3"], ["c4"]], "")


async def test_an_allocation_tells_its_devices_and_pods() -> None:
    cluster = Cluster(n1=2)
    cluster.add_claim(claim("train", allocation=allocation_on("n1", 1), pods=["p"]))
    _, body = await ask(cluster, LIST)
    assert body["items"] == [
        {
            "namespace": "default",
            "claim": "train",
            "uid": "train",
            "state": "Allocated",
            "node": "n1",
            "devices": [
                {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}
            ],
            "pods": ["p"],
        }
    ]


async def test_reserved_and_released_devices_are_told_apart() -> None:
    cluster = Cluster(n1=3)
    for name, number in (("kept", 0), ("ending", 1)):
        cluster.add_claim(claim(name, allocation=allocation_on("n1", number), pods=[name]))
        cluster.add(pod(name, name, node="n1", phase="Succeeded" if name == "ending" else ""))
    cluster.add_claim(claim("new"))
    cluster.schedule("p", claim("new"))
    async with serving_api(cluster, nobody(), is_local=True) as served:
        _, listed, _ = await served.send(LIST)
        _, node, _ = await served.send("GET /v1/nodes/n1")
    states = {each["claim"]: each["state"] for each in listed["items"]}
    assert states == {"kept": "Allocated", "ending": "Releasing", "new": "Reserved"}
    devices = {each["name"]: each for each in node["pools"][0]["devices"]}
    counts = {
        name: (device["held"], device.get("reserved", 0), device.get("releasing", 0))
        for name, device in devices.items()
    }
    assert counts == {"gpu-0": (1, 0, 0), "gpu-1": (1, 0, 1), "gpu-2": (1, 1, 0)}
    assert [each["claim"] for each in devices["gpu-2"]["claims"]] == ["new"]


async def test_a_page_does_not_examine_the_other_claims() -> None:
    class Records(dict[str, Any]):
        def items(self) -> Any:  # noqa: ANN401
            raise AssertionError("all claims are examined")

        __iter__ = values = items

    cluster = Cluster(n1=4)
    for number, namespace in enumerate(("blue", "blue-2", "red", "blue")):
        held = allocation_on("n1", number)
        cluster.add_claim(claim(f"c{number}", allocation=held, namespace=namespace))
    ledger = cluster.state.ledger
    ledger._records = Records(ledger._records)  # noqa: SLF001  # what must not be examined
    _, answer = await ask(cluster, f"{LIST}?namespace=blue")
    _, first = await ask(cluster, f"{LIST}?limit=3")
    assert [each["claim"] for each in answer["items"]] == ["c0", "c3"]
    assert [each["claim"] for each in first["items"]] == ["c1", "c0", "c3"]


async def test_devices_that_are_kept_for_a_pod_are_counted_and_name_nobody() -> None:
    cluster = Cluster(n1=2)
    cluster.add_claim(claim("gone", allocation=allocation_on("n1", 0)))
    holds = cluster.state.ledger.claims["gone"].holds
    cluster.delete_claim("gone")
    cluster.state.ledger.keep("kept for p", holds)
    status, body = await ask(cluster, "GET /v1/nodes/n1")
    assert status == 200, body
    assert body["pools"][0]["devices"] == [
        {"name": "gpu-0", "held": 1, "reserved": 1},
        {"name": "gpu-1"},
    ]


async def test_devices_that_are_kept_for_a_preempting_pod_are_counted() -> None:
    cluster = Cluster(n1=2)
    cluster.state.ledger.keep(key_of("p"), [Hold(PoolID(DRIVER, "n1"), "gpu-1")])
    _, body = await ask(cluster, "GET /v1/nodes/n1")
    counts = [
        (device.get("held", 0), device.get("reserved", 0)) for device in body["pools"][0]["devices"]
    ]
    assert counts == [(0, 0), (1, 1)]
    assert "kept for" not in str(body)
    assert (await ask(cluster, LIST))[1]["items"] == []


async def test_a_pool_that_is_being_published_has_no_devices() -> None:
    cluster = Cluster(n1=2)
    before = gpu_slice("n1", 2)
    spare = gpu_slice("n1", 2, generation=2)
    cluster.state.apply(before, type(before)(**{**_fields(spare), "slice_count": 2}))
    _, body = await ask(cluster, "GET /v1/nodes/n1")
    assert body["pools"] == [
        {
            "driver": "gpu.example.com",
            "pool": "n1",
            "complete": False,
            "devices": [],
            "counters": [],
        }
    ]


def _fields(answer: Any) -> dict[str, Any]:  # noqa: ANN401  # a struct
    return {name: getattr(answer, name) for name in answer.__struct_fields__}


async def test_a_replica_that_is_not_ready_says_why() -> None:
    async with serving_api(Cluster(n1=1), nobody(), is_local=True) as served:
        served.problems = ["pods are not synced: no route"]
        status, body, headers = await served.send(LIST)
    assert (status, body["code"], headers["Retry-After"]) == (503, "NotReady", "1")
    assert "pods are not synced" in body["message"]


async def test_a_replica_that_does_not_lead_answers_and_says_so() -> None:
    async with serving_api(Cluster(n1=1), nobody(), is_local=True) as served:
        assert (await served.send(LIST))[1]["leading"] is True
        served.leading = False
        assert (await served.send(LIST))[1]["leading"] is False


async def test_a_bug_in_one_request_is_said_without_its_details() -> None:
    async with serving_api(Cluster(n1=1), nobody(), is_local=True) as served:
        served.cluster = None  # type: ignore[assignment]
        status, body, _ = await served.send(LIST)
    assert (status, body["code"]) == (500, "Bug")
    assert "NoneType" not in body["message"]


async def test_responses_stay_in_no_cache() -> None:
    async with serving_api(Cluster(n1=1), nobody(), is_local=True) as served:
        _, _, headers = await served.send(LIST)
    assert headers["Cache-Control"] == "no-store"


async def test_one_caller_does_not_take_all_places() -> None:
    reviews = ReviewServer(
        {"a": "a", "b": "b"}, {each: ["list resourceclaims in *"] for each in "ab"}
    )
    async with serving_api(Cluster(n1=1), reviews) as served:
        gate = _hold_access_reviews(served, of="a")
        held = [asyncio.create_task(served.send(LIST, "a")) for _ in range(8)]
        for _ in held:
            await served.waiting.acquire()
        assert (await served.send(LIST, "a"))[0] == 429
        assert (await served.send(LIST, "b"))[0] == 200
        gate.set()
        assert [(await each)[0] for each in held] == [200] * 8


def _hold_access_reviews(served: ServedApi, of: str) -> asyncio.Event:
    """Let the reviews of a user wait for an event."""
    gate, allow = asyncio.Event(), served.access.is_allowed

    async def is_allowed(caller: Any, action: Any) -> bool:  # noqa: ANN401
        if caller.name == of:
            served.waiting.release()
            await gate.wait()
        return await allow(caller, action)

    served.access.is_allowed = is_allowed  # type: ignore[method-assign]
    return gate
