"""Scenario: DeviceClasses go from one release of Helm to another while pods come and go."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from e2e.installed.installation import Installation
from e2e.installed.kubectl import CommandResult, run
from e2e.renderers.build import binaries
from e2e.scenarios.admission import GPU, NEEDS, claim_of, legacy_pod, prepare_pod
from e2e.scenarios.lifecycle import read_commands, run_documented
from e2e.scenarios.objects import RESOURCE
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

CLASS = f"{RESOURCE}/deviceclasses/{GPU}"
SPACE = "gpu-operator"
OLD, NEW = "dra-driver", "gpu-operator"
KEEP, RELEASE = "helm.sh/resource-policy", "meta.helm.sh/release-name"
ROOT = Path(__file__).parents[2]
PAGE, SECTION = ROOT / "docs" / "beside.md", "DeviceClasses between Helm releases"
CHART = {"apiVersion": "v2", "name": "driver", "version": "1.0.0"}
ROUNDS = 3  # of pods before, between and after the steps
LOOK = 0.02


@scenario("full", rig="installed", needs=NEEDS)
def classes_change_their_release_while_pods_come_and_go(stage: Stage) -> None:
    """The steps of docs/beside.md: no pod is refused, and the class is there at each look."""
    cluster, _, _ = prepare_pod(stage, "probe")
    chart = _write_chart(stage)
    stage.later(lambda: _forget_releases(stage, cluster))
    _helm(cluster, "install", OLD, chart, "--create-namespace", "--take-ownership").check()
    uid = stage.client.get(CLASS)["metadata"]["uid"]
    with _pods_come_and_go(stage, cluster) as turns, _watched(stage) as absent:
        for command in _steps(chart):
            done = turns()
            run_documented(cluster, f"export HELM_NAMESPACE={SPACE}; {command}", ROOT).check()
            stage.wait("pods come and go", lambda done=done: turns() >= done + ROUNDS)  # type: ignore[misc]
    owned = stage.client.get(CLASS)
    assert absent == [], absent
    assert owned["metadata"]["uid"] == uid
    assert owned["metadata"]["annotations"][RELEASE] == NEW, owned
    assert KEEP not in owned["metadata"]["annotations"], owned


def _steps(chart: str) -> Iterator[str]:
    """Yield the commands of the page, with this chart and its value."""
    for command in read_commands(SECTION, PAGE):
        named = command.replace("<its chart>", chart)
        yield named.replace("<values without its classes>", "--set classes=false")


def _write_chart(stage: Stage) -> str:
    """Write a chart with the class of GPUs as it is in this cluster, and return its folder."""
    live = stage.client.get(CLASS)
    body = {"apiVersion": live["apiVersion"], "kind": live["kind"], "spec": live["spec"]}
    text = yaml.safe_dump({**body, "metadata": {"name": GPU}})
    folder = stage.processes.folder / f"chart-{stage.name}"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(CHART), "utf-8")
    (folder / "values.yaml").write_text("classes: true\n", "utf-8")
    (folder / "templates" / "class.yaml").write_text(
        "{{- if .Values.classes }}\n" + text + "{{- end }}\n", "utf-8"
    )
    return str(folder)


def _helm(cluster: Installation, *words: str) -> CommandResult:
    """Run helm as the user of kubectl."""
    options = (f"--namespace={SPACE}", f"--kubeconfig={cluster.kubectl.access}")
    command = [str(binaries() / "helm"), *words, *options]
    return run(command, ("helm", *words), environment=cluster.environment())


def _forget_releases(stage: Stage, cluster: Installation) -> None:
    """Remove both releases, and leave the class to the next stages."""
    cluster.kubectl.inside("")("delete", "namespace", SPACE, "--ignore-not-found").check()
    words = (f"{KEEP}-", f"{RELEASE}-", "meta.helm.sh/release-namespace-")
    cluster.kubectl.inside("")("annotate", "deviceclass", GPU, *words).check()
    assert stage.client.get(CLASS)["metadata"]["uid"]


@contextlib.contextmanager
def _pods_come_and_go(stage: Stage, cluster: Installation) -> Iterator[Callable[[], int]]:
    """Create, run and delete legacy pods all the time; yield how often. None may be refused."""
    ended, done, problems = threading.Event(), [0], list[str]()
    kubectl = cluster.kubectl.inside(stage.namespace)

    def play() -> None:
        try:
            while not ended.is_set():
                name = f"pod-{done[0]}"
                kubectl.apply(legacy_pod(stage, name)).check()
                stage.wait_running(name)
                assert claim_of(stage, name)
                stage.delete_pod(name)
                done[0] += 1
        except Exception as problem:  # noqa: BLE001  # told by the scenario
            problems.append(repr(problem))

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    try:
        yield lambda: done[0] if not problems else _fail(problems)
    finally:
        ended.set()
        thread.join()
    assert problems == [], problems


def _fail(problems: list[str]) -> int:
    raise AssertionError(problems)


@contextlib.contextmanager
def _watched(stage: Stage) -> Iterator[list[float]]:
    """Look for the class all the time; yield the times at which it was not there."""
    ended, absent = threading.Event(), list[float]()

    def look() -> None:
        while not ended.wait(LOOK):
            if not stage.exists(CLASS):
                absent.append(time.monotonic())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield absent
    finally:
        ended.set()
        thread.join()
