"""How many pods a second an API server creates, without a webhook, with an echo, and with ours.

`python -m e2e rates`: kinds of pods take turns, and each round is compared with the echo's of the
same round. The webhooks listen on their Services' own addresses, without the rig's relay between;
the scheduler and the stock controllers stand still, or what they do with claims would be measured.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.client import JSON
from e2e.controlplane.plane import ControlPlane
from e2e.creators import Creator, connect, request
from e2e.installed.installation import MODE, NAMESPACE, WEBHOOK, Installed
from e2e.installed.replica import Replica
from e2e.nodes.fleet import Fleet
from e2e.scenarios import objects
from e2e.scenarios.registry import RIGS
from e2e.timings import cpu_seconds, until

CREATORS, ROUNDS, SECONDS, WARM_SECONDS = 16, 7, 4.0, 2.0
GPU, LEGACY, TYPE = "gpu.nvidia.com", "nvidia.com/gpu", "nvidia.com/use-gputype"
NONE, ECHO, OUT, OURS = "no webhook", "echo", "ours, out of scope", "ours, translated"
NAMESPACES = {NONE: "rates-none", ECHO: "rates-echo", OUT: "rates-out", OURS: "rates-ours"}
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
# Eight ways to ask; what they become is eight templates.
ASKS = tuple((count, kind) for count in range(1, 5) for kind in ("", "A100"))
BESIDE = ("kube-scheduler", "kube-controller-manager")


@dataclass(frozen=True)
class Round:
    """What one turn of one kind gave: pods a second, and processors used by whom."""

    rate: float
    client: float
    server: float
    webhook: float


def pod(number: int, count: int, kind: str) -> JSON:
    """Write a pod of the usual size; without a count it asks for no device."""
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
            "labels": {"app": "serve"},
            "annotations": {"team": "serving", **({TYPE: kind} if kind else {})},
        },
        "spec": {"containers": [container]},
    }


def pods(kind: str, numbers: "itertools.count[int]") -> Iterator[JSON]:
    """Give pods of a kind without end."""
    asks = ASKS if kind == OURS else ((0, ""),)
    for count, product in itertools.cycle(asks):
        yield pod(next(numbers), count, product)


def path_of(kind: str) -> str:
    """Give the collection that pods of a kind are created in."""
    return f"/api/v1/namespaces/{NAMESPACES[kind]}/pods"


class Bench:
    """A control plane with everything that is compared."""

    def __init__(self, plane: ControlPlane, town: Installed, echo: Replica) -> None:
        self.plane = plane
        self.town = town
        self.numbers = itertools.count(1)
        self.pids = {ECHO: _pid(echo), OUT: _pid(town.webhooks[0]), OURS: _pid(town.webhooks[0])}
        self.servers = [plane.processes[n].child.pid for n in ("kube-apiserver", "etcd")]

    def requests(self, kind: str) -> Iterator[bytes]:
        """Give requests of a kind without end."""
        token = self.plane.tokens["admin"]
        for body in pods(kind, self.numbers):
            data = json.dumps(body, separators=(",", ":")).encode()
            yield request(path_of(kind), token, data)

    async def turn(self, creators: list[Creator], kind: str, seconds: float) -> Round:
        """Create pods of a kind for so long, then delete them."""
        used = self._used(kind)
        began = time.perf_counter()
        requests = self.requests(kind)
        await asyncio.gather(*(each.go(requests, began + seconds) for each in creators))
        took = time.perf_counter() - began
        cpu = [(now - before) / took for now, before in zip(self._used(kind), used, strict=True)]
        made = sum(each.made for each in creators)
        await asyncio.to_thread(self._clear, kind, made)
        return Round(made / took, *cpu)

    def _used(self, kind: str) -> tuple[float, float, float]:
        webhook = cpu_seconds(self.pids[kind]) if kind in self.pids else 0.0
        return time.process_time(), sum(map(cpu_seconds, self.servers)), webhook

    def _clear(self, kind: str, made: int) -> None:
        found = self.plane.admin.get(path_of(kind))["items"]
        assert len(found) == made, f"{len(found)} of {made} are there"
        assert all(_admitted(each) == kind for each in found), kind
        self.plane.admin.call("DELETE", path_of(kind), {"gracePeriodSeconds": 0})


def _admitted(one: JSON) -> str:
    """Say by what is on a pod who saw it."""
    if "drawbridge.dev/original" in one["metadata"].get("annotations", {}):
        return OURS
    if "rig.drawbridge.dev/echo" in one["metadata"]["labels"]:
        return ECHO
    return OUT if one["metadata"]["namespace"] == NAMESPACES[OUT] else NONE


def _pid(replica: Replica) -> int:
    """Give the pid of a process that runs."""
    return replica.running().child.pid


def namespaces(plane: ControlPlane) -> None:
    """Make a namespace for each kind; two of them are opted in."""
    for kind, name in NAMESPACES.items():
        labels = {MODE: "enforce"} if kind in (OUT, OURS) else {}
        body = {"metadata": {"name": name, "labels": labels}}
        plane.admin.create("/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts"
        until(partial(_any, plane, account))


def install(plane: ControlPlane) -> Installed:
    """Install ours with one process of each, its admission on its Service's own address."""
    town = Installed(plane)
    town.install(webhooks=1, controllers=1)
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{WEBHOOK}"
    address = plane.admin.get(path)["spec"]["clusterIP"]
    (replica,) = town.webhooks
    replica.stop()
    replica.words = [*replica.words, f"--listen={address}:443"]  # the last one counts
    town.heal()
    return town


def echoing(plane: ControlPlane) -> Replica:
    """Start the echo behind a Service of its own, and let it be asked about its namespace."""
    name = NAMESPACES[ECHO]
    spec = {"selector": {"app": "echo"}, "ports": [{"port": 443}]}
    service = {"metadata": {"name": "echo"}, "spec": spec}
    made = plane.admin.create(f"/api/v1/namespaces/{name}/services", service)
    folder = plane.folder / "echo"
    folder.mkdir()
    public, private = self_signed(folder, f"echo.{name}.svc")
    words = (sys.executable, "-m", "e2e.installed.echo", public, private, made["spec"]["clusterIP"])
    replica = Replica("echo", words, folder / "log")
    plane.processes["echo"] = replica.start()
    until(lambda: bool(replica.port("admission")))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    hook = {
        "name": f"echo.{name}.svc",
        "clientConfig": {
            "service": {"namespace": name, "name": "echo", "path": "/"},
            "caBundle": base64.b64encode(public.read_bytes()).decode(),
        },
        "rules": [{**rule, "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
    }
    plane.admin.create(HOOKS, {"metadata": {"name": "rig-echo"}, "webhooks": [hook]})
    return replica


@contextlib.contextmanager
def prepared() -> Iterator[Bench]:
    """Start everything, and wait until each kind is admitted as it is meant to be."""
    with ControlPlane(RIGS["installed"]("1.36")) as plane, Fleet(plane.admin, asleep=True) as fleet:
        for name, expression in objects.CLASSES.items():
            path = f"{objects.RESOURCE}/deviceclasses/{name}"
            plane.admin.apply(path, objects.device_class(name, expression))
        fleet.add("gpu-1", "dgx-a100", {GPU: "full"})
        namespaces(plane)
        town, echo = install(plane), echoing(plane)
        bench = Bench(plane, town, echo)
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


async def play(bench: Bench) -> dict[str, list[Round]]:
    """Let the kinds take turns; who begins changes from round to round."""
    plane = bench.plane
    authority = plane.authority.read_text(encoding="ascii")
    creators = await connect(plane.port, authority, CREATORS)
    found: dict[str, list[Round]] = {kind: [] for kind in NAMESPACES}
    kinds = list(NAMESPACES)
    for number in range(ROUNDS + 1):
        for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
            one = await bench.turn(creators, kind, SECONDS if number else WARM_SECONDS)
            if number:
                found[kind].append(one)
    for each in creators:
        each.close()
    return found


def row(kind: str, rounds: list[Round], echo: list[Round]) -> str:
    """Give one line of the table; ratios are of rounds that were played beside each other."""
    each = " ".join(f"{one.rate:.0f}" for one in rounds)
    ratios = [100 * one.rate / other.rate for one, other in zip(rounds, echo, strict=True)]
    noise = f"{min(ratios):.0f} to {max(ratios):.0f}"
    shares = [statistics.median(getattr(one, who) for one in rounds) for who in _WHO]
    # What does not depend on who else uses the machine.
    costs = [
        statistics.median(1000 * getattr(one, who) / one.rate for one in rounds) for who in _WHO
    ]
    cells = [kind, each, f"{statistics.median(ratios):.0f} % ({noise})", f"{100 * shares[0]:.0f} %"]
    return f"| {' | '.join([*cells, *(f'{cost:.2f}' for cost in costs)])} |"


_WHO = ("client", "server", "webhook")
_HEAD = ("pods", "a second, each round", "of the echo's", "client's share of a processor")
_COSTS = tuple(f"ms of {who} a pod" for who in ("client", "API server and etcd", "webhook"))


def rates(say: Callable[[str], None]) -> None:
    """Measure everything and say it as Markdown."""
    with prepared() as bench:
        say(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        say(f"| {' | '.join((*_HEAD, *_COSTS))} |")
        say(f"|{'---|' * len((*_HEAD, *_COSTS))}")
        found = asyncio.run(play(bench))
        for kind, rounds in found.items():
            say(row(kind, rounds, found[ECHO]))
        say(f"\nload after: {os.getloadavg()[0]:.1f}")
