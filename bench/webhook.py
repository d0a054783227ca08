"""Measures admission over TLS, and how long small pods wait for large ones.

Part `requests` measures the CPU time of the server for a request: of pods that no cache knows, and
of less and less. *http* responds to reviews without a review, *tls* writes a prepared response for
whatever arrives, and *tcp* does so without TLS. The server uses one core and the client the other.
The kinds of requests alternate for several rounds. Each row shows requests per second, latencies,
and the CPU time as the median of the rounds, with the least. `BASELINE=PATH` starts the server of
the tree at PATH as well, and both answer in turns: the last column has the CPU time of this tree
relative to the other, as the median of the rounds with the least and the most.

Part `large` reviews small pods one after the other, alone and beside clients that send large bodies
without a pause, which copies of the process review. Prints the median and longest wait.

Part `reviews` measures a review without HTTP, part `imports` what each process loads, and part
`bursts` how long a real API server takes for many creations at once.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import _bursts, _imports, _reviews
from bench._bodies import build_body, make_pod
from bench._cluster import IN, OUT, make_admission
from bench._load import MARK, Connection, Kind, connect, numbered
from bench._process import ROOT, TREES, cpu_seconds
from bench._review_worker import context
from bench._scale import scaled
from e2e.controlplane.certificates import self_signed
from webhook.admission.replies import await_reply
from webhook.server.admissions import Admissions

HOST = "drawbridge-webhook.drawbridge-system.svc"
CONNECTIONS, ROUNDS, SECONDS, WARM = 16, scaled(15, 1), scaled(0.5, 0.05), scaled(0.5, 0.05)
PODS = "/admit/pods?timeout=5s"
TARGETS: Final = {"out of scope": 50, "distinct": 105}  # in microseconds, on an idle machine
CALLS: Final = scaled(400, 5)
SIZE: Final = scaled(3 << 20, 1 << 20)
CLIENTS: Final = 4
GPU, TYPE = "nvidia.com/gpu", "nvidia.com/use-gputype"
PATCHED = ("repeated", "distinct")
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


def _pieces(path: str, namespace: str, asked: dict[str, Any]) -> tuple[bytes, ...]:
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
    """Return the kinds of requests, those that take least first."""
    web = make_pod("web", "registry.example/serve:1.4", "7d9f8b6c5d", *SPECS[0])
    number = MARK.decode()
    distinct = [
        make_pod(f"app-{i}", f"registry.example/serve:{number}", number, asks, notes)
        for i, (asks, notes) in enumerate(SPECS)
    ]
    plain = make_pod("web", "registry.example/serve:1.4", "7d9f8b6c5d", {}, {})
    return [
        Kind("out of scope", [_pieces(PODS, OUT, web)]),
        Kind("asks nothing", [_pieces(PODS, IN, plain)]),
        Kind("repeated", [_pieces(PODS, IN, web)]),
        Kind("distinct", [_pieces(PODS, IN, each) for each in distinct]),
    ]


class Lane(NamedTuple):
    """The connections to a server, and what is sent on them."""

    name: str
    tree: str
    pid: int
    kind: Kind
    connections: list[Connection]


@contextlib.contextmanager
def server(core: int, tree: Path, part: str = "") -> Iterator[tuple[int, int, str]]:
    """Start a server of a tree on a core; yields its PID, its port and its CA."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = self_signed(Path(folder), HOST)
        files = str(certificate), str(key)
        command = [sys.executable, "-P", "-m", "bench._webhook_server", str(core), *files]
        # The same hashes in both trees: the order of sets changes the work.
        env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
        with (Path(folder) / "log").open("wb") as log:
            running = subprocess.Popen(  # noqa: S603  # ours
                [*command, *filter(None, [part])],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=tree,
                env=env,
            )
        try:
            if running.stdout is None or not (line := running.stdout.readline()):
                raise SystemExit((Path(folder) / "log").read_text(encoding="utf-8"))
            authority = "" if part == "tcp" else certificate.read_text(encoding="ascii")
            yield running.pid, int(line), authority
        finally:
            running.terminate()
            running.wait()


async def play(stack: contextlib.ExitStack, core: int) -> dict[tuple[str, str], list[Round]]:
    """Run the kinds of requests alternately; return the rounds by tree and name."""
    lanes, counter = [], itertools.count(1)
    for part in ("tcp", "tls", "http"):
        pid, port, authority = stack.enter_context(server(core, ROOT, part))
        opened = await connect(port, authority, HOST, CONNECTIONS)
        lanes.append(Lane(part, "ours", pid, kinds()[0], opened))
    served = []
    for tree, path in TREES.items():
        pid, port, authority = stack.enter_context(server(core, path))
        opened = await connect(port, authority, HOST, CONNECTIONS)
        await check(opened[0], counter)
        served.append((tree, pid, opened))
    # One tree after the other with each kind, so that both have the same machine.
    for kind in kinds():
        lanes += [Lane(kind.name, tree, pid, kind, opened) for tree, pid, opened in served]
    rounds: dict[tuple[str, str], list[Round]] = {}
    for number in range(ROUNDS + 1):
        for lane in lanes:
            measured = await _round(lane, counter, SECONDS if number else WARM)
            if number:
                rounds.setdefault((lane.tree, lane.name), []).append(measured)
    return rounds


async def check(connection: Connection, counter: "itertools.count[int]") -> None:
    """Send every request once, and check whether it is translated."""
    for kind in kinds():
        for request in kind.pieces:
            await connection.go(numbered(Kind(kind.name, [request]), counter), until=0)
            if (b'"patch"' in connection.last) != (kind.name in PATCHED):
                raise SystemExit(f"{kind.name}: a wrong response: {connection.last!r}")


async def _round(lane: Lane, counter: "itertools.count[int]", seconds: float) -> Round:
    requests = numbered(lane.kind, counter)
    used, start = cpu_seconds(lane.pid), time.perf_counter()
    await asyncio.gather(*(each.go(requests, start + seconds) for each in lane.connections))
    took, used = time.perf_counter() - start, cpu_seconds(lane.pid) - used
    times = sorted(one * 1000 for each in lane.connections for one in each.times)
    count = len(times)
    return Round(count / took, times[count // 2], times[count * 99 // 100], used / count * 1e6)


def show(measured: Mapping[tuple[str, str], Sequence[Round]]) -> None:
    """Print one row for each kind."""
    print(f"{'':14} {'req/s':>14} {'p50 ms':>7} {'p99 ms':>7} {'cpu us':>7} {'least':>7}")
    for (tree, name), rounds in measured.items():
        if tree != "ours":
            continue
        rates, cpu = [each.rate for each in rounds], [each.cpu for each in rounds]
        spread = (max(rates) - min(rates)) / 2 / statistics.median(rates)
        target = f"  target {TARGETS[name]} us" if name in TARGETS else ""
        print(
            f"{name:14} {statistics.median(rates):8.0f} ±{spread:4.0%}"
            f" {statistics.median(each.half for each in rounds):7.2f}"
            f" {statistics.median(each.most for each in rounds):7.2f}"
            f" {statistics.median(cpu):7.0f} {min(cpu):7.0f}"
            f"{target}{_of_baseline(rounds, measured.get(('baseline', name), ()))}"
        )


def _of_baseline(rounds: Sequence[Round], others: Sequence[Round]) -> str:
    ratios = [one.cpu / other.cpu for one, other in zip(rounds, others, strict=False)]
    if not ratios:
        return ""
    least, most = min(ratios), max(ratios)
    return f"  {statistics.median(ratios):.2f} ({least:.2f} to {most:.2f}) of the baseline"


def run() -> None:
    """Print all rows."""
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    print(f"{CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS} s, in turns")
    with contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, {cores[-1]})
        show(asyncio.run(play(stack, cores[0])))


def _shapes() -> Iterator[tuple[str, dict[str, Any]]]:
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    yield "args", {"containers": [{"name": "a", "resources": gpu, "args": ["a"] * (SIZE // 4)}]}
    yield "lists", {"containers": [{"name": "a", "resources": gpu}], "x": [[]] * (SIZE // 3)}
    container = {
        "name": "c",
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}},
    }
    yield "containers", {"containers": [container] * (SIZE // len(json.dumps(container)))}


def _large(spec: dict[str, Any]) -> bytes:
    review = json.loads(build_body(0, "large"))
    review["request"]["object"]["spec"] = spec
    return json.dumps(review, separators=(",", ":")).encode()


async def _measure_waits(admissions: Admissions) -> list[float]:
    waits = []
    for number in range(CALLS):
        started = time.perf_counter()
        await await_reply(admissions.review_pod(build_body(number, "small"), 5))
        await asyncio.sleep(0.001)
        waits.append(time.perf_counter() - started - 0.001)
    return waits


async def _attack(admissions: Admissions, body: bytes) -> None:
    while True:
        await await_reply(admissions.review_pod(body, 5))
        await asyncio.sleep(0)


def _print_waits(name: str, waits: list[float]) -> None:
    median, longest = statistics.median(waits) * 1000, max(waits) * 1000
    print(f"{name:12} median {median:7.2f} ms, longest {longest:7.1f} ms")


async def _print_large() -> None:
    admissions = make_admission(context()).handler
    _print_waits("alone", await _measure_waits(admissions))
    for name, spec in _shapes():
        body = _large(spec)
        tasks = [asyncio.create_task(_attack(admissions, body)) for _ in range(CLIENTS)]
        await asyncio.sleep(0.5)
        _print_waits(name, await _measure_waits(admissions))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


PARTS: Final[Mapping[str, Callable[[], None]]] = {
    "requests": run,
    "large": lambda: asyncio.run(_print_large()),
    "reviews": _reviews.run,
    "imports": _imports.run,
    "bursts": _bursts.run,
}
