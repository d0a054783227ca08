"""`simulate` and `explain` ask the API of the allocator, or say that they do not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from allocator.scheduler.protocol import SchedulingPod
from allocator.state.record_states import RecordEvent
from allocator.state.records import PodRequest
from drawbridge.process.tls import ServingCertificate
from tests.allocator.api_served import ReviewServer, ServedApi, serving_api
from tests.allocator.clusters import Cluster, allocation_on, claim, pod
from tests.cli.running import command
from tests.cluster.certificates import Authority
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio
SERVICE = "drawbridge-allocator.drawbridge-system.svc"
TOKEN = "t"  # noqa: S105  # of a fake API server
RIGHTS = ["create pods in default", "get pods in default", "list nodes in *"]
WORK = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      containers: [{name: c, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 1}}]}}}
"""


async def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
    return await asyncio.to_thread(command, *words, stdin=stdin)


def serving(cluster: Cluster, **options: Any) -> Any:  # noqa: ANN401  # an async context manager
    return serving_api(cluster, ReviewServer({TOKEN: "dev"}, {"dev": RIGHTS}), **options)


def secured(folder: Path, service: str = SERVICE) -> tuple[ServingCertificate, str]:
    """The certificate of the Service, and the file of its CA."""
    authority = Authority(folder)
    certificate = ServingCertificate(*(f"{each}" for each in authority.signed(service)))
    assert certificate.refresh()
    return certificate, f"{authority.file}"


async def test_a_simulation_is_placed_by_the_allocator_which_is_said() -> None:
    async with serving(Cluster(n1=1, n2=1), is_local=True) as served:
        url = f"http://127.0.0.1:{served.port}"
        code, out, _ = await run("simulate", "-f", "-", "--allocator-url", url, stdin=WORK)
    assert code == 1
    assert "default/train-0: on n1" in out
    assert "gpu.example.com/n2/gpu-0" in out
    assert "default/train-2: not placed" in out
    assert f"2 of 3 pods are placed.\nAllocator: that of the cluster, at {url}." in out


async def test_the_data_of_a_simulation_by_the_allocator_names_it() -> None:
    async with serving(Cluster(n1=3), is_local=True) as served:
        url = f"http://127.0.0.1:{served.port}"
        words = ("simulate", "-f", "-", "--allocator-url", url, "-o", "json")
        code, out, _ = await run(*words, stdin=WORK)
    data = json.loads(out)
    assert (code, data["allocator"], [each["node"] for each in data["pods"]]) == (
        0,
        url,
        ["n1"] * 3,
    )
    allocation = data["pods"][0]["claims"][0]["allocation"]
    assert allocation["devices"]["results"][0]["device"] == "gpu-0"


async def test_the_token_is_sent_to_the_certified_service(tmp_path: Path) -> None:
    certificate, authority = secured(tmp_path)
    async with FakeApi() as api, serving(Cluster(n1=3), certificate=certificate) as served:
        access = f"{api.kubeconfig(tmp_path / 'config', token=TOKEN)}"
        words = (
            *("simulate", "-f", "-", "--kubeconfig", access),
            *("--allocator-url", f"https://127.0.0.1:{served.port}"),
        )
        code, out, _ = await run(*words, "--allocator-ca", authority, stdin=WORK)
        assert (code, "3 of 3 pods are placed." in out) == (0, True), out
        reviewed = served.reviews.bodies[0]["spec"]["token"]
        unknown, out, _ = await run(*words, stdin=WORK)
    assert reviewed == TOKEN
    # Without the CA, nothing is sent.
    assert (unknown, "certificate" in out, served.reviews.count("TokenReview")) == (2, True, 1)


async def test_the_certificate_has_the_namespace_of_the_installation(tmp_path: Path) -> None:
    certificate, authority = secured(tmp_path, "drawbridge-allocator.devices.svc")
    async with FakeApi() as api, serving(Cluster(n1=3), certificate=certificate) as served:
        words = (
            *("simulate", "-f", "-", "--allocator-ca", authority),
            *("--kubeconfig", f"{api.kubeconfig(tmp_path / 'config', token=TOKEN)}"),
            *("--allocator-url", f"https://127.0.0.1:{served.port}"),
        )
        unknown, _, _ = await run(*words, stdin=WORK)
        api.put(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "drawbridge"},
                "webhooks": [{"clientConfig": {"service": {"namespace": "devices"}}}],
            }
        )
        code, out, _ = await run(*words, stdin=WORK)
    assert (unknown, code) == (2, 0), out


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://allocator.example.com", "http:// would send your token unencrypted"),
        ("ftp://127.0.0.1", "the URL must start with https://"),
        ("https://", "the URL must start with https://"),
        ("http://127.0.0.1:1", "cannot connect"),
    ],
)
async def test_a_simulation_without_an_answer_fails(url: str, text: str) -> None:
    code, out, _ = await run("simulate", "-f", "-", "--allocator-url", url, stdin=WORK)
    assert (code, "[AllocatorNotAsked]" in out) == (2, True)
    assert text in out


async def test_the_allocator_says_why_it_refuses(tmp_path: Path) -> None:
    certificate, authority = secured(tmp_path)
    async with FakeApi() as api, serving(Cluster(n1=1), certificate=certificate) as served:
        served.reviews.rights.clear()
        code, out, _ = await run(
            *("simulate", "-f", "-", "--allocator-url", f"https://127.0.0.1:{served.port}"),
            *("--kubeconfig", f"{api.kubeconfig(tmp_path / 'config', token=TOKEN)}"),
            *("--allocator-ca", authority),
            stdin=WORK,
        )
    assert (code, "dev may not create pods in namespace default" in out) == (2, True), out


# --- explain ---


def waiting(served: ServedApi) -> dict[str, Any]:
    """Add a pod that waits for devices which are held; return it as the API server has it."""
    cluster = served.cluster
    cluster.add_claim(claim("held", allocation=allocation_on("n1", 0), pods=["other"]))
    cluster.add_claim(claim("new"))
    served.add_pod(pod("p", "new"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "drawbridge",
            "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "new", "resourceClaimName": "new"}],
        },
    }


async def explained(folder: Path, *words: str, served: ServedApi) -> tuple[int, str, str]:
    """Explain a pod that waits for devices which are held."""
    plain = waiting(served)
    async with FakeApi() as api:
        api.put(plain)
        access = f"{api.kubeconfig(folder / 'config', token=TOKEN)}"
        return await run("explain", "p", "-n", "default", "--kubeconfig", access, *words)


async def test_explain_shows_what_the_allocator_says_about_a_waiting_pod(tmp_path: Path) -> None:
    async with serving(Cluster(n1=1), is_local=True) as served:
        url = f"http://127.0.0.1:{served.port}"
        code, out, _ = await explained(tmp_path, "--allocator-url", url, served=served)
        _, data, _ = await explained(tmp_path, "--allocator-url", url, "-o", "json", served=served)
    assert code == 1
    assert "  allocator: Waiting\n    1 node: " in out
    assert "\n    n1: " in out
    assert json.loads(data)["allocator"]["nodes"][0]["node"] == "n1"


async def test_explain_shows_what_happened_to_a_waiting_pod_in_the_allocator(
    tmp_path: Path,
) -> None:
    async with serving(Cluster(n1=1), is_local=True) as served:
        records, times = served.cluster.state.records, iter((100.0, 142.3))
        records.clock = lambda: next(times)
        asked = PodRequest(SchedulingPod(namespace="default", name="p", uid="p"), ())
        records.change("p", RecordEvent.ASKED, namespace="default", request=asked)
        url = f"http://127.0.0.1:{served.port}"
        _, out, _ = await explained(tmp_path, "--allocator-url", url, served=served)
    assert "\n    42 s ago: the pod is asked about (seen)\n" in out


async def test_explain_says_that_the_allocator_was_not_asked(tmp_path: Path) -> None:
    async with serving(Cluster(n1=1), is_local=True) as served:
        code, out, err = await explained(tmp_path, served=served)
        url = "http://127.0.0.1:1"
        silent = await explained(tmp_path, "--allocator-url", url, served=served)
    missing = "allocator: not asked: drawbridge-system/drawbridge-allocator: the Service does not"
    assert (code, missing in out, err) == (1, True, "")
    assert (silent[0], "[AllocatorNotAsked]" in silent[2]) == (1, True)
    assert "p: Pending" in silent[1]
