"""The order of the plan of `drawbridge audit`: when pods get claims, and what waits."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cli.main import dispatch
from cli.terminal.streams import Streams
from tests.cli.running import command
from tests.tables import YamlValue, load_cases, write_yaml

CASES = load_cases(Path(__file__).parent / "cases" / "audit_plans.yaml")
GPU, LEGACY, MODE = "gpu.nvidia.com", "nvidia.com/gpu", "drawbridge.dev/translate"
DRA = "resource.k8s.io/v1"

PLUGIN = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "main", "image": "nvidia/k8s-device-plugin"}],
                "volumes": [
                    {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
                ],
            }
        }
    },
}


def node(name: str, case: YamlValue) -> list[Any]:
    plugin, driver = case.get("plugin", 0), case.get("driver", 0)
    labels = {"pool": case["pool"], "kubernetes.io/hostname": name}
    if plugin or driver:
        labels |= {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.count": f"{plugin or driver}"}
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "allocatable": {"cpu": "64", "pods": "110"} | ({LEGACY: plugin} if plugin else {})
            },
        }
    ]
    if driver:
        kind = {"type": {"string": "gpu"}, "productName": {"string": "H100"}}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{i}", "attributes": kind} for i in range(driver)]
        spec = {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices}
        kinds = {"apiVersion": DRA, "kind": "ResourceSlice"}
        objects.append({**kinds, "metadata": {"name": f"{name}-gpus"}, "spec": spec})
    return objects


def workload(namespace: str, name: str, case: YamlValue) -> list[Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {LEGACY: case["gpus"]}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    spec = {"replicas": len(case["nodes"]), "template": template}
    body = {**owner, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    reference = {**owner, "name": name, "uid": name, "controller": True}
    return [
        body,
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{number}",
                    "namespace": namespace,
                    "ownerReferences": [reference],
                },
                "spec": {"containers": [container], "nodeName": where},
                "status": {"phase": "Running"},
            }
            for number, where in enumerate(case["nodes"])
        ),
    ]


def cluster(case: YamlValue) -> list[Any]:
    expression = f'device.driver == "{GPU}"'
    selectors = [{"cel": {"expression": expression}}]
    objects = [
        {
            "apiVersion": DRA,
            "kind": "DeviceClass",
            "metadata": {"name": GPU},
            "spec": {"selectors": selectors},
        }
    ]
    for name, each in case["nodes"].items():
        objects += node(name, each)
    objects.append(PLUGIN)
    for name, namespace in case["namespaces"].items():
        labels = {MODE: namespace["mode"]} if "mode" in namespace else {}
        metadata = {"name": name, "labels": labels}
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for owner, pods in namespace["workloads"].items():
            objects += workload(name, owner, pods)
    return objects


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_pods_get_claims_when_admission_can_give_them(tmp_path: Path, case: YamlValue) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(write_yaml(cluster(case)))
    printed = command("audit", "--cluster", str(path), "-o", "json")
    assert printed[0] == 0, printed
    steps = json.loads(printed[1])["steps"]
    planned = [
        {
            "title": step["title"],
            "enforces": [
                c.split()[3] for c in step["commands"] if c.endswith("enforce --overwrite")
            ],
            "restarts": [c.split()[-1] for c in step["commands"] if "rollout restart" in c],
            "leaves": {
                name: step["expected"][name] for name in ("onPlugins", "onDrivers", "waiting")
            },
        }
        for step in steps
        if step.get("expected")
    ]
    assert [
        {key: each[key] for key in wanted}
        for each, wanted in zip(planned, case["steps"], strict=True)
    ] == case["steps"], planned


class Terminal(io.StringIO):
    """Keeps what a person would see."""

    def isatty(self) -> bool:
        """Say that a person looks at it."""
        return True


def test_a_terminal_shows_how_far_the_rehearsal_is() -> None:
    errors = Terminal()
    words = ("audit", "--cluster", "examples/audit", "-o", "json")
    assert dispatch(words, Streams(io.BytesIO(), io.StringIO(), errors), "drawbridge") == 0
    shown = errors.getvalue()
    assert "rehearsed 0 of 5 nodes" in shown
    assert "rehearsed 1 of 5 nodes, less than 1 minute left" in shown
