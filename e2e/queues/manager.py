"""Kueue on one control plane: its manifests, its manager as a process, and what it has charged.

No kubelet runs its pod. The manager runs here with the token of its account, and a relay stands in
for the Service of its webhooks. The manager waits for its serving certificate as files, which a
kubelet would mount.
"""

import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Process, free_port
from e2e.controlplane.relay import Backend, Relay
from e2e.installed import manifest
from e2e.installed.installation import Installation
from e2e.queues import build
from e2e.scenarios.objects import JSON

NAMESPACE = "kueue-system"
GROUP = "kueue.x-k8s.io"
API = f"/apis/{GROUP}/v1beta2"
LABEL = f"{GROUP}/queue-name"
FRAMEWORKS = ("batch/job", "pod", "deployment", "statefulset")
_SECRET = "kueue-webhook-server-cert"  # noqa: S105  # its name
_SERVICE = "kueue-webhook-service"
_CONFIGURATION = "kueue-manager-config"
# The rig has no aggregated API servers and no Prometheus.
_LEFT_OUT = ("APIService", "ServiceMonitor", "PrometheusRule")

_BATCH = 8  # objects of one command; the definitions are large

Mappings = Sequence[Mapping[str, Any]]


class Kueue:
    """The manager, once for each control plane; started anew with other mappings."""

    def __init__(self, cluster: Installation) -> None:
        self._program = build.manager()
        self._cluster, self._plane = cluster, cluster.plane
        self._folder = cluster.plane.folder / "kueue"
        self._folder.mkdir(exist_ok=True)
        self._mappings: Mappings | None = None
        self._gates: tuple[str, ...] = ()
        self._process: Process | None = None
        self._port = free_port()
        self._install()

    def _install(self) -> None:
        """Apply the manifests of the module, and listen where its webhooks are called."""
        rendered = self._cluster.kubectl("kustomize", str(build.manifests())).check().out
        objects = [
            each for each in yaml.safe_load_all(rendered) if each and each["kind"] not in _LEFT_OUT
        ]
        manifest.find(objects, "Deployment", "kueue-controller-manager")["spec"]["replicas"] = 0
        words = ("apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-")
        for start in range(0, len(objects), _BATCH):
            text = yaml.safe_dump_all(objects[start : start + _BATCH])
            self._cluster.kubectl(*words, stdin=text).check()
        path = f"/api/v1/namespaces/{NAMESPACE}/services/{_SERVICE}"
        address = self._plane.admin.get(path)["spec"]["clusterIP"]
        relay = Relay(address, 443)
        relay.add(Backend(self._port))
        relay.__enter__()  # as long as the control plane: its webhooks are called at any time

    def configure(self, mappings: Mappings | None, gates: tuple[str, ...] = ()) -> None:
        """Let the manager run with these mappings of DeviceClasses, or with those that it has."""
        mappings = self._mappings or () if mappings is None else mappings
        if self._process is not None and (self._mappings, self._gates) == (mappings, gates):
            return
        if self._process is not None:
            self._process.stop()
        self._mappings, self._gates = mappings, gates
        health = free_port()
        text = yaml.safe_dump(self._configuration(mappings, health))
        # Where `drawbridge doctor` reads it.
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{_CONFIGURATION}"
        self._plane.admin.patch(path, {"data": {"controller_manager_config.yaml": text}})
        file = self._folder / "config.yaml"
        file.write_text(text, encoding="utf-8")
        token = self._plane.account_token(NAMESPACE, "kueue-controller-manager")
        access = self._plane.kubeconfig("kueue", token)
        command = (self._program, f"--config={file}", f"--kubeconfig={access}")
        self._process = Process("kueue", command, self._folder / "kueue.log")
        self._plane.processes["kueue"] = self._process
        self._process.wait_ready(lambda: self._is_ready(health), 120)

    def _configuration(self, mappings: Mappings, health: int) -> JSON:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
            "webhook": {"port": self._port, "certDir": str(self._cluster.folder / _SECRET)},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 500, "burst": 1000},
            "integrations": {"frameworks": list(FRAMEWORKS)},
            "resources": {"deviceClassMappings": list(mappings)},
            "featureGates": dict.fromkeys(self._gates, True),
        }

    def _is_ready(self, health: int) -> bool:
        self._cluster.mount("secrets", _SECRET, NAMESPACE)
        try:
            url = f"http://127.0.0.1:{health}/readyz"
            with urllib.request.urlopen(url, timeout=2) as answer:  # loopback
                return bool(answer.status == 200)
        except OSError:
            return False


_PLANES: WeakKeyDictionary[ControlPlane, Kueue] = WeakKeyDictionary()


def kueue(cluster: Installation) -> Kueue:
    """Return Kueue on the control plane of an installation, installed once."""
    if cluster.plane not in _PLANES:
        _PLANES[cluster.plane] = Kueue(cluster)
    return _PLANES[cluster.plane]
