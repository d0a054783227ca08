"""An allocator, as a process beside an API server in memory, and a scheduler that calls it.

For each pod, the scheduler calls prefilter, reserve if need be, and bind, which runs beside the
next pods, as the plugin of a kube-scheduler does.
"""

import asyncio
import contextlib
import itertools
import json
import math
import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from allocator.scheduler.protocol import HEADER, VERSION_TEXT
from bench._process import ROOT, last_lines
from bench._slices import GPU, NIC, slices
from drawbridge.agreement.published_facts import build_data_key
from drawbridge.facts import serialized
from drawbridge.facts.model import Cluster, Facts
from drawbridge.names import SCHEDULER_LEASE
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import accept

Json = dict[str, Any]
SYSTEM, HOST, NAMESPACE = "drawbridge-system", "host-a", "team"
SOCKET, LOG = "allocator.sock", "log"
MAX_NODES, CONCURRENT = 20, 32
START_SECONDS = 600.0
DRA: Final = "resource.k8s.io/v1"
ADDED: Final = "2026-11-20T10:00:00Z"
FENCE: Final = {"key": "drawbridge.dev/owned", "effect": "NoSchedule", "timeAdded": ADDED}
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
CONFIGURATION: Final = f"""\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools:
  - driver: {GPU}
    nodeSelector: {{matchLabels: {{pool: bridge}}}}
  - driver: {NIC}
    nodeSelector: {{matchLabels: {{pool: bridge}}}}
"""
KINDS: Final = {
    "one GPU": (("gpu", GPU),),
    "GPU and NIC of a PCIe root": (("gpu", GPU), ("nic", NIC)),
}


def make(kind: str, name: str, *, namespace: str = "", **fields: object) -> Json:
    """Return an object with the metadata that an API server adds."""
    metadata: Json = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "7"}
    if namespace:
        metadata["namespace"] = namespace
    api_version = DRA if kind.startswith(("Resource", "Device")) else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def make_node(name: str) -> Json:
    """Return a node with a fence that has settled."""
    node = make("Node", name, spec={"taints": [FENCE]})
    node["metadata"]["labels"] = {"pool": "bridge", "kubernetes.io/hostname": name}
    node["metadata"]["annotations"] = {"drawbridge.dev/fence-settled": ADDED}
    return node


def make_class(driver: str) -> Json:
    """Return the class of all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return make("DeviceClass", driver, spec={"selectors": [selector]})


def make_facts() -> Json:
    """Return the ConfigMap with the facts."""
    facts = Facts(cluster=Cluster(version="1.36"))
    digest = serialized.facts_hash(facts)
    data = {build_data_key(digest): serialized.encode_facts(facts).decode(), "current": digest}
    return make("ConfigMap", "drawbridge-facts", namespace=SYSTEM, data=data)


def make_server(nodes: int) -> FakeApi:
    """Return an API server with nodes of 8 GPUs and 8 NICs."""
    server = FakeApi()
    published = [slices(number) for number in range(nodes)]
    names = [gpus["spec"]["nodeName"] for gpus, _ in published]
    for both in published:
        for resource_slice in both:
            resource_slice["metadata"]["uid"] = resource_slice["metadata"]["name"]
            server.load([{"apiVersion": DRA, "kind": "ResourceSlice", **resource_slice}])
    server.load(map(make_node, names))
    server.load(map(make_class, (GPU, NIC)))
    server.load([make_facts()])
    server.when(lambda: server.put(make_lease()), part="/leases/", times=math.inf)
    return server


def make_lease() -> Json:
    """Return the Lease of the scheduler, renewed now."""
    spec = {
        "holderIdentity": f"{HOST}_1",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 1,
        "renewTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    metadata = {"name": SCHEDULER_LEASE, "namespace": SYSTEM}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }


class Process:
    """A running allocator, whose socket and log are in a folder."""

    def __init__(self, running: asyncio.subprocess.Process, folder: Path) -> None:
        self._running = running
        self._socket = folder / SOCKET
        self._log = folder / LOG

    @property
    def pid(self) -> int:
        """The PID of the process."""
        return self._running.pid

    @property
    def socket(self) -> str:
        """The socket of the scheduler's calls."""
        return str(self._socket)

    async def connect(self) -> "Connection":
        """Open a connection to the socket."""
        return Connection(*await asyncio.open_unix_connection(str(self._socket)))

    async def wait_until_leading(self) -> None:
        """Wait until the process decides."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    if (await (await self.connect()).call("GET", "status"))["leading"]:
                        return
                if self._running.returncode is not None:
                    code, said = self._running.returncode, last_lines(self._log.read_bytes())
                    raise SystemExit(f"the allocator ended with {code}: {said}")
                await asyncio.sleep(0.05)


class Connection:
    """An HTTP connection with low overhead."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, method: str, call: str, body: Json | None = None) -> Json:
        """Return the reply to a call."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} /v1/{call} HTTP/1.1\r\nHost: allocator\r\n{HEADER}: {VERSION_TEXT}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        response = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", response)
        reply: Json = json.loads(await self._reader.readexactly(int(length[1] if length else 0)))
        if not response.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{call}: {reply}")
        return reply


@contextlib.asynccontextmanager
async def allocator(server: FakeApi, *options: str, tree: Path = ROOT) -> AsyncIterator[Process]:
    """Run the allocator of a tree until the context exits."""
    with tempfile.TemporaryDirectory() as made, (Path(made) / LOG).open("wb") as log:
        folder = Path(made)
        server.put(accept(CONFIGURATION))
        async with server:
            running = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "cli.main", "serve", "allocator", f"--namespace={SYSTEM}"),
                *(f"--host={HOST}", f"--socket={folder / SOCKET}"),
                "--config-map",
                f"--kubeconfig={server.kubeconfig(folder / 'kubeconfig')}",
                *("--health=127.0.0.1:0", "--metrics=127.0.0.1:0", *options),
                cwd=tree,
                stderr=log,
            )
            try:
                yield Process(running, folder)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    running.send_signal(signal.SIGTERM)
                await running.wait()


class Scheduler:
    """Creates pods, and schedules them with the calls of the plugin.

    A namespace gets half of the memory for objects, and two get a third each: with several
    `namespaces`, more pods are known whole.
    """

    def __init__(
        self, server: FakeApi, process: Process, requests: Json, namespaces: int = 1
    ) -> None:
        self._namespaces = itertools.cycle(
            [NAMESPACE, *(f"{NAMESPACE}-{number}" for number in range(1, namespaces))]
        )
        self._server = server
        self._process = process
        self._requests = requests
        self._free: list[Connection] = []
        self._slots = asyncio.Semaphore(CONCURRENT)
        self.latencies: list[float] = []

    def create(self, name: str) -> Json:
        """Create a pod with a claim; return the request of its prefilter."""
        spec, namespace = {"devices": self._requests}, next(self._namespaces)
        claim = make("ResourceClaim", name, namespace=namespace, spec=spec)
        claim = self._server.put(claim)
        del claim["metadata"]["managedFields"]  # kube-scheduler does not keep them
        pod_spec = {"resourceClaims": [{"name": "d", "resourceClaimName": name}], "containers": []}
        pod = make("Pod", name, namespace=namespace, spec=pod_spec, status={"phase": "Pending"})
        uid = self._server.put(pod)["metadata"]["uid"]
        toleration = {"key": FENCE["key"], "operator": "Exists"}
        identity = {"namespace": namespace, "name": name, "uid": uid, "tolerations": [toleration]}
        return {"pod": identity, "claims": [claim], "maxNodes": MAX_NODES, "reserve": True}

    async def schedule(self, names: list[str]) -> None:
        """Schedule pods one by one, and bind them concurrently."""
        created = [self.create(name) for name in names]
        connection = await self._process.connect()
        async with asyncio.TaskGroup() as group:
            for request in created:
                uid = request["pod"]["uid"]
                answer = await self.prefilter(connection, request)
                placed = {"podUID": uid, "node": answer["fit"][0]["node"]}
                if answer.get("reservedOn") != placed["node"]:
                    reply = await connection.call("POST", "reserve", placed)
                    if not reply["reserved"]:
                        raise SystemExit(reply["message"])
                await self._slots.acquire()
                group.create_task(self._bind(placed))

    async def prefilter(self, connection: "Connection", request: Json) -> Json:
        """Ask until a node fits; on a busy machine, a search takes several calls."""
        while True:
            started = time.perf_counter()
            answer = await connection.call("POST", "prefilter", request)
            self.latencies.append((time.perf_counter() - started) * 1000)
            if answer["fit"] or answer["complete"]:
                return answer

    async def _bind(self, placed: Json) -> None:
        connection = self._free.pop() if self._free else await self._process.connect()
        reply = await connection.call("POST", "bind", placed)
        if not reply["bound"]:
            raise SystemExit(reply["message"])
        self._free.append(connection)
        self._slots.release()


def requests_of(kind: str) -> Json:
    """Return the devices that a claim of a kind requests."""
    single = {"allocationMode": "ExactCount", "count": 1}
    requests = [
        {"name": name, "exactly": {"deviceClassName": of, **single}} for name, of in KINDS[kind]
    ]
    match = [{"matchAttribute": PCIE_ROOT}] if len(requests) > 1 else []
    return {"requests": requests, "constraints": match}
