"""Measures the CPU time in which caches of the allocator and the controller read claims and pods.

Each cache reads its list, then a change of each object, as its watch delivers them; the CPU time is
that of one object. With the variable BASELINE, the path of another checkout, its caches read the
same in turns with ours, and the ratio is the median of the rounds, with the middle half of them.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench._process import TREES, Worker
from bench._scale import scaled
from bench._slices import DEVICES, GPU, Json, claim

OBJECTS: Final = scaled(2_000, 20)
ROUNDS: Final = scaled(10, 1)
NAMESPACES: Final = 40
CREATED: Final = "2026-11-20T08:00:00Z"
READS: Final = ("first", "change")


def _metadata(kind: str, number: int, owner: str) -> Json:
    return {
        "name": f"{kind}-{number:05}",
        "namespace": f"team-{number % NAMESPACES}",
        "uid": f"{kind}-{number:08x}-0000-4000-8000",
        "resourceVersion": f"{number + 1}",
        "creationTimestamp": CREATED,
        "labels": {"app": f"app-{number % 97}", "pod-template-hash": f"{number % 97:08x}"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
        ],
        "managedFields": [
            {
                "manager": "kube-controller-manager",
                "operation": "Update",
                "apiVersion": "v1",
                "time": CREATED,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}},
            }
        ],
    }


def make_claim(number: int) -> Json:
    """Return a claim that holds a GPU for a pod, without the type."""
    node, minor = divmod(number, DEVICES)
    result = {"request": "gpu", "driver": GPU, "pool": f"node-{node:05}", "device": f"gpu-{minor}"}
    field = {"key": "metadata.name", "operator": "In", "values": [f"node-{node:05}"]}
    return {
        "metadata": {
            **_metadata("claim", number, "Pod"),
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": claim({"gpu": (GPU, 1)})["spec"],
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": f"pod-{number:05}", "uid": f"{number}"}],
        },
    }


def make_pod(number: int) -> Json:
    """Return a running pod with a claim and a container beside, without the type."""
    containers: list[Json] = [
        {
            "name": "main",
            "image": "example.com/main:1",
            "env": [{"name": f"NAME_{each}", "value": "v" * 30} for each in range(24)],
            "resources": {
                "requests": {"cpu": "2", "memory": "8Gi"},
                "limits": {"cpu": "2", "memory": "8Gi"},
                "claims": [{"name": "gpu"}],
            },
        },
        {
            "name": "logs",
            "image": "example.com/logs:1",
            "resources": {"requests": {"cpu": "1"}},
        },
    ]
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    running = {"ready": True, "restartCount": 0, "state": {"running": {"startedAt": CREATED}}}
    return {
        "metadata": _metadata("pod", number, "ReplicaSet"),
        "spec": {
            "nodeName": f"node-{number // DEVICES:05}",
            "containers": containers,
            "tolerations": [{"key": "drawbridge.dev/owned", "operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "schedulerName": "drawbridge",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": CREATED}
                for each in conditions
            ],
            "containerStatuses": [{"name": each["name"], **running} for each in containers],
            "resourceClaimStatuses": [
                {"name": "gpu", "resourceClaimName": f"claim-{number:05}"},
            ],
        },
    }


KINDS: Final[Mapping[str, tuple[str, str, Callable[[int], Json]]]] = {
    "claims": ("resource.k8s.io/v1", "ResourceClaim", make_claim),
    "pods": ("v1", "Pod", make_pod),
}


def _events(kind: str) -> Iterator[Json]:
    """Yield what a watch tells: all objects, the end of the list, and a change of each."""
    version, name, make = KINDS[kind]
    objects = [{"apiVersion": version, "kind": name, **make(each)} for each in range(OBJECTS)]
    yield from ({"type": "ADDED", "object": each} for each in objects)
    listed = {"resourceVersion": f"{OBJECTS}", "annotations": {"k8s.io/initial-events-end": "true"}}
    yield {"type": "BOOKMARK", "object": {"metadata": listed}}
    for number, changed in enumerate(objects):
        changed["metadata"]["resourceVersion"] = f"{OBJECTS + 1 + number}"
        yield {"type": "MODIFIED", "object": changed}


def _measure(workers: Mapping[str, Worker], process: str, kind: str) -> None:
    rounds: dict[str, list[list[float]]] = {name: [] for name in workers}
    for number in range(-1, ROUNDS):  # the first one warms up
        for name in sorted(workers, reverse=number % 2 == 0):
            taken = workers[name].ask(f"{process} {kind}\n".encode()).split()
            if number >= 0:
                rounds[name].append([int(each) / 1000 / OBJECTS for each in taken])
    for name, of_tree in rounds.items():
        for place, read in enumerate(READS):
            ours, this = ([each[place] for each in of] for of in (rounds["ours"], of_tree))
            row = f"{process:10} {kind:7} {read:7} {name:8} {min(this):7.1f}"
            print(f"{row} {statistics.median(this):7.1f} {_compare(ours, this)}", flush=True)


def _compare(ours: Sequence[float], this: Sequence[float]) -> str:
    ratios = sorted(a / b for a, b in zip(ours, this, strict=True))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    return f"{statistics.median(ratios):9.2f} ({low:.2f} to {high:.2f})"


def run() -> None:
    """Print rows for each process and kind."""
    print(f"{OBJECTS:,} objects in {ROUNDS} rounds; microseconds of CPU time for each")
    print(f"{'':35} {'best':>7} {'median':>7} {'ours/this':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            lines = (json.dumps(each, separators=(",", ":")) for each in _events(kind))
            (Path(folder) / kind).write_text("\n".join(lines), "utf-8")
        workers = {name: Worker(tree, "_cache_worker.py", [folder]) for name, tree in TREES.items()}
        for process in ("allocator", "controller"):
            for kind in KINDS:
                _measure(workers, process, kind)
        for worker in workers.values():
            worker.close()
