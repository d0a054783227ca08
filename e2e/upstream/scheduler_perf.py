"""Compares bridge placement with the stock scheduler in upstream's benchmark scheduler_perf.

    python -m e2e.upstream.scheduler_perf [--rounds 5] [--all] [--beside] [-k PART,...]

Each workload runs with and without Drawbridge in alternating order, each time in a new process with
an API server and an etcd of its own. Workloads, sizes and thresholds are those of the pinned
module, and two of a newer one (`newer.py`); `workloads.yaml` says why some are not measured.
Without `--all` only those run that upstream's own CI measures. With `--beside` they also run with
Drawbridge beside the stock scheduler, which does not ask it. The run fails if Drawbridge misses a
threshold that the stock scheduler reaches beside it: the thresholds are for machines of upstream's
CI, which few others equal.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.bridge.placement import COMPONENT, NAME
from e2e.controlplane.build import binaries
from e2e.installed.launch import COMMANDS
from e2e.installed.manifest import find
from e2e.runner import print_line
from e2e.upstream.build import kubernetes, suite
from e2e.upstream.newer import newer_cases, newer_module, rewritten

JSON = dict[str, Any]
HERE = Path(__file__).parent
FOLDER = Path("test/integration/scheduler_perf/dra")
CONFIGURATION = "performance-config.yaml"
DRIVER = "test-driver.cdi.k8s.io"
# The label in the benchmark's template of a node with devices.
OWNED = {"node-with-dra": "true"}
IN_TREE, OURS, BESIDE = "in-tree", "Drawbridge", "in-tree beside Drawbridge"
ROUNDS = 5
LIMIT_SECONDS = 1800
THROUGHPUT = "SchedulingThroughput"
ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
HEAD = (
    "| workload | scheduler | pods/s, each round | ratio | rate p50, p90, p99"
    " | attempt ms p50, p90, p99 | CPU s | CPU ms a pod | threshold |"
    "\n|---|---|---|---|---|---|---|---|---|"
)
PERCENTILES = ("Perc50", "Perc90", "Perc99")
PART = re.compile(r"^([\d.]+) ms_a_pod (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Workload:
    """One workload of upstream's, and whether CI of upstream measures it."""

    case: str
    name: str
    performance: bool
    threshold: float
    reason: str  # why it is not measured

    def __str__(self) -> str:
        return f"{self.case}/{self.name}"


@dataclass(frozen=True)
class Turn:
    """What one run measured."""

    rates: Mapping[str, float]  # pods per second: the average, and percentiles of the seconds
    attempts: Mapping[str, float]  # milliseconds of a scheduling attempt
    cpu: float  # seconds of all processes, from the start to the end
    parts: Mapping[str, float]  # milliseconds of CPU of each process for a pod


def workloads(folder: Path) -> Iterator[Workload]:
    """Yield all workloads of the folders that the table names."""
    table = yaml.safe_load((HERE / "workloads.yaml").read_text(encoding="utf-8"))
    for topic, reasons in table.items():
        cases = yaml.safe_load((folder / topic / CONFIGURATION).read_text(encoding="utf-8"))
        for case in cases:
            for one in case["workloads"]:
                yield _workload(topic, case["name"], one, reasons)


def newer_workloads(folder: Path) -> Iterator[Workload]:
    """Yield the workloads of the newer module that the pinned one does not have."""
    for case in newer_cases(folder):
        (workload,) = case["workloads"]
        yield _workload(".", case["name"], workload, {})


def _workload(topic: str, case: str, workload: JSON, reasons: Mapping[str, str]) -> Workload:
    name = workload["name"]
    threshold = workload.get("threshold", 0)
    if isinstance(threshold, dict):
        threshold = threshold.get("dra", 0)
    given = (reasons[key] for key in (f"{case}/{name}", name, case, "all") if key in reasons)
    labels = workload.get("labels", ())
    return Workload(
        case if topic == "." else f"{topic}/{case}",
        name,
        "performance" in labels,
        float(threshold),
        next(given, ""),
    )


class Bench:
    """Runs workloads; everything that it writes is in one folder."""

    def __init__(self, folder: Path) -> None:
        module = kubernetes()
        self.cache = module.parents[1]
        self.source = module / FOLDER
        self.folder = folder
        self.program = suite("scheduler")
        self.programs = binaries()
        self.socket = folder / "allocator.sock"
        self.workloads = self._write_workloads()
        (folder / "configuration.yaml").write_text(configuration(), encoding="utf-8")

    def _write_workloads(self) -> Mapping[str, Path]:
        """Write the workloads; for Drawbridge with the configuration of the manifests."""
        profile = self.folder / "scheduler.yaml"
        profile.write_text(scheduler_configuration(self.socket), encoding="utf-8")
        cases = yaml.safe_load((self.source / CONFIGURATION).read_text(encoding="utf-8"))
        cases += rewritten(newer_module() / FOLDER, self.folder)
        stock, ours = self.folder / "in-tree.yaml", self.folder / "drawbridge.yaml"
        stock.write_text(yaml.safe_dump(cases), encoding="utf-8")
        for case in cases:
            case["schedulerConfigPath"] = str(profile)
            case["workloadTemplate"] = [*map(self._without_grace, case["workloadTemplate"])]
        ours.write_text(yaml.safe_dump(cases), encoding="utf-8")
        return {IN_TREE: stock, OURS: ours, BESIDE: stock}

    def _without_grace(self, operation: JSON) -> JSON:
        """Return an operation whose pods, if any, have no containers that could still run.

        The benchmark deletes pods with force, and no kubelet confirms that they have ended.
        """
        template = operation.get("podTemplatePath")
        if template is None:
            return operation
        pod = yaml.safe_load((self.source / template).read_text(encoding="utf-8"))
        pod["spec"]["terminationGracePeriodSeconds"] = 0
        path = self.folder / Path(template).name
        path.write_text(yaml.safe_dump(pod), encoding="utf-8")
        return {**operation, "podTemplatePath": str(path)}

    def run(self, workload: Workload, kind: str) -> Turn:
        """Run a workload once."""
        data = Path(tempfile.mkdtemp(dir=self.folder))
        words = [*self._words(workload, kind), f"-data-items-dir={data}"]
        environment = os.environ | {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "TMPDIR": str(data),
            "KUBE_CACHE_MUTATION_DETECTOR": "false",
            # Where the API server's test certificates are; paths in the program are relative to it.
            "TEST_SRCDIR": str(self.cache),
            "TEST_WORKSPACE": ".",
        }
        log = data / "log"
        with log.open("w") as out:
            child = subprocess.Popen(
                words, cwd=self.source, env=environment, stdout=out, stderr=subprocess.STDOUT
            )
            _, _, usage = os.wait4(child.pid, 0)
        text = log.read_text(encoding="utf-8", errors="replace")
        return read_turn(data, text, usage.ru_utime + usage.ru_stime)

    def _words(self, workload: Workload, kind: str) -> list[str | Path]:
        words: list[str | Path] = [self.program, "-test.run=^$", "-test.benchtime=1x"]
        words += [f"-test.bench=^BenchmarkPerfScheduling$/^{workload.case}$/^{workload.name}$"]
        words += ["-perf-scheduling-label-filter=", f"-test.timeout={LIMIT_SECONDS}s"]
        words.append(f"-workloads={self.workloads[kind]}")
        if kind != IN_TREE:
            words.append(f"-beside={str(kind == BESIDE).lower()}")
            words.append(f"-drawbridge={COMMANDS / 'drawbridge'}")
            words += [f"-socket={self.socket}", f"-access={self.folder / 'kubeconfig'}"]
            words += [f"-configuration={self.folder / 'configuration.yaml'}"]
        return words


def read_turn(data: Path, text: str, cpu: float) -> Turn:
    """Read what a run wrote; the thresholds that it missed are not errors."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in data.glob("*.json")]
    items = [item for each in files for item in each["dataItems"] or ()]
    rates = [item["data"] for item in items if item["labels"].get("Metric") == THROUGHPUT]
    assert rates, text[-4000:]  # the benchmark prints why it failed at the end
    attempts = [
        item["data"]
        for item in items
        if item["labels"].get("Metric") == ATTEMPT and item["labels"].get("result") == "scheduled"
    ]
    parts = {name: float(number) for number, name in PART.findall(text)}
    return Turn(rates[-1], attempts[-1] if attempts else {}, cpu, parts)


def scheduler_configuration(path: Path) -> str:
    """Return the configuration of the manifests for the scheduler of the benchmark."""
    text = (COMPONENT / "scheduler-configuration.yaml").read_text(encoding="utf-8")
    objects = list(yaml.safe_load_all(text))
    wanted = yaml.safe_load(find(objects, "ConfigMap", NAME)["data"]["scheduler.yaml"])
    for profile in wanted["profiles"]:
        # Pods of the benchmark name no scheduler.
        profile["schedulerName"] = "default-scheduler"
        profile["pluginConfig"][0]["args"]["socket"] = str(path)
    return yaml.safe_dump(wanted)


def configuration() -> str:
    """Return the ConfigMap of a configuration that owns the benchmark's driver."""
    # The pods of the benchmark tolerate no taint.
    owned = {"driver": DRIVER, "nodeSelector": {"matchLabels": OWNED}, "unfenced": True}
    head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    bridge = {"forcedDeletionSeconds": 0}
    text = yaml.safe_dump({**head, "placement": "bridge", "bridge": bridge, "ownedPools": [owned]})
    data = {"metadata": {"name": "drawbridge-config"}, "data": {"config.yaml": text}}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", **data})


def compare(
    chosen: Sequence[Workload],
    rounds: int,
    say: Callable[[str], None],
    kinds: Sequence[str] = (IN_TREE, OURS),
) -> int:
    """Say the results as Markdown; return how many thresholds only Drawbridge missed."""
    failures = 0
    say(f"{os.cpu_count()} processors, {rounds} rounds; load before: {os.getloadavg()[0]:.1f}\n")
    say(HEAD)
    with tempfile.TemporaryDirectory(prefix="perf-") as folder:
        bench = Bench(Path(folder))
        for workload in chosen:
            turns: dict[str, list[Turn]] = {kind: [] for kind in kinds}
            for number in range(rounds):
                for kind in turns if number % 2 else reversed(turns):
                    turns[kind].append(bench.run(workload, kind))
            for kind, made in turns.items():
                say(row(workload, kind, made, turns[IN_TREE]))
            failures += misses(workload, turns[OURS]) and not misses(workload, turns[IN_TREE])
    say(f"\nload after: {os.getloadavg()[0]:.1f}")
    return failures


def misses(workload: Workload, turns: Sequence[Turn]) -> bool:
    """Return whether the median rate is below the threshold."""
    return statistics.median(turn.rates["Average"] for turn in turns) < workload.threshold


def row(workload: Workload, kind: str, turns: Sequence[Turn], beside: Sequence[Turn]) -> str:
    """Return one line of the table, with ratios to the turns beside these."""
    rates = [turn.rates["Average"] for turn in turns]
    ratios = [
        turn.rates["Average"] / other.rates["Average"]
        for turn, other in zip(turns, beside, strict=True)
    ]
    cells = [
        str(workload),
        kind,
        " ".join(f"{rate:.0f}" for rate in rates),
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        _percentiles([turn.rates for turn in turns], 0),
        _percentiles([turn.attempts for turn in turns], 1),
        f"{statistics.median(turn.cpu for turn in turns):.0f}",
        ", ".join(
            f"{name} {statistics.median(turn.parts.get(name, 0.0) for turn in turns):.1f}"
            for name in turns[0].parts
        ),
        _threshold(workload, turns),
    ]
    return f"| {' | '.join(cells)} |"


def _threshold(workload: Workload, turns: Sequence[Turn]) -> str:
    if not workload.threshold:
        return "none"
    return f"{workload.threshold:.0f}, {'missed' if misses(workload, turns) else 'reached'}"


def _percentiles(data: Sequence[Mapping[str, float]], digits: int) -> str:
    if not all(data):
        return ""
    medians = (statistics.median(one[name] for one in data) for name in PERCENTILES)
    return ", ".join(f"{value:.{digits}f}" for value in medians)


def main(words: Sequence[str]) -> int:
    """Measure what the options select."""
    parser = argparse.ArgumentParser(prog="python -m e2e.upstream.scheduler_perf")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--all", action="store_true", help="also those that upstream's CI leaves out"
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="also with Drawbridge beside a scheduler that does not ask it",
    )
    parser.add_argument(
        "-k", default="", metavar="PART,...", help="only workloads with such a name"
    )
    options = parser.parse_args(words)
    folder = kubernetes() / FOLDER
    parts = options.k.split(",")
    chosen = [
        one
        for one in (*workloads(folder), *newer_workloads(newer_module() / FOLDER))
        if not one.reason
        and (one.performance or options.all)
        and any(part in str(one) for part in parts)
    ]
    kinds = (IN_TREE, OURS, BESIDE) if options.beside else (IN_TREE, OURS)
    return int(compare(chosen, options.rounds, print_line, kinds) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
