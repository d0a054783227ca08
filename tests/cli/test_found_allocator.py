"""`explain` and `simulate` find the allocator of a live cluster and ask it, or say why not."""

import asyncio
import base64
import contextlib
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cli.simulation import input as simulated
from drawbridge.ledger.replicas import number_pod
from drawbridge.process.tls import ServingCertificate
from tests.allocator.api_served import ServedApi
from tests.allocator.clusters import Cluster
from tests.cli.test_allocator_api import SERVICE, TOKEN, WORK, run, secured, serving, waiting
from tests.cluster.certificates import Authority
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio
POD = "drawbridge-scheduler-0"
NAMESPACE = "drawbridge-system"


def publish(api: FakeApi, served: ServedApi, authority: str) -> None:
    """Make the Service, its pod and the registration that has its CA."""
    bundle = base64.b64encode(Path(authority).read_bytes()).decode()
    service = {"name": "drawbridge-webhook", "namespace": NAMESPACE}
    api.put(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "drawbridge"},
            "webhooks": [{"clientConfig": {"caBundle": bundle, "service": service}}],
        }
    )
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": NAMESPACE}})
    api.put(endpoint_slice())
    api.forwards[POD, 9443] = served.port


def endpoint_slice() -> dict[str, Any]:
    """The pod behind endpoints that cannot answer."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "drawbridge-allocator-x",
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": "drawbridge-allocator"},
        },
        "endpoints": [
            {"conditions": {"ready": False}, "targetRef": {"kind": "Pod", "name": "a"}},
            {"conditions": {"ready": True}, "targetRef": {"kind": "Node", "name": "b"}},
            {"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": POD}},
        ],
        "ports": [{"name": "api", "port": 9443}, {"name": "metrics", "port": 1}],
    }


@contextlib.asynccontextmanager
async def published(folder: Path) -> AsyncIterator[tuple[FakeApi, ServedApi]]:
    """Serve a cluster with an allocator, in which a pod waits for it."""
    certificate, authority = secured(folder)
    async with FakeApi() as api, serving(Cluster(n1=1), certificate=certificate) as served:
        api.put(waiting(served))
        publish(api, served, authority)
        yield api, served


async def ask(api: FakeApi, folder: Path, *words: str, **user: str) -> tuple[int, str, str]:
    """Explain the pod that waits."""
    access = f"{api.kubeconfig(folder / 'config', **(user or {'token': TOKEN}))}"
    return await run("explain", "p", "-n", "default", "--kubeconfig", access, *words)


async def test_explain_asks_the_allocator_of_the_cluster(tmp_path: Path) -> None:
    async with published(tmp_path) as (api, served):
        code, out, err = await ask(api, tmp_path)
        _, data, _ = await ask(api, tmp_path, "-o", "json")
    assert (code, err) == (1, "")
    assert "  allocator: Waiting\n    1 node: " in out
    assert "\n    n1: " in out
    assert json.loads(data)["allocator"]["nodes"][0]["node"] == "n1"
    assert served.reviews.bodies[0]["spec"]["token"] == TOKEN


@pytest.mark.parametrize(
    ("holder", "readable", "asked"),
    [
        ("drawbridge-scheduler-1_8f3a", True, "drawbridge-scheduler-1"),
        (f"{POD}_8f3a", True, POD),
        ("gone_8f3a", True, POD),
        ("", True, POD),
        ("drawbridge-scheduler-1_8f3a", False, POD),
    ],
)
async def test_the_replica_that_leads_is_asked(
    tmp_path: Path, holder: str, asked: str, *, readable: bool
) -> None:
    async with published(tmp_path) as (api, served):
        add_replica(api, served, holder)
        if not readable:
            forbid("leases")(api, served)
        code, out, _ = await ask(api, tmp_path)
        assert (code, "  allocator: Waiting" in out) == (1, True), out
        assert api.asked("GET", f"pods/{asked}/portforward")


def add_replica(api: FakeApi, served: ServedApi, holder: str) -> None:
    """Add a second allocator, and the Lease of the kube-scheduler."""
    other = "drawbridge-scheduler-1"
    metadata = {"name": other, "namespace": NAMESPACE}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    (endpoint_slice,) = api.all("endpointslices")
    target = {"kind": "Pod", "name": other}
    endpoint_slice["endpoints"].insert(0, {"conditions": {"ready": True}, "targetRef": target})
    api.put(endpoint_slice)
    api.forwards[other, 9443] = served.port
    lease = {"name": "drawbridge-scheduler", "namespace": NAMESPACE}
    api.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": lease,
            "spec": {"holderIdentity": holder} if holder else {},
        }
    )


async def test_a_client_certificate_is_shown_where_there_is_no_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = ServingCertificate(
        *(f"{each}" for each in authority.signed(SERVICE)),
        f"{authority.file}",
        ssl.VerifyMode.CERT_OPTIONAL,
    )
    assert certificate.refresh()
    public, private = authority.signed("dev")
    user = {"client-certificate": f"{public}", "client-key": f"{private}"}
    async with (
        FakeApi(tls=authority.server()) as api,
        serving(Cluster(n1=1), certificate=certificate) as served,
    ):
        api.put(waiting(served))
        publish(api, served, f"{authority.file}")
        access = api.kubeconfig(tmp_path / "config", **user)
        content = json.loads(access.read_text())
        content["clusters"][0]["cluster"]["certificate-authority"] = f"{authority.file}"
        access.write_text(json.dumps(content))
        words = ("explain", "p", "-n", "default", "--kubeconfig", f"{access}")
        # The event loop of the command ends while its TLS connections are closing. In a process
        # of its own they end with it; in this one, each would be a ResourceWarning.
        start = "from cli.main import main; main()"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", start, *words, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        assert "  allocator: Waiting" in out.decode()
        assert served.reviews.count("TokenReview") == 0
        assert served.reviews.bodies[-1]["spec"]["user"] == "dev"


async def test_explain_does_not_ask_about_a_pod_that_is_placed(tmp_path: Path) -> None:
    async with published(tmp_path) as (api, _):
        api.put(placed())
        access = f"{api.kubeconfig(tmp_path / 'config', token=TOKEN)}"
        code, out, _ = await run("explain", "done", "-n", "default", "--kubeconfig", access)
        assert (code, "allocator" in out) == (0, False), out
        assert not api.asked("GET", "portforward")


def placed() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "done", "namespace": "default"},
        "spec": {
            "schedulerName": "drawbridge",
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "x"}],
        },
        "status": {"phase": "Running"},
    }


def forbid(part: str) -> Callable[[FakeApi, ServedApi], None]:
    return lambda api, _: api.fail(403, part=part, message=f"jane may not get {part}", times=9)


def lose(api: FakeApi, _: ServedApi) -> None:
    api.forwarded_bytes = 100


def refuse(_: FakeApi, served: ServedApi) -> None:
    served.reviews.rights.clear()


def take_pod(api: FakeApi, _: ServedApi) -> None:
    api.remove("pods", POD, NAMESPACE)


def close_port(api: FakeApi, _: ServedApi) -> None:
    api.forwards.clear()


def make_unready(api: FakeApi, _: ServedApi) -> None:
    (endpoint_slice,) = api.all("endpointslices")
    endpoint_slice["endpoints"][2]["conditions"]["ready"] = False
    api.put(endpoint_slice)


def change_ca(api: FakeApi, _: ServedApi) -> None:
    (webhooks,) = api.all("mutatingwebhookconfigurations")
    del webhooks["webhooks"][0]["clientConfig"]["caBundle"]
    api.put(webhooks)


@pytest.mark.parametrize(
    ("trouble", "user", "reason"),
    [
        (forbid("endpointslices"), {}, "jane may not get endpointslices"),
        (forbid("portforward"), {}, "jane may not get portforward"),
        (forbid("mutatingwebhookconfigurations"), {}, "is not trusted"),
        (change_ca, {}, "is not trusted"),
        (take_pod, {}, f'pods "{POD}" not found'),
        (make_unready, {}, "or no endpoint of it is ready"),
        (close_port, {}, "port 9443: connection refused"),
        (lose, {}, "port 9443: the connection ended"),
        (refuse, {}, "dev may not get pods in namespace default"),
        (None, {"username": "x"}, "the kubeconfig has no token and no client certificate"),
        (None, {"token": TOKEN, "as": "y"}, "the kubeconfig impersonates a user"),
        (None, {"token": "unknown"}, "does not accept the bearer token"),
    ],
)
async def test_explain_says_why_the_allocator_was_not_asked(
    tmp_path: Path,
    trouble: Callable[[FakeApi, ServedApi], None] | None,
    user: dict[str, str],
    reason: str,
) -> None:
    async with published(tmp_path) as (api, served):
        if trouble is not None:
            trouble(api, served)
        code, out, err = await ask(api, tmp_path, **user)
        _, data, _ = await ask(api, tmp_path, "-o", "json", **user)
    (line,) = [each for each in out.splitlines() if each.startswith("  allocator:")]
    assert (code, err) == (1, "")
    assert line.startswith("  allocator: not asked: ")
    assert reason in line, line
    assert "p: Pending" in out
    assert reason in json.loads(data)["allocatorNotAsked"]


# --- simulate ---

OURS = WORK.replace("    spec:\n", "    spec:\n      schedulerName: drawbridge\n", 1)


BRIDGE = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools: [{driver: gpu.example.com, nodeSelector: {matchLabels: {pool: bridge}}}]
"""


def make_bridge(api: FakeApi) -> None:
    """Let the cluster have bridge placement, a node and more claims than the API takes."""
    api.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "drawbridge-config", "namespace": NAMESPACE},
            "data": {"config.yaml": BRIDGE},
        }
    )
    labels = {"pool": "bridge"}
    api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}})
    held = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": held}
    for number in range(201):
        api.put({**claim, "metadata": {"name": f"held-{number}", "namespace": "default"}})


@contextlib.asynccontextmanager
async def bridged(folder: Path) -> AsyncIterator[tuple[FakeApi, ServedApi]]:
    """Serve a cluster with bridge placement and an allocator that has two devices."""
    certificate, authority = secured(folder)
    async with FakeApi() as api, serving(Cluster(n1=2), certificate=certificate) as served:
        publish(api, served, authority)
        make_bridge(api)
        yield api, served


async def simulate(
    api: FakeApi, folder: Path, *words: str, stdin: str = OURS
) -> tuple[int, str, str]:
    access = f"{api.kubeconfig(folder / 'config', token=TOKEN)}"
    return await run(
        "simulate", "-f", "-", "--context", "--kubeconfig", access, *words, stdin=stdin
    )


async def test_a_simulation_in_a_live_cluster_is_placed_by_its_allocator(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (api, _):
        code, out, err = await simulate(api, tmp_path)
        _, data, _ = await simulate(api, tmp_path, "-o", "json")
    assert (code, err) == (1, ""), out
    assert "default/train-1: on n1" in out
    place = f"pod {NAMESPACE}/{POD}"
    assert f"2 of 3 pods are placed.\nAllocator: that of the cluster, at {place}." in out
    assert json.loads(data)["allocator"] == place


@pytest.mark.parametrize(
    ("trouble", "words", "stdin", "reason"),
    [
        (forbid("portforward"), (), OURS, "jane may not get portforward"),
        (refuse, (), OURS, "dev may not create pods in namespace default"),
        (None, ("--allocator", "drawbridge"), OURS, "its API has no equivalent of --allocator"),
        (None, ("--node", "n1"), OURS, "its API has no equivalent of --node"),
        (None, ("--preempt",), OURS, "its API has no equivalent of --preempt"),
        (None, (), OURS.replace(": 3", ": 101"), "takes 1 to 100 pods"),
        (None, (), OURS.replace("drawbridge", "volcano"), "other schedulers place some"),
    ],
)
async def test_a_simulation_that_the_allocator_does_not_do_is_computed_here(
    tmp_path: Path,
    trouble: Callable[[FakeApi, ServedApi], None] | None,
    words: tuple[str, ...],
    stdin: str,
    reason: str,
) -> None:
    async with bridged(tmp_path) as (api, served):
        if trouble is not None:
            trouble(api, served)
        code, out, _ = await simulate(api, tmp_path, *words, stdin=stdin)
        _, data, _ = await simulate(api, tmp_path, *words, "-o", "json", stdin=stdin)
    (line,) = [each for each in out.splitlines() if "was not asked" in each]
    assert (code, reason in line) == (1, True), out
    assert reason in json.loads(data)["allocatorNotAsked"]
    assert "default/train" in out


async def test_no_more_pods_are_listed_than_the_allocator_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, stdin = list[int](), OURS.replace(": 3", ": 1000")
    monkeypatch.setattr(
        simulated, "number_pod", lambda pod, n: listed.append(n) or number_pod(pod, n)
    )
    async with bridged(tmp_path) as (api, _):
        _, out, _ = await simulate(api, tmp_path, stdin=stdin)
    assert "its API takes 1 to 100 pods, and the input has 1,000" in out
    assert not listed
    async with serving(Cluster(n1=2), is_local=True) as served:
        url = f"http://127.0.0.1:{served.port}"
        _, out, err = await run("simulate", "-f", "-", "--allocator-url", url, stdin=stdin)
    assert "2 of 100 pods are placed." in out
    assert "the allocator is asked about 100 of 1,000 pods" in out + err
    assert listed == [*range(100)]


async def test_a_simulation_with_native_placement_does_not_ask(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (api, _):
        api.remove("configmaps", "drawbridge-config", NAMESPACE)
        _, out, _ = await simulate(api, tmp_path)
        assert "asked" not in out
        assert not api.asked("GET", "portforward")
