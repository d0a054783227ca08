"""Measures admission over TLS, compared with an echo handler in the same server.

The server uses one core and the client the other. The kinds of requests alternate for several
rounds. Each row shows requests per second, latencies, the CPU time of the server for a request, and
the rate relative to the echo handler, which parses the review and responds with a prepared patch.
"""

import asyncio
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench._cluster import IN, OUT
from bench._load import MARK, Connection, Kind, connect, numbered
from bench._process import cpu_seconds
from bench._scale import scaled
from bench._webhook_server import ECHO
from e2e.controlplane.certificates import self_signed

HOST = "drawbridge-webhook.drawbridge-system.svc"
CONNECTIONS, ROUNDS, SECONDS, WARM = 16, scaled(7, 1), scaled(1.5, 0.05), scaled(0.5, 0.05)
PODS = "/admit/pods?timeout=5s"
LEAST = {"out of scope": 0.80, "repeated": 0.60, "distinct": 0.35}
GPU, TYPE = "nvidia.com/gpu", "nvidia.com/use-gputype"
PATCHED = ("echo", "repeated", "distinct")
# Twenty different requests that fit the sample nodes, and become twenty templates.
SPECS: list[tuple[dict[str, str], dict[str, str]]] = [
    *(({GPU: str(n)}, {TYPE: "H100"}) for n in range(1, 7)),
    *(({GPU: str(n)}, {TYPE: "A100"}) for n in (1, 2)),
    *(({f"nvidia.com/mig-{size}": "1"}, {}) for size in ("1g.5gb", "2g.10gb", "3g.20gb")),
    *(({"nvidia.com/mig-1g.5gb": str(n)}, {}) for n in (2, 3)),
    *(({"amd.com/gpu": str(n)}, {}) for n in (1, 2)),
    *(({GPU: "1", "nvidia.com/gpumem": str(n)}, {}) for n in (3000, 6000, 9000, 12000)),
    ({"gpu.intel.com/i915": "1"}, {}),
]


class Round(NamedTuple):
    """The measurements of one kind of requests in one round."""

    rate: float
    half: float
    most: float
    cpu: float  # microseconds of the server for one request


def containers(
    image: str, owner: str, asks: dict[str, str], token: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the container that requests devices, and a sidecar container."""
    mount = {"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    quantities = {"cpu": "2", "memory": "8Gi", **asks}
    env = [{"name": f"SETTING_{i}", "value": f"value-{i}-" + "v" * 24} for i in range(24)]
    main = {
        "name": "main",
        "image": image,
        "command": ["python", "-m", "service", "--port=8080"],
        "env": [*env, {"name": "RUN", "value": owner}],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": quantities, "requests": quantities},
        "volumeMounts": [{**mount, "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}},
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
    }
    return main, {**main, "name": "log", "env": env[:6], "resources": {"limits": {"cpu": "1"}}}


def pod(
    name: str, image: str, owner: str, asks: dict[str, str], notes: dict[str, str]
) -> dict[str, Any]:
    """Make a pod as the API server sends it: of a ReplicaSet, with its own token volume."""
    token = "kube-api-access-" + "x" * 5
    owned = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{owner}"}
    metadata = {
        "generateName": f"{name}-",
        "labels": {"app": name, "pod-template-hash": owner},
        "annotations": {"team": "serving", **notes},
        "ownerReferences": [{**owned, "controller": True, "blockOwnerDeletion": True}],
    }
    spec = {
        "containers": containers(image, owner, asks, token),
        "volumes": [{"name": token, "projected": {"defaultMode": 420, "sources": []}}],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pieces(path: str, namespace: str, asked: dict[str, Any]) -> tuple[bytes, ...]:
    """Make the request for a pod, split at the position of its number."""
    body = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": f"705ab4f5-6393-11e8-b7cc-4201{MARK.decode()}",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"],
            },
            "object": asked,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}:443\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(data)}\r\nAccept: application/json, */*\r\n"
        "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return tuple((head.encode() + data).split(MARK))


def kinds() -> list[Kind]:
    """Return the kinds of requests, the echo first."""
    web = pod("web", "registry.example/serve:1.4", "7d9f8b6c5d", *SPECS[0])
    number = MARK.decode()
    distinct = [
        pod(f"app-{i}", f"registry.example/serve:{number}", number, asks, notes)
        for i, (asks, notes) in enumerate(SPECS)
    ]
    plain = pod("web", "registry.example/serve:1.4", "7d9f8b6c5d", {}, {})
    return [
        Kind("echo", [pieces(ECHO, OUT, web)]),
        Kind("out of scope", [pieces(PODS, OUT, web)]),
        Kind("asks nothing", [pieces(PODS, IN, plain)]),
        Kind("repeated", [pieces(PODS, IN, web)]),
        Kind("distinct", [pieces(PODS, IN, each) for each in distinct]),
    ]


@contextlib.contextmanager
def server(folder: Path, core: int) -> Iterator[tuple[int, int, str]]:
    """Start the server on a core; yields its PID, its port and its CA."""
    certificate, key = self_signed(folder, HOST)
    files = str(certificate), str(key)
    command = [sys.executable, "-m", "bench._webhook_server", str(core), *files]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)  # noqa: S603  # ours
    try:
        if running.stdout is None or not (line := running.stdout.readline()):
            raise SystemExit((folder / "log").read_text(encoding="utf-8"))
        yield running.pid, int(line), certificate.read_text(encoding="ascii")
    finally:
        running.terminate()
        running.wait()


async def play(pid: int, port: int, authority: str) -> dict[str, list[Round]]:
    """Run the kinds of requests alternately."""
    connections = await connect(port, authority, HOST, CONNECTIONS)
    counter = itertools.count(1)
    await check(connections[0], counter)
    by_kind: dict[str, list[Round]] = {}
    for number in range(ROUNDS + 1):
        for kind in kinds():
            seconds = SECONDS if number else WARM
            measured = await _round(pid, connections, kind, counter, seconds)
            if number:
                by_kind.setdefault(kind.name, []).append(measured)
    return by_kind


async def check(connection: Connection, counter: "itertools.count[int]") -> None:
    """Send every request once, and check whether it is translated."""
    for kind in kinds():
        for request in kind.pieces:
            await connection.go(numbered(Kind(kind.name, [request]), counter), until=0)
            if (b'"patch"' in connection.last) != (kind.name in PATCHED):
                raise SystemExit(f"{kind.name}: a wrong response: {connection.last!r}")


async def _round(
    pid: int,
    connections: list[Connection],
    kind: Kind,
    counter: "itertools.count[int]",
    seconds: float,
) -> Round:
    requests = numbered(kind, counter)
    used, start = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(each.go(requests, start + seconds) for each in connections))
    took, used = time.perf_counter() - start, cpu_seconds(pid) - used
    times = sorted(one * 1000 for each in connections for one in each.times)
    count = len(times)
    return Round(count / took, times[count // 2], times[count * 99 // 100], used / count * 1e6)


def show(by_kind: dict[str, list[Round]]) -> None:
    """Print one row for each kind."""
    print(f"{'':14} {'req/s':>14} {'p50 ms':>7} {'p99 ms':>7} {'cpu us':>7}  share of echo")
    echo = by_kind["echo"]
    for name, rounds in by_kind.items():
        rates = [each.rate for each in rounds]
        shares = [one.rate / other.rate for one, other in zip(rounds, echo, strict=True)]
        share = statistics.median(shares)
        spread = (max(rates) - min(rates)) / 2 / statistics.median(rates)
        least = LEAST.get(name, 0)
        print(
            f"{name:14} {statistics.median(rates):8.0f} ±{spread:4.0%}"
            f" {statistics.median(each.half for each in rounds):7.2f}"
            f" {statistics.median(each.most for each in rounds):7.2f}"
            f" {statistics.median(each.cpu for each in rounds):7.0f}"
            f"  {share:4.0%} ({min(shares):.0%} to {max(shares):.0%})"
            f", by cpu {_by_cpu(echo, rounds):.0%}"
            + (f", at least {least:.0%}" if least else "")
            + ("  MISSED" if share < least else "")
        )


def _by_cpu(echo: list[Round], rounds: list[Round]) -> float:
    """Compare the CPU times of the server, which other processes affect less."""
    shares = (other.cpu / one.cpu for one, other in zip(rounds, echo, strict=True))
    return statistics.median(shares)


def run() -> None:
    """Print all rows."""
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    print(f"TLS, {CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS} s, in turns")
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), cores[0]) as served:
        os.sched_setaffinity(0, {cores[-1]})
        try:
            show(asyncio.run(play(*served)))
        finally:
            os.sched_setaffinity(0, before)
