"""Scenarios: node groups without nodes, as Karpenter and Cluster API declare them.

The module imports no product package.
"""

import re
from functools import partial

import yaml

from e2e.installed.installation import NAMESPACE, Installation
from e2e.scenarios.admission import GPU, NEEDS, legacy_pod, prepare_pod
from e2e.scenarios.admission_dialects import configured, decided
from e2e.scenarios.doctor import Line, by_check, examine
from e2e.scenarios.objects import JSON
from e2e.scenarios.people import Person
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.volcano import ANYTHING, DEFINITIONS, is_served

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
# The group, the version, the plural and the scope of each kind.
KINDS = {
    "NodePool": ("karpenter.sh", "v1", "nodepools", "Cluster"),
    "MachineDeployment": ("cluster.x-k8s.io", "v1beta1", "machinedeployments", "Namespaced"),
}
CLOSED = {"class": GPU, "closed": True}
SHAPES = re.compile(r"fleet of the configuration: (expectedShapes: \[.*\]), with")


@scenario("full", rig="installed", needs=NEEDS)
def a_group_without_nodes_is_expected_by_what_doctor_prints(stage: Stage) -> None:
    """A pod that only its nodes would fit is denied until the entry is in the configuration."""
    cluster, _, _ = prepare_pod(stage)
    for kind in KINDS:
        _define(stage, kind)
    count = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["16"]}
    template = {"spec": {"requirements": [count]}}
    _create(stage, "NodePool", {"spec": {"template": template}})
    annotations = {f"{CAPACITY}/gpu-count": "4", f"{CAPACITY}/dra-driver": GPU, MAX_SIZE: "2"}
    _create(stage, "MachineDeployment", {}, annotations)
    large = legacy_pod(stage, "large", 16)
    with configured(stage, cluster, yaml.safe_dump({"fleet": [CLOSED]})):
        decided(stage, cluster)
        # The facts remember the nodes of other scenarios, which have fewer devices.
        stage.wait("no node fits it", lambda: _apply(stage, cluster, large, "--dry-run=server"))
        line = _examine_as_reader(stage, cluster)
    assert line["code"] == "NodesNotExpected", line
    assert "16 devices (NodePool/gpus)" in line["message"], line
    assert "4 devices (MachineDeployment/gpus)" in line["message"], line

    printed = SHAPES.search(line["remedy"])
    assert printed, line
    entry = {**CLOSED, **yaml.safe_load(printed[1])}
    with configured(stage, cluster, yaml.safe_dump({"fleet": [entry]})):
        decided(stage, cluster)
        assert not _apply(stage, cluster, large)
        _, lines = examine(cluster, "-n", stage.namespace)
        assert "autoscalers" not in lines, lines


def _examine_as_reader(stage: Stage, cluster: Installation) -> Line:
    """Return the line of doctor about autoscalers, for a person who may only read."""
    reader = Person(stage, cluster, "groups-reader")
    reader.bind("ClusterRole", "drawbridge-reader")
    reader.bind("Role", "drawbridge-reader", NAMESPACE)
    stage.later(partial(reader.unbind, "drawbridge-reader"))
    stage.wait("the right", lambda: reader.can("list", "nodepools"))
    (line,) = by_check(reader.drawbridge("doctor", "-o", "json").out)["autoscalers"]
    return line


def _apply(stage: Stage, cluster: Installation, pod: JSON, *options: str) -> str:
    """Apply a pod; return why it is denied, or nothing."""
    kubectl, text = cluster.kubectl.inside(stage.namespace), yaml.safe_dump(pod)
    ran = kubectl("apply", "-f", "-", *options, stdin=text)
    return ran.err if ran.code else ""


def _define(stage: Stage, kind: str) -> None:
    """Make a kind known, until the stage is left."""
    group, served, plural, scope = KINDS[kind]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    schema = {"openAPIV3Schema": ANYTHING}
    version = {"name": served, "served": True, "storage": True, "schema": schema}
    spec = {"group": group, "scope": scope, "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.{group}"}
    stage.cluster_object(DEFINITIONS, {"metadata": metadata, "spec": spec})
    path = f"/apis/{group}/{served}/{plural}"
    stage.wait("the kind is served", partial(is_served, stage, path))


def _create(
    stage: Stage, kind: str, fields: JSON, annotations: dict[str, str] | None = None
) -> None:
    """Create a node group of a kind."""
    group, version, plural, scope = KINDS[kind]
    metadata = {"name": "gpus", "annotations": annotations or {}}
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, **fields}
    api = f"/apis/{group}/{version}"
    if scope == "Cluster":
        stage.cluster_object(f"{api}/{plural}", body)
    else:
        stage.client.create(stage.path(plural, group=api), body)
