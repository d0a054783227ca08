"""Scenarios: who waits for a gang, and for what its members wait, in bridge placement.

The rig `quorum` has the Permit plugin Quorum instead of the scheduler's own gangs, on any version.
"""

import time
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.plane import Options
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.runner import print_line
from e2e.scenarios.bridge_gangs import (
    GPU,
    GROUP_LABEL,
    MINIMUM_LABEL,
    PATIENCE_SECONDS,
    RIG,
    all_bound,
    count_bound,
    create_gang,
    create_group,
    create_member,
    delete_pods,
    told,
)
from e2e.scenarios.bridge_preemption import create_pods, create_priority, run_all
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import RIGS, default_options
from e2e.scenarios.stage import Stage
from e2e.scenarios.volcano import is_served

# A group that only the Permit plugin knows.
OTHER_GROUP: Final = "rig.drawbridge.dev/group"
# Longer than a reservation that the scheduler does not renew.
PERMIT_SECONDS: Final = 45.0
CONTENDERS: Final = 10
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COSCHEDULING: Final = "scheduling.x-k8s.io"


def quorum_options(version: str) -> Options:
    """Return the usual control plane with the Permit plugin."""
    return replace(default_options(version), quorum=True)


RIGS["quorum"] = quorum_options


@bridge_scenario("full", rig=RIG)
def a_launcher_without_devices_runs_with_its_gang(stage: BridgeStage) -> None:
    """The launcher is created first, and the minimum includes it."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    set_mode(stage, "enforce")
    wait_for_facts(stage, stage.placement.cluster, stage.legacy_pod("probe", 1))
    member = create_group(stage, "g", 4)
    launcher = Stage.pod_object(stage, "g-launcher")
    started = time.monotonic()
    create_member(stage, launcher, member)
    for number in range(3):
        create_member(stage, stage.legacy_pod(f"g-{number}", 1), member)
    stage.wait("the gang runs", run_all(stage, "g-", 4), PATIENCE_SECONDS)
    print_line(f"      launcher and 3 workers run after {time.monotonic() - started:.1f} s")


@bridge_scenario("full", rig="quorum")
def members_that_wait_at_permit_keep_their_devices(stage: BridgeStage) -> None:
    """Four members wait for the fifth, longer than a reservation lasts, and eight pods beside them.

    The allocator does not know this group, so that its members are reserved one by one.
    """
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.template("four", claim_spec(request("gpu", GPU, count=4)))
    high = create_priority(stage, "high", 1000)
    stage.run_pod("holder", templates={"gpu": "four"}, priorityClassName=high)
    member = {"metadata": {"labels": {OTHER_GROUP: "g", MINIMUM_LABEL: "5"}}}
    gang = [f"g-{number}" for number in range(5)]

    def create(name: str) -> None:
        body = stage.pod_object(name, templates={"gpu": "gpu"}, priorityClassName=high)
        create_member(stage, body, member)

    for name in gang[:4]:
        create(name)
    singles = create_pods(stage, "single", 8)
    for name in singles:
        stage.wait_unschedulable(name)
    watched = time.monotonic() + PERMIT_SECONDS
    while time.monotonic() < watched:
        assert count_bound(stage, [*gang, *singles]) == 0
        time.sleep(1)
    create(gang[4])
    stage.wait_unschedulable(gang[4])
    delete_pods(stage, ["holder"])
    freed = time.monotonic()
    stage.wait("the gang is bound", all_bound(stage, gang), PATIENCE_SECONDS)
    print_line(f"      all 5 members are bound {time.monotonic() - freed:.1f} s after the devices")
    stage.wait("others are bound", lambda: count_bound(stage, singles) == 3, PATIENCE_SECONDS)


@bridge_scenario("full")
def the_pod_group_of_coscheduling_says_how_many_members_must_run(stage: BridgeStage) -> None:
    """The allocator reads PodGroups where they are served when it starts."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True}
    stage.cluster_object(
        DEFINITIONS,
        {
            "metadata": {"name": f"podgroups.{COSCHEDULING}"},
            "spec": {
                "group": COSCHEDULING,
                "names": names,
                "scope": "Namespaced",
                "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )
    path = stage.path("podgroups", "", f"/apis/{COSCHEDULING}/v1alpha1")
    stage.wait("PodGroups are served", lambda: is_served(stage, path))
    group = {"metadata": {"name": "train"}, "spec": {"minMember": 2}}
    stage.client.create(
        path, {"apiVersion": f"{COSCHEDULING}/v1alpha1", "kind": "PodGroup", **group}
    )
    for pair in stage.placement.pairs:
        pair.restart_allocator()
    stage.leader()
    member = {"metadata": {"labels": {GROUP_LABEL: "train"}}}
    create_member(stage, stage.pod_object("g-0", templates={"gpu": "gpu"}), member)
    missing = "1 of 2 members of the group exist"
    stage.wait("the member waits", lambda: missing in told(stage, "g-0"), PATIENCE_SECONDS)
    create_member(stage, stage.pod_object("g-1", templates={"gpu": "gpu"}), member)
    stage.wait("both are bound", all_bound(stage, ["g-0", "g-1"]), PATIENCE_SECONDS)


@bridge_scenario("full", rig=RIG)
def a_partly_bound_gang_is_completed_first_after_a_restart(stage: BridgeStage) -> None:
    """Both pairs are killed while six of eight members run; older pods wait for devices as well."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    member = create_group(stage, "g", 8)
    gang = [f"g-{number}" for number in range(8)]

    def create(name: str) -> None:
        create_member(stage, stage.pod_object(name, templates={"gpu": "gpu"}), member)

    for name in gang:
        create(name)
    stage.wait("the gang runs", run_all(stage, "g-", 8), PATIENCE_SECONDS)
    singles = create_pods(stage, "single", 4)
    for name in singles:
        stage.wait_unschedulable(name)
    stage.leader()
    for pair in stage.placement.pairs:
        pair.allocator.kill()
        pair.running_scheduler().kill()
    # A pod that preempts would evict members: these wait with the same priority, or never preempt.
    never = create_priority(stage, "never", 2000, policy="Never")
    important = create_pods(stage, "important", 4, priorityClassName=never)
    delete_pods(stage, gang[6:])
    for name in gang[6:]:
        create(name)
    started = time.monotonic()
    stage.placement.start()
    stage.leader()
    led = time.monotonic()
    stage.wait("the gang is complete", all_bound(stage, gang), PATIENCE_SECONDS)
    assert count_bound(stage, [*singles, *important]) == 0
    print_line(
        f"      the gang is complete {time.monotonic() - led:.1f} s after a scheduler leads, "
        f"{time.monotonic() - started:.1f} s after both pairs start"
    )
    delete_pods(stage, gang)
    stage.wait("the others follow", all_bound(stage, [*singles, *important]), PATIENCE_SECONDS)


@bridge_scenario("full", rig=RIG)
def a_pod_alone_is_not_starved_by_gangs(stage: BridgeStage) -> None:
    """Gangs that need all devices follow each other; a pod waits for the end of few of them."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    numbers = count()
    gangs: dict[str, list[str]] = {}
    waits: list[tuple[int, float]] = []

    def create() -> None:
        name = f"g{next(numbers)}"
        gangs[name] = create_gang(stage, name, 8)

    def running() -> str:
        return next((name for name, pods in gangs.items() if count_bound(stage, pods) == 8), "")

    for _ in range(3):
        create()
    for round_number in range(CONTENDERS):
        name, ended = f"single-{round_number}", 0
        stage.wait("a gang is bound", running, PATIENCE_SECONDS)
        stage.pod(name, templates={"gpu": "gpu"})
        created = time.monotonic()
        bound = partial(count_bound, stage, [name])
        while not bound():
            if winner := running():
                delete_pods(stage, gangs.pop(winner))
                ended += 1
                create()
        waits.append((ended, time.monotonic() - created))
        delete_pods(stage, [name])
    most = max(ended for ended, _ in waits)
    seconds = sorted(took for _, took in waits)
    print_line(
        f"      {len(waits)} pods alone waited until {most} gangs had ended at most, "
        f"{seconds[len(seconds) // 2]:.1f} s (median), {seconds[-1]:.1f} s at most"
    )
    assert most <= len(gangs) + 1
