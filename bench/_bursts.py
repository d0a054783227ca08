"""Measures bursts of creations through a real API server, with admission and in-tree.

Each of many connections creates one pod, all at the same moment. Pods that admission translates
take turns with pods that name a claim template themselves, which no webhook is asked about. A
creation takes from the moment of the burst to the end of its response, so that what waits for
others counts. The connections that the API server opens to the webhook are those that the kernel
lists every few milliseconds; one that lives for less is missed. Needs Go.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import ssl
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from bench._process import cpu_seconds
from bench._scale import scaled
from e2e.controlplane.build import NoGoError
from e2e.controlplane.client import JSON
from e2e.controlplane.plane import ControlPlane
from e2e.installed.installation import MODE, NAMESPACE, WEBHOOK, Installation, Setup
from e2e.nodes.family import CLASSES
from e2e.nodes.fleet import Fleet
from e2e.scenarios import objects
from e2e.scenarios.registry import default_options
from e2e.timings import until

PODS: Final = scaled(200, 10)
ROUNDS: Final = scaled(9, 1)
IN_TREE, OURS = "in-tree", "Drawbridge"
NAMESPACES: Final = {IN_TREE: "bursts-in-tree", OURS: "bursts-ours"}
GPU, LEGACY, PORT = "gpu.nvidia.com", "nvidia.com/gpu", 443
LOOK_SECONDS: Final = 0.005
# They would create and place claims beside the bursts.
BESIDE: Final = ("kube-scheduler", "kube-controller-manager")
MARK: Final = "drawbridge.dev/original"


class Burst(NamedTuple):
    """Seconds of each creation, new connections to the webhook, and CPU seconds of a pod.

    `refused` has the messages of creations that were refused.
    """

    times: Sequence[float]
    refused: Sequence[str]
    connections: int
    server: float
    webhook: float

    @property
    def slow(self) -> float:
        """Return the 99th percentile."""
        return statistics.quantiles(self.times, n=100, method="inclusive")[98]


def run() -> None:
    """Print what bursts of both kinds take."""
    try:
        with _prepared() as measured:
            bursts = asyncio.run(measured.play())
    except NoGoError as problem:
        print(f"not measured: {problem}")
        return
    print(f"bursts of {PODS} pods, {ROUNDS} rounds; load {os.getloadavg()[0]:.1f}")
    for kind, made in bursts.items():
        print(_row(kind, made, bursts[IN_TREE]))
        for reason, count in Counter(chain(*(each.refused for each in made))).most_common():
            print(f"{kind:10}  refused {count}: {reason}")


class _Bursts:
    """A control plane with a webhook on the address of its Service."""

    def __init__(self, plane: ControlPlane, cluster: Installation, address: str) -> None:
        self.plane = plane
        (webhook,) = cluster.webhooks
        self._webhook = webhook.started_process().child.pid
        self._servers = [plane.processes[name].child.pid for name in ("kube-apiserver", "etcd")]
        self._address = address

    async def play(self) -> dict[str, list[Burst]]:
        """Play rounds in which both kinds take turns, after one that is not counted."""
        bursts: dict[str, list[Burst]] = {kind: [] for kind in NAMESPACES}
        order = random.Random(1)
        for number in range(ROUNDS + 1):
            for kind in order.sample([*NAMESPACES], len(NAMESPACES)):
                burst = await self._burst(kind, number)
                if number:
                    bursts[kind].append(burst)
        return bursts

    async def _burst(self, kind: str, number: int) -> Burst:
        authority = self.plane.authority.read_text("ascii")
        context = ssl.create_default_context(cadata=authority)
        token = self.plane.tokens["admin"]
        requests = [
            _request(kind, token, pod(kind, f"burst-{number}-{each}")) for each in range(PODS)
        ]
        # One after the other, because the API server is not to be busy with handshakes.
        streams = [
            await asyncio.open_connection("127.0.0.1", self.plane.port, ssl=context)
            for _ in requests
        ]
        before, used = _clients(self._address), self._used()
        seen = asyncio.create_task(_observe(self._address))
        began = time.perf_counter()
        for (_, writer), request in zip(streams, requests, strict=True):
            writer.write(request)
        answers = await asyncio.gather(*(_answered(reader) for reader, _ in streams))
        times = [ended - began for ended, _ in answers]
        refused = [refusal for _, refusal in answers if refusal is not None]
        server, webhook = (
            (now - then) / PODS for now, then in zip(self._used(), used, strict=True)
        )
        seen.cancel()
        opened = len(await seen - before)
        for _, writer in streams:
            writer.transport.abort()
        await asyncio.to_thread(self._check_and_delete, kind, PODS - len(refused))
        return Burst(times, refused, opened, server, webhook)

    def _used(self) -> tuple[float, float]:
        return sum(map(cpu_seconds, self._servers)), cpu_seconds(self._webhook)

    def _check_and_delete(self, kind: str, count: int) -> None:
        pods = self.plane.admin.get(_path(kind))["items"]
        translated = sum(_is_translated(each) for each in pods)
        if (len(pods), translated) != (count, count if kind == OURS else 0):
            raise SystemExit(f"{kind}: {len(pods)} of {count} pods, {translated} translated")
        self.plane.admin.call("DELETE", _path(kind), {"gracePeriodSeconds": 0})


def pod(kind: str, name: str) -> JSON:
    """Return a pod of the usual size that asks for one GPU, in-tree by a claim template."""
    limits = {"cpu": "2", "memory": "8Gi"} | ({LEGACY: "1"} if kind == OURS else {})
    container: JSON = {
        "name": "main",
        "image": "registry.example/serve:1.4",
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}-" + "v" * 24} for n in range(24)],
        "resources": {"limits": limits, "requests": limits},
    }
    spec: JSON = {"containers": [container]}
    if kind == IN_TREE:
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _is_translated(made: JSON) -> bool:
    return MARK in made["metadata"].get("annotations", {})


def _path(kind: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACES[kind]}/pods"


def _request(kind: str, token: str, body: JSON) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {_path(kind)} HTTP/1.1\r\nHost: kubernetes\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _answered(reader: asyncio.StreamReader) -> tuple[float, str | None]:
    """Return when the whole response is there, and why the pod has been refused, if it has."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, has_length, rest = head.partition(b"content-length: ")
    body = await (
        reader.readexactly(int(rest.partition(b"\r\n")[0]))
        if has_length
        else reader.readuntil(b"\r\n0\r\n\r\n")
    )
    ended = time.perf_counter()
    return ended, None if head.startswith(b"http/1.1 201") else _reason(body)


def _reason(body: bytes) -> str:
    """Return the message of a status without the name of the pod."""
    status = json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])
    return re.sub(r"burst-\d+-\d+", "burst-N", str(status["message"]))


async def _observe(address: str) -> set[str]:
    """Return which clients an address has had, when this is cancelled."""
    seen = set[str]()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            seen |= _clients(address)
            await asyncio.sleep(LOOK_SECONDS)
    return seen


def _clients(address: str) -> set[str]:
    """Return the near ends of the connections to an address."""
    number = int.from_bytes(socket.inet_aton(address), "little")
    wanted = f"{number:08X}:{PORT:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines())
    return {fields[1] for fields in rows if fields[2] == wanted}


@contextlib.contextmanager
def _prepared() -> Iterator[_Bursts]:
    """Start a control plane with Drawbridge, and wait for what it is to do."""
    options = default_options("1.36")
    with ControlPlane(options) as plane, Fleet(plane.admin, asleep=True) as fleet:
        path = f"{objects.RESOURCE}/deviceclasses/{GPU}"
        plane.admin.apply(path, objects.device_class(GPU, CLASSES[GPU]))
        fleet.add("gpu-1", "dgx-a100", {GPU: "full"})
        for kind, name in NAMESPACES.items():
            labels = {MODE: "enforce"} if kind == OURS else {}
            body = {"metadata": {"name": name, "labels": labels}}
            plane.admin.create("/api/v1/namespaces", body)
        cluster, address = _install(plane)
        for kind in NAMESPACES:
            until(partial(_is_admitted, plane, kind))
        for name in BESIDE:
            plane.processes.pop(name).stop()
        yield _Bursts(plane, cluster, address)


def _install(plane: ControlPlane) -> tuple[Installation, str]:
    """Install one process of each; the webhook listens on the address of its Service."""
    cluster = Installation(plane, Setup(webhooks=1, controllers=1))
    cluster.install()
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{WEBHOOK}"
    address = str(plane.admin.get(path)["spec"]["clusterIP"])
    (replica,) = cluster.webhooks
    replica.stop()
    replica.words = [*replica.words, f"--listen={address}:{PORT}"]  # the last one counts
    cluster.start_all()
    return cluster, address


def _is_admitted(plane: ControlPlane, kind: str) -> bool:
    accounts = f"/api/v1/namespaces/{NAMESPACES[kind]}/serviceaccounts"
    if not plane.admin.get(accounts)["items"]:
        return False
    made = plane.admin.create(_path(kind), pod(kind, "first"), dryRun="All")
    return _is_translated(made) == (kind == OURS)


def _row(kind: str, bursts: Sequence[Burst], beside: Sequence[Burst]) -> str:
    """Return one line: medians of the bursts, with the least and the most."""
    ratios = [each.slow / other.slow for each, other in zip(bursts, beside, strict=True)]
    figures: Mapping[str, Sequence[float]] = {
        "median ms": [1e3 * statistics.median(each.times) for each in bursts],
        "99 % ms": [1e3 * each.slow for each in bursts],
        "of in-tree": ratios,
        "refused": [len(each.refused) for each in bursts],
        "new connections": [each.connections for each in bursts],
        "CPU ms a pod of API server and etcd": [1e3 * each.server for each in bursts],
        "of the webhook": [1e3 * each.webhook for each in bursts],
    }
    cells = (
        f"{name} {statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"
        for name, values in figures.items()
    )
    return f"{kind:10}  {', '.join(cells)}"
