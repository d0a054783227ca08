"""Scenarios: Kueue's manager in front of the scheduler and the allocator of bridge placement."""

from e2e.bridge.placement import SCHEDULER, BridgeStage, bridge_scenario
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.queues.manager import LABEL, kueue
from e2e.scenarios.objects import JSON
from e2e.scenarios.queues import (
    GPU,
    GPU_CLASS,
    ONE_QUOTA,
    QUEUE,
    SECONDS,
    apply,
    conditions,
    is_gated,
    job,
    make_queue,
    releases,
    used,
    wait_charged,
    wait_job_runs,
)
from e2e.scenarios.registry import RIGS, default_options

RIG = "kueue-bridge"
RIGS[RIG] = default_options


@bridge_scenario("queues", since="1.36", rig=RIG)
@releases
def a_queue_charges_pods_that_the_allocator_places(stage: BridgeStage) -> None:
    """A Job and plain pods have one quota. The allocator sees a pod when Kueue has admitted it."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full"})
    cluster = stage.placement.cluster
    kueue(cluster).configure(ONE_QUOTA)
    set_mode(stage, "enforce")
    wait_for_facts(stage, cluster, stage.legacy_pod("probe", 1))
    queue = make_queue(stage, {GPU: 4})
    apply(stage, cluster, job("train", stage.legacy_pod("none", 2)["spec"])).check()
    (of_job,) = wait_job_runs(stage, "train", 1)
    apply(stage, cluster, in_queue(stage, "single", 2)).check()
    assert wait_charged(stage, "single") == {GPU: "2"}
    for pod in (of_job, stage.wait_running("single")):
        assert pod["spec"]["schedulerName"] == SCHEDULER, pod
        assert pod["spec"]["resourceClaims"], pod
    apply(stage, cluster, in_queue(stage, "next", 1)).check()
    stage.wait("the next pod waits", lambda: "insufficient" in conditions(stage, "next"), SECONDS)
    assert is_gated(stage, "next")
    stage.wait("both are charged", lambda: used(stage, queue) == {GPU: "4"}, SECONDS)
    assert len(stage.allocated_claims()) == 2
    cluster.kubectl.inside(stage.namespace)("delete", "job", "train").check()
    assert wait_charged(stage, "next") == {GPU: "1"}
    stage.wait_running("next")
    stage.wait("the queue has both", lambda: used(stage, queue) == {GPU: "3"}, SECONDS)


def in_queue(stage: BridgeStage, name: str, gpus: int) -> JSON:
    """Return a pod in the queue that asks for GPUs by the legacy name."""
    pod = stage.legacy_pod(name, gpus)
    pod["metadata"]["labels"] |= {LABEL: QUEUE}
    return pod
