"""Measures the stock control plane for comparisons: `python -m e2e timings`.

The nodes are idle, so the figures show the API server, the controllers and the scheduler. Other
load on the machine adds noise.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from e2e.controlplane import build
from e2e.controlplane.client import JSON
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.watch import ListWatch
from e2e.nodes.family import CLASSES, FAMILIES
from e2e.nodes.fleet import Fleet, NodePlan
from e2e.nodes.layout import Sheet
from e2e.nodes.machine import machine
from e2e.scenarios import objects
from e2e.scenarios.objects import claim_spec, request

PODS = 500
RUNS = 3
WRITERS = 8
PATIENCE_SECONDS = 300.0
GPU, NIC = "gpu.nvidia.com", "dra.net"
ROOT = "resource.kubernetes.io/pcieRoot"
QUESTIONS = {
    "single": claim_spec(request("gpu", GPU)),
    "pair": claim_spec(
        request("gpu", GPU),
        request("nic", NIC),
        constraints=[{"requests": ["gpu", "nic"], "matchAttribute": ROOT}],
    ),
}
POD_PATH = "/api/v1/namespaces/default/pods"
CLAIM_PATH = f"{objects.RESOURCE}/namespaces/default/resourceclaims"


@dataclass(frozen=True)
class Run:
    """Rates in pods per second, over all and over the middle 80 %; CPU seconds by process."""

    rate: float
    middle: float
    cpu: Mapping[str, float]


STOCK = ("kube-scheduler", "kube-apiserver")


def cpu_seconds(pid: int) -> float:
    """Return how much processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(question: Callable[[], bool]) -> None:
    """Wait until the answer is yes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not question():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS:g} s")
        time.sleep(0.05)


def measure(
    plane: ControlPlane,
    question: str,
    processes: Iterable[str] = STOCK,
    scheduler: str = "default-scheduler",
    pods: int = PODS,
) -> Run:
    """Create the pods at once and time until each is bound; everything is deleted afterwards."""
    bound: dict[str, float] = {}

    def told(kind: str, pod: JSON) -> None:
        if kind != "DELETED" and pod["spec"].get("nodeName"):
            bound.setdefault(pod["metadata"]["name"], time.monotonic())

    watch = ListWatch(plane.client(plane.tokens["admin"]), POD_PATH, told)
    watch.start()
    pids = {name: plane.processes[name].child.pid for name in processes}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    started = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda number: _create(plane, question, number, scheduler), range(pods)))
    until(lambda: len(bound) == pods)
    used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
    watch.stop()
    _clear(plane)
    times = sorted(bound.values())
    low, high = pods // 10, pods - pods // 10 - 1
    middle = (high - low) / (times[high] - times[low])
    return Run(pods / (times[-1] - started), middle, used)


def _create(plane: ControlPlane, question: str, number: int, scheduler: str) -> None:
    spec = objects.pod_spec(templates={"devices": question}, schedulerName=scheduler)
    plane.admin.create(POD_PATH, {"metadata": {"name": f"pod-{number}"}, "spec": spec})


def _clear(plane: ControlPlane) -> None:
    plane.admin.call("DELETE", POD_PATH, {"gracePeriodSeconds": 0})
    until(lambda: not plane.admin.get(CLAIM_PATH)["items"])


def populate(
    fleet: Fleet, numbers: Iterable[int], labels: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Add nodes of eight GPUs and eight NICs, the NICs listed in the reverse order of the roots."""
    numbers = list(numbers)
    drivers = {GPU: "full"}
    fleet.add_all([NodePlan(_node(number), "hgx-h100", drivers, labels) for number in numbers])

    def nics(number: int) -> None:
        layout = FAMILIES[NIC].publish(machine(_node(number), "hgx-h100"))
        backwards = tuple(reversed(layout.sheets[0].devices))
        fleet.publish(replace(layout, sheets=(Sheet(backwards),)))

    fleet.driver(NIC)
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(nics, numbers))


def _node(number: int) -> str:
    return f"node-{number:03}"


def row(name: str, nodes: int, runs: list[Run]) -> str:
    """Return one line of the table: the runs, and the median of each figure."""
    single = " ".join(f"{run.rate:.0f}" for run in runs)
    middle = statistics.median(run.middle for run in runs)
    cpu = [f"{statistics.median(run.cpu[each] for run in runs):.1f}" for each in STOCK]
    return f"| {name} | {nodes} | {single} | {middle:.0f} | {' | '.join(cpu)} |"


def prepare(plane: ControlPlane) -> None:
    """Create the classes and the templates of the pods."""
    account = "/api/v1/namespaces/default/serviceaccounts"
    until(lambda: bool(plane.admin.get(account)["items"]))
    for name, expression in CLASSES.items():
        path = f"{objects.RESOURCE}/deviceclasses/{name}"
        plane.admin.apply(path, objects.device_class(name, expression))
    templates = f"{objects.RESOURCE}/namespaces/default/resourceclaimtemplates"
    for name, spec in QUESTIONS.items():
        plane.admin.create(templates, {"metadata": {"name": name}, "spec": {"spec": spec}})


def timings(say: Callable[[str], None]) -> None:
    """Measure everything and say it as Markdown."""
    started = time.monotonic()
    build.binaries()
    say(f"build, nothing to do: {time.monotonic() - started:.2f} s")
    started = time.monotonic()
    with ControlPlane() as plane:
        say(f"start of the control plane: {time.monotonic() - started:.1f} s")
        prepare(plane)
        say(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        say("| devices | nodes | pods/s, each run | middle 80 % | scheduler CPU s | API CPU s |")
        say("|---|---|---|---|---|---|")
        with Fleet(plane.admin, asleep=True) as fleet:
            for first, nodes in ((0, 100), (100, 500)):
                populate(fleet, range(first, nodes))
                for name in QUESTIONS:
                    say(row(name, nodes, [measure(plane, name) for _ in range(RUNS)]))
        say(f"\nload after: {os.getloadavg()[0]:.1f}")
