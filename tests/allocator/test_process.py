"""The allocator process, from start to stop, against a fake API server."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from allocator.scheduler.protocol import HEADER, VERSION_TEXT
from drawbridge.agreement.device_fence import BINDING_SPEC, policy_spec
from drawbridge.agreement.published_facts import build_data_key
from drawbridge.dra.inventory import PoolID
from drawbridge.facts import serialized
from drawbridge.facts.model import Cluster, Facts
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import accept

ROOT = Path(__file__).parents[2]
SYSTEM, HOST = "drawbridge-system", "host-a"
# Starting the process can take half a minute on a busy machine.
LONG = 300
DRA = "resource.k8s.io/v1"
MARK = "drawbridge.dev/allocation"
Json = dict[str, Any]
CONFIGURATION = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools:
  - driver: d.io
    nodeSelector: {matchLabels: {pool: bridge}}
"""
BY_RULES = f"{CONFIGURATION}    fence: rules\n"


class Rig:
    """A fake API server, and a client on the socket of the process."""

    def __init__(self, api: FakeApi, folder: Path) -> None:
        self.api = api
        self.folder = folder
        self.socket = folder / "allocator.sock"
        self.renewals = 0
        self.running: asyncio.subprocess.Process | None = None

    async def renew(self, holder: str = f"{HOST}_1", transitions: int = 1) -> None:
        """Renew the Lease of the scheduler until cancelled."""
        while True:
            self.renewals += 1
            spec = {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "leaseTransitions": transitions,
                "renewTime": f"2026-01-01T00:00:00.{self.renewals:06}Z",
            }
            metadata = {"name": "drawbridge-scheduler", "namespace": SYSTEM}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            self.api.put({**lease, "metadata": metadata, "spec": spec})
            await asyncio.sleep(0.3)

    async def call(self, path: str, **body: object) -> tuple[int, Any]:
        """Call the allocator."""
        connector = aiohttp.UnixConnector(str(self.socket))
        async with aiohttp.ClientSession(
            connector=connector, headers={HEADER: VERSION_TEXT}
        ) as client:
            method = "POST" if body else "GET"
            url = f"http://allocator/v1/{path}"
            async with client.request(method, url, json=body or None) as response:
                return response.status, await response.json()

    @contextlib.asynccontextmanager
    async def events(self) -> AsyncIterator[aiohttp.StreamReader]:
        """Open the stream of events as soon as the process listens."""
        await self.status(lambda _: True)
        connector = aiohttp.UnixConnector(str(self.socket))
        async with (
            aiohttp.ClientSession(connector=connector, headers={HEADER: VERSION_TEXT}) as client,
            client.get("http://allocator/v1/events") as response,
        ):
            yield response.content

    async def status(self, is_expected: Callable[[Json], bool]) -> Json:
        """Wait for a status."""
        while True:
            assert self.running is None or self.running.returncode is None, "the process has ended"
            with contextlib.suppress(aiohttp.ClientConnectorError):
                status: Json = (await self.call("status"))[1]
                if is_expected(status):
                    return status
            await asyncio.sleep(0.02)

    async def until(self, question: Callable[[], object]) -> None:
        """Wait until the API server has something."""
        while not question():  # noqa: ASYNC110  # the process runs elsewhere
            await asyncio.sleep(0.02)

    def claim(self, name: str) -> Json:
        """Return a claim as stored."""
        stored = self.api.get("resourceclaims", name, "a")
        assert stored is not None
        return stored

    def add_pod(self, name: str, *, count: int = 1) -> Json:
        """Create a pod with a claim of its own name; returns the request of its prefilter."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
        claim = self.api.put(
            {
                "apiVersion": DRA,
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "a"},
                "spec": {"devices": {"requests": [request]}},
            }
        )
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}], "containers": []}
        metadata = {"name": name, "namespace": "a"}
        pod = self.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        fence = {"key": "drawbridge.dev/owned", "operator": "Exists"}
        identity = {"namespace": "a", "name": name, "uid": pod["metadata"]["uid"]}
        return {"pod": {**identity, "tolerations": [fence]}, "claims": [claim], "maxNodes": 20}

    async def ask(self, request: Json) -> Json:
        """Ask for nodes until the search has ended; on a busy machine it takes several calls."""
        while True:
            _, reply = await self.call("prefilter", **request)
            answer: Json = reply
            if answer["fit"] or answer["complete"]:
                return answer

    async def schedule(self, request: Json) -> Json:
        """Ask, reserve and bind, as the plugin does; returns the reply to bind."""
        uid = request["pod"]["uid"]
        reply = await self.ask(request)
        assert reply["fit"], reply
        node = reply["fit"][0]["node"]
        assert (await self.call("reserve", podUID=uid, node=node))[1]["reserved"]
        bound: Json = (await self.call("bind", podUID=uid, node=node))[1]
        return bound


def objects() -> list[Json]:
    """Two GPUs on one owned node."""
    facts = Facts(cluster=Cluster(version="1.36"))
    digest = serialized.facts_hash(facts)
    data = {build_data_key(digest): serialized.encode_facts(facts).decode(), "current": digest}
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    spec = {"driver": "d.io", "nodeName": "node-1", "pool": pool, "devices": devices}
    expression = 'device.driver == "d.io"'
    node = {"name": "node-1", "labels": {"pool": "bridge"}}
    config_map = {"name": "drawbridge-facts", "namespace": SYSTEM}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": config_map, "data": data},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": node, "spec": {}},
        {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        {
            "apiVersion": DRA,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        },
    ]


@contextlib.asynccontextmanager
async def process(
    rig: Rig, *options: str, configuration: str = CONFIGURATION
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the process until the context exits."""
    rig.api.put(accept(configuration))
    kubeconfig = rig.api.kubeconfig(rig.folder / "kubeconfig")
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "cli.main", "serve", "allocator", f"--namespace={SYSTEM}", f"--host={HOST}"),
        *(f"--socket={rig.socket}", "--config-map", f"--kubeconfig={kubeconfig}"),
        *("--health=127.0.0.1:0", "--metrics=127.0.0.1:0", *options),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    rig.running = running
    try:
        yield running
    finally:
        rig.running = None
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
        _, log = await running.communicate()
        print(log.decode())  # noqa: T201  # of a failed test


@contextlib.asynccontextmanager
async def renewing(rig: Rig, holder: str = f"{HOST}_1", number: int = 1) -> AsyncIterator[None]:
    """Renew the Lease until the context exits."""
    task = asyncio.create_task(rig.renew(holder, number))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def play(folder: Path, story: Callable[[Rig], Any]) -> None:
    """Run a story against a fake API server with the objects."""

    async def run() -> None:
        async with FakeApi() as api:
            for obj in objects():
                api.put(obj)
            await story(Rig(api, folder))

    asyncio.run(asyncio.wait_for(run(), LONG))


def fence(rig: Rig) -> None:
    """Taint the node, and say that the taint has settled, as the controller does."""
    node = rig.api.get("nodes", "node-1")
    assert node is not None
    added = "2026-11-20T10:00:00Z"
    taint = {"key": "drawbridge.dev/owned", "effect": "NoSchedule", "timeAdded": added}
    node["metadata"]["annotations"] = {"drawbridge.dev/fence-settled": added}
    rig.api.put({**node, "spec": {"taints": [taint]}})


async def _from_start_to_stop(rig: Rig) -> None:
    request = rig.add_pod("first")
    async with process(rig, "--api=127.0.0.1:0") as running:
        assert running.stderr is not None
        while b'"api"' not in (line := await running.stderr.readline()):
            pass
        missing = await rig.status(lambda each: "taint" in "".join(each["reasons"]))
        assert not missing["ready"]
        assert (await rig.call("prefilter", **request))[0] == 503
        fence(rig)
        follower = await rig.status(lambda each: each["ready"])
        assert not follower["leading"]
        assert (await rig.call("prefilter", **request))[0] == 409
        async with renewing(rig):
            await rig.status(lambda each: each["leading"])
            # The process has seen the node without the taint, so what the node says does not count.
            assert not (await rig.ask(request))["fit"]
            while not (await rig.ask(request))["fit"]:  # the process runs elsewhere
                pass
            assert await rig.schedule(request) == {"bound": True, "message": ""}
            await _check_api(f"http://{json.loads(line)['address']}")
        running.send_signal(signal.SIGTERM)
        assert await running.wait() == 0
    claim, pod = rig.claim("first"), rig.api.get("pods", "first", "a")
    assert pod is not None
    assert pod["spec"]["nodeName"] == "node-1"
    assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert json.loads(claim["metadata"]["annotations"][MARK])["allocator"] == "drawbridge"
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert not rig.socket.exists()


async def _check_api(url: str) -> None:
    async with aiohttp.ClientSession(url) as client:
        async with client.get("/v1/allocations") as response:
            (item,) = (await response.json())["items"]
        async with client.get("/v1/nodes/node-1") as response:
            node = await response.json()
    assert (item["claim"], item["node"], len(item["devices"])) == ("first", "node-1", 1)
    assert [each.get("held", 0) for each in node["pools"][0]["devices"]] == [1, 0]
    assert node["leading"]


def test_a_process_binds_pods_only_with_the_fence_and_the_lease_and_tells_others(
    tmp_path: Path,
) -> None:
    play(tmp_path, _from_start_to_stop)


async def _with_and_without_its_plugin(rig: Rig) -> None:
    fence(rig)
    async with process(rig) as running:
        assert running.stderr is not None
        while b'"health"' not in (line := await running.stderr.readline()):
            pass
        url = f"http://{json.loads(line)['address']}/readyz"
        await rig.status(lambda each: each["ready"])
        await _until_readiness(url, 503, "no scheduler plugin")
        async with rig.events() as events:
            await _until_readiness(url, 200, "")
            assert await events.readline()
        await _until_readiness(url, 503, "no scheduler plugin")


async def _until_readiness(url: str, status: int, text: str) -> None:
    async with aiohttp.ClientSession() as client:
        while True:
            async with client.get(url) as response:
                if response.status == status and text in await response.text():
                    return
            await asyncio.sleep(0.02)


def test_a_process_is_ready_while_a_plugin_that_accepts_it_is_connected(tmp_path: Path) -> None:
    play(tmp_path, _with_and_without_its_plugin)


async def _after_a_crash(rig: Rig) -> None:
    fence(rig)
    first, second = rig.add_pod("first"), rig.add_pod("second", count=2)
    marked = rig.claim("second")
    marked["metadata"] |= {"annotations": {MARK: "{}"}, "finalizers": ["x"]}
    rig.api.put(marked)
    async with process(rig), renewing(rig):
        await rig.status(lambda each: each["leading"])
        await rig.until(lambda: MARK not in rig.claim("second")["metadata"].get("annotations", {}))
        assert (await rig.schedule(first))["bound"]
    async with process(rig), renewing(rig, f"{HOST}_2", 2):
        await rig.status(lambda each: each["leading"])
        # The allocation of the earlier process is known: one GPU of two is left.
        second["claims"] = [rig.claim("second")]
        assert not (await rig.ask(second))["fit"]
        assert (await rig.schedule(rig.add_pod("third")))["bound"]


def test_a_process_that_was_killed_leaves_nothing_half_written(tmp_path: Path) -> None:
    play(tmp_path, _after_a_crash)


async def _of_a_new_configuration(rig: Rig) -> None:
    fence(rig)
    both = rig.add_pod("both", count=2)
    waiting = rig.add_pod("waiting", count=3)
    async with process(rig), renewing(rig), rig.events() as events:
        assert await events.readline() == b'{"activateAll":true}\n'
        await rig.status(lambda each: each["leading"])
        while b"activateAll" not in await events.readline():
            pass  # heartbeats, until this process leads
        assert not (await rig.ask(waiting))["fit"]
        rig.api.put(accept(CONFIGURATION + "unsetGroups: all\n"))
        # The pod that waits is forgotten, so the scheduler tries every pod again.
        while b"activateAll" not in await events.readline():
            pass
        assert (await rig.schedule(both))["bound"]
        await _add_rival(rig, "both")


async def _add_rival(rig: Rig, name: str) -> None:
    """Allocate the devices of a claim to another one; wait for the event."""
    rig.add_pod("rival")
    rival = rig.claim("rival")
    rival["status"] = {"allocation": rig.claim(name)["status"]["allocation"]}
    rig.api.put(rival)
    await rig.until(lambda: rig.api.all("events", "a"))
    event, *_ = rig.api.all("events", "a")
    assert event["reason"] == "DeviceHeldTwice"
    assert f"held by a/{name} and a/rival" in event["note"]


def test_a_process_acts_on_a_new_configuration_and_on_a_double_allocation(tmp_path: Path) -> None:
    play(tmp_path, _of_a_new_configuration)


QUOTAS = """\
quotas:
  - name: small
    namespaceSelector: {matchLabels: {team: a}}
    total: {gpu: {devices: 1}}
"""


def _label(rig: Rig, **labels: str) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    rig.api.put({**namespace, "metadata": {"name": "a", "labels": labels}})


async def _of_quotas(rig: Rig) -> None:
    fence(rig)
    _label(rig, team="a")
    first, second = rig.add_pod("first"), rig.add_pod("second")
    async with process(rig, configuration=CONFIGURATION + QUOTAS), renewing(rig):
        await rig.status(lambda each: each["leading"])
        assert (await rig.schedule(first))["bound"]
        refused = await rig.ask(second)
        assert [each["code"] for each in refused["reasons"]] == ["DeviceQuotaUsedUp"]
        _label(rig, team="b")
        while not (await rig.ask(second))["fit"]:  # noqa: ASYNC110  # the process runs elsewhere
            await asyncio.sleep(0.02)


def test_a_process_follows_the_namespaces_that_quotas_select(tmp_path: Path) -> None:
    play(tmp_path, _of_quotas)


async def _of_a_lost_taint(rig: Rig) -> None:
    fence(rig)
    request = rig.add_pod("first")

    async def fitting(is_expected: Callable[[list[Json]], bool]) -> None:
        while not is_expected((await rig.call("prefilter", **request))[1]["fit"]):  # noqa: ASYNC110  # the process runs elsewhere
            await asyncio.sleep(0.02)

    async with process(rig):
        async with renewing(rig):
            await rig.status(lambda each: each["leading"])
            await fitting(bool)
            node = rig.api.get("nodes", "node-1")
            assert node is not None
            rig.api.put({**node, "spec": {}})
            await fitting(lambda fit: not fit)
            # The pools of other nodes could be used, so the allocator stays ready.
            assert (await rig.call("status"))[1]["ready"]
            fence(rig)
            await fitting(bool)
        async with renewing(rig, "host-b_9", 2):
            lost = await rig.status(lambda each: not each["leading"])
            assert "host-b_9 holds the Lease" in lost["reasons"][0]
            status, reply = await rig.call("bind", podUID="u", node="node-1")
            assert (status, reply["error"]["code"]) == (409, "NotLeading")


def test_a_process_stops_without_the_taint_of_a_node_and_when_another_leads(
    tmp_path: Path,
) -> None:
    play(tmp_path, _of_a_lost_taint)


def _guard(rig: Rig) -> None:
    """Keep others from the pool, as controller and administrator do."""
    metadata = {
        "uid": "u",
        "resourceVersion": "1",
        "name": "drawbridge-owned-devices",
        "generation": 1,
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": metadata}
    kind, spec = "ValidatingAdmissionPolicy", policy_spec([PoolID("d.io", "node-1")], SYSTEM)
    rig.api.load(
        [
            {**head, "kind": kind, "spec": spec},
            {**head, "kind": f"{kind}Binding", "spec": dict(BINDING_SPEC)},
        ]
    )


async def _of_a_lost_policy(rig: Rig) -> None:
    _guard(rig)
    request = rig.add_pod("first")

    async def fitting(is_expected: Callable[[list[Json]], bool]) -> None:
        while not is_expected((await rig.call("prefilter", **request))[1]["fit"]):  # noqa: ASYNC110  # the process runs elsewhere
            await asyncio.sleep(0.02)

    async with process(rig, configuration=BY_RULES), renewing(rig):
        await rig.status(lambda each: each["leading"])
        await fitting(bool)
        rig.api.remove("validatingadmissionpolicies", "drawbridge-owned-devices")
        await fitting(lambda fit: not fit)
        fence(rig)
        await fitting(bool)


def test_a_process_stops_without_the_policy_until_the_node_has_the_taint(tmp_path: Path) -> None:
    play(tmp_path, _of_a_lost_policy)
