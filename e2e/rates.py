"""Measures how many pods per second an API server creates with different webhooks.

`python -m e2e rates`: kinds of pods take turns, and each round is compared with the echo webhooks
of the same round: the plain one, and one that is registered as Drawbridge's webhook and returns its
recorded responses. Kinds without the guard show what the guard costs the API server. The webhooks
listen on the addresses of their Services, without a relay. The scheduler and the stock controllers
are suspended.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from e2e import echoes
from e2e.controlplane.client import JSON
from e2e.controlplane.plane import ControlPlane
from e2e.creators import CreatingClient, connect, request
from e2e.installed.installation import MODE, NAMESPACE, WEBHOOK, Installation, Setup
from e2e.installed.replica import Replica
from e2e.nodes.fleet import Fleet
from e2e.scenarios import objects
from e2e.scenarios.registry import RIGS
from e2e.timings import cpu_seconds, until

CREATORS, ROUNDS, SECONDS, WARM_SECONDS = 16, 24, 1.2, 2.0
GPU, LEGACY, TYPE = "gpu.nvidia.com", "nvidia.com/gpu", "nvidia.com/use-gputype"
NONE, ECHO, TWIN = "no webhook", "echo", "recorded echo"
OUT, OURS = "Drawbridge, out of scope", "Drawbridge, translated"
OUT_UNGUARDED, OURS_UNGUARDED = f"{OUT}, without the guard", f"{OURS}, without the guard"
TRANSLATED = (TWIN, OURS, OURS_UNGUARDED)
UNGUARDED = "rig.drawbridge.dev/unguarded"
GUARDS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/drawbridge"
GUARD = "guard.drawbridge.dev"
REQUESTS = "controller_runtime_webhook_requests_total"
NAMESPACES = {
    NONE: "rates-none",
    ECHO: "rates-echo",
    TWIN: "rates-twin",
    OUT: "rates-out",
    OURS: "rates-ours",
    OUT_UNGUARDED: "rates-out-unguarded",
    OURS_UNGUARDED: "rates-ours-unguarded",
}
# Eight different requests, which become eight templates.
ASKS = tuple((count, kind) for count in range(1, 5) for kind in ("", "A100"))
BESIDE = ("kube-scheduler", "kube-controller-manager")


@dataclass(frozen=True)
class Round:
    """What one turn of one kind gave: pods a second, processors used by whom, and pods."""

    rate: float
    made: int
    client: float
    server: float
    webhook: float


def pod(number: int, count: int, kind: str) -> JSON:
    """Write a pod of the usual size; without a count it asks for no device.

    Its label `ask` is what the echo of our answers knows it by.
    """
    env = [{"name": f"SETTING_{i}", "value": f"value-{i}-" + "v" * 24} for i in range(24)]
    amounts = {"cpu": "2", "memory": "8Gi", **({LEGACY: f"{count}"} if count else {})}
    container = {
        "name": "main",
        "image": "registry.example/serve:1.4",
        "command": ["python", "-m", "service", "--port=8080"],
        "env": env,
        "resources": {"limits": amounts, "requests": amounts},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    }
    return {
        "metadata": {
            "name": f"pod-{number}",
            "labels": {"app": "serve", "ask": _ask(count, kind)},
            "annotations": {"team": "serving", **({TYPE: kind} if kind else {})},
        },
        "spec": {"containers": [container]},
    }


def _ask(count: int, kind: str) -> str:
    return f"{count}-of-{kind or 'any'}"


def pods(kind: str, numbers: "itertools.count[int]") -> Iterator[JSON]:
    """Return pods of a kind without end."""
    asks = ASKS if kind in TRANSLATED else ((0, ""),)
    for count, product in itertools.cycle(asks):
        yield pod(next(numbers), count, product)


def path_of(kind: str) -> str:
    """Return the collection that pods of a kind are created in."""
    return f"/api/v1/namespaces/{NAMESPACES[kind]}/pods"


class RateMeasurement:
    """A control plane with everything that is compared."""

    def __init__(self, plane: ControlPlane, webhooks: Mapping[str, Replica]) -> None:
        self.plane = plane
        self.numbers = itertools.count(1)
        self.replica = webhooks[OURS]
        self.pids = {kind: each.started_process().child.pid for kind, each in webhooks.items()}
        self.servers = [plane.processes[n].child.pid for n in ("kube-apiserver", "etcd")]

    def requests(self, kind: str) -> Iterator[bytes]:
        """Return requests of a kind without end."""
        token = self.plane.tokens["admin"]
        for body in pods(kind, self.numbers):
            data = json.dumps(body, separators=(",", ":")).encode()
            yield request(path_of(kind), token, data)

    async def turn(self, creators: list[CreatingClient], kind: str, seconds: float) -> Round:
        """Create pods of a kind for so long, then delete them."""
        used = self._used(kind)
        began = time.perf_counter()
        requests = self.requests(kind)
        await asyncio.gather(*(each.go(requests, began + seconds) for each in creators))
        took = time.perf_counter() - began
        cpu = [(now - before) / took for now, before in zip(self._used(kind), used, strict=True)]
        made = sum(each.made for each in creators)
        await asyncio.to_thread(self._clear, kind, made)
        return Round(made / took, made, *cpu)

    def _used(self, kind: str) -> tuple[float, float, float]:
        webhook = cpu_seconds(self.pids[kind]) if kind in self.pids else 0.0
        return time.process_time(), sum(map(cpu_seconds, self.servers)), webhook

    def _clear(self, kind: str, made: int) -> None:
        admitted = self.plane.admin.get(path_of(kind))["items"]
        assert len(admitted) == made, f"{len(admitted)} of {made} are there"
        assert all(_admitted(each) == kind for each in admitted), kind
        self.plane.admin.call("DELETE", path_of(kind), {"gracePeriodSeconds": 0})


def _admitted(pod: JSON) -> str:
    """Say by what is on a pod who saw it."""
    namespace = pod["metadata"]["namespace"]
    (kind,) = (each for each, name in NAMESPACES.items() if name == namespace)
    if "drawbridge.dev/original" in pod["metadata"].get("annotations", {}):
        return kind if kind in TRANSLATED else OURS
    if "rig.drawbridge.dev/echo" in pod["metadata"]["labels"]:
        return ECHO
    return kind if kind in (OUT, OUT_UNGUARDED) else NONE


def namespaces(plane: ControlPlane) -> None:
    """Make a namespace for each kind; four of them are opted in."""
    for kind, name in NAMESPACES.items():
        labels = {MODE: "enforce"} if kind.startswith("Drawbridge") else {}
        if kind in (OUT_UNGUARDED, OURS_UNGUARDED):
            labels[UNGUARDED] = ""
        body = {"metadata": {"name": name, "labels": labels}}
        plane.admin.create("/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts"
        until(partial(_any, plane, account))


def install(plane: ControlPlane) -> Installation:
    """Install ours with one process of each, its admission on its Service's own address."""
    cluster = Installation(plane, Setup(webhooks=1, controllers=1))
    cluster.install()
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{WEBHOOK}"
    address = plane.admin.get(path)["spec"]["clusterIP"]
    (replica,) = cluster.webhooks
    replica.stop()
    replica.words = [*replica.words, f"--listen={address}:443"]  # the last one counts
    cluster.start_all()
    return cluster


def exclude_from_guard(plane: ControlPlane) -> None:
    """Keep the guard away from the namespaces that are measured without it."""
    names = [each["name"] for each in plane.admin.get(GUARDS)["webhooks"]]
    path = f"/webhooks/{names.index(GUARD)}/namespaceSelector/matchExpressions/-"
    operation = {"op": "add", "path": path, "value": {"key": UNGUARDED, "operator": "DoesNotExist"}}
    plane.admin.patch(GUARDS, [operation], "application/json-patch+json")


def twin(plane: ControlPlane) -> Replica:
    """Start the echo of our answers, each asked for once about a pod as the API server sends it."""
    answers = {}
    for count, kind in ASKS:
        made = plane.admin.create(path_of(NONE), pod(0, count, kind), dryRun="All")
        answers[_ask(count, kind)] = echoes.answer(plane, made, NAMESPACES[OURS])
    return echoes.start(
        plane, echoes.EchoRegistration("twin", NAMESPACES[TWIN], echoes.ours(plane), answers)
    )


@contextlib.contextmanager
def prepared() -> Iterator[RateMeasurement]:
    """Start everything, and wait until each kind is admitted as it is meant to be."""
    with ControlPlane(RIGS["installed"]("1.36")) as plane, Fleet(plane.admin, asleep=True) as fleet:
        for name, expression in objects.CLASSES.items():
            path = f"{objects.RESOURCE}/deviceclasses/{name}"
            plane.admin.apply(path, objects.device_class(name, expression))
        fleet.add("gpu-1", "dgx-a100", {GPU: "full"})
        namespaces(plane)
        (webhook,) = install(plane).webhooks
        exclude_from_guard(plane)
        echo = echoes.start(
            plane, echoes.EchoRegistration("echo", NAMESPACES[ECHO], echoes.PLAIN, {})
        )
        until(partial(_meant, plane, OURS))
        ours = dict.fromkeys((OUT, OURS, OUT_UNGUARDED, OURS_UNGUARDED), webhook)
        bench = RateMeasurement(plane, {ECHO: echo, TWIN: twin(plane), **ours})
        for kind in NAMESPACES:
            until(partial(_meant, plane, kind))
        for name in BESIDE:
            plane.processes.pop(name).stop()
        yield bench


def _any(plane: ControlPlane, path: str) -> bool:
    return bool(plane.admin.get(path)["items"])


def _meant(plane: ControlPlane, kind: str) -> bool:
    body = next(pods(kind, itertools.count()))
    return _admitted(plane.admin.create(path_of(kind), body, dryRun="All")) == kind


async def play(bench: RateMeasurement) -> dict[str, list[Round]]:
    """Let the kinds take turns, in another order each round: what one leaves, the next may pay."""
    plane = bench.plane
    authority = plane.authority.read_text(encoding="ascii")
    creators = await connect(plane.port, authority, CREATORS)
    rounds: dict[str, list[Round]] = {kind: [] for kind in NAMESPACES}
    order = random.Random(1)
    for number in range(ROUNDS + 1):
        for kind in order.sample(list(NAMESPACES), len(NAMESPACES)):
            turn = await bench.turn(creators, kind, SECONDS if number else WARM_SECONDS)
            if number:
                rounds[kind].append(turn)
    for creator in creators:
        creator.close()
    return rounds


def row(kind: str, rounds: list[Round], beside: list[list[Round]]) -> str:
    """Return one line of the table: medians, and the middle half.

    Ratios are of rounds that were played beside each other.
    """
    low, middle, high = statistics.quantiles([one.rate for one in rounds], n=4)
    rate = f"{middle:.0f} ({low:.0f} to {high:.0f})"
    shares = [statistics.median(getattr(one, who) for one in rounds) for who in _WHO]
    # Figures that do not depend on other load of the machine.
    costs = [
        statistics.median(1000 * getattr(one, who) / one.rate for one in rounds) for who in _WHO
    ]
    cells = [kind, rate, *(ratio(rounds, other) for other in beside), f"{100 * shares[0]:.0f} %"]
    return f"| {' | '.join([*cells, *(f'{cost:.2f}' for cost in costs)])} |"


def ratio(rounds: list[Round], others: list[Round]) -> str:
    """Compare round by round."""
    shares = [100 * one.rate / other.rate for one, other in zip(rounds, others, strict=True)]
    low, middle, high = statistics.quantiles(shares, n=4)
    return f"{middle:.0f} % ({low:.0f} to {high:.0f})"


def costs_of(pairs: Iterable[tuple[Round, Round]]) -> str:
    """Return what 500 pods cost the API server and etcd more in the first round of each pair."""
    differences = [
        500 * (one.server / one.rate - other.server / other.rate) for one, other in pairs
    ]
    low, middle, high = statistics.quantiles(differences, n=4)
    return f"{middle:+.2f} s of processor for 500 pods ({low:+.2f} to {high:+.2f})"


_WHO = ("client", "server", "webhook")
_HEAD = (
    "pods",
    "per second",
    "of echo",
    "of recorded echo",
    "client's share of a processor",
)
_COSTS = tuple(f"ms of {who} per pod" for who in ("client", "API server and etcd", "webhook"))


def rates(say: Callable[[str], None]) -> None:
    """Measure everything and say it as Markdown."""
    with prepared() as bench:
        say(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        say(f"| {' | '.join((*_HEAD, *_COSTS))} |")
        say(f"|{'---|' * len((*_HEAD, *_COSTS))}")
        ran = asyncio.run(play(bench))
        for kind, rounds in ran.items():
            say(row(kind, rounds, [ran[ECHO], ran[TWIN]]))
        for guarded, other in ((OUT, OUT_UNGUARDED), (OURS, OURS_UNGUARDED)):
            pairs = zip(ran[guarded], ran[other], strict=True)
            say(f"\nthe guard, {guarded}: {costs_of(pairs)}")
        calls = bench.replica.metric(REQUESTS, webhook="guard")
        made = sum(one.made for kind in (OUT, OURS) for one in ran[kind])
        say(f"\ncalls of the guard for {made} measured pods: {calls:.0f}")
        say(f"\nload after: {os.getloadavg()[0]:.1f}")
