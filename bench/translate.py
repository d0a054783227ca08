"""Measures the translation of one pod in process.

The facts have two GPU drivers, a NIC driver, twenty products, and nodes with device plugins. Each
pod is decoded anew for every translation, as in admission. The cases are: the first pod of its
kind, a pod whose requests another pod had in another form, and repeated pods of one owner. The
baseline of each row is the time to decode and to copy the JSON of the pod. The output shows the
best round and the distance of the median from it, in CPU time.
"""

import copy
import json
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from bench._scale import scaled
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.values import Value
from drawbridge.facts.model import (
    Amount,
    ClassFacts,
    Cluster,
    Driver,
    Facts,
    Neighbourhood,
    NodeShape,
    Product,
    ResourceFacts,
)
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.pods import translate

GPU, HAMI, NIC = "gpu.nvidia.com", "hami-core-gpu.project-hami.io", "dra.net"
ROOT = "resource.kubernetes.io/pcieRoot"
ROUNDS, CALLS, PRODUCTS, NAMES = scaled(25, 1), scaled(50, 2), 10, 40
COLUMNS = ("read", "first", "as asked before", "repeated", "json.loads", "deepcopy")
LIMIT_US, REPEATED_US = 150.0, 15.0
KEEPS = (
    "constraints.distinctAttribute",
    "exactly.adminAccess",
    "exactly.capacity",
    "firstAvailable",
)


Row = tuple[str, str]  # the pod, the column


def product(driver: str, kind: str, number: int, *, shared: bool) -> Product:
    """Make one row of the table of products."""
    memory = Amount(f"{16 + 8 * number}Gi", step="1Mi")
    cores = {"cores": Amount("100", default="100", step="1")} if shared else {}
    return Product(
        driver, kind, f"NVIDIA P{number}", shared=shared, capacity={"memory": memory, **cores}
    )


def driver(name: str, kind: str, attributes: dict[str, str], *capacities: str) -> Driver:
    """Make a driver with eight devices on each of ten nodes."""
    return Driver(name, kind, devices=80, nodes=10, attributes=attributes, capacities=capacities)


def cluster() -> Facts:
    """Make the facts of a cluster in the middle of its migration."""
    attributes = {f"{GPU}/{word}": "string" for word in ("type", "productName", "uuid")}
    rows = [product(GPU, "gpu", i, shared=False) for i in range(PRODUCTS)]
    rows += [product(HAMI, "hami-gpu", i, shared=True) for i in range(PRODUCTS)]
    others = [ResourceFacts(f"example.com/r{i}", nodes=3, devices=24, most=8) for i in range(NAMES)]
    plugins = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores")
    places = (Neighbourhood(1, 1, 8),)
    return Facts(
        cluster=Cluster(keeps=KEEPS),
        classes=tuple(ClassFacts(name, drivers=(name,), devices=80) for name in (GPU, HAMI, NIC)),
        names=(*others, *(ResourceFacts(each, nodes=2, devices=16, most=8) for each in plugins)),
        products=tuple(rows),
        drivers=(
            driver(GPU, "gpu", attributes | {ROOT: "string"}, "memory"),
            driver(HAMI, "gpu", {f"{HAMI}/uuid": "string"}, "cores", "memory"),
            driver(NIC, "nic", {f"{NIC}/rdma": "bool", ROOT: "string"}),
        ),
        shapes=(NodeShape(GPU, NIC, 8, 8, places, (Neighbourhood(4, 4, 2),), nodes=10),),
    )


def pod(limits: dict[str, Value], **metadata: dict[str, str]) -> dict[str, Any]:
    """Make a pod as the API server sends it to admission, with many fields unrelated to devices."""
    container: dict[str, Value] = {
        "name": "main",
        "image": "registry.example/team/app:1.2.3",
        "command": ["python", "-m", "train", "--epochs=3"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(6)],
        "resources": {
            "limits": {"cpu": "8", "memory": "64Gi", **limits},
            "requests": {"cpu": "8", "memory": "64Gi", **limits},
        },
        "volumeMounts": [
            {"name": "kube-api-access-x", "mountPath": "/var/run/secrets", "readOnly": True}
        ],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    spec: dict[str, Value] = {
        "containers": [container],
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccountName": "default",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
            for key in ("not-ready", "unreachable")
        ],
        "volumes": [{"name": "kube-api-access-x", "projected": {"sources": []}}],
    }
    head = {"generateName": "train-", "namespace": "research", "labels": {"app": "train"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**head, **metadata}, "spec": spec}


def pods() -> dict[str, dict[str, Any]]:
    """Return the pods by the kind of their requests."""
    together = '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'
    joint = {"scheduling.koordinator.sh/device-joint-allocate": together}
    share: dict[str, Value] = {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": "3000",
        "nvidia.com/gpucores": "30",
    }
    both: dict[str, Value] = {"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"}
    return {
        "asks for nothing": pod({}),
        "nvidia, one GPU": pod({"nvidia.com/gpu": "1"}),
        "HAMi, a share": pod(share),
        "Koordinator, joint": pod(both, annotations=joint),
    }


def best(works: Mapping[Row, Callable[[], object]]) -> dict[Row, tuple[float, float]]:
    """Time calls in microseconds: the best round, and how far the median one is above it.

    The calls alternate, so that other load affects all of them.
    """
    times: dict[Row, list[float]] = {row: [] for row in works}
    for _ in range(ROUNDS):
        for row, work in works.items():
            start = time.process_time()
            for _ in range(CALLS):
                work()
            times[row].append((time.process_time() - start) / CALLS * 1e6)
    return {row: (min(each), statistics.median(each) - min(each)) for row, each in times.items()}


def whole(text: bytes, by: TranslationContext) -> object:
    """Translate a pod that was just read, and compose the operations of its patch."""
    return translate(msgspec.json.decode(text), by).operations


def works(by: TranslationContext) -> dict[Row, Callable[[], object]]:
    """Return the timed calls by pod and column."""
    asked = msgspec.structs.replace(by, translations=None)
    bare = msgspec.structs.replace(asked, outcomes=None)
    calls: dict[Row, Callable[[], object]] = {}
    for name, pod in pods().items():
        text = msgspec.json.encode(pod)
        calls[name, "decode"] = partial(msgspec.json.decode, text)
        calls[name, "read"] = partial(read_pod, pod)
        calls[name, "first"] = partial(whole, text, bare)
        calls[name, "as asked before"] = partial(whole, text, asked)
        calls[name, "repeated"] = partial(again, text, by)
        calls[name, "json.loads"] = partial(json.loads, text)
        calls[name, "deepcopy"] = partial(copy.deepcopy, pod)
    return calls


def again(text: bytes, by: TranslationContext) -> object:
    """Translate a pod that was just read."""
    return translate(msgspec.json.decode(text), by)


def run() -> None:
    """Print the time for one pod and its parts, and the time for its JSON."""
    by = make_context(Configuration(), cluster())
    for name, pod in pods().items():
        if name != "asks for nothing" and apply_edits(pod, translate(pod, by).edits) == pod:
            raise SystemExit(f"{name} was not translated")
    timed = best(works(by))
    print(f"{'us':<20}" + "".join(f"{each:>16}" for each in COLUMNS))
    for name in pods():
        decoding = timed[name, "decode"][0]
        cells = {column: timed[name, column] for column in COLUMNS}
        for column in ("first", "as asked before", "repeated"):
            took, off = cells[column]
            cells[column] = took - decoding, off
        line = "".join(f"{took:9.1f} +{off:5.1f}" for took, off in cells.values())
        flag = "" if cells["as asked before"][0] < LIMIT_US else f"  above {LIMIT_US:.0f} us"
        late = cells["repeated"][0] >= REPEATED_US
        flag += f"  repeated above {REPEATED_US:.0f} us" if late else ""
        print(f"{name:<20}{line}{flag}")
