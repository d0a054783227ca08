"""Scenarios: processes of the control plane and the nodes are killed; no pod is lost or doubled."""

from collections import Counter

from e2e.nodes.fleet import NodePlan
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import LABEL, Stage

GPU = "gpu.nvidia.com"
PODS = 48
PATIENCE_SECONDS = 120.0


def prepare(stage: Stage) -> None:
    """Add six nodes with eight GPUs each, one GPU for each pod."""
    labels = {LABEL: stage.name}
    plans = [
        NodePlan(f"{stage.name}-{number}", "dgx-a100", {GPU: "full"}, labels) for number in range(6)
    ]
    stage.fleet.add_all(plans)
    stage.template("gpu", claim_spec(request("gpu", GPU)))


def burst(stage: Stage, first: int, count: int) -> None:
    """Create some of the pods."""
    for number in range(first, first + count):
        stage.pod(f"pod-{number}", templates={"gpu": "gpu"})


def all_run_once(stage: Stage) -> None:
    """Return whether every pod runs, and every device is allocated to one claim."""

    def settled() -> bool:
        pods = stage.client.get(stage.pod_path())["items"]
        phases = Counter(pod["status"].get("phase") for pod in pods)
        return phases["Running"] == PODS

    stage.wait(f"{PODS} pods run", settled, PATIENCE_SECONDS)
    held: Counter[tuple[str, str]] = Counter()
    for claim in stage.client.get(stage.claim_path())["items"]:
        # The claim controller may have created a second claim that no pod refers to.
        allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
        for result in allocation["devices"]["results"]:
            held[result["pool"], result["device"]] += 1
    assert len(held) == PODS, held
    assert set(held.values()) == {1}, held


@scenario("chaos", needs=("processes",))
def the_api_server_is_killed_and_comes_back(stage: Stage) -> None:
    """Scheduler, controllers, kubelets and drivers reconnect and finish the work."""
    prepare(stage)
    burst(stage, 0, PODS // 2)
    plane = stage.processes
    plane.processes["kube-apiserver"].kill()
    plane.start_apiserver()
    burst(stage, PODS // 2, PODS // 2)
    all_run_once(stage)


@scenario("chaos", needs=("processes",))
def the_scheduler_is_killed_during_a_burst(stage: Stage) -> None:
    """It schedules again what it had not written. Written allocations stay."""
    prepare(stage)
    burst(stage, 0, PODS)
    plane = stage.processes
    plane.processes["kube-scheduler"].kill()
    plane.start_scheduler("kube-scheduler", {})
    all_run_once(stage)


@scenario("chaos", needs=("processes",))
def the_controller_manager_is_killed_during_a_burst(stage: Stage) -> None:
    """Its successor generates the missing claims, none twice."""
    prepare(stage)
    burst(stage, 0, PODS)
    plane = stage.processes
    plane.processes["kube-controller-manager"].kill()
    plane.start_controller_manager()
    all_run_once(stage)
    assert len(stage.client.get(stage.claim_path())["items"]) == PODS


@scenario("chaos")
def driver_and_kubelet_restart_during_a_burst(stage: Stage) -> None:
    """Prepared claims stay prepared. The others are prepared once."""
    prepare(stage)
    burst(stage, 0, PODS)
    for _ in range(3):
        stage.fleet.driver(GPU).restart()
        stage.fleet.kubelet.restart()
    all_run_once(stage)
    for number in range(PODS):
        stage.client.delete(stage.pod_path(f"pod-{number}"), grace=None)
    stage.wait(
        "everything is unprepared",
        lambda: not any(stage.fleet.prepared(GPU, f"{stage.name}-{node}") for node in range(6)),
        PATIENCE_SECONDS,
    )
