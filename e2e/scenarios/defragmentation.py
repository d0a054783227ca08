"""Scenario: the plan of `simulate --defrag` for an eight-GPU pod that waits on nodes full of parts.

Native placement: kube-scheduler places all pods, also those that move.
"""

import json
from collections import Counter
from functools import partial

from e2e.controlplane.client import JSON
from e2e.installed.installation import installed
from e2e.runner import print_line
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.workload_makers import replica_set

NODES = 40
GPUS = 8
CLASS = "gpu.nvidia.com"
# How many pods of how many GPUs. Together they have more than half of all GPUs, on every node some.
FILLING = (("ones", 1, 60), ("twos", 2, 50), ("guarded", 1, 20))
PATIENCE = 120.0


def create_parts(stage: Stage, name: str, gpus: int, replicas: int) -> None:
    """Create a ReplicaSet whose pods have some GPUs each."""
    stage.template(name, claim_spec(request("gpu", CLASS, count=gpus)))
    pod = stage.pod_object(name, templates={"gpu": name})
    stage.client.create(stage.path("replicasets", "", "/apis/apps/v1"), replica_set(pod, replicas))


def guard(stage: Stage, name: str) -> None:
    """Let no pod of a ReplicaSet be evicted."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}
    body = {"metadata": {"name": name}, "spec": spec}
    stage.client.create(stage.path("poddisruptionbudgets", "", "/apis/policy/v1"), body)


def living(stage: Stage) -> dict[str, JSON]:
    """Return the pods that are not terminating, by UID."""
    pods = stage.client.get(stage.pod_path())["items"]
    return {e["metadata"]["uid"]: e for e in pods if "deletionTimestamp" not in e["metadata"]}


def all_run(stage: Stage, number: int) -> bool:
    """Whether so many pods run."""
    phases = [each["status"].get("phase") for each in living(stage).values()]
    return phases.count("Running") == number


def fewest_to_move(stage: Stage) -> int:
    """Return how many pods the easiest node has: eight GPUs are free when none is left there.

    Nodes with a guarded pod do not count.
    """
    pods = [each for each in living(stage).values() if each["spec"].get("nodeName")]
    guarded = {e["spec"]["nodeName"] for e in pods if e["metadata"]["labels"]["app"] == "guarded"}
    counts = Counter(each["spec"]["nodeName"] for each in pods)
    return min(number for node, number in counts.items() if node not in guarded)


@scenario("full", needs=("processes",))
def the_plan_of_defrag_frees_eight_gpus(stage: Stage) -> None:
    """The commands of the plan run as printed: the pod runs, and nobody else has moved."""
    try:
        _play(stage)
    finally:
        for name, *_ in FILLING:
            stage.client.delete(stage.path("replicasets", name, "/apis/apps/v1"))


def _play(stage: Stage) -> None:
    cluster = installed(stage, "")
    for number in range(NODES):
        stage.node(f"n{number}", "dgx-a100", {CLASS: "full"})
    for name, gpus, replicas in FILLING:
        create_parts(stage, name, gpus, replicas)
    guard(stage, "guarded")
    number_of_parts = sum(replicas for *_, replicas in FILLING)
    stage.wait("all parts run", partial(all_run, stage, number_of_parts), PATIENCE)
    used = Counter(each["spec"]["nodeName"] for each in living(stage).values())
    assert len(used) == NODES, used
    stage.template("eight", claim_spec(request("gpu", CLASS, count=GPUS)))
    stage.pod("train", templates={"gpu": "eight"})
    stage.wait_unschedulable("train")
    before, fewest = living(stage), fewest_to_move(stage)
    printed = cluster.drawbridge(
        "simulate", "--defrag", f"{stage.namespace}/train", "--context", "-o", "json"
    ).check()
    plan = json.loads(printed.out)
    assert plan["proven"], plan
    assert len(plan["moves"]) == fewest, (fewest, plan["moves"])
    kubectl = cluster.kubectl.inside("")
    for command in plan["commands"]:
        kubectl.shell(command).check()
    pod = stage.wait_running("train")
    assert pod["spec"]["nodeName"] == plan["node"]
    stage.wait("all parts run again", partial(all_run, stage, number_of_parts + 1), PATIENCE)
    after = living(stage)
    gone = [each for uid, each in before.items() if uid not in after]
    names = {f"{stage.namespace}/{each['metadata']['name']}" for each in gone}
    assert names == {each["pod"] for each in plan["moves"]}
    assert not any(each["metadata"]["labels"]["app"] == "guarded" for each in gone)
    moves = len(names)
    print_line(f"      {number_of_parts} pods on {NODES} nodes, {moves} moved, the pod runs")
