"""Scenarios: the clocks of API servers differ while a node becomes owned.

The default scheduler still has allocations on their way. Ours begin when they have ended, whichever
clock the controller and the allocator follow.
"""

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from e2e.bridge.placement import FENCE, GPU, BridgeStage, bridge_scenario
from e2e.controlplane.processes import suspended
from e2e.controlplane.shifted_dates import ShiftedDates
from e2e.installed.replica import Replica
from e2e.runner import print_line
from e2e.scenarios.bridge_failures import add_template
from e2e.scenarios.bridge_stalls import pass_time
from e2e.scenarios.bridge_switching import DEFAULT, change_owner
from e2e.scenarios.owned_pools import taints
from e2e.scenarios.stage import LABEL

SETTLE_SECONDS = 10.0
STOPPED_SECONDS = 6.0
DEVICES, THEIRS = 8, 6
# Clocks that make the time of the taint look old, and others that make it lie in the future.
SHIFTS = (120.0, 11.0, -11.0, -120.0)
PATIENCE_SECONDS = 60.0


@contextlib.contextmanager
def other_clock(stage: BridgeStage, replicas: Sequence[Replica], seconds: float) -> Iterator[None]:
    """Restart processes with an API server whose clock is wrong, and at the end with the other."""
    plane = stage.processes
    with ShiftedDates(plane.port, plane.authority, seconds) as relay:
        before = [replica.words for replica in replicas]
        try:
            for replica in replicas:
                replica.words = [_behind(f"{word}", relay.port) for word in replica.words]
                _restart(stage, replica)
            yield
        finally:
            for replica, words in zip(replicas, before, strict=True):
                replica.words = words
                _restart(stage, replica)
    stage.placement.ignore_denials()


def _behind(word: str, port: int) -> str:
    """Return an option; that of a kubeconfig names one with another port of the API server."""
    option, _, path = word.partition("=")
    if option != "--kubeconfig":
        return word
    content = json.loads(Path(path).read_text("utf-8"))
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    other = Path(f"{path}.{port}")
    other.write_text(json.dumps(content), "utf-8")
    return f"{option}={other}"


def _restart(stage: BridgeStage, replica: Replica) -> None:
    replica.stop()
    stage.processes.processes[replica.name] = replica.start()
    replica.wait_ready()


def take_over(stage: BridgeStage, name: str) -> float:
    """Let a node become owned while the default scheduler allocates its devices.

    Return the seconds from the label to the first pod of ours there.
    """
    node = stage.node_name(name)
    stage.fleet.add(node, "dgx-a100", {GPU: "full"}, {LABEL: stage.name})
    theirs = _create(stage, f"theirs-{name}", THEIRS, node, **DEFAULT)
    stage.wait("a pod has its device", partial(_bound, stage, theirs), PATIENCE_SECONDS)
    with suspended(stage.processes.processes["kube-scheduler"]):
        labelled = time.monotonic()
        change_owner(stage, [node], owned=True)
        stage.wait("the taint", lambda: FENCE in taints(stage, node))
        ours = _create(stage, f"ours-{name}", DEVICES, node)
        pass_time(stage, STOPPED_SECONDS)
        early = _bound(stage, ours)
    assert not early, f"{name}: {early} have devices that others are allocating"
    stage.wait("ours begin", partial(_bound, stage, ours), PATIENCE_SECONDS)
    took = time.monotonic() - labelled
    full = partial(_is_full, stage, [*theirs, *ours])
    stage.wait("every device is in use", full, PATIENCE_SECONDS)
    stage.check_allocations()
    return took


def _create(stage: BridgeStage, kind: str, count: int, node: str, **spec: Any) -> list[str]:  # noqa: ANN401  # goes to pod_spec
    """Create pods with one GPU of a node each; return their names."""
    names = [f"{kind}-{number}" for number in range(count)]
    selector = {"kubernetes.io/hostname": node}
    for name in names:
        stage.pod(name, templates={"gpu": "gpu"}, nodeSelector=selector, **spec)
    return names


def _bound(stage: BridgeStage, names: Collection[str]) -> list[str]:
    pods = stage.client.get(stage.pod_path())["items"]
    placed = [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]
    return [name for name in placed if name in names]


def _is_full(stage: BridgeStage, names: Collection[str]) -> bool:
    return len(_bound(stage, names)) >= DEVICES


def play(stage: BridgeStage, replicas: Sequence[Replica], shifts: Sequence[float]) -> None:
    """Take a node over with each of the clocks."""
    add_template(stage)
    for number, seconds in enumerate(shifts):
        with other_clock(stage, replicas, seconds):
            stage.leader()
            took = take_over(stage, f"{number}")
        print_line(f"      clock {seconds:+g} s: ours begin {took:.1f} s after the label")
        assert took >= SETTLE_SECONDS


@bridge_scenario("full")
def allocators_with_another_clock_wait_for_the_default_scheduler(stage: BridgeStage) -> None:
    """Their API server is ahead of that of the controller, or behind."""
    play(stage, [each.allocator for each in stage.placement.pairs], SHIFTS)


@bridge_scenario("full")
def the_clock_of_the_controller_shortens_no_settle_time(stage: BridgeStage) -> None:
    """Its API server is behind that of the allocators, or ahead."""
    play(stage, stage.placement.cluster.controllers, [-each for each in SHIFTS])
