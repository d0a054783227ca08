"""Generates valid reviews of large pods that are expensive to translate.

The bodies are built once, so that the client costs little; each request gets its own uid and label.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from e2e.damaged.wires import DamagedRequest, one_of, request

JSON = dict[str, Any]
# Bytes of a body. The API server sends at most 3 MiB, and most attacks are cheaper when small.
SIZES = (2 << 10, 16 << 10, 64 << 10, 256 << 10)
LARGE, EACH_LARGE = 2 << 20, 100
_UID, _LABEL = "00000000-uid", "00000000-label"
# The process may reject what it has no time or memory for; the API server retries or denies.
STATUSES = one_of(200, 413, 429, 503, 504)


def _share(number: int) -> JSON:
    return {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": f"{1000 + number}"}}


def _container(number: int, **more: object) -> JSON:
    return {"name": f"c{number}", "image": "i", "resources": _share(number), **more}


def _containers(count: int) -> JSON:
    return {"spec": {"containers": [_container(n) for n in range(count)]}}


def _init_containers(count: int) -> JSON:
    spec = _containers(count // 2)["spec"]
    return {"spec": {**spec, "initContainers": [_container(count + n) for n in range(count // 2)]}}


def _environment(count: int) -> JSON:
    values = [{"name": f"NVIDIA_{n}", "value": "all"} for n in range(count)]
    return {"spec": {"containers": [_container(0, env=values)]}}


def _tolerations(count: int) -> JSON:
    values = [{"key": f"nvidia.com/gpu-{n}", "operator": "Exists"} for n in range(count)]
    return {"spec": {"containers": [_container(0)], "tolerations": values}}


def _claims(count: int) -> JSON:
    names = ["drawbridge", *(f"drawbridge-{n}" for n in range(2, count))]
    claims = [{"name": each, "resourceClaimName": each} for each in names]
    return {"spec": {"containers": [_container(0)], "resourceClaims": claims}}


def _resources(count: int) -> JSON:
    names = {f"nvidia.com/mig-{n % 7 + 1}g.{n}gb": "1" for n in range(count)}
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": names}}]}}


def _networks(count: int) -> JSON:
    text = json.dumps([{"name": f"net-{n}", "namespace": "default"} for n in range(count)])
    note = {"k8s.v1.cni.cncf.io/networks": text}
    return {"metadata": {"annotations": note}, "spec": {"containers": [_container(0)]}}


def _nested_hint(count: int) -> JSON:
    note = {"scheduling.koordinator.sh/device-allocate-hint": "[" * count + "]" * count}
    return {"metadata": {"annotations": note}, "spec": {"containers": [_container(0)]}}


def _terms(count: int) -> JSON:
    term = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100", "H100"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]} for _ in range(count)]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"spec": {"containers": [_container(0)], "affinity": affinity}}


def _undo(count: int) -> JSON:
    step = {"op": "add", "path": "/spec/containers/0/args/0", "value": ""}
    note = {"drawbridge.dev/original": json.dumps([step] * min(count, 4000))}
    container = {"name": "c", "image": "i", "args": ["x"] * count}
    return {"metadata": {"annotations": note}, "spec": {"containers": [container]}}


# Each shape has as many parts as fit the size; the figure is about the bytes of one part.
SHAPES: tuple[tuple[Callable[[int], JSON], int], ...] = (
    (_containers, 110),
    (_init_containers, 110),
    (_environment, 36),
    (_tolerations, 50),
    (_claims, 60),
    (_resources, 25),
    (_networks, 45),
    (_nested_hint, 2),
    (_terms, 110),
    (_undo, 60),
)


def _review(shape: Callable[[int], JSON], count: int, namespace: str) -> bytes:
    """Return the review of a pod: an UPDATE for a translated pod, else a CREATE."""
    pod = {"apiVersion": "v1", "kind": "Pod", **shape(count)}
    metadata = {"generateName": "web-", **pod.get("metadata", {}), "labels": {"app": _LABEL}}
    old = {**pod, "metadata": {**metadata, "labels": {}}} if shape is _undo else None
    asked = {
        "uid": _UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "UPDATE" if old else "CREATE",
        "namespace": namespace,
        "userInfo": {"username": "tenant"},
        "object": {**pod, "metadata": metadata},
        "oldObject": old,
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    return json.dumps(review, separators=(",", ":")).encode()


def hostile_requests(count: int, namespace: str) -> Iterator[DamagedRequest]:
    """Yield requests of every shape and size in turn, and now and then a very large one."""
    small = [
        (shape.__name__.strip("_"), _review(shape, max(1, size // part), namespace))
        for size in SIZES
        for shape, part in SHAPES
    ]
    large = [
        (f"large {s.__name__.strip('_')}", _review(s, LARGE // p, namespace)) for s, p in SHAPES
    ]
    turns, rare = itertools.cycle(small), itertools.cycle(large)
    for number in range(count):
        name, body = next(rare) if number % EACH_LARGE == 0 else next(turns)
        unique = f"{number:08}".encode()
        body = body.replace(_UID.encode(), unique + b"-uid").replace(
            _LABEL.encode(), unique + b"-label"
        )
        yield DamagedRequest(name, (request(body),), STATUSES)
