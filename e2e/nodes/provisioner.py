"""Simulates the provisioner of slow volumes, for claims that wait for their first consumer.

It also does what the controllers of persistent volumes do, which the rig leaves out: it binds the
claims, and lets them end.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from e2e.controlplane.client import ApiError, Client

JSON = dict[str, Any]
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
SIZE = "1Gi"
POLL_SECONDS = 0.2
GONE, EXISTS = 404, 409


class Provisioner:
    """Provisions the volumes of one namespace, from entering its context until leaving it.

    `seconds` returns how long the volume of a claim takes, by the name of the claim, from the
    moment when the scheduler has selected the node; infinity means that it never binds.
    """

    def __init__(
        self, client: Client, namespace: str, name: str, seconds: Callable[[str], float]
    ) -> None:
        self.name = name
        self._client = client
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._seconds = seconds
        self._due: dict[tuple[str, str], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        body = {"metadata": {"name": self.name}, "volumeBindingMode": "WaitForFirstConsumer"}
        self._client.create(STORAGE_CLASSES, {**body, "provisioner": "rig.drawbridge.dev/slow"})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for claim in self._client.get(self._claims)["items"]:
            self._delete(f"{self._claims}/{claim['metadata']['name']}")
            self._release(claim)
        self._delete(f"{STORAGE_CLASSES}/{self.name}")

    def claim(self, name: str) -> list[JSON]:
        """Create a claim, and return the volumes of the pod that uses it."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": SIZE}},
            "storageClassName": self.name,
        }
        self._client.create(self._claims, {"metadata": {"name": name}, "spec": spec})
        return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]

    def selected_node(self, name: str) -> str:
        """Return the node that the scheduler has selected for the volume of a claim, or ""."""
        return _selected_node(self._client.get(f"{self._claims}/{name}"))

    def provision(self, name: str) -> None:
        """Create the volume of a claim on the selected node now, and bind the claim to it."""
        self._provision(self._client.get(f"{self._claims}/{name}"))

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            # An API server that is away or refuses a request is asked again.
            with contextlib.suppress(ApiError, OSError):
                for claim in self._client.get(self._claims)["items"]:
                    self._follow(claim)

    def _follow(self, claim: JSON) -> None:
        metadata, node = claim["metadata"], _selected_node(claim)
        if "deletionTimestamp" in metadata:
            self._release(claim)
        elif node and not claim["spec"].get("volumeName"):
            key, now = (metadata["uid"], node), time.monotonic()
            if key not in self._due:
                self._due[key] = now + self._seconds(metadata["name"])
            if self._due[key] <= now:
                self._provision(claim)

    def _provision(self, claim: JSON) -> None:
        metadata, node = claim["metadata"], _selected_node(claim)
        about = {key: metadata[key] for key in ("namespace", "name", "uid")}
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": SIZE},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about},
            "hostPath": {"path": "/nonexistent"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.name,
        }
        try:
            self._client.create(VOLUMES, {"metadata": {"name": _volume_of(claim)}, "spec": spec})
        except ApiError as problem:
            if problem.code != EXISTS:
                raise
        bound = {"metadata": {"annotations": {BOUND: "yes"}}}
        body = {**bound, "spec": {"volumeName": _volume_of(claim)}}
        self._client.patch(f"{self._claims}/{metadata['name']}", body)

    def _release(self, claim: JSON) -> None:
        """Let a claim that is deleted end, and its volume."""
        self._delete(f"{VOLUMES}/{_volume_of(claim)}")
        for path in (
            f"{self._claims}/{claim['metadata']['name']}",
            f"{VOLUMES}/{_volume_of(claim)}",
        ):
            with contextlib.suppress(ApiError):
                self._client.patch(path, {"metadata": {"finalizers": None}})

    def _delete(self, path: str) -> None:
        try:
            self._client.delete(path)
        except ApiError as problem:
            if problem.code != GONE:
                raise


def _selected_node(claim: JSON) -> str:
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def _volume_of(claim: JSON) -> str:
    return f"pvc-{claim['metadata']['uid']}"
