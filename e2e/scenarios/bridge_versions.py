"""Scenarios: Kubernetes is upgraded on the same data while pods come and go."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.runner import print_line
from e2e.scenarios.bridge_failures import add_nodes, add_template
from e2e.scenarios.registry import RIGS, default_options

T = TypeVar("T")
STEPS = ("1.35", "1.36", "1.37")
RIGS["upgraded"] = lambda _: default_options(STEPS[0])
# So many pods run at once, on more devices.
AT_ONCE, DEVICES = 8, 16
PATIENCE_SECONDS = 180.0


class Load:
    """Creates a pod, waits until it runs, and deletes the oldest one; until it is told to end."""

    def __init__(self, stage: BridgeStage) -> None:
        self._stage = stage
        self._ends = threading.Event()
        self.ran: list[str] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Run in a thread of its own."""
        try:
            while not self._ends.is_set():
                self._play_pod(f"pod-{len(self.ran)}")
        except Exception as problem:  # noqa: BLE001  # the scenario tells it
            self.problem = problem

    def end(self) -> None:
        """End after the pod at hand."""
        self._ends.set()

    def _play_pod(self, name: str) -> None:
        self._until_answered(lambda: self._stage.pod(name, templates={"gpu": "gpu"}))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._until_answered(lambda: self._phase(name)) != "Running":
            assert time.monotonic() < deadline, f"{name} does not run"
            time.sleep(0.1)
        self.ran.append(name)
        if len(self.ran) > AT_ONCE:
            oldest = self._stage.pod_path(self.ran[-AT_ONCE - 1])
            self._until_answered(lambda: self._stage.client.delete(oldest, grace=None))

    def _phase(self, name: str) -> str:
        return str(self._stage.get_pod(name).get("status", {}).get("phase", ""))

    def _until_answered(self, ask: Callable[[], T]) -> T | None:
        """Ask again while the API server does not answer; a repeated write has been done."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return ask()
            except ApiError as problem:
                if problem.code in (404, 409):
                    return None
                if (problem.code < 500 and problem.code != 429) or time.monotonic() > deadline:
                    raise
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)


@contextlib.contextmanager
def load_on(stage: BridgeStage) -> Iterator[Load]:
    """Let pods come and go meanwhile."""
    load = Load(stage)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.end()
        thread.join()
    if load.problem is not None:
        raise load.problem


@bridge_scenario("compat", since=STEPS[-1], rig="upgraded")
def kubernetes_is_upgraded_twice_while_pods_come_and_go(stage: BridgeStage) -> None:
    """Each pod runs on a device of its own, also between the upgrades of servers and pairs."""
    add_nodes(stage, DEVICES)
    add_template(stage)
    stage.leader()
    with load_on(stage) as load:
        _more_run(stage, load)
        for version in STEPS[1:]:
            stage.processes.upgrade(default_options(version))
            _more_run(stage, load)  # with pairs of the version before
            stage.placement.upgrade()
            _more_run(stage, load)
    print_line(f"      {len(load.ran)} pods ran on Kubernetes {', '.join(STEPS)}")
    stage.placement.ignore_denials()


def _more_run(stage: BridgeStage, load: Load) -> None:
    """Wait until as many more pods have run as run at once."""
    wanted = len(load.ran) + AT_ONCE
    stage.wait(
        "more pods have run", lambda: len(load.ran) >= wanted or load.problem, PATIENCE_SECONDS
    )
