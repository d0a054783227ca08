"""Scenarios: a device quota is exact, however many pods are created at once."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import yaml

from e2e.bridge.placement import HEADER, BridgeStage, bridge_fields, bridge_scenario
from e2e.installed.configuring import configure_and_wait
from e2e.runner import print_line
from e2e.scenarios.admission_scope import CONFIGURATION
from e2e.scenarios.bridge import running, told
from e2e.scenarios.bridge_failures import add_nodes
from e2e.scenarios.objects import JSON, claim_spec, request

GPU = "gpu.nvidia.com"
PODS, WRITERS = 200, 32
LIMIT = 37
DELETED = 5
PATIENCE_SECONDS = 240.0
CHECK_SECONDS = 0.2
WAITING = "drawbridge_allocator_waiting_pods"


@contextlib.contextmanager
def limited(stage: BridgeStage, *quotas: JSON) -> Iterator[None]:
    """Use these quotas until the end of the block."""
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    own = yaml.safe_dump({"quotas": list(quotas)})
    configure_and_wait(stage.placement.cluster, f"{HEADER}{bridge_fields()}{own}")
    try:
        yield
    finally:
        configure_and_wait(stage.placement.cluster, before)


class Counted:
    """The devices in allocations of the namespace, counted again and again."""

    def __init__(self, stage: BridgeStage) -> None:
        self._stage = stage
        self._ended = threading.Event()
        self.most = 0
        self.times = 0

    def count(self) -> int:
        """Return how many devices claims have now."""
        claims = self._stage.allocated_claims()
        devices = sum(len(c["status"]["allocation"]["devices"]["results"]) for c in claims)
        self.most = max(self.most, devices)
        self.times += 1
        return devices

    def run(self) -> None:
        """Count until the end."""
        while not self._ended.wait(CHECK_SECONDS):
            self.count()

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Count beside the block."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()


@bridge_scenario("full")
def a_quota_is_exact_while_two_hundred_pods_are_created_at_once(stage: BridgeStage) -> None:
    """As many run as it allows, each deletion lets one more in, also when the allocator dies."""
    label = {"rig.drawbridge.dev/quota": stage.name}
    stage.client.patch(f"/api/v1/namespaces/{stage.namespace}", {"metadata": {"labels": label}})
    add_nodes(stage, PODS + 40)
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    quota = {
        "name": "lab",
        "namespaceSelector": {"matchLabels": label},
        "total": {GPU: {"devices": LIMIT}},
    }
    with limited(stage, quota):
        stage.leader()
        # Otherwise the first pods are told that no node has devices yet.
        stage.run_pod("first", templates={"gpu": "gpu"})
        stage.delete_pod("first")
        counted = Counted(stage)
        with counted.going_on():
            with ThreadPoolExecutor(WRITERS) as pool:
                list(
                    pool.map(lambda n: stage.pod(f"pod-{n}", templates={"gpu": "gpu"}), range(PODS))
                )
            _wait_full(stage, PODS)
            refused = _waiting(stage)[0]
            text = (
                f"quota lab: namespace {stage.namespace} uses {LIMIT} of {LIMIT} devices of class"
            )
            stage.wait("a pod is told the quota", partial(told, stage, refused, text))
            stage.delete_pod(_running(stage)[0])
            _wait_full(stage, PODS - 1)
            # What is given back while nobody decides is known to the next one.
            leader = stage.leader()
            leader.allocator.kill()
            for name in _running(stage)[:DELETED]:
                stage.delete_pod(name)
            leader.start()
            _wait_full(stage, PODS - 1 - DELETED)
        print_line(f"      at most {counted.most} of {LIMIT} devices in {counted.times} counts")
        assert counted.most == LIMIT


def _wait_full(stage: BridgeStage, pods: int) -> None:
    """Wait until as many pods run as the quota allows, and all others wait."""
    stage.wait(f"{LIMIT} pods run", partial(running, stage, LIMIT), PATIENCE_SECONDS)
    leader = stage.leader().allocator

    def others_wait() -> bool:
        return leader.metric(WAITING) == pods - LIMIT

    stage.wait("the others wait", others_wait, PATIENCE_SECONDS)
    assert running(stage, LIMIT)
    assert stage.check_allocations() == LIMIT


def _running(stage: BridgeStage) -> list[str]:
    return _names(stage, "Running")


def _waiting(stage: BridgeStage) -> list[str]:
    return _names(stage, "Pending")


def _names(stage: BridgeStage, phase: str) -> list[str]:
    pods = stage.client.get(stage.pod_path())["items"]
    return [each["metadata"]["name"] for each in pods if each["status"].get("phase") == phase]
