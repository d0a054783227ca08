"""Scenarios: what pods that wait for devices cost, in bridge placement."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.runner import print_line
from e2e.scenarios.bridge_preemption import GPU, create_priority
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.timings import cpu_seconds

WAITING, WRITERS = 1500, 8
MINUTE_SECONDS = 60.0
CHANGES_PER_SECOND = 10
MOST_SHARE = 0.05  # of one core
PATIENCE_SECONDS = 300.0


@bridge_scenario("full")
def many_pods_that_wait_cost_little(stage: BridgeStage) -> None:
    """Nothing changes for a minute, and then only objects that mean nothing to them."""
    node = stage.node("a", "lab-2g2n", {GPU: "full"}).name
    stage.template("all", claim_spec(request("gpu", GPU, count=2)))
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    top = create_priority(stage, "top", 1000)
    priorities = [create_priority(stage, f"low{number}", number) for number in range(10)]
    stage.run_pod("holder", templates={"all": "all"}, priorityClassName=top)

    def create(number: int) -> None:
        name = priorities[number % len(priorities)]
        stage.pod(f"waiting-{number}", templates={"gpu": "gpu"}, priorityClassName=name)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(create, range(WAITING)))
    allocator = stage.leader().allocator
    waiting = partial(allocator.metric, "drawbridge_allocator_waiting_pods")
    stage.wait("all pods wait", lambda: waiting() == WAITING, PATIENCE_SECONDS)
    path = f"/api/v1/nodes/{node}"
    quiet, _ = _measure(stage, lambda _: None)
    changing, changes = _measure(stage, lambda number: _change(stage, path, number))
    print_line(
        f"      {WAITING} waiting pods: {100 * quiet:.1f} % of a core when nothing changes,"
        f" {100 * changing:.1f} % beside {changes / MINUTE_SECONDS:.0f} changes a second"
    )
    assert waiting() == WAITING
    assert quiet < MOST_SHARE


def _measure(stage: BridgeStage, change: Callable[[int], None]) -> tuple[float, int]:
    """Return the share of a core that the allocator uses for a minute, and how many changes."""
    pid = stage.leader().allocator.started_process().child.pid
    used, began, changes = cpu_seconds(pid), time.monotonic(), 0
    while (took := time.monotonic() - began) < MINUTE_SECONDS:
        change(changes)
        changes += 1
        time.sleep(max(0.0, changes / CHANGES_PER_SECOND - took))
    return (cpu_seconds(pid) - used) / took, changes


def _change(stage: BridgeStage, node: str, number: int) -> None:
    """Change a note of the node or of a pod, or the heartbeat of the node."""
    note: JSON = {"metadata": {"annotations": {"rig.drawbridge.dev/note": f"{number}"}}}
    heartbeat = {"conditions": [{"type": "Ready", "status": "True", "message": f"{number}"}]}
    if number % 3 == 0:
        stage.client.patch(node, note)
    elif number % 3 == 1:
        stage.client.patch(stage.pod_path(f"waiting-{number % WAITING}"), note)
    else:
        stage.client.patch(
            f"{node}/status", {"status": heartbeat}, "application/strategic-merge-patch+json"
        )
