"""Scenarios: processes of bridge placement are stopped or slow, but do not end.

`SIGSTOP` is the worst kind of slow: connections stay open, and nobody answers.
"""

import signal
import statistics
import time
from functools import partial

from e2e.bridge.pair import Pair
from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.processes import suspended
from e2e.runner import print_line
from e2e.scenarios.bridge import running, told
from e2e.scenarios.bridge_failures import (
    PATIENCE_SECONDS,
    PODS,
    add_nodes,
    add_template,
    all_run,
    other_leader,
    prepare,
    some_run,
)
from e2e.scenarios.bridge_preemption import create_priority
from e2e.scenarios.chaos import burst
from e2e.scenarios.objects import claim_spec, request

GPU = "gpu.nvidia.com"
# A status call of the plugin each second, which may take a second.
TURNS, PLAIN = 4, 8
DELAY_SECONDS = 0.5
# Two durations of the Lease.
STOPPED_SECONDS = 30.0
# Requests on the way are processed within this time.
SETTLE_SECONDS = 2.0
# Longer than a request of the allocator waits, and than the Lease can be renewed.
FROZEN_SECONDS = 35.0
STUTTERS = 20


def pass_time(stage: BridgeStage, seconds: float) -> None:
    """Let time pass."""
    ends = time.monotonic() + seconds
    stage.wait(f"{seconds:g} s pass", lambda: time.monotonic() > ends, seconds + 5)


@bridge_scenario("chaos")
def pods_without_claims_are_scheduled_while_the_allocator_hangs(stage: BridgeStage) -> None:
    """Pods with claims time out, which delays the others by less than half a second each."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for name in ("first", "second"):
        stage.run_pod(name, templates={"gpu": "gpu"})
    leader = stage.leader()
    usual, hanging = [], []
    for turn in range(TURNS):
        usual += [seconds_until_bound(stage, f"{turn}-{number}") for number in range(PLAIN)]
        with suspended(leader.allocator.started_process()):
            first = f"claim-{turn}-{PLAIN}"
            for number in range(PLAIN, 2 * PLAIN):
                hanging.append(seconds_until_bound(stage, f"{turn}-{number}"))
                pass_time(stage, 0.3)  # so that they meet different moments between status calls
            stage.wait("a pod is refused", partial(told, stage, first, "allocator not reachable"))
        stage.wait("it answers again", lambda: '"leading":true' in leader.allocator_status())
    print_line(f"      until bound, beside a running allocator: {figures(usual)}")
    print_line(f"      until bound, beside a stopped allocator: {figures(hanging)}")
    assert statistics.median(hanging) - statistics.median(usual) < DELAY_SECONDS
    # Twice as much, because other processes of the machine delay single pods as well.
    assert max(hanging) - max(usual) < 2 * DELAY_SECONDS
    for name in ("first", "second"):
        stage.delete_pod(name)
    stage.wait("pods with claims run", partial(running, stage, 2 * TURNS * PLAIN + 2))


def seconds_until_bound(stage: BridgeStage, name: str) -> float:
    """Create a pod with a claim that waits, and one without claims; return how long this takes."""
    stage.pod(f"claim-{name}", templates={"gpu": "gpu"})
    began = time.monotonic()
    stage.pod(f"plain-{name}")
    stage.wait("the pod is bound", lambda: stage.get_pod(f"plain-{name}")["spec"].get("nodeName"))
    return time.monotonic() - began


def figures(seconds: list[float]) -> str:
    """Return the median and the worst of some times."""
    return f"{statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s ({len(seconds)} pods)"


@bridge_scenario("chaos")
def a_leader_that_was_stopped_during_bindings_writes_nothing_later(stage: BridgeStage) -> None:
    """Meanwhile the other pair leads, and other claims get the devices that it had promised."""
    add_template(stage)
    leader = stage.leader()
    burst(stage, 0, PODS)
    add_nodes(stage)
    stage.wait("some claims are allocated", lambda: len(stage.allocated_claims()) > PODS // 8)
    began = time.monotonic()
    stop_with_requests_on_the_way(stage, leader)
    try:
        unbound = unbound_pods(stage)
        assert unbound, "every pod was bound before the leader stopped"
        # The devices of every second pod go to other claims, because there are no spare ones.
        for number, name in enumerate(unbound[::2]):
            stage.delete_pod(name)
            stage.pod(f"other-{number}", templates={"gpu": "gpu"})
        other = other_leader(stage, leader)
        all_run(stage)
        pass_time(stage, max(0.0, STOPPED_SECONDS - (time.monotonic() - began)))
        before = written(stage)
    finally:
        leader.send(signal.SIGCONT)
    stopped = time.monotonic() - began
    print_line(f"      stopped for {stopped:.0f} s, {len(unbound)} of {PODS} pods not bound then")
    stage.wait("the former leader ends", lambda: not leader.scheduler_alive, PATIENCE_SECONDS)
    stage.wait("its allocator knows", lambda: '"leading":true' not in leader.allocator_status())
    pass_time(stage, SETTLE_SECONDS)
    assert written(stage) == before
    assert stage.leader() is other


def stop_with_requests_on_the_way(stage: BridgeStage, pair: Pair) -> None:
    """Stop a pair while the API server has requests of it that were not processed yet."""
    with suspended(stage.processes.processes["kube-apiserver"]):
        pass_time(stage, 0.3)
        pair.send(signal.SIGSTOP)
    pass_time(stage, SETTLE_SECONDS)


def unbound_pods(stage: BridgeStage) -> list[str]:
    """Return the names of pods without a node."""
    pods = stage.client.get(stage.pod_path())["items"]
    return [pod["metadata"]["name"] for pod in pods if "nodeName" not in pod["spec"]]


def written(stage: BridgeStage) -> dict[str, str]:
    """Return the version of each claim, and the node of each pod."""
    claims = stage.client.get(stage.claim_path())["items"]
    pods = stage.client.get(stage.pod_path())["items"]
    versions = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in claims}
    return versions | {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}


@bridge_scenario("chaos")
def an_allocator_that_stood_still_while_its_scheduler_ended_gives_no_device_twice(
    stage: BridgeStage,
) -> None:
    """The scheduler releases its Lease, so that another pair leads long before it is over."""
    add_template(stage)
    leader = stage.leader()
    top = create_priority(stage, "top", 1000, "Never")
    burst(stage, 0, PODS)
    add_nodes(stage)
    stage.wait("some claims are allocated", lambda: len(stage.allocated_claims()) > PODS // 8)
    began = time.monotonic()
    with suspended(leader.allocator.started_process()):
        leader.running_scheduler().stop()
        other = other_leader(stage, leader)
        # What the allocator has reserved and not written goes to other claims.
        free = PODS - len(stage.allocated_claims())
        for number in range(free):
            stage.pod(f"other-{number}", templates={"gpu": "gpu"}, priorityClassName=top)
        stage.wait("all devices have claims", lambda: len(given(stage)) >= PODS, PATIENCE_SECONDS)
    print_line(f"      stood still for {time.monotonic() - began:.1f} s, {free} devices were free")
    stage.wait("its allocator knows", lambda: '"leading":true' not in leader.allocator_status())
    pass_time(stage, SETTLE_SECONDS)
    devices = given(stage)
    assert len(devices) == len(set(devices)) == PODS, devices
    assert stage.leader() is other
    leader.start()
    for number in range(free):
        stage.delete_pod(f"other-{number}")
    all_run(stage)


def given(stage: BridgeStage) -> list[tuple[str, str]]:
    """Return the devices of all claims, with their pools."""
    allocations = [each["status"]["allocation"] for each in stage.allocated_claims()]
    results = [each for one in allocations for each in one["devices"]["results"]]
    return [(each["pool"], each["device"]) for each in results]


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
