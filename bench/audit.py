"""Measures `drawbridge audit` of 5,000 pods on 500 nodes: the goal is 20 s on two cores.

The nodes have 8 GPUs each: four fifths have a device plugin with the labels of feature discovery,
or HAMi's list, and one fifth has a driver. Pods of 200 owners in 40 namespaces ask for whole GPUs,
for products or for shares; the others ask for none. The command reads JSON files, as kubectl writes
them, in a process of its own, and prints JSON. The answer is checked against how the cluster was
made.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench._scale import scaled

NODES: Final = scaled(500, 20)
PODS: Final = scaled(5_000, 200)
NAMESPACES, OWNERS, GPUS = 40, 200, 8
GOAL: Final = 20.0
ROOT: Final = Path(__file__).parent.parent
_REGISTER: Final = json.dumps(
    [
        {
            "id": f"GPU-{n}",
            "index": n,
            "count": 10,
            "devmem": 81_559,
            "devcore": 100,
            "type": "H100",
        }
        for n in range(GPUS)
    ]
)
_LABELS: Final = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": f"{GPUS}",
    "nvidia.com/gpu.memory": "81559",
}


def kind_of(node: int) -> str:
    """Return whose devices a node has."""
    return ("plugin", "plugin", "hami", "plugin", "driver")[node % 5]


def nodes() -> Iterator[dict[str, Any]]:
    """Make the nodes."""
    for number in range(NODES):
        kind = kind_of(number)
        units = {"plugin": GPUS, "hami": GPUS * 10, "driver": 0}[kind]
        labels = {"kubernetes.io/hostname": f"node-{number:04}", "pool": kind}
        annotations = {"hami.io/node-nvidia-register": _REGISTER} if kind == "hami" else {}
        allocatable = {"cpu": "128", "memory": "1000Gi", "pods": "110"}
        if units:
            allocatable["nvidia.com/gpu"] = f"{units}"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{number:04}",
                "labels": labels | (_LABELS if kind == "plugin" else {}),
                "annotations": annotations,
            },
            "status": {"allocatable": allocatable},
        }


def devices() -> Iterator[dict[str, Any]]:
    """Make the class, and the slices of the nodes that have a driver."""
    driver = "gpu.nvidia.com"
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "gpu"'
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    for number in range(NODES):
        if kind_of(number) != "driver":
            continue
        name = f"node-{number:04}"
        attributes = {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
        }
        listed = [
            {
                "name": f"gpu-{n}",
                "attributes": {**attributes, "uuid": {"string": f"GPU-{number}-{n}"}},
                "capacity": {"memory": {"value": "81559Mi"}},
            }
            for n in range(GPUS)
        ]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": listed,
            },
        }


def pods() -> Iterator[dict[str, Any]]:
    """Make the pods: half of them ask for devices, at most one unit of ten on each node."""
    for number in range(PODS):
        owner = number % OWNERS
        node = number % NODES
        kind = kind_of(node)
        limits: dict[str, str] = {}
        if (number // NODES) % 2 == 0 and kind != "driver":
            limits["nvidia.com/gpu"] = "1"
            if kind == "hami":
                limits |= {"nvidia.com/gpumem": f"{8_000 + owner}", "nvidia.com/gpucores": "10"}
        spec: dict[str, Any] = {
            "nodeName": f"node-{node:04}",
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/app",
                    "env": [{"name": f"V{n}", "value": "x" * 40} for n in range(20)],
                    "resources": {
                        "requests": {"cpu": "2", "memory": "8Gi"},
                        "limits": limits,
                    },
                }
            ],
        }
        if limits and kind == "plugin" and owner % 3 == 0:
            spec["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"app-{owner}-5d4f-{number}",
                "namespace": f"team-{owner % NAMESPACES}",
                "labels": {"pod-template-hash": "5d4f"},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": f"app-{owner}-5d4f",
                        "uid": f"{owner}",
                        "controller": True,
                    }
                ],
            },
            "spec": spec,
            "status": {"phase": "Running"},
        }


def write_cluster(folder: Path) -> None:
    """Write the objects as kubectl does, a List in each file."""
    several = {"nodes": nodes(), "devices": devices(), "pods": pods()}
    for name, objects in several.items():
        value = {"apiVersion": "v1", "kind": "List", "items": [*objects]}
        (folder / f"{name}.json").write_text(json.dumps(value, indent=4))


def run() -> None:
    """Print the time of the command, and check its answer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_cluster(folder)
        size = sum(each.stat().st_size for each in folder.iterdir()) / (1 << 20)
        words = (sys.executable, "-m", "cli", "audit", "--cluster", str(folder), "-o", "json")
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(  # noqa: S603  # our own command
            words, capture_output=True, cwd=ROOT, env=os.environ, check=False
        )
        took = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    _check(json.loads(done.stdout))
    print(f"{PODS:,} pods on {NODES} nodes, {size:.0f} MiB of JSON")
    print(f"{spent:6.2f} s of CPU, {took:.2f} s, goal {GOAL:.0f} s; {after.ru_maxrss >> 10} MiB")


def _check(audit: dict[str, Any]) -> None:
    asking = [each for each in pods() if each["spec"]["containers"][0]["resources"]["limits"]]
    moved = audit["summary"]["pods"], sum(e["pods"]["toTranslate"] for e in audit["namespaces"])
    if moved != (len(asking), len(asking)):
        raise SystemExit(f"{moved} pods are to translate, expected {len(asking)}")
    fit = audit["fit"]
    if (fit["pods"], fit["packed"]) != (PODS, PODS):
        raise SystemExit(f"not all pods fit: {json.dumps(fit)[:1000]}")
    last = audit["steps"][-1]["expected"]
    if (last["onPlugins"], last["pluginNodes"]) != (0, 0):
        raise SystemExit(f"the plan leaves plugins: {last}")
