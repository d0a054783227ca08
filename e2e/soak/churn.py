"""Creates and deletes the pods of one phase, and simulates a slow provisioner of volumes."""

import heapq
import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from e2e.bridge.placement import SCHEDULER, TOLERATION
from e2e.controlplane.client import JSON, ApiError, Client
from e2e.scenarios import objects
from e2e.scenarios.objects import RESOURCE, claim_spec, request
from e2e.scenarios.stage import Stage
from e2e.soak.pods import GPU, KINDS, PRIORITIES, SHARED_CLAIMS, PodKind
from e2e.soak.settings import SoakSettings
from e2e.soak.waits import KIND, NOT_FOUND, PHASE, PRIORITY, Waits

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE = "rig-slow"
SELECTED = "volume.kubernetes.io/selected-node"
# Requests of one turn: after an outage not everything comes at once.
BURST = 20


def priority_class(stage: Stage, name: str) -> str:
    """Return the name of a PriorityClass."""
    return f"{stage.name}-{name}"


def prepare_cluster(stage: Stage) -> None:
    """Create priorities and the class of slow volumes."""
    for name, value, _ in PRIORITIES:
        body = {"metadata": {"name": priority_class(stage, name)}, "value": value}
        stage.cluster_object(CLASSES, body)
    slow = {
        "metadata": {"name": STORAGE},
        "provisioner": "rig.drawbridge.dev/slow",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    stage.cluster_object("/apis/storage.k8s.io/v1/storageclasses", slow)


def prepare_namespace(client: Client, namespace: str) -> None:
    """Create the templates and shared claims, and a budget that protects half of some pods."""
    base = f"{RESOURCE}/namespaces/{namespace}"
    for kind in KINDS:
        if kind.devices:
            body = {"metadata": {"name": kind.name}, "spec": {"spec": kind.devices}}
            client.create(f"{base}/resourceclaimtemplates", body)
    for number in range(SHARED_CLAIMS):
        spec = claim_spec(request("gpu", GPU))
        body = {"metadata": {"name": f"shared-{number}"}, "spec": spec}
        client.create(f"{base}/resourceclaims", body)
    budget = {
        "metadata": {"name": "half"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {KIND: "two"}}},
    }
    client.create(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", budget)


class ChurnPlan(NamedTuple):
    """A phase and its namespaces; `legacy` is opted in, and without it the scheduler is stock."""

    phase: str
    namespaces: Sequence[str]
    legacy: str = ""


class Churn:
    """Keeps the number of pods of one phase; each lives for a time drawn by the seed."""

    def __init__(self, stage: Stage, settings: SoakSettings, waits: Waits, plan: ChurnPlan) -> None:
        self.stage = stage
        self.client = stage.client
        self.settings = settings
        self.waits = waits
        self.phase, self.namespaces, self.legacy = plan
        self.wanted = 0
        self.random = random.Random(f"{settings.seed}/{plan.phase}/churn")
        self.created = 0
        self._due: list[tuple[float, str]] = []
        self._kinds = [kind for kind in KINDS if plan.legacy or not kind.legacy]

    def turn(self) -> None:
        """Delete the pods whose time has come, and create missing ones."""
        now = time.monotonic()
        for _ in range(BURST):
            if not self._due or self._due[0][0] > now:
                break
            self.waits.delete(self._due[0][1])
            heapq.heappop(self._due)
        for _ in range(min(BURST, self.wanted - self.waits.alive(self.phase))):
            self._create()

    def _create(self) -> None:
        """Create a pod of a drawn kind; what is drawn does not depend on answers."""
        draw = self.random
        (kind,) = draw.choices(self._kinds, [kind.weight for kind in self._kinds])
        (priority,) = draw.choices(
            [name for name, _, _ in PRIORITIES], [weight for _, _, weight in PRIORITIES]
        )
        namespace = self.legacy if kind.legacy else draw.choice(self.namespaces)
        lifetime = draw.expovariate(1 / self.settings.lifetime)
        shared = draw.randrange(SHARED_CLAIMS)
        name = f"{self.phase}-{kind.name}-{self.created}"
        self.created += 1
        path = f"/api/v1/namespaces/{namespace}/pods"
        heapq.heappush(self._due, (time.monotonic() + lifetime, f"{path}/{name}"))
        pod = self.client.create(path, self._pod(kind, name, priority, shared))
        if kind.volume:
            self._claim_volume(pod)

    def _pod(self, kind: PodKind, name: str, priority: str, shared: int) -> JSON:
        spec: JSON = {
            "priorityClassName": priority_class(self.stage, priority),
            "nodeSelector": self.stage.selector,
            "terminationGracePeriodSeconds": 1,
        }
        if kind.volume:
            source = {"persistentVolumeClaim": {"claimName": name}}
            spec["volumes"] = [{"name": "data", **source}]
        if kind.legacy:
            spec["limits"] = {"nvidia.com/gpu": "1"}
        elif self.legacy:
            spec |= {"schedulerName": SCHEDULER, "tolerations": [TOLERATION]}
        if kind.devices:
            spec["templates"] = {"devices": kind.name}
        if kind.shared:
            spec["claims"] = {"devices": f"shared-{shared}"}
        labels = {PHASE: self.phase, KIND: kind.name, PRIORITY: priority}
        return {"metadata": {"name": name, "labels": labels}, "spec": objects.pod_spec(**spec)}

    def _claim_volume(self, pod: JSON) -> None:
        """Create the claim for the volume of a pod, which goes with the pod."""
        metadata = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod"}
        owner |= {key: metadata[key] for key in ("name", "uid")}
        body = {
            "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
            "spec": {
                "storageClassName": STORAGE,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims"
        self.client.create(path, body)


class Provisioner:
    """Provisions a volume on the node that the scheduler selects, slowly; binds and removes it."""

    def __init__(self, client: Client, seconds: float) -> None:
        self.client = client
        self.seconds = seconds
        self._selected: dict[str, float] = {}

    def turn(self) -> None:
        """Look at all claims for volumes once."""
        now = time.monotonic()
        for claim in self.client.get("/api/v1/persistentvolumeclaims")["items"]:
            metadata, uid = claim["metadata"], claim["metadata"]["uid"]
            if claim["spec"].get("storageClassName") != STORAGE:
                continue
            if "deletionTimestamp" in metadata:
                self._remove(claim)
            elif claim["spec"].get("volumeName"):
                self._selected.pop(uid, None)
            elif (
                metadata.get("annotations", {}).get(SELECTED)
                and now - self._selected.setdefault(uid, now) >= self.seconds
            ):
                self._bind(claim)

    def _bind(self, claim: JSON) -> None:
        metadata, node = claim["metadata"], claim["metadata"]["annotations"][SELECTED]
        name = f"rig-{metadata['uid']}"
        place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        owner = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        owner |= {key: metadata[key] for key in ("namespace", "name", "uid")}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE,
            "claimRef": owner,
            "csi": {"driver": "rig.drawbridge.dev", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        }
        volumes = "/api/v1/persistentvolumes"
        self.client.apply(
            f"{volumes}/{name}",
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": spec,
            },
        )
        self.client.patch(f"{volumes}/{name}/status", {"status": {"phase": "Bound"}})
        path = _claim_path(claim)
        complete = {"pv.kubernetes.io/bind-completed": "yes"}
        self.client.patch(
            path, {"metadata": {"annotations": complete}, "spec": {"volumeName": name}}
        )
        self.client.patch(f"{path}/status", {"status": {"phase": "Bound"}})

    def _remove(self, claim: JSON) -> None:
        """Remove a claim for a volume and its volume, as the protecting controllers would."""
        no_finalizers = {"metadata": {"finalizers": None}}
        paths = [_claim_path(claim)]
        if volume := claim["spec"].get("volumeName"):
            paths.insert(0, f"/api/v1/persistentvolumes/{volume}")
        for path in paths:
            try:
                self.client.patch(path, no_finalizers)
                self.client.delete(path)
            except ApiError as problem:
                if problem.code != NOT_FOUND:
                    raise
        self._selected.pop(claim["metadata"]["uid"], None)


def _claim_path(claim: JSON) -> str:
    metadata = claim["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
