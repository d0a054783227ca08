"""Scenarios: what GPU Operator renders, at two versions, through `doctor` and `audit`.

The DaemonSet controller is real: an operand leaves a node when the command of the plan changes its
label. The module imports no product package.
"""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, installed
from e2e.scenarios.admission import GPU, LEGACY, NEEDS
from e2e.scenarios.doctor import examine
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.volcano import ANYTHING, DEFINITIONS, NOT_YET

VERSIONS = Path(__file__).with_name("gpu_operator.yaml")
DEPLOY = "nvidia.com/gpu.deploy."
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
FOLDER = "/var/lib/kubelet/device-plugins"
RIVALS = ("device-plugin", "mig-manager")


class Rendered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The labels of a node, and the operands that allocate or change GPUs, by their label."""

    version: str
    labels: list[str]
    daemons: dict[str, str]


def rendered() -> list[Rendered]:
    """Read what the versions render."""
    return msgspec.yaml.decode(VERSIONS.read_bytes(), type=list[Rendered])


def play(version: Rendered, stage: Stage) -> None:
    """Let doctor find the operands on a node of the driver, and audit move a node with them."""
    cluster = installed(stage)
    _define(stage)
    labels = {f"{DEPLOY}{name}": "true" for name in version.labels}
    group = {"pool": stage.node_name("old")}
    units = tuple(each.uuid for each in stage.hardware("old", "lab-2g2n").gpus)
    stage.node("old", "lab-2g2n", {}, {LEGACY: units}, {**labels, **group})
    stage.node("new", "lab-2g2n", {GPU: "full"}, labels=labels)
    _install(stage, version)
    stage.wait("the operands run", lambda: _operands(stage, "old") == set(version.daemons))

    _, lines = examine(cluster, "-n", stage.namespace)
    (line,) = lines["GPU Operator"]
    assert line["code"] == "OperandsOnDriverNodes", line
    assert "device-plugin (1), mig-manager (1)" in line["message"], line
    assert stage.node_name("new") in line["message"], line

    command = _find_move(cluster, stage)
    for each in RIVALS:
        assert f"{DEPLOY}{each}=false" in command, command
    cluster.kubectl.inside("")(*shlex.split(command)[1:]).check()
    stage.wait("the operands leave the node", lambda: not _operands(stage, "old"))
    node = stage.client.get(f"/api/v1/nodes/{stage.node_name('old')}")
    kept = {name for name in version.labels if name not in RIVALS}
    on = {key.removeprefix(DEPLOY) for key, value in node["metadata"]["labels"].items()
          if key.startswith(DEPLOY) and value == "true"}  # fmt: skip
    assert on == kept, on

    words = [f"{DEPLOY}{name}=false" for name in RIVALS]
    name = stage.node_name("new")
    cluster.kubectl.inside("")("label", "nodes", name, *words, "--overwrite").check()
    _, lines = examine(cluster, "-n", stage.namespace)
    (line,) = lines["GPU Operator"]
    assert line["message"].startswith(f"GPU Operator {version.version}: no operand of"), line


def _find_move(cluster: Installation, stage: Stage) -> str:
    """Return the command of the plan that labels the nodes of the group, and nothing else's."""
    plan: Any = json.loads(cluster.drawbridge("audit", "-o", "json").check().out)
    name = stage.node_name("old")
    commands = [each for step in plan["steps"] for each in step["commands"]]
    assert not any("patch daemonset/nvidia-device-plugin" in each for each in commands), commands
    (command,) = (
        each
        for each in commands
        if each.startswith("kubectl label nodes ") and name in each and "device-plugin=" in each
    )
    return str(command)


def _define(stage: Stage) -> None:
    """Make the kind of the operator known, until the stage is left."""
    names = {
        "plural": "clusterpolicies",
        "singular": "clusterpolicy",
        "kind": "ClusterPolicy",
        "listKind": "ClusterPolicyList",
    }
    version = {"name": "v1", "served": True, "storage": True}
    spec = {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": names,
        "versions": [{**version, "schema": {"openAPIV3Schema": ANYTHING}}],
    }
    metadata = {"name": "clusterpolicies.nvidia.com"}
    stage.cluster_object(DEFINITIONS, {"metadata": metadata, "spec": spec})
    stage.wait("the kind is served", partial(_is_served, stage))


def _is_served(stage: Stage) -> bool:
    try:
        stage.client.get(POLICIES)
    except ApiError as problem:
        if problem.code not in NOT_YET:
            raise
        return False
    return True


def _install(stage: Stage, version: Rendered) -> None:
    """Create the operator's Deployment, its policy and its DaemonSets."""
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"}
    stage.cluster_object(POLICIES, {**policy, "metadata": {"name": "cluster-policy"}})
    image = f"nvcr.io/nvidia/gpu-operator:v{version.version}"
    operator = _workload("gpu-operator", {"containers": [{"name": "gpu-operator", "image": image}]})
    stage.client.create(_path(stage, "deployments"), _with(operator, replicas=0))
    for name, operand in version.daemons.items():
        spec = {
            "nodeSelector": {f"{DEPLOY}{operand}": "true", **stage.selector},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": name, "image": f"nvcr.io/nvidia/{name}:x"}],
        }
        if operand == "device-plugin":
            spec["volumes"] = [{"name": "device-plugin", "hostPath": {"path": FOLDER}}]
        path = _path(stage, "daemonsets")
        stage.client.create(path, _workload(name, spec))
        stage.later(partial(stage.client.delete, f"{path}/{name}", grace=None))


def _path(stage: Stage, plural: str) -> str:
    return stage.path(plural, group="/apis/apps/v1")


def _workload(name: str, spec: JSON) -> JSON:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _with(workload: JSON, **fields: object) -> JSON:
    return {**workload, "spec": {**workload["spec"], **fields}}


def _operands(stage: Stage, suffix: str) -> set[str]:
    """Return the operands that run on a node."""
    node = stage.node_name(suffix)
    pods = stage.client.get(stage.pod_path(), fieldSelector=f"spec.nodeName={node}")["items"]
    return {
        each["metadata"]["labels"]["app"]
        for each in pods
        if each.get("status", {}).get("phase") == "Running"
    }


def _register(version: Rendered) -> None:
    def play_it(stage: Stage) -> None:
        play(version, stage)

    number = version.version.replace(".", "_")
    play_it.__name__ = f"gpu_operator_{number}_leaves_the_nodes_of_the_driver"
    scenario("full", rig="installed", needs=NEEDS)(play_it)


for _version in rendered():
    _register(_version)
