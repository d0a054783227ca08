"""Which operands of GPU Operator must leave the nodes of a DRA driver."""

from collections.abc import Mapping
from typing import Any

import pytest

from drawbridge.agreement.gpu_operator import OperatorObjects, report_operator
from drawbridge.finding import Finding
from tests.tables import every_row

POLICY: Any = {"metadata": {"name": "cluster-policy"}}
CLUSTER: Any = {"metadata": {"name": "gpu-cluster"}}
BEFORE = OperatorObjects([POLICY], [], "26.3.3")
DEPLOY = "nvidia.com/gpu.deploy."


def labels(**operands: str) -> Mapping[str, str]:
    """Return the labels that GPU Operator gives a node."""
    named = {name.replace("_", "-"): value for name, value in operands.items()}
    return {f"{DEPLOY}{name}": value for name, value in named.items()}


def test_without_gpu_operator_nothing_is_said() -> None:
    nodes = {"a": labels(device_plugin="true")}
    assert report_operator(OperatorObjects(), nodes, ["a"], "") == []


def test_operands_that_allocate_must_leave_a_node_of_the_driver() -> None:
    nodes = {
        "a": labels(device_plugin="true", mig_manager="true", dcgm="true"),
        "b": labels(device_plugin="true"),
        "c": labels(device_plugin="false", mig_manager="paused-for-driver-upgrade"),
        "d": labels(device_plugin="true"),  # the driver does not run here
    }
    (finding,) = report_operator(BEFORE, nodes, ["a", "b", "c"], "")
    assert isinstance(finding, Finding)
    assert finding.code == "OperandsOnDriverNodes"
    assert "device-plugin (2), mig-manager (1)" in finding.message
    assert "2 nodes with devices of gpu.nvidia.com: a, b" in finding.message
    assert f"{DEPLOY}device-plugin=false {DEPLOY}mig-manager=false" in finding.remedy


def test_a_node_that_moved_is_right() -> None:
    nodes = {"a": labels(device_plugin="false", mig_manager="false"), "b": {}}
    (told,) = report_operator(BEFORE, nodes, ["a", "b"], "")
    assert told == (
        "GPU Operator 26.3.3: no operand of ClusterPolicy cluster-policy allocates devices on a "
        "node of gpu.nvidia.com"
    )


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        (None, "there is no DeviceClass yet"),
        ("", "its class serves no resource name, so whole GPUs are translated"),
        ("nvidia.com/gpu", "its class serves nvidia.com/gpu"),
    ],
)
def test_a_gpu_cluster_says_who_serves_whole_gpus(class_name: str | None, expected: str) -> None:
    objects = OperatorObjects([], [CLUSTER], "26.7.0")
    (told,) = report_operator(objects, {}, ["a"], class_name)
    assert told == f"GPU Operator 26.7.0: GPUCluster gpu-cluster runs gpu.nvidia.com; {expected}"


@every_row(
    ("tolerations", "is_fenced", "codes"),
    [
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], True, ["OperandsKeptOff"]),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], False, []),
        ([{"key": "drawbridge.dev/owned", "operator": "Exists"}], True, []),
        ([{"operator": "Exists"}], True, []),
        (None, True, ["OperandsKeptOff"]),
        ("any", True, ["OperandsKeptOff"]),
    ],
)
def test_operands_must_tolerate_the_taint_of_owned_nodes(
    tolerations: Any,  # noqa: ANN401  # any value of JSON
    is_fenced: bool,  # noqa: FBT001  # a parameter of pytest
    codes: list[str],
) -> None:
    cluster = {**CLUSTER, "spec": {"daemonsets": {"tolerations": tolerations}}}
    objects = OperatorObjects([], [cluster], "26.7.0")
    told = report_operator(objects, {}, ["a"], "", is_fenced=is_fenced)
    assert [each.code for each in told if isinstance(each, Finding)] == codes


def test_both_models_in_one_cluster_are_reported() -> None:
    objects = OperatorObjects([POLICY], [CLUSTER], "26.7.0")
    (told,) = report_operator(objects, {}, [], "")
    assert isinstance(told, Finding)
    assert told.code == "TwoGpuModels"
    assert told.message.startswith("ClusterPolicy cluster-policy, GPUCluster gpu-cluster exist")
