"""Scenarios: processes of bridge placement are stopped or slow, but do not end.

`SIGSTOP` is the worst kind of slow: connections stay open, and nobody answers.
"""

import time
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.runner import print_line
from e2e.scenarios.admission import suspended
from e2e.scenarios.bridge import running, told
from e2e.scenarios.bridge_failures import PODS, all_run, burst, prepare, some_run
from e2e.scenarios.objects import claim_spec, request

GPU = "gpu.nvidia.com"
PLAIN = 20
# Longer than a request of the allocator waits, and than the Lease can be renewed.
FROZEN_SECONDS = 35.0
STUTTERS = 20


def pass_time(stage: BridgeStage, seconds: float) -> None:
    """Let time pass."""
    ends = time.monotonic() + seconds
    stage.wait(f"{seconds:g} s pass", lambda: time.monotonic() > ends, seconds + 5)


@bridge_scenario("chaos")
def pods_without_claims_are_scheduled_while_the_allocator_hangs(stage: BridgeStage) -> None:
    """A pod with a claim times out, and others do not wait for it."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    leader = stage.leader()
    stage.pod("first", templates={"gpu": "gpu"})
    stage.wait_running("first")
    seconds = []
    with suspended(leader.allocator.started_process()):
        for number in range(PLAIN):
            if number % 5 == 0:
                stage.pod(f"claim-{number}", templates={"gpu": "gpu"})
            began = time.monotonic()
            stage.pod(f"plain-{number}")
            stage.wait_running(f"plain-{number}")
            seconds.append(time.monotonic() - began)
        stage.wait("a pod is refused", partial(told, stage, "claim-0", "allocator not reachable"))
    print_line(f"      {PLAIN} pods without claims: up to {max(seconds):.2f} s each until they run")
    # One GPU is left for the pods with claims.
    stage.wait("one of them runs", partial(running, stage, PLAIN + 2))


@bridge_scenario("chaos")
def the_api_server_stutters_during_a_burst(stage: BridgeStage) -> None:
    """It stops for half a second again and again, so that every request is slow."""
    prepare(stage)
    stage.leader()
    server = stage.processes.processes["kube-apiserver"]
    burst(stage, 0, PODS)
    for _ in range(STUTTERS):
        with suspended(server):
            pass_time(stage, 0.5)
        pass_time(stage, 0.1)
    all_run(stage)


@bridge_scenario("chaos")
def the_api_server_hangs_until_writes_time_out(stage: BridgeStage) -> None:
    """Nobody knows which writes were done, and both schedulers lose the Lease."""
    prepare(stage)
    stage.leader()
    burst(stage, 0, PODS)
    stage.wait("the first pods run", partial(some_run, stage))
    with suspended(stage.processes.processes["kube-apiserver"]):
        pass_time(stage, FROZEN_SECONDS)
    stage.placement.start()
    all_run(stage)
