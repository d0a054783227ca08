"""Runs upstream's end-to-end tests for DRA on the rig: `python -m e2e.upstream.dra [KIND ...]`.

    python -m e2e.upstream.dra                      # all kinds
    python -m e2e.upstream.dra bridge -k 'reusing|deallocate'    # only tests with such a name
    python -m e2e.upstream.dra --nodes real         # with real kubelets, as root

The kind `in-tree` has the stock scheduler, `bridge` Drawbridge's scheduler in its place, and
`admission` the stock scheduler with webhook and judge for all namespaces.
`skipped.yaml` says which tests are left out, `differences.yaml` which ones fail by design.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.bridge.placement import HEADER, OWNED, Placement
from e2e.controlplane.build import DEFAULT
from e2e.controlplane.client import Client
from e2e.controlplane.plane import CONTROLLERS, ControlPlane, Options
from e2e.controlplane.threaded import repeating
from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import Installation, Setup
from e2e.installed.judge import judged
from e2e.nodes.fleet import Fleet, NodePlan
from e2e.realnodes.enter import RUN, run_inside
from e2e.realnodes.fleet import RealFleet
from e2e.runner import print_line
from e2e.scenarios.objects import RESOURCE
from e2e.scenarios.registry import default_options
from e2e.scenarios.stage import Stage
from e2e.timings import until
from e2e.upstream.build import program, suite
from e2e.upstream.real import lacks, real_nodes

JSON = dict[str, Any]
HERE = Path(__file__).parent
IN_TREE, BRIDGE, ADMISSION = KINDS = ("in-tree", "bridge", "admission")
STOCK = "default-scheduler"
NODES = ("a", "b", "c")
SHAPE = "lab-2g2n"
SIMULATED, REAL = "simulated", "real"
# Tests that need no feature, or one that is behind a gate which is on here.
FILTERS = {SIMULATED: "DRA && Feature: isSubsetOf OffByDefault", REAL: "DRA"}
# Each driver that ends keeps its slices for 30 s, for which a test waits.
PROCESSES = {SIMULATED: 1, REAL: 6}
LIMIT = "3h"
REPORT = "upstream"
GATES = {"DRAResourcePoolStatus": True}
CONTROLLER = "resourcepoolstatusrequest-controller"
VERSIONS = ("v1alpha3", "v1beta1", "v1beta2")
LOOK_SECONDS = 0.3
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Result:
    """What became of one test; `reason` says why it was skipped or how it failed."""

    name: str
    state: str
    reason: str = ""


def options(kind: str) -> Options:
    """Return the control plane of a kind."""
    default = default_options(DEFAULT)
    runtime = {f"resource.k8s.io/{version}": True for version in VERSIONS}
    return replace(
        default,
        gates={**default.gates, **GATES},
        runtime={**default.runtime, **runtime},
        controllers=(*CONTROLLERS, CONTROLLER),
        # The pods of the driver are.
        apiserver=("--allow-privileged=true",),
        schedulers={} if kind == BRIDGE else default.schedulers,
    )


def play(kind: str, nodes: str, part: str, into: Path | None) -> list[Result]:
    """Run the tests on a control plane of their own; report and log go to a folder."""
    with contextlib.ExitStack() as stack:
        plane, fleet = stack.enter_context(CLUSTERS[nodes](kind))
        if kind != IN_TREE:
            stack.enter_context(installed(kind, plane, fleet))
        try:
            return run(plane, nodes, part)
        finally:
            if into:
                for made in plane.folder.glob(f"{REPORT}.*"):
                    shutil.copyfile(made, into / f"{kind}-{nodes}{made.suffix}")


@contextlib.contextmanager
def simulated_nodes(kind: str) -> Iterator[tuple[ControlPlane, Fleet]]:
    """Start a control plane with simulated nodes."""
    with ControlPlane(options(kind)) as plane, Fleet(plane.admin) as fleet:
        fleet.add_all(NodePlan(name, SHAPE, labels=OWNED) for name in NODES)
        yield plane, fleet


@contextlib.contextmanager
def kubelets(kind: str) -> Iterator[tuple[ControlPlane, Fleet]]:
    """Start a control plane with real nodes."""
    with real_nodes(NODES, options(kind)) as rig, RealFleet(rig) as fleet:
        for name in NODES:
            rig.plane.admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": OWNED}})
        yield rig.plane, fleet


CLUSTERS = {SIMULATED: simulated_nodes, REAL: kubelets}


@contextlib.contextmanager
def installed(kind: str, plane: ControlPlane, fleet: Fleet) -> Iterator[None]:
    """Install Drawbridge as a kind has it."""
    cluster = Installation(plane, Setup(webhooks=1, controllers=1))
    cluster.install()
    with cluster.reachable():
        if kind == ADMISSION:
            # Every namespace is in scope, except those of the system.
            configure_and_wait(cluster, f"{HEADER}scope: {{namespaceSelector: {{}}}}\n")
            with judged(Stage("upstream", DEFAULT, plane.admin, fleet, plane), cluster):
                yield
            return
        placement = Placement(cluster, STOCK)
        placement.install(1, unfenced=True)
        until(lambda: placement.find_leader() is not None)
        with owned_drivers(cluster):
            yield


@contextlib.contextmanager
def owned_drivers(cluster: Installation) -> Iterator[None]:
    """Own the pools of each driver that publishes slices, as an administrator configures it.

    Each test has a driver with a name of its own.
    """
    seen: set[str] = set()

    def follow() -> None:
        nonlocal seen
        drivers = published(cluster.plane.admin)
        # Bridge placement has at least one entry.
        if drivers and drivers != seen:
            seen = drivers
            cluster.configure(owning(sorted(drivers)))

    with repeating(follow, LOOK_SECONDS):
        yield


def published(client: Client) -> set[str]:
    """Return the drivers that publish slices."""
    slices = client.get(f"{RESOURCE}/resourceslices")["items"]
    return {each["spec"]["driver"] for each in slices}


def owning(drivers: Sequence[str]) -> str:
    """Return a configuration that owns the pools of drivers on all nodes of the rig."""
    entry = {"nodeSelector": {"matchLabels": OWNED}, "unfenced": True}
    owned = [{"driver": driver, **entry} for driver in drivers]
    return f"{HEADER}{yaml.safe_dump({'placement': 'bridge', 'ownedPools': owned})}"


def run(plane: ControlPlane, nodes: str, part: str) -> list[Result]:
    """Run the program of the tests and return their results."""
    report, log = plane.folder / f"{REPORT}.json", plane.folder / f"{REPORT}.log"
    tests = plane.folder / "dra.test"  # ginkgo runs programs with such a name only
    tests.symlink_to(suite("dra"))
    words = [str(program("ginkgo")), f"--procs={PROCESSES[nodes]}", f"--timeout={LIMIT}"]
    words += [f"--label-filter={FILTERS[nodes]}", f"--focus={part}", "--no-color", "-v"]
    words += [f"--output-dir={plane.folder}", f"--json-report={report.name}", str(tests)]
    words += ["--", f"--kubeconfig={plane.user_config()}", "--provider=skeleton"]
    path = f"{plane.bin}{os.pathsep}{os.environ['PATH']}"
    with log.open("w") as out:
        subprocess.run(
            words,
            check=False,
            cwd=plane.folder,
            env=os.environ | {"PATH": path},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    assert report.exists(), log.read_text(encoding="utf-8", errors="replace")[-4000:]
    made = results(json.loads(report.read_text(encoding="utf-8")), read("skipped.yaml"))
    return [each for each in made if re.search(part, each.name)]


def read(name: str) -> list[dict[str, str]]:
    """Read a table of parts of names and reasons."""
    table: list[dict[str, str]] = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))
    return table


def results(report: Sequence[JSON], reasons: Sequence[Mapping[str, str]]) -> list[Result]:
    """Return what became of each test; one that is skipped without a reason has failed."""
    tests = []
    for spec in (spec for suite_ in report for spec in suite_["SpecReports"]):
        if spec["LeafNodeType"] != "It":
            continue
        hierarchy = spec["ContainerHierarchyTexts"] or ()
        name = " ".join((*hierarchy[1:], spec["LeafNodeText"]))
        message = spec.get("Failure", {}).get("Message", "")
        if spec["State"] == SKIPPED and not message:
            message = reason_for(f"{name} {' '.join(labels(spec))}", reasons)
            tests.append(Result(name, SKIPPED if message else FAILED, message or "no reason"))
        else:
            tests.append(Result(name, spec["State"], message))
    return sorted(tests, key=lambda result: result.name)


def labels(spec: JSON) -> list[str]:
    """Return the labels of a test and of what it is in."""
    groups = [*(spec["ContainerHierarchyLabels"] or ()), spec["LeafNodeLabels"]]
    return [label for group in groups for label in group or ()]


def reason_for(text: str, reasons: Sequence[Mapping[str, str]]) -> str:
    """Return the reason of the first entry whose part is in a text; none if there is no such."""
    return next((each["reason"] for each in reasons if each["part"] in text), "")


def judge(kind: str, made: Sequence[Result], say: Callable[[str], None]) -> int:
    """Print what did not pass; return the number of failures that no difference explains."""
    differences = [each for each in read("differences.yaml") if kind in each["kinds"]]
    unexplained = 0
    for result in made:
        if result.state in (PASSED, SKIPPED):
            continue
        reason = reason_for(result.name, differences)
        unexplained += not reason
        text = reason or " ".join(result.reason.split())
        say(f"{'DIFFERS' if reason else 'FAIL'}  {kind}  {result.name}: {text}")
    skipped = Counter(each.reason for each in made if each.state == SKIPPED)
    for reason, number in skipped.most_common():
        say(f"SKIP  {kind}  {number} tests: {reason}")
    counts = Counter(each.state for each in made)
    say(f"{kind}: {', '.join(f'{number} {state}' for state, number in sorted(counts.items()))}")
    return unexplained


def main(words: Sequence[str]) -> int:
    """Run the kinds; 1 if a test failed that no difference explains."""
    parser = argparse.ArgumentParser(prog="python -m e2e.upstream.dra")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    parser.add_argument("--nodes", choices=list(CLUSTERS), default=SIMULATED)
    parser.add_argument(
        "-k", default="", metavar="NAME", help="only tests with such a name, a regular expression"
    )
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="keep reports and logs there")
    given = parser.parse_args(words)
    kinds = given.kinds or KINDS
    if given.nodes == SIMULATED or RUN in os.environ:
        codes = [
            judge(kind, play(kind, given.nodes, given.k, given.into), print_line) for kind in kinds
        ]
        return int(any(codes))
    if reason := lacks():
        print_line(f"SKIP  {', '.join(kinds)}: {reason}")
        return 0
    # Each rig has namespaces of its own.
    command = [sys.executable, "-m", "e2e.upstream.dra", f"--nodes={REAL}", f"-k={given.k}"]
    command += [f"--into={given.into}"] if given.into else []
    return max([run_inside([*command, kind], print_line) for kind in kinds])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
