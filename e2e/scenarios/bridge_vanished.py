"""Scenario: pods are deleted with force while their containers run."""

from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.scenarios.bridge_strategies import configured
from e2e.scenarios.objects import claim_spec, request

GPU = "gpu.nvidia.com"
ROUNDS = 5
GRACE_SECONDS, FORCED_SECONDS, SLOW_SECONDS = 1, 5, 3.0


@bridge_scenario("full")
def the_devices_of_a_vanished_pod_wait_for_its_containers(stage: BridgeStage) -> None:
    """The next pod is bound once the node has unprepared the devices, though nobody says so."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU, count=2)))
    records = partial(stage.leader().allocator.metric, "drawbridge_allocator_records")
    with configured(stage, {"bridge": {"forcedDeletionSeconds": FORCED_SECONDS}}):
        _add(stage, 0)
        stage.wait_running("pod-0")
        for number in range(ROUNDS):
            _add(stage, number + 1)
            stage.wait("it has to wait", partial(_is_refused, stage, f"pod-{number + 1}"))
            stage.fleet.driver(GPU).mood.slow_seconds = SLOW_SECONDS
            (claim,) = stage.allocated_claims()
            stage.client.delete(stage.pod_path(f"pod-{number}"), grace=0)
            stage.wait("its claim is kept", lambda: records(of="vanished-claims") == 1)
            assert records(of="pods") == 1
            stage.wait("the next pod is bound", partial(_node_of, stage, f"pod-{number + 1}"))
            prepared = [uid for _, uid in stage.fleet.kubelet.prepared]
            assert claim["metadata"]["uid"] not in prepared, "the node has devices of both"
            stage.fleet.driver(GPU).mood.slow_seconds = 0
            stage.wait_running(f"pod-{number + 1}")
            name = claim["metadata"]["name"]
            assert any("DevicesMayBeInUse" in each for each in stage.events(name)), name
            stage.wait("nothing is kept", lambda: records() == 0)


def _add(stage: BridgeStage, number: int) -> None:
    spec = {"terminationGracePeriodSeconds": GRACE_SECONDS}
    stage.pod(f"pod-{number}", templates={"gpu": "gpu"}, **spec)


def _is_refused(stage: BridgeStage, pod: str) -> bool:
    conditions = stage.get_pod(pod)["status"].get("conditions", ())
    return any(each.get("reason") == "Unschedulable" for each in conditions)


def _node_of(stage: BridgeStage, pod: str) -> str:
    return str(stage.get_pod(pod)["spec"].get("nodeName", ""))
