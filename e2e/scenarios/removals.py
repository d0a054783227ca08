"""Scenario: what is removed ends, and lets wait, whom `drawbridge simulate --without` names."""

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final, NamedTuple

from e2e.installed.installation import Installation, installed
from e2e.installed.kubectl import CommandResult
from e2e.nodes import slices
from e2e.runner import print_line
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU: Final = "gpu.nvidia.com"
CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
# The nightly run and a release try more.
ROUNDS: Final = int(os.environ.get("DRAWBRIDGE_E2E_ROUNDS", "25"))
RUNNING: Final = 5
SIZES: Final = (1, 2, 3)
SUFFIXES: Final = ("a", "b")
# How long all others must stay, and caches of the scheduler may take.
QUIET_SECONDS: Final = 1.0


@scenario("full", since="1.36", rig="installed", needs=("processes",))
def a_removal_lets_wait_whom_the_simulation_names(stage: Stage) -> None:
    """Drawn removals; the named pods go, all others stay, and a new pod waits if it is said so."""
    seed = random.randrange(1_000_000)  # draws cases, and is told
    drawn = random.Random(seed)  # the same
    cluster = installed(stage)
    for suffix in SUFFIXES:
        stage.node(suffix, "dgx-a100", {GPU: "full"})
    for size in range(1, 9):
        stage.template(f"t-{size}", claim_spec(request("gpu", GPU, count=size)))
    waits = 0
    for number in range(ROUNDS):
        _fill(stage, drawn, number)
        removal = _draw_removal(stage, drawn)
        asked = f"asked-{number}"
        body = stage.pod_object(asked, templates={"gpu": f"t-{drawn.randint(1, 8)}"})
        body["metadata"]["namespace"] = stage.namespace
        is_placed, told = _predict(cluster, body, removal.words)
        before = _running(stage)
        with removal.remove():
            time.sleep(QUIET_SECONDS)
            stage.client.create(stage.pod_path(), body)
            stage.wait(f"{asked} is decided", partial(_is_decided, stage, asked), 60.0)
            was_placed = bool(stage.get_pod(asked)["spec"].get("nodeName"))
            assert was_placed == is_placed, (seed, number, removal.words, told)
            assert _running(stage) - {asked} == before - removal.leaving, (
                seed,
                number,
                removal.words,
            )
            stage.delete_pod(asked)
            stage.wait_gone(stage.pod_path(asked))
        waits += not is_placed
    print_line(f"      {ROUNDS} removals, of which {waits} let the new pod wait; seed {seed}")
    assert 0 < waits < ROUNDS


def _fill(stage: Stage, drawn: random.Random, number: int) -> None:
    """Let pods run again in the place of those that went."""
    for index in range(RUNNING - len(_running(stage))):
        name = f"run-{number}-{index}"
        stage.run_pod(name, templates={"gpu": f"t-{drawn.choice(SIZES)}"})


def _running(stage: Stage) -> frozenset[str]:
    pods = stage.client.get(stage.pod_path())["items"]
    return frozenset(
        each["metadata"]["name"]
        for each in pods
        if each["spec"].get("nodeName") and "deletionTimestamp" not in each["metadata"]
    )


class Removal(NamedTuple):
    """What the command is told, what is done meanwhile, and the pods that go."""

    words: tuple[str, ...]
    remove: Callable[[], AbstractContextManager[None]]
    leaving: frozenset[str] = frozenset()


def _draw_removal(stage: Stage, drawn: random.Random) -> Removal:
    kind = drawn.choice(("pod", "node", "class", "driver"))
    if kind == "pod":
        names = frozenset(drawn.sample(sorted(_running(stage)), drawn.randint(1, 2)))
        words = tuple(f"--without=pod/{stage.namespace}/{name}" for name in sorted(names))
        return Removal(words, lambda: _without_pods(stage, names), names)
    if kind == "node":
        node = stage.node_name(drawn.choice(SUFFIXES))
        leaving = frozenset(
            name for name in _running(stage) if stage.get_pod(name)["spec"]["nodeName"] == node
        )
        return Removal((f"--without=node/{node}",), lambda: _drained(stage, node, leaving), leaving)
    if kind == "class":
        return Removal((f"--without=class/{GPU}",), lambda: _without_class(stage))
    return Removal((f"--without=driver/{GPU}",), lambda: _without_driver(stage))


@contextmanager
def _without_pods(stage: Stage, names: Iterable[str]) -> Iterator[None]:
    for name in names:
        stage.client.delete(stage.pod_path(name), grace=0)
    for name in names:
        stage.wait_gone(stage.pod_path(name))
    yield


@contextmanager
def _drained(stage: Stage, node: str, names: Iterable[str]) -> Iterator[None]:
    path = f"/api/v1/nodes/{node}"
    stage.client.patch(path, {"spec": {"unschedulable": True}})
    try:
        with _without_pods(stage, names):
            yield
    finally:
        stage.client.patch(path, {"spec": {"unschedulable": None}})


@contextmanager
def _without_class(stage: Stage) -> Iterator[None]:
    live = stage.client.get(f"{CLASSES}/{GPU}")
    stage.client.delete(f"{CLASSES}/{GPU}")
    try:
        yield
    finally:
        metadata = {key: live["metadata"].get(key) for key in ("name", "labels", "annotations")}
        stage.client.create(CLASSES, {**live, "metadata": metadata})


@contextmanager
def _without_driver(stage: Stage) -> Iterator[None]:
    layouts = [stage.fleet.layout(GPU, stage.node_name(suffix)) for suffix in SUFFIXES]
    for layout in layouts:
        slices.withdraw(stage.client, layout)
    try:
        yield
    finally:
        for layout in layouts:
            stage.fleet.publish(layout)


def _predict(cluster: Installation, pod: JSON, words: Sequence[str]) -> tuple[bool, CommandResult]:
    """Return whether `drawbridge simulate` places the pod after the removal."""
    ran = cluster.drawbridge(
        "simulate", "-f", "-", "--context", "-o", "json", *words, stdin=json.dumps(pod)
    )
    name = pod["metadata"]["name"]
    nodes = {each["pod"].partition("/")[2]: each["node"] for each in json.loads(ran.out)["pods"]}
    return nodes[name] is not None, ran


def _is_decided(stage: Stage, name: str) -> bool:
    """Whether the scheduler has bound the pod, or said that it fits nowhere."""
    pod = stage.get_pod(name)
    reasons = {each.get("reason") for each in pod["status"].get("conditions", ())}
    return bool(pod["spec"].get("nodeName")) or "Unschedulable" in reasons
