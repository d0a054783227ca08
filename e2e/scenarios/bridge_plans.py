"""Scenarios: plans and what-if questions in bridge placement, and a hold for the pod that asked.

The allocator is killed between the eviction and the start of the pod.
"""

import json
from functools import partial
from http.client import OK

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import JSON
from e2e.runner import print_line
from e2e.scenarios.bridge import told
from e2e.scenarios.bridge_api import Asked
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.workload_makers import replica_set

GPU = "gpu.nvidia.com"
HOLD = "drawbridge.dev/held-for"
# An allocator that starts while a moved pod releases its claim keeps the devices for a minute.
PATIENCE_SECONDS = 150.0


def create_owned(stage: BridgeStage, name: str, **spec: object) -> None:
    """Create a ReplicaSet with one pod of one GPU, and wait until it runs."""
    pod = stage.pod_object(name, templates={"gpu": "one"}, **spec)
    stage.client.create(stage.path("replicasets", "", "/apis/apps/v1"), replica_set(pod, 1))
    stage.wait(f"{name} runs", lambda: nodes_of(stage, name) != [])


def nodes_of(stage: BridgeStage, app: str) -> list[str]:
    """Return the nodes of the running pods of an app."""
    return [
        pod["spec"]["nodeName"]
        for pod in stage.client.get(stage.pod_path())["items"]
        if pod["metadata"]["labels"].get("app") == app
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]


@bridge_scenario("full")
def a_plan_holds_what_it_frees_for_the_pod_that_asked(stage: BridgeStage) -> None:
    """A pod that has waited for longer does not get it, also not from another process.

    The API of the allocator plans the same.
    """
    try:
        _play(stage)
    finally:
        for name in ("left", "right"):
            stage.client.delete(stage.path("replicasets", name, "/apis/apps/v1"))


def _play(stage: BridgeStage) -> None:
    cluster = stage.placement.cluster
    for suffix in "ab":
        stage.node(suffix, "lab-2g2n", {GPU: "full"})
    for name, count in (("one", 1), ("two", 2)):
        stage.template(name, claim_spec(request("gpu", GPU, count=count)))
    create_owned(stage, "left")
    stage.run_pod("filler", templates={"gpu": "one"})
    create_owned(stage, "right")
    stage.delete_pod("filler")
    stage.wait_gone(stage.pod_path("filler"))
    assert nodes_of(stage, "left") != nodes_of(stage, "right")
    for name in ("rival", "train"):
        stage.pod(name, templates={"gpu": "two"})
        stage.wait_unschedulable(name)
    asked = ("simulate", "--defrag", f"{stage.namespace}/train", "--hold", "10m")
    printed = cluster.drawbridge(*asked, "--context", "-o", "json").check()
    plan = json.loads(printed.out)
    assert len(plan["moves"]) == 1, plan
    _ask_allocator(stage, plan)
    kubectl, leader = cluster.kubectl.inside(""), stage.leader()
    assert None not in _simulate_two(stage)
    for command in plan["commands"]:
        if "uncordon" in command:
            # What was evicted runs elsewhere. Another process decides from here on.
            leader.allocator.kill()
            leader.start()
            leader.wait_healthy()
        if command.endswith(f"{HOLD}-"):
            stage.wait("the pod is told", partial(told, stage, "rival", "0/"))
        kubectl.shell(command, PATIENCE_SECONDS).check()
        if HOLD in command and not command.endswith("-"):
            nodes = _simulate_two(stage)
            assert plan["node"] not in nodes, nodes
            assert None in nodes, nodes
    assert stage.wait_running("train")["spec"]["nodeName"] == plan["node"]
    assert stage.client.get(stage.pod_path("rival"))["status"]["phase"] == "Pending"
    node = stage.client.get(f"/api/v1/nodes/{plan['node']}")
    assert HOLD not in node["metadata"].get("annotations", {})
    stage.delete_pod("train")
    stage.wait_running("rival")
    print_line("      1 pod moved, the allocator was killed, and the pod that asked runs")


def _simulate_two(stage: BridgeStage) -> set[str | None]:
    """Return the nodes of two further pods of one GPU, as the command predicts them."""
    pods = [stage.pod_object(name, templates={"gpu": "one"}) for name in ("more-0", "more-1")]
    for pod in pods:
        pod["metadata"]["namespace"] = stage.namespace
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    printed = stage.placement.cluster.drawbridge(
        "simulate", "-f", "-", "--context", "-o", "json", stdin=listed
    )
    return {each["node"] for each in json.loads(printed.out)["pods"]}


def _ask_allocator(stage: BridgeStage, plan: JSON) -> None:
    """Ask the API the same, and how far the claim of the pod to move could grow."""
    asked, admin = Asked(stage), stage.processes.tokens["admin"]
    named = {"namespace": stage.namespace, "name": "train"}
    told = asked("POST /v1/defrag", admin, {**named, "holdSeconds": 600})
    assert told.status == OK, told
    assert (told.body["node"], told.body["proven"]) == (plan["node"], True), told
    (move,), (planned,) = told.body["moves"], plan["moves"]
    assert f"{move['namespace']}/{move['pod']}" == planned["pod"]
    assert len(told.body["commands"]) == len(plan["commands"])
    named = {"namespace": stage.namespace, "name": stage.generated_claim(move["pod"])}
    for count, fits, most in ((2, True, ""), (3, False, "2")):
        told = asked("POST /v1/adjust", admin, {**named, "count": count})
        answer = told.body["fits"], told.body["most"], told.body["node"]
        assert answer == (fits, most, plan["node"]), told


@bridge_scenario("full")
def what_if_questions_about_a_live_cluster_are_answered(stage: BridgeStage) -> None:
    """Without a pod, with more nodes, with a drained node, and without the class."""
    a, b = (stage.node(suffix, "lab-2g2n", {GPU: "full"}).name for suffix in "ab")
    for name, count in (("one", 1), ("two", 2)):
        stage.template(name, claim_spec(request("gpu", GPU, count=count)))
    try:
        for name, node in (("left", a), ("right", b)):
            at = {"kubernetes.io/hostname": node}
            create_owned(stage, name, nodeSelector=at)
        _ask(stage, a)
    finally:
        for name in ("left", "right"):
            stage.client.delete(stage.path("replicasets", name, "/apis/apps/v1"))


def _ask(stage: BridgeStage, a: str) -> None:
    large = stage.pod_object("large", templates={"gpu": "two"})
    large["metadata"]["namespace"] = stage.namespace
    pods = stage.client.get(stage.pod_path())["items"]
    left = next(e["metadata"]["name"] for e in pods if e["metadata"]["name"].startswith("left"))

    def simulate(*words: str) -> JSON:
        command = ("simulate", "-f", "-", "--context", "-o", "json", *words)
        told = stage.placement.cluster.drawbridge(*command, stdin=json.dumps(large))
        answer: JSON = json.loads(told.out)
        return answer

    def node_of(answer: JSON) -> str | None:
        nodes: dict[str, str | None] = {each["pod"]: each["node"] for each in answer["pods"]}
        return nodes[f"{stage.namespace}/large"]

    assert node_of(simulate()) is None
    without = simulate("--without", f"pod/{stage.namespace}/{left}")
    assert node_of(without) == a
    (fewest,) = without["fewestPods"]
    assert (fewest["node"], fewest["proven"]) == (a, True)
    assert fewest["pods"] == [f"{stage.namespace}/{left}"]
    assert node_of(simulate("--more-nodes", f"{a}=1")) == f"{a}-more-1"
    assert node_of(simulate("--more-nodes", f"{a}=1", "--without", f"class/{GPU}")) is None
    drained = simulate("--without", f"node/{a}")
    moved = {each["pod"]: each["node"] for each in drained["pods"]}
    # It may run on its node only.
    assert moved == {f"{stage.namespace}/{left}": None, f"{stage.namespace}/large": None}
    print_line("      4 questions were answered from the live cluster, in bridge placement")
