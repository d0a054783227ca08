"""Scenarios: pods with a higher priority evict others for their devices, in bridge placement."""

import time
from collections.abc import Callable
from functools import partial

from e2e.bridge.placement import OWNED, BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.nodes.fleet import NodePlan
from e2e.runner import print_line
from e2e.scenarios.bridge import told
from e2e.scenarios.bridge_conditions import (
    ATTACHED,
    add_device,
    allocated_claim,
    report_condition,
)
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.stage import LABEL, Stage

GPU = "gpu.nvidia.com"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
FORBIDDEN = 403
# The node unprepares devices that long.
TERMINATES_SECONDS = 10.0
VIOLATIONS = "drawbridge_allocator_budget_violations_total"
RUNS, PREEMPTORS = 10, 10
STORM_NODES, STORM_PODS, STORM_PREEMPTORS = 63, 500, 100
PATIENCE_SECONDS = 240.0


def create_priority(
    stage: Stage, name: str, value: int, policy: str = "PreemptLowerPriority"
) -> str:
    """Create a PriorityClass of the stage, wait until pods can have it, and return its name."""
    full = f"{stage.name}-{name}"
    body = {"metadata": {"name": full}, "value": value, "preemptionPolicy": policy}
    stage.cluster_object(CLASSES, body)
    pod = stage.pod_object("asks", priorityClassName=full)

    def is_admitted() -> bool:
        try:
            stage.client.create(stage.pod_path(), pod, dryRun="All")
        except ApiError as problem:
            if problem.code != FORBIDDEN:
                raise
            return False
        return True

    # Admission reads classes from a cache of its own.
    stage.wait(f"pods can have the PriorityClass {full}", is_admitted)
    return full


def create_pods(stage: Stage, prefix: str, count: int, **spec: object) -> list[str]:
    """Create pods of one GPU each, and return their names."""
    names = [f"{prefix}-{number}" for number in range(count)]
    for name in names:
        stage.pod(name, templates={"gpu": "gpu"}, **spec)
    return names


def phases(stage: Stage, prefix: str) -> dict[str, str]:
    """Return the phases of the pods that are not terminating, by name."""
    pods = stage.client.get(stage.pod_path())["items"]
    return {
        pod["metadata"]["name"]: pod["status"].get("phase", "")
        for pod in pods
        if pod["metadata"]["name"].startswith(prefix) and "deletionTimestamp" not in pod["metadata"]
    }


def run_all(stage: Stage, prefix: str, count: int) -> Callable[[], bool]:
    """Return whether so many pods run."""
    return lambda: list(phases(stage, prefix).values()).count("Running") == count


@bridge_scenario("full")
def ten_preemptors_get_the_devices_of_ten_victims(stage: BridgeStage) -> None:
    """In each of ten runs, no more pods are evicted, and no preemptor is left."""
    for suffix in "ab":
        stage.node(suffix, "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 16)
    stage.wait("the nodes are full", run_all(stage, "low", 16))
    for number in range(RUNS):
        names = create_pods(stage, f"high{number}", PREEMPTORS, priorityClassName=high)
        stage.wait("the victims are gone", lambda: _count(stage, "low") == 16 - PREEMPTORS)
        gone = time.monotonic()
        stage.wait("all preemptors are bound", partial(_bound, stage, names))
        took = time.monotonic() - gone
        stage.wait("all preemptors run", run_all(stage, "high", PREEMPTORS))
        left = phases(stage, "low")
        print_line(
            f"      run {number}: {16 - len(left)} victims, all are bound {took:.2f} s after them"
        )
        assert len(left) == 16 - PREEMPTORS, left
        for name in names:
            stage.delete_pod(name)
        missing = {f"low-{index}" for index in range(16)} - left.keys()
        for name in missing:
            stage.wait_gone(stage.pod_path(name))
            stage.pod(name, templates={"gpu": "gpu"})
        stage.wait("the nodes are full", run_all(stage, "low", 16))


def _count(stage: Stage, prefix: str) -> int:
    """Return how many pods there are, also terminating ones."""
    pods = stage.client.get(stage.pod_path())["items"]
    return sum(pod["metadata"]["name"].startswith(prefix) for pod in pods)


def _bound(stage: Stage, names: list[str]) -> bool:
    """Whether pods have nodes."""
    pods = stage.client.get(stage.pod_path())["items"]
    bound = {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}
    return bound.issuperset(names)


@bridge_scenario("full")
def the_stock_scheduler_evicts_nobody_for_devices(stage: BridgeStage) -> None:
    """On a node that Drawbridge does not own, the same pods wait."""
    super(BridgeStage, stage).node("stock", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    stock = {"schedulerName": "default-scheduler", "tolerations": []}
    create_pods(stage, "low", 2, **stock)
    stage.wait("the node is full", run_all(stage, "low", 2))
    create_pods(stage, "high", 1, priorityClassName=high, **stock)
    stage.wait("it waits", partial(told, stage, "high-0", "preemption: 0/"))
    assert len(phases(stage, "low")) == 2


@bridge_scenario("smoke")
def a_pod_preempts_the_least_important_pod(stage: BridgeStage) -> None:
    """Pods of equal priority wait. Both pods have the events of the scheduler."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high, middle = create_priority(stage, "high", 1000), create_priority(stage, "middle", 500)
    create_pods(stage, "low", 1)
    create_pods(stage, "middle", 1, priorityClassName=middle)
    for name in ("low-0", "middle-0"):
        stage.wait_running(name)
    create_pods(stage, "equal", 1)
    stage.wait("it waits", partial(told, stage, "equal-0", "no pod with a lower priority"))
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait_running("high-0")
    stage.wait("the victim has the event", lambda: any_event(stage, "low-0", "Preempted by pod"))
    assert phases(stage, "low") == {}
    assert phases(stage, "middle") == {"middle-0": "Running"}
    assert phases(stage, "equal") == {"equal-0": "Pending"}


def any_event(stage: Stage, name: str, text: str) -> bool:
    """Whether a pod has an event with a text."""
    return any(text in each for each in stage.events(name))


@bridge_scenario("full")
def budgets_are_violated_only_if_nothing_else_helps(stage: BridgeStage) -> None:
    """A more important pod without a budget goes first. Violations are counted."""
    nodes = [stage.node(suffix, "lab-2g2n", {GPU: "full"}).name for suffix in "ab"]
    stage.template("two", claim_spec(request("gpu", GPU, count=2)))
    high, middle = create_priority(stage, "high", 1000), create_priority(stage, "middle", 500)
    for name, node, spec in (("guarded", 0, {}), ("other", 1, {"priorityClassName": middle})):
        place = {"kubernetes.io/hostname": nodes[node]}
        stage.run_pod(name, templates={"two": "two"}, nodeSelector=place, **spec)
    selector = {"matchLabels": {"app": "guarded"}}
    budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": 1, "selector": selector}}
    path = stage.path("poddisruptionbudgets", "", "/apis/policy/v1")
    stage.client.create(path, budget)
    stage.wait("the budget is known", lambda: _allowed(stage.client.get(f"{path}/all")) == 0)
    allocator = stage.leader().allocator
    before = allocator.metric(VIOLATIONS)
    for number, victim in enumerate(("other", "guarded")):
        name = f"high-{number}"
        stage.run_pod(name, templates={"two": "two"}, priorityClassName=high)
        assert not stage.exists(stage.pod_path(victim))
        assert allocator.metric(VIOLATIONS) == before + number


def _allowed(budget: JSON) -> int:
    status = budget.get("status", {})
    is_current = status.get("observedGeneration") and status.get("currentHealthy")
    return int(status["disruptionsAllowed"]) if is_current else -1


@bridge_scenario("full")
def a_pod_that_never_preempts_waits(stage: BridgeStage) -> None:
    """It gets the device of a pod that ends."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    never = create_priority(stage, "never", 1000, "Never")
    create_pods(stage, "low", 2)
    stage.wait("the node is full", run_all(stage, "low", 2))
    create_pods(stage, "polite", 1, priorityClassName=never)
    stage.wait("it waits", partial(told, stage, "polite-0", "preemptionPolicy of the pod is Never"))
    assert len(phases(stage, "low")) == 2
    stage.delete_pod("low-0")
    stage.wait_running("polite-0")


@bridge_scenario("full")
def a_shared_claim_is_released_by_all_its_pods_or_none(stage: BridgeStage) -> None:
    """A pod stays if an important one shares its claim. Later both pods of the claim go."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    high = create_priority(stage, "high", 1000)
    stage.claim("shared", claim_spec(request("gpu", GPU, count=2)))
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    for name, spec in (("low-0", {}), ("low-1", {}), ("peer", {"priorityClassName": high})):
        stage.run_pod(name, claims={"gpu": "shared"}, **spec)
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("it waits", partial(told, stage, "high-0", "are not enough"))
    assert len(phases(stage, "low")) == 2
    stage.delete_pod("peer")
    # Nothing became free that would wake the pod. The next one finds the victims.
    create_pods(stage, "next", 1, priorityClassName=high)
    stage.wait(
        "both preemptors run", lambda: run_all(stage, "high", 1)() and run_all(stage, "next", 1)()
    )
    assert phases(stage, "low") == {}


@bridge_scenario("full")
def the_device_of_a_victim_that_terminates_is_kept_for_the_preemptor(stage: BridgeStage) -> None:
    """Six pods with a lower priority want it as well, and no second pod is evicted."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 2)
    stage.wait("the node is full", run_all(stage, "low", 2))
    stage.fleet.driver(GPU).mood.slow_seconds = TERMINATES_SECONDS
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("a victim terminates", lambda: len(phases(stage, "low")) == 1)
    create_pods(stage, "contender", 6)
    stage.wait("they wait", partial(told, stage, "contender-5", "1 node"))
    nominated = stage.get_pod("high-0")["status"].get("nominatedNodeName")
    assert nominated == stage.node_name("a")
    assert len(phases(stage, "low")) == 1
    stage.fleet.driver(GPU).mood.slow_seconds = 0
    stage.wait_running("high-0")
    assert list(phases(stage, "contender").values()) == ["Pending"] * 6
    assert len(phases(stage, "low")) == 1


@bridge_scenario("full")
def a_preemptor_that_a_more_important_pod_overtakes_evicts_another_pod(stage: BridgeStage) -> None:
    """It does not wait for the end of its first victim, which brings it nothing any more."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high, highest = create_priority(stage, "high", 1000), create_priority(stage, "highest", 2000)
    create_pods(stage, "low", 2)
    stage.wait("the node is full", run_all(stage, "low", 2))
    stage.fleet.driver(GPU).mood.slow_seconds = TERMINATES_SECONDS
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait("a victim terminates", lambda: len(phases(stage, "low")) == 1)
    create_pods(stage, "highest", 1, priorityClassName=highest)
    stage.wait("both victims terminate", lambda: not phases(stage, "low"), TERMINATES_SECONDS / 2)
    stage.fleet.driver(GPU).mood.slow_seconds = 0
    stage.wait_running("highest-0")
    stage.wait_running("high-0")


@bridge_scenario("full")
def a_storm_of_preemptors_evicts_no_pod_for_nothing(stage: BridgeStage) -> None:
    """A hundred preemptors against five hundred pods: each has one victim."""
    labels = {LABEL: stage.name, **OWNED}
    names = [stage.node_name(str(number)) for number in range(STORM_NODES)]
    stage.fleet.add_all([NodePlan(name, "dgx-a100", {GPU: "full"}, labels) for name in names])
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    free = STORM_NODES * 8 - STORM_PODS
    create_pods(stage, "low", STORM_PODS)
    create_pods(stage, "filler", free)
    total = STORM_PODS + free
    stage.wait(
        "the nodes are full",
        lambda: run_all(stage, "low", STORM_PODS)() and run_all(stage, "filler", free)(),
        PATIENCE_SECONDS,
    )
    began = time.monotonic()
    create_pods(stage, "high", STORM_PREEMPTORS, priorityClassName=high)
    stage.wait("all preemptors run", run_all(stage, "high", STORM_PREEMPTORS), PATIENCE_SECONDS)
    took = time.monotonic() - began
    left = len(phases(stage, "low")) + len(phases(stage, "filler"))
    print_line(f"      {total - left} victims, all {STORM_PREEMPTORS} run after {took:.1f} s")
    assert left == total - STORM_PREEMPTORS
    assert stage.check_allocations() == total


@bridge_scenario("full", since="1.36")
def a_victim_that_is_being_bound_is_evicted(stage: BridgeStage) -> None:
    """Its device is allocated and not attached yet. It is attached for the preemptor."""
    add_device(stage)
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 1)
    stage.wait("the device is allocated", partial(allocated_claim, stage, "low-0"))
    create_pods(stage, "high", 1, priorityClassName=high)
    stage.wait_gone(stage.pod_path("low-0"))
    claim = stage.wait("it is allocated anew", partial(allocated_claim, stage, "high-0"))
    report_condition(stage, claim, ATTACHED)
    stage.wait_running("high-0")


@bridge_scenario("full")
def a_pod_evicts_one_pod_for_cpu_and_one_for_its_device(stage: BridgeStage) -> None:
    """Pods that hold neither of what it needs stay."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    stage.pod("low-cpu", limits={"cpu": "90"})
    stage.pod("low-small", limits={"cpu": "1"})
    create_pods(stage, "holder", 1)
    stage.wait("they run", lambda: run_all(stage, "low", 2)() and run_all(stage, "holder", 1)())
    needs = {"limits": {"cpu": "10"}, "priorityClassName": high}
    create_pods(stage, "first", 1, **needs)
    stage.wait_running("first-0")
    assert phases(stage, "low") == {"low-small": "Running"}
    assert phases(stage, "holder") == {"holder-0": "Running"}
    create_pods(stage, "second", 1, **needs)
    stage.wait_running("second-0")
    assert phases(stage, "low") == {"low-small": "Running"}
    assert phases(stage, "holder") == {}


@bridge_scenario("full")
def preemptors_get_their_devices_although_the_allocator_is_killed(stage: BridgeStage) -> None:
    """What was kept for them is forgotten. They use what is free, and evict for the rest."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    high = create_priority(stage, "high", 1000)
    create_pods(stage, "low", 8)
    stage.wait("the node is full", run_all(stage, "low", 8))
    create_pods(stage, "high", 6, priorityClassName=high)
    stage.wait("a victim terminates", lambda: len(phases(stage, "low")) < 8)
    leader = stage.leader()
    leader.allocator.kill()
    leader.start()
    stage.wait("all preemptors run", run_all(stage, "high", 6), PATIENCE_SECONDS)
    left = len(phases(stage, "low"))
    print_line(f"      {8 - left} victims for 6 preemptors")
    assert stage.check_allocations() == 6 + left
