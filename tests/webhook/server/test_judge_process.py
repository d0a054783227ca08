"""The judge process, from start to stop, against a fake API server."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.cluster.fake.api import FakeApi
from tests.process.http_client import Response, request
from tests.webhook.judging.harness import review
from tests.webhook.server.processes import Process, webhook
from tests.webhook.server.test_cluster_view import FIRST, namespace, published

LONG = 60
DRA = "resource.k8s.io/v1"
Json = dict[str, Any]


def template(name: str, *, wrong: bool) -> Json:
    parameters: Json = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    if wrong:
        parameters["shared"] = True
    devices = {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
        "config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}],
    }
    metadata = {"name": name, "namespace": "a"}
    spec = {"spec": {"devices": devices}}
    return {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def review_pod(name: str) -> bytes:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}
    return review(
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {**spec, "containers": []}},
        namespace="a",
    )


async def send(process: Process, body: bytes, kind: str = "pods") -> Response:
    return await process.send(request(path=f"/judge/{kind}?timeout=5s", body=body))


async def check_readiness(api: FakeApi, process: Process) -> None:
    """The process is ready once it has loaded the facts."""
    waiting = await process.wait_until_only_facts_are_missing()
    assert waiting.status == 503
    early = await send(process, review_pod("good"))
    assert (early.status, early.headers["retry-after"]) == (503, "1")
    api.put(published(FIRST))
    await process.wait_for_readyz(lambda answer: answer.status == 200)


async def check_judgements(api: FakeApi, process: Process) -> None:
    """Reviews follow the templates of the cluster, and are counted."""
    refused = (await send(process, review_pod("wrong"))).json()["response"]
    assert refused["allowed"] is False
    assert refused["status"]["message"].startswith("ConfigInvalid: spec.spec.devices.config[0].")
    accepted = await send(process, review_pod("good"))
    assert accepted.json()["response"] == {"uid": "u-1", "allowed": True}
    api.remove("resourceclaimtemplates", "good", "a")
    api.put(template("good", wrong=True))
    while (await send(process, review_pod("good"))).json()["response"]["allowed"]:  # noqa: ASYNC110
        await asyncio.sleep(0)
    claim = {**template("c", wrong=True), "kind": "ResourceClaim"}
    claim["spec"] = claim["spec"]["spec"]
    direct = await send(process, review(claim, namespace="a"), "claims")
    assert direct.json()["response"]["allowed"] is False
    text = (await process.get("metrics", "/metrics")).body.decode()
    assert 'drawbridge_findings_total{code="ConfigInvalid"}' in text
    assert 'drawbridge_cache_synced{resource="resourceslices"} 1.0' in text
    denied = 'outcome="denied",webhook="judge-claims"} 1.0'
    assert denied in text


async def check_shutdown(process: Process) -> None:
    process.running.send_signal(signal.SIGTERM)
    await process.wait_for_line("stopping")
    late = await send(process, review_pod("wrong"))
    assert (late.status, late.headers["connection"]) == (200, "close")
    process.running.send_signal(signal.SIGTERM)
    assert await process.running.wait() == 128 + signal.SIGTERM


def test_a_process_from_start_to_stop(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(namespace("a", **{"drawbridge.dev/translate": "enforce"}))
            api.put(template("wrong", wrong=True))
            api.put(template("good", wrong=False))
            api.put({**CLASS, "metadata": {"name": "gpu.nvidia.com"}, "spec": {}})
            kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
            async with webhook(tmp_path, kubeconfig, "--drain=60", command="judge") as process:
                await check_readiness(api, process)
                await check_judgements(api, process)
                await check_shutdown(process)

    asyncio.run(asyncio.wait_for(play(), LONG))


MEMORY = 'device.capacity["d.io"].memory.compareTo(quantity("{}")) >= 0'
CLASS = {
    "apiVersion": DRA,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "d.io"'}}]},
}


def make_slice(name: str, memory: str, slices: int = 1) -> Json:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": slices}
    devices = [{"name": f"{name}-0", "capacity": {"memory": {"value": memory}}}]
    spec = {"driver": "d.io", "nodeName": "node-1", "pool": pool, "devices": devices}
    return {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


async def judge_claim(process: Process, memory: str) -> Json:
    """Review a claim for a device with this much memory; return the response."""
    selectors = [{"cel": {"expression": MEMORY.format(memory)}}]
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    claim = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    answer = await send(process, review(claim, namespace="a"), "claims")
    response: Json = answer.json()["response"]
    return response


async def wait_until_judged(process: Process, memory: str, *, allowed: bool) -> Json:
    """Review a claim until the watches show the change."""
    while (response := await judge_claim(process, memory))["allowed"] is not allowed:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return response


def test_claims_are_judged_by_the_devices_that_the_watches_show(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(namespace("a", **{"drawbridge.dev/translate": "enforce"}))
            api.put(published(FIRST))
            for value in (CLASS, make_slice("first", "40Gi")):
                api.put(value)
            kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
            async with webhook(tmp_path, kubeconfig, "--settle=0", command="judge") as process:
                await process.wait_for_readyz(lambda answer: answer.status == 200)
                refused = await wait_until_judged(process, "96Gi", allowed=False)
                nearest = "the largest gpu device has 40Gi of memory, 96Gi requested"
                assert nearest in refused["status"]["message"]
                assert (await judge_claim(process, "40Gi"))["allowed"]
                # The driver publishes a pool of two slices in two steps.
                api.put(make_slice("first", "40Gi", 2))
                warned = await wait_until_judged(process, "96Gi", allowed=True)
                assert warned["warnings"][0].startswith("ClassWithoutDevices: ")
                api.put(make_slice("second", "80Gi", 2))
                refused = await wait_until_judged(process, "96Gi", allowed=False)
                assert nearest.replace("40Gi", "80Gi") in refused["status"]["message"]
                assert (await judge_claim(process, "80Gi"))["allowed"]

    asyncio.run(asyncio.wait_for(play(), LONG))
