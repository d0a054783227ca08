"""The reviews of pods that benches send: what a pod asks for, and how often it comes."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from bench._cluster import IN, OUT
from drawbridge.process import review


def containers(
    image: str, owner: str, asks: dict[str, str], token: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the container that requests devices, and a sidecar container."""
    mount = {"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    quantities = {"cpu": "2", "memory": "8Gi", **asks}
    env = [{"name": f"SETTING_{i}", "value": f"value-{i}-" + "v" * 24} for i in range(24)]
    main = {
        "name": "main",
        "image": image,
        "command": ["python", "-m", "service", "--port=8080"],
        "env": [*env, {"name": "RUN", "value": owner}],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": quantities, "requests": quantities},
        "volumeMounts": [{**mount, "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}},
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
    }
    return main, {**main, "name": "log", "env": env[:6], "resources": {"limits": {"cpu": "1"}}}


def make_pod(
    name: str, image: str, owner: str, asks: dict[str, str], notes: dict[str, str]
) -> dict[str, Any]:
    """Make a pod as the API server sends it: of a ReplicaSet, with its own token volume."""
    token = "kube-api-access-" + "x" * 5
    owned = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{owner}"}
    metadata = {
        "generateName": f"{name}-",
        "labels": {"app": name, "pod-template-hash": owner},
        "annotations": {"team": "serving", **notes},
        "ownerReferences": [{**owned, "controller": True, "blockOwnerDeletion": True}],
    }
    spec = {
        "containers": containers(image, owner, asks, token),
        "volumes": [{"name": token, "projected": {"defaultMode": 420, "sources": []}}],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def build_body(
    number: int, owner: str, *, namespace: str = IN, gpus: int = 1, legacy: bool = True
) -> bytes:
    """Return the review of a pod."""
    asks = {"nvidia.com/gpu": f"{gpus}"} if legacy else {}
    text = json.dumps(make_pod("web", "registry/web:1", owner, asks, {}))
    token = "kube-api-access-" + "".join(chr(97 + number // 26**i % 26) for i in range(5))
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "operation": "CREATE",
        "object": json.loads(text.replace("kube-api-access-xxxxx", token)),
        "dryRun": False,
    }
    whole = {"kind": review.KIND, "apiVersion": review.API_VERSION, "request": request}
    return json.dumps(whole, separators=(",", ":")).encode()


KINDS: Mapping[str, Callable[[int], bytes]] = {
    "out of scope": lambda i: build_body(i, "abc", namespace=OUT),
    "repeated": lambda i: build_body(i, "abc"),
    "distinct": lambda i: build_body(i, f"owner-{i}", gpus=i % 8 + 1),
    "distinct, nothing asked": lambda i: build_body(i, f"none-{i}", legacy=False),
}
TRANSLATED = ("repeated", "distinct")
