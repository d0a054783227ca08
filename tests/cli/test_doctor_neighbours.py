"""`drawbridge doctor` finds autoscalers and NVIDIA's GPU Operator."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_doctor import doctor, own
from tests.cluster.fake.api import FakeApi


def put_deployment(api: FakeApi, label: str, name: str, image: str, *args: str) -> None:
    container = {"name": "main", "image": image, "args": list(args)}
    api.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "kube-system", "labels": {label: name}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
    )


def put_operator(api: FakeApi, kind: str, name: str) -> None:
    version = "v1" if kind == "ClusterPolicy" else "v1alpha1"
    made: dict[str, Any] = {"apiVersion": f"nvidia.com/{version}", "kind": kind}
    api.put({**made, "metadata": {"name": name}})
    image = "nvcr.io/nvidia/gpu-operator:v26.7.0"
    put_deployment(api, "app.kubernetes.io/name", "gpu-operator", image)


@pytest.mark.parametrize(
    ("label", "name", "image", "code"),
    [
        ("app.kubernetes.io/name", "karpenter", "example.com/karpenter/controller:1.15.0",
         "AutoscalerIgnoresClaims"),
        ("app", "cluster-autoscaler", "example.com/cluster-autoscaler:v1.34.1",
         "AutoscalerIgnoresClaims"),
        ("app", "cluster-autoscaler", "example.com/cluster-autoscaler:v1.36.1", ""),
    ],
)  # fmt: skip
def test_an_autoscaler_has_a_line(
    tmp_path: Path, label: str, name: str, image: str, code: str
) -> None:
    def change(api: FakeApi) -> None:
        put_deployment(api, label, name, image)

    lines = doctor(tmp_path, "-o", "json", change=change).of("autoscalers")
    assert [each["code"] for each in lines if each["code"] != "AutoscalerLimits"] == [code]


def test_gpu_operator_has_a_line_with_its_version(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        put_operator(api, "GPUCluster", "gpu-cluster")

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("GPU Operator")
    assert line["message"].startswith("GPU Operator 26.7.0: GPUCluster gpu-cluster runs")


def test_an_operand_on_a_node_of_the_driver_is_reported(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        put_operator(api, "ClusterPolicy", "cluster-policy")
        node = next(each for each in api.all("Node") if has_slices(api, each))
        node["metadata"].setdefault("labels", {})["nvidia.com/gpu.deploy.mig-manager"] = "true"
        api.put(node)

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("GPU Operator")
    assert line["code"] == "OperandsOnDriverNodes"


def test_operands_that_cannot_come_to_owned_nodes_are_reported(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        own("")(api)
        put_operator(api, "ClusterPolicy", "cluster-policy")

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("GPU Operator")
    assert line["code"] == "OperandsKeptOff"


def has_slices(api: FakeApi, node: dict[str, Any]) -> bool:
    return any(
        each["spec"].get("nodeName") == node["metadata"]["name"]
        and each["spec"]["driver"] == "gpu.nvidia.com"
        for each in api.all("ResourceSlice")
    )


def test_a_cluster_without_either_has_no_line(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path, "-o", "json")
    assert diagnosis.of("autoscalers") == diagnosis.of("GPU Operator") == []


def test_a_person_who_may_not_read_deployments_is_told(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        api.fail(403, method="GET", part="/apis/apps/v1/deployments", times=100)

    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    (unread,) = (each for each in diagnosis.lines if each["code"] == "NotChecked")
    assert "autoscalers" in unread["message"]
    assert "you may not list deployments" in unread["message"]


@pytest.mark.parametrize("has_deployment", [False, True])
def test_a_managed_karpenter_shows_only_its_node_pools(
    tmp_path: Path,
    has_deployment: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    def change(api: FakeApi) -> None:
        pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
        api.put({**pool, "metadata": {"name": "gpus"}})
        if has_deployment:
            image = "example.com/karpenter/controller:1.15.0"
            put_deployment(api, "app.kubernetes.io/name", "karpenter", image)

    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    told = [each["message"] for each in diagnosis.of("not checked")]
    assert any("no Deployment of Karpenter" in each for each in told) is not has_deployment


def test_a_node_group_that_a_closed_class_does_not_expect_has_a_line(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        capacity = "capacity.cluster-autoscaler.kubernetes.io"
        annotations = {
            f"{capacity}/gpu-count": "32",
            f"{capacity}/dra-driver": "gpu.nvidia.com",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "4",
        }
        metadata = {"name": "large", "namespace": "default", "annotations": annotations}
        kind = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment"}
        api.put({**kind, "metadata": metadata})

    lines = doctor(tmp_path, "-o", "json", change=change).of("autoscalers")
    assert [each["code"] for each in lines] == ["NodesNotExpected"]
    assert "32 devices (MachineDeployment/large)" in lines[0]["message"]
