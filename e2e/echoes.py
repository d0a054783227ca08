"""Starts echo webhooks, each behind its own Service and for one namespace.

The plain one adds one label. The other one is registered as Drawbridge's webhook and returns its
recorded responses, which separates the API server's cost of a response from the webhook's cost.
"""

import base64
import http.client
import json
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.client import JSON
from e2e.controlplane.plane import ControlPlane
from e2e.installed.installation import NAMESPACE, WEBHOOK
from e2e.installed.replica import Replica
from e2e.timings import until

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OURS, HOOK = "drawbridge", "pods.drawbridge.dev"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
PLAIN: JSON = {"rules": [RULE], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 5}


@dataclass(frozen=True)
class EchoRegistration:
    """The registration of an echo webhook and its responses; none for the plain one."""

    name: str
    namespace: str
    hook: JSON
    answers: Mapping[str, JSON]


def ours(plane: ControlPlane) -> JSON:
    """Return the current registration of Drawbridge's webhook for pods."""
    hooks = plane.admin.get(f"{HOOKS}/{OURS}")["webhooks"]
    return next(dict(each) for each in hooks if each["name"] == HOOK)


def answer(plane: ControlPlane, pod: JSON, namespace: str) -> JSON:
    """Send a review of a pod to Drawbridge's webhook, and return its response."""
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{WEBHOOK}"
    host = plane.admin.get(path)["spec"]["clusterIP"]
    authority = base64.b64decode(ours(plane)["clientConfig"]["caBundle"]).decode()
    context = ssl.create_default_context(cadata=authority)
    context.check_hostname = False  # it is for the Service's name, and asked by its address
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    asked = {
        "uid": "recorded",
        "kind": kind,
        "operation": "CREATE",
        "namespace": namespace,
        "object": pod,
        "dryRun": True,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    line = http.client.HTTPSConnection(host, 443, context=context, timeout=10)
    line.request("POST", "/admit/pods", json.dumps(review), {"Content-Type": "application/json"})
    response: dict[str, Any] = json.loads(line.getresponse().read())["response"]
    line.close()
    return response


def start(plane: ControlPlane, echo: EchoRegistration) -> Replica:
    """Start an echo webhook and register it for its namespace."""
    namespace = echo.namespace
    spec = {"selector": {"app": echo.name}, "ports": [{"port": 443}]}
    service = {"metadata": {"name": echo.name}, "spec": spec}
    made = plane.admin.create(f"/api/v1/namespaces/{namespace}/services", service)
    folder = plane.folder / f"echo-{echo.name}"
    folder.mkdir()
    public, private = self_signed(folder, f"{echo.name}.{namespace}.svc")
    words: list[str | Path] = [sys.executable, "-m", "e2e.installed.echo", public, private]
    words.append(made["spec"]["clusterIP"])
    if echo.answers:
        ready = folder / "answers.json"
        ready.write_text(json.dumps(dict(echo.answers)), encoding="utf-8")
        words.append(ready)
    replica = Replica(echo.name, words, folder / "log")
    plane.processes[f"echo-{echo.name}"] = replica.start()
    until(lambda: bool(replica.port("admission")))
    hook = _hook(echo, public)
    plane.admin.create(HOOKS, {"metadata": {"name": f"rig-{echo.name}"}, "webhooks": [hook]})
    return replica


def _hook(echo: EchoRegistration, authority: Path) -> JSON:
    return {
        **echo.hook,
        "name": f"{echo.name}.{echo.namespace}.svc",
        "clientConfig": {
            "service": {"namespace": echo.namespace, "name": echo.name, "path": "/"},
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": echo.namespace}},
        "admissionReviewVersions": ["v1"],
    }
