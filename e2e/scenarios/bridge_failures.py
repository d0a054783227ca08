"""Scenarios: processes of bridge placement fail during a burst; no pod is lost or doubled."""

from functools import partial

from e2e.bridge.pair import Pair
from e2e.bridge.placement import OWNED, BridgeStage, bridge_scenario
from e2e.nodes.fleet import NodePlan
from e2e.scenarios.bridge import running
from e2e.scenarios.chaos import burst
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.stage import LABEL

GPU = "gpu.nvidia.com"
PODS, MANY = 48, 500
PATIENCE_SECONDS = 180.0


def prepare(stage: BridgeStage, pods: int = PODS) -> None:
    """Add nodes for the pods, and the template of their claims."""
    add_nodes(stage, pods)
    add_template(stage)


def add_template(stage: BridgeStage) -> None:
    """Add the template of the pods' claims."""
    stage.template("gpu", claim_spec(request("gpu", GPU)))


def add_nodes(stage: BridgeStage, pods: int = PODS) -> None:
    """Add nodes with eight GPUs each, one GPU for each pod."""
    labels = {LABEL: stage.name, **OWNED}
    plans = [
        NodePlan(stage.node_name(str(number)), "dgx-a100", {GPU: "full"}, labels)
        for number in range(-(-pods // 8))
    ]
    stage.fleet.add_all(plans)


def some_run(stage: BridgeStage, count: int = 1) -> bool:
    """Whether so many pods of the burst run."""
    pods = stage.client.get(stage.pod_path())["items"]
    return [pod["status"].get("phase") for pod in pods].count("Running") >= count


def all_run(stage: BridgeStage, pods: int = PODS) -> None:
    """Wait until every pod runs on a device of its own."""
    stage.wait("all pods run", partial(running, stage, pods), PATIENCE_SECONDS)
    assert stage.check_allocations() == pods


def other_leader(stage: BridgeStage, before: Pair) -> Pair:
    """Wait until another pair leads."""
    stage.wait("another pair leads", lambda: stage.leader() is not before, PATIENCE_SECONDS)
    return stage.leader()


@bridge_scenario("chaos")
def the_allocator_is_killed_during_a_burst(stage: BridgeStage) -> None:
    """What it had reserved is free again, and what it had written counts."""
    prepare(stage)
    leader = stage.leader()
    burst(stage, 0, PODS)
    stage.wait("the first pods run", partial(some_run, stage))
    leader.allocator.kill()
    leader.start()
    all_run(stage)


@bridge_scenario("full")
def the_allocator_is_killed_repeatedly_while_five_hundred_pods_start(stage: BridgeStage) -> None:
    """It is killed four times, each time when more pods run."""
    prepare(stage, MANY)
    leader = stage.leader()
    burst(stage, 0, MANY)
    for count in (50, 150, 250, 350):
        stage.wait(f"{count} pods run", partial(some_run, stage, count), PATIENCE_SECONDS)
        leader.allocator.kill()
        leader.start()
    all_run(stage, MANY)


@bridge_scenario("chaos")
def the_plugin_scheduler_is_killed_during_a_burst(stage: BridgeStage) -> None:
    """The other pair takes over when the Lease has expired."""
    prepare(stage)
    leader = stage.leader()
    burst(stage, 0, PODS)
    stage.wait("the first pods run", partial(some_run, stage))
    leader.running_scheduler().kill()
    all_run(stage)
    assert other_leader(stage, leader) is not leader


@bridge_scenario("chaos")
def a_leader_whose_allocator_stays_away_hands_over(stage: BridgeStage) -> None:
    """Its scheduler releases the Lease and ends, so that the other pair schedules the pod."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    leader = stage.leader()
    stage.run_pod("first", templates={"gpu": "gpu"})
    leader.allocator.kill()
    stage.pod("second", templates={"gpu": "gpu"})
    other_leader(stage, leader)
    stage.wait_running("second")
    stage.wait("the former leader ends", lambda: not leader.scheduler_alive)


@bridge_scenario("full")
def two_pairs_at_two_api_servers_give_no_device_twice(stage: BridgeStage) -> None:
    """Each server shows the writes of the other one later; one of them ends under its leader."""
    prepare(stage)
    placement, name = stage.placement, "kube-apiserver-2"
    first, before = stage.leader(), placement.pairs
    server = stage.processes.start_another_apiserver(name)
    second = placement.make_pair("second-server", port=server.port)
    try:
        for pair in before:
            if pair is not first:
                pair.stop()
        placement.pairs = [first, second]
        placement.start()
        burst(stage, 0, PODS // 3)
        stage.wait("the first pods run", partial(some_run, stage))
        first.running_scheduler().kill()
        burst(stage, PODS // 3, PODS // 3)
        assert other_leader(stage, first) is second
        placement.start()
        stage.wait("more pods run", partial(some_run, stage, PODS // 2), PATIENCE_SECONDS)
        burst(stage, 2 * PODS // 3, PODS // 3)
        stage.processes.processes.pop(name).kill()
        assert other_leader(stage, second) is first
        all_run(stage)
    finally:
        second.stop()
        if name in stage.processes.processes:
            stage.processes.processes.pop(name).stop()
        placement.pairs = before
        placement.start()


@bridge_scenario("chaos")
def the_api_server_restarts_during_a_burst_of_claims(stage: BridgeStage) -> None:
    """Both schedulers and both allocators reconnect, and finish the burst."""
    prepare(stage)
    stage.leader()
    burst(stage, 0, PODS // 2)
    plane = stage.processes
    plane.processes["kube-apiserver"].kill()
    plane.start_apiserver()
    stage.placement.start()
    burst(stage, PODS // 2, PODS // 2)
    all_run(stage)
    stage.placement.ignore_denials()
