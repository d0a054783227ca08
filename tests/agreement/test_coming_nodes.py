"""What node groups say about the devices of nodes that they can add: a table of groups."""

from typing import Any

import msgspec
import pytest

from drawbridge.agreement.coming_nodes import (
    ComingNodes,
    find_coming_nodes,
    report_unexpected_nodes,
)
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.facts.model import Facts
from tests.tables import every_row

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
AWS = "karpenter.k8s.aws/instance-gpu"
AZURE = "karpenter.azure.com/sku-gpu"
GROUP, POOL = "MachineDeployment/m", "NodePool/p"


def machines(**annotations: str) -> Any:  # noqa: ANN401  # JSON
    named = {f"{CAPACITY}/{key.replace('_', '-')}": text for key, text in annotations.items()}
    named[MAX] = named.pop(f"{CAPACITY}/max", "5")
    return {"kind": "MachineDeployment", "metadata": {"name": "m", "annotations": named}}


def pool(*requirements: tuple[str, str, list[str]]) -> Any:  # noqa: ANN401  # JSON
    listed = [
        {"key": key, "operator": word, "values": values} for key, word, values in requirements
    ]
    spec = {"template": {"spec": {"requirements": listed}}}
    return {"kind": "NodePool", "metadata": {"name": "p"}, "spec": spec}


GROUPS: list[tuple[Any, list[ComingNodes]]] = [
    (machines(gpu_count="8", dra_driver="gpu.nvidia.com"),
     [ComingNodes(GROUP, "gpu.nvidia.com", "", 8)]),
    (machines(gpu_count="4", gpu_type="amd.com/gpu"), [ComingNodes(GROUP, "", "amd.com/gpu", 4)]),
    (machines(gpu_count="8", dra_driver="gpu.nvidia.com", max="0"), []),
    (machines(gpu_count="many", dra_driver="gpu.nvidia.com"), []),
    (machines(gpu_count="8"), []),
    ({"kind": "MachineDeployment", "metadata": {"name": "m"}}, []),
    (pool((f"{AWS}-count", "In", ["4", "8"])),
     [ComingNodes(POOL, "gpu.nvidia.com", "", 4), ComingNodes(POOL, "gpu.nvidia.com", "", 8)]),
    (pool((f"{AZURE}-count", "In", ["8"]), (f"{AZURE}-manufacturer", "In", ["amd"])),
     [ComingNodes(POOL, "gpu.amd.com", "", 8)]),
    (pool((f"{AWS}-count", "In", ["8"]), (f"{AWS}-manufacturer", "In", ["habana"])), []),
    (pool((f"{AWS}-count", "Gt", ["4"])), []),
    (pool((f"{AWS}-count", "In", ["8", "-1", "99999", "many"])),
     [ComingNodes(POOL, "gpu.nvidia.com", "", 8)]),
    ({"kind": "NodePool", "metadata": {"name": "p"}, "spec": {"template": None}}, []),
]  # fmt: skip


@every_row(("group", "coming"), GROUPS)
def test_a_node_group_says_which_devices_its_nodes_have(
    group: Any,  # noqa: ANN401  # JSON
    coming: list[ComingNodes],
) -> None:
    assert [*find_coming_nodes([group])] == coming


def facts(*, closed: bool) -> Facts:
    classes = [
        {"name": "gpu.nvidia.com", "extended": "nvidia.com/gpu", "drivers": ["gpu.nvidia.com"]},
        {"name": "mig.nvidia.com", "drivers": ["gpu.nvidia.com"]},
    ]
    return msgspec.convert({"classes": [{**each, "closed": closed} for each in classes]}, Facts)


def configured(*shapes: str) -> Configuration:
    entry = {"class": "gpu.nvidia.com", "expectedShapes": list(shapes)}
    value = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration", "fleet": [entry]}
    loaded = accept_configuration(value, {})
    assert isinstance(loaded, Configuration), loaded
    return loaded


BY_DRIVER = ComingNodes(GROUP, "gpu.nvidia.com", "", 8)
BY_NAME = ComingNodes(GROUP, "", "nvidia.com/gpu", 8)


@pytest.mark.parametrize("nodes", [BY_DRIVER, BY_NAME])
@pytest.mark.parametrize(
    ("closed", "shapes", "reported"),
    [
        (True, (), True),
        (True, ("4x",), True),
        (True, ("8x memory=141Gi",), False),
        (False, (), False),
    ],
)
def test_nodes_that_a_closed_class_does_not_expect_are_reported(
    nodes: ComingNodes, *, closed: bool, shapes: tuple[str, ...], reported: bool
) -> None:
    findings = [*report_unexpected_nodes([nodes], configured(*shapes), facts(closed=closed))]
    assert [finding.code for finding in findings] == ["NodesNotExpected"] * reported
    for finding in findings:
        assert finding.object == "DeviceClass/gpu.nvidia.com"
        entry = "the entry of gpu.nvidia.com in fleet of the configuration"
        assert f'{entry}: expectedShapes: ["8x"], with' in f"{finding.remedy}"


def test_an_entry_is_printed_for_a_class_without_one() -> None:
    (finding,) = report_unexpected_nodes([BY_DRIVER], Configuration(), facts(closed=True))
    entry = '{class: gpu.nvidia.com, expectedShapes: ["8x"]}'
    assert f"Add to fleet of the configuration: {entry}, with" in finding.remedy


def test_nodes_of_drivers_without_a_class_are_left() -> None:
    other = ComingNodes(GROUP, "gpu.amd.com", "", 8)
    assert not [*report_unexpected_nodes([other], Configuration(), facts(closed=True))]
