"""A scenario: `drawbridge simulate` counts the resources of nodes as the real scheduler does.

Each generated pod is for one node, so both place the pods in the same order on the same nodes, and
must agree about each one: placed, or which resources are too little.
"""

import json
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.controlplane.client import JSON
from e2e.installed.installation import installed
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

NODES, PODS, SEED = 4, 60, 20
SHAPE = "lab-2g2n"
EXTENDED = "example.com/thing"
HUGE = "hugepages-2Mi"
RUNTIME = "/apis/node.k8s.io/v1/runtimeclasses"
LACKS = re.compile(r"Insufficient ([^\s,.]+(?:\.[^\s,.]+)*)|(Too many pods)")


def add_nodes(stage: Stage, draw: random.Random) -> list[str]:
    """Add nodes that have different amounts of everything."""
    names = []
    for number in range(NODES):
        name = stage.node(f"{number}", SHAPE).name
        amounts = {
            "cpu": f"{draw.randint(6_000, 20_000)}m",
            "memory": f"{draw.randint(8_000, 40_000)}Mi",
            "ephemeral-storage": f"{draw.randint(5, 40)}Gi",
            "pods": f"{draw.randint(5, 12)}",
            HUGE: f"{draw.randint(0, 40) * 2}Mi",
            EXTENDED: f"{draw.randint(1, 9)}",
        }
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        stage.client.patch(f"/api/v1/nodes/{name}/status", status)
        names.append(name)
    return names


def resources(draw: random.Random, *, of_pod: bool = False) -> JSON:
    """Draw requests and limits; some limits have no request, which the API server adds."""
    requests, limits = dict[str, str](), dict[str, str]()
    drawn = {
        "cpu": f"{draw.choice((1, 100, 250, 999, 1500, 3000))}m",
        "memory": f"{draw.choice((1, 100, 512, 1000, 4096, 9000))}Mi",
    }
    if not of_pod:
        drawn["ephemeral-storage"] = f"{draw.choice((100, 1000, 4000))}Mi"
    for name, amount in drawn.items():
        match draw.randrange(3):
            case 0:
                requests[name] = amount
            case 1:
                limits[name] = amount
    if not of_pod and draw.random() < 0.3:
        limits[EXTENDED] = f"{draw.randint(0, 3)}"
    if not of_pod and draw.random() < 0.2 and requests.keys() | limits.keys():
        limits[HUGE] = f"{draw.randint(1, 6) * 2}Mi"
        limits.setdefault("cpu", requests.get("cpu", "100m"))
    return {"requests": requests, "limits": limits}


def containers(draw: random.Random, kind: str, least: int, most: int) -> Iterator[JSON]:
    """Draw containers; half of the init containers are sidecars."""
    for number in range(draw.randint(least, most)):
        sidecar = {"restartPolicy": "Always"} if kind == "init" and draw.random() < 0.5 else {}
        yield {
            "name": f"{kind}-{number}",
            "image": "example.com/none",
            "resources": resources(draw),
            **sidecar,
        }


def generate(stage: Stage, draw: random.Random, number: int, node: str, runtime: str) -> JSON:
    """Draw a pod for one node."""
    pod = stage.pod_object(
        f"pod-{number:02}", nodeSelector={**stage.selector, "kubernetes.io/hostname": node}
    )
    spec = pod["spec"]
    spec["containers"] = [*containers(draw, "main", 1, 3)]
    spec["initContainers"] = [*containers(draw, "init", 0, 3)]
    if draw.random() < 0.2:
        spec["runtimeClassName"] = runtime
    if draw.random() < 0.2:
        # At least what the containers may request together, which the API server demands.
        spec["resources"] = {"requests": {"cpu": "12", "memory": "60000Mi"}}
        if draw.random() < 0.5:
            spec["resources"]["requests"].pop("memory")
    return pod


def decided(stage: Stage, name: str) -> tuple[str, frozenset[str]]:
    """Wait for the scheduler's decision: the node, or the resources that are too little."""

    def decision() -> tuple[str, frozenset[str]] | None:
        pod = stage.get_pod(name)
        if node := pod["spec"].get("nodeName"):
            return node, frozenset()
        for condition in pod.get("status", {}).get("conditions", ()):
            if condition.get("reason") == "Unschedulable":
                matches = LACKS.findall(condition["message"])
                return "", frozenset(resource or "pods" for resource, _ in matches)
        return None

    decided = stage.wait(f"the scheduler decides about {name}", decision)
    assert decided is not None
    return decided


def predicted(stage: Stage, pods: list[JSON]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return what `drawbridge simulate` says about pods on the nodes of the cluster."""
    cluster = installed(stage, mode="")
    with tempfile.TemporaryDirectory() as folder:
        for name, items in (
            ("nodes", stage.client.get("/api/v1/nodes")["items"]),
            ("pods", pods),
        ):
            kind = {"apiVersion": "v1", "kind": name.removesuffix("s").title()}
            text = json.dumps({"kind": "List", "items": [{**each, **kind} for each in items]})
            (Path(folder) / f"{name}.json").write_text(text)
        files = ("--cluster", f"{folder}/nodes.json", "-f", f"{folder}/pods.json")
        said = json.loads(cluster.drawbridge("simulate", *files, "-o", "json").out)
    return {
        each["pod"].partition("/")[2]: (each["node"] or "", lacking(each["reasons"]))
        for each in said["pods"]
    }


def lacking(reasons: list[JSON]) -> frozenset[str]:
    """Return the resources that the reasons of a simulated pod name."""
    names_lacking: set[str] = set()
    for reason in reasons:
        if reason["code"] == "InsufficientResources":
            names = reason["message"].removeprefix("insufficient ").partition(":")[0]
            names_lacking.update(names.split(" and "))
    return frozenset(names_lacking)


@scenario("full", rig="installed", needs=NEEDS)
def simulate_counts_resources_as_the_scheduler_does(stage: Stage) -> None:
    """Generated pods with sidecars, overhead and requests of their own, on small nodes."""
    draw = random.Random(SEED)  # repeatable
    nodes = add_nodes(stage, draw)
    overhead = {"podFixed": {"cpu": "333m", "memory": "77Mi"}}
    runtime = stage.cluster_object(
        RUNTIME, {"metadata": {"name": stage.name}, "handler": "rig", "overhead": overhead}
    )["metadata"]["name"]
    stored, real = [], {}
    for number in range(PODS):
        pod = generate(stage, draw, number, nodes[number % NODES], runtime)
        name = pod["metadata"]["name"]
        made = stage.client.create(stage.pod_path(), pod)
        stored.append({**made, "status": {}})
        real[name] = decided(stage, name)
    ours = predicted(stage, stored)
    wrong = {name: (each, ours[name]) for name, each in real.items() if each != ours[name]}
    assert not wrong, wrong
    refused = [lacks for _, lacks in real.values() if lacks]
    assert len(refused) < PODS - NODES, "nearly all pods are refused, so little is compared"
    compared = frozenset().union(*refused)
    assert compared >= {"cpu", "memory", "pods", EXTENDED}, compared
