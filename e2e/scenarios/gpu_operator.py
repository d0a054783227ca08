"""Scenarios: what GPU Operator renders, at two versions, through `doctor` and `audit`.

The DaemonSet controller is real: an operand leaves a node when the command of the plan changes its
label. The module imports no product package.
"""

import contextlib
import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, installed, wait_for_facts
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, devices, legacy_pod
from e2e.scenarios.doctor import examine
from e2e.scenarios.objects import JSON, claim_spec
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.volcano import ANYTHING, DEFINITIONS, is_served

VERSIONS = Path(__file__).with_name("gpu_operator.yaml")
DEPLOY = "nvidia.com/gpu.deploy."
# The version and the plural of each kind.
KINDS = {"ClusterPolicy": ("v1", "clusterpolicies"), "GPUCluster": ("v1alpha1", "gpuclusters")}
FOLDER = "/var/lib/kubelet/device-plugins"
RIVALS = ("device-plugin", "mig-manager")
ADMIN = "admin-gpus"
ADMIN_ACCESS = {"deviceClassName": GPU, "allocationMode": "All", "adminAccess": True}


class Rendered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The labels of a node, and the operands that allocate or change GPUs, by their label."""

    version: str
    kind: str
    labels: list[str]
    daemons: dict[str, str]
    monitors: dict[str, str] = {}

    @property
    def operands(self) -> dict[str, str]:
        """All DaemonSets by their label."""
        return {**self.daemons, **self.monitors}

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels of a node."""
        return {f"{DEPLOY}{name}": "true" for name in self.labels}


def rendered() -> list[Rendered]:
    """Read what the versions render."""
    return msgspec.yaml.decode(VERSIONS.read_bytes(), type=list[Rendered])


def play_policy(version: Rendered, stage: Stage, cluster: Installation) -> None:
    """Let doctor find the operands on a node of the driver, and audit move a node with them."""
    labels = version.node_labels
    group = {"pool": stage.node_name("old")}
    units = tuple(each.uuid for each in stage.hardware("old", "lab-2g2n").gpus)
    stage.node("old", "lab-2g2n", {}, {LEGACY: units}, {**labels, **group})
    stage.node("new", "lab-2g2n", {GPU: "full"}, labels=labels)
    install_operands(stage, version)
    stage.wait("the operands run", lambda: list_operands(stage, "old") == set(version.daemons))

    _, lines = examine(cluster, "-n", stage.namespace)
    (line,) = lines["GPU Operator"]
    assert line["code"] == "OperandsOnDriverNodes", line
    assert "device-plugin (1), mig-manager (1)" in line["message"], line
    assert stage.node_name("new") in line["message"], line

    command = _find_move(cluster, stage)
    for each in RIVALS:
        assert f"{DEPLOY}{each}=false" in command, command
    cluster.kubectl.inside("")(*shlex.split(command)[1:]).check()
    stage.wait("the operands leave the node", lambda: not list_operands(stage, "old"))
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


def play_cluster(version: Rendered, stage: Stage, cluster: Installation) -> None:
    """Let pods be translated beside its operands; doctor and audit ask for no change of these."""
    stage.template(ADMIN, claim_spec({"name": ADMIN, "exactly": ADMIN_ACCESS}))
    stage.node("new", "lab-2g2n", {GPU: "full"}, labels=version.node_labels)
    install_operands(stage, version)
    stage.wait("the operands run", lambda: list_operands(stage, "new") == set(version.operands))
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={LEGACY: "1"}))

    stage.client.create(stage.pod_path(), legacy_pod(stage, "train", 2))
    stage.wait_running("train")
    assert len(devices(stage, "train")) == 2, "monitors hold no device"

    _, lines = examine(cluster, "-n", stage.namespace)
    (line,) = lines["GPU Operator"]
    name = f"GPU Operator {version.version}: GPUCluster {_named(version.kind)} runs {GPU}; "
    whole = "its class serves no resource name, so whole GPUs are translated"
    assert (line["status"], line["message"]) == ("ok", name + whole), line

    plan: Any = json.loads(cluster.drawbridge("audit", "-o", "json").check().out)
    (group,) = (each for each in plan["nodeGroups"] if stage.node_name("new") in each["nodes"])
    assert group["state"] == "driver", group
    assert {each["name"]: each["held"] for each in group["before"]} == {GPU: 2}, group
    commands = [each for step in plan["steps"] for each in step["commands"]]
    assert not any(DEPLOY in each or "daemonset" in each for each in commands), commands

    define_kind(stage, "ClusterPolicy")
    create_policy(stage, "ClusterPolicy")
    _, lines = examine(cluster, "-n", stage.namespace)
    assert [each["code"] for each in lines["GPU Operator"]] == ["TwoGpuModels"], lines


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


def define_kind(stage: Stage, kind: str) -> None:
    """Make a kind of the operator known, until the stage is left."""
    served, plural = KINDS[kind]
    names = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
    }
    version = {"name": served, "served": True, "storage": True}
    spec = {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": names,
        "versions": [{**version, "schema": {"openAPIV3Schema": ANYTHING}}],
    }
    metadata = {"name": f"{plural}.nvidia.com"}
    stage.cluster_object(DEFINITIONS, {"metadata": metadata, "spec": spec})
    stage.wait("the kind is served", partial(is_served, stage, _objects(kind)))


def _objects(kind: str) -> str:
    version, plural = KINDS[kind]
    return f"/apis/nvidia.com/{version}/{plural}"


def _named(kind: str) -> str:
    """Return the name of an object of a kind."""
    return f"the-{kind.lower()}"


def create_policy(stage: Stage, kind: str) -> None:
    """Create an object of a kind."""
    body = {"apiVersion": f"nvidia.com/{KINDS[kind][0]}", "kind": kind}
    stage.cluster_object(_objects(kind), {**body, "metadata": {"name": _named(kind)}})


def delete_policy(stage: Stage, kind: str) -> None:
    """Delete the object of a kind."""
    stage.client.delete(f"{_objects(kind)}/{_named(kind)}", grace=None)


def install_operands(stage: Stage, version: Rendered) -> None:
    """Create the operator's Deployment, its policy and its DaemonSets."""
    create_policy(stage, version.kind)
    image = f"nvcr.io/nvidia/gpu-operator:v{version.version}"
    operator = _workload("gpu-operator", {"containers": [{"name": "gpu-operator", "image": image}]})
    with contextlib.suppress(ApiError):  # it is there from another model
        stage.client.create(_path(stage, "deployments"), _with(operator, replicas=0))
    for name, operand in version.operands.items():
        container: JSON = {"name": name, "image": f"nvcr.io/nvidia/{name}:x"}
        spec: JSON = {
            "nodeSelector": {f"{DEPLOY}{operand}": "true", **stage.selector},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        if operand == "device-plugin":
            spec["volumes"] = [{"name": "device-plugin", "hostPath": {"path": FOLDER}}]
        if name in version.monitors:
            spec["resourceClaims"] = [{"name": ADMIN, "resourceClaimTemplateName": ADMIN}]
            container["resources"] = {"claims": [{"name": ADMIN}]}
        stage.client.create(_path(stage, "daemonsets"), _workload(name, spec))


def uninstall_operands(stage: Stage, version: Rendered) -> None:
    """Delete the DaemonSets, which make their pods again otherwise."""
    for name in version.operands:
        with contextlib.suppress(ApiError):  # it was not made
            stage.client.delete(f"{_path(stage, 'daemonsets')}/{name}", grace=None)


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


def list_operands(stage: Stage, suffix: str) -> set[str]:
    """Return the operands that run on a node."""
    node = stage.node_name(suffix)
    pods = stage.client.get(stage.pod_path(), fieldSelector=f"spec.nodeName={node}")["items"]
    return {
        each["metadata"]["labels"]["app"]
        for each in pods
        if each.get("status", {}).get("phase") == "Running"
    }


PLAYS = {"ClusterPolicy": play_policy, "GPUCluster": play_cluster}


def _register(version: Rendered) -> None:
    def play_it(stage: Stage) -> None:
        cluster = installed(stage)
        define_kind(stage, version.kind)
        try:
            PLAYS[version.kind](version, stage, cluster)
        finally:
            uninstall_operands(stage, version)

    number = version.version.replace(".", "_")
    play_it.__name__ = f"gpu_operator_{number}_with_a_{version.kind.lower()}"
    scenario("full", rig="installed", needs=NEEDS)(play_it)


for _version in rendered():
    _register(_version)
