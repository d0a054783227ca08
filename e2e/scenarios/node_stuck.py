"""A scenario on real nodes: what hangs is named with its holder by all that look, within a minute.

A kubelet that ends between the preparation of devices and the start of a pod, a driver that never
unprepares, and a namespace whose claim a finalizer keeps.
"""

import json
import time
from collections.abc import Callable
from typing import Final

from e2e.controlplane.client import JSON
from e2e.installed.installation import NAMESPACE
from e2e.nodes import protocol
from e2e.realnodes.installation import PodInstallation
from e2e.realnodes.stage import RealStage, real
from e2e.runner import print_line
from e2e.scenarios.node_devices import GPUS
from e2e.scenarios.node_webhook import prepared
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

PROMISED_SECONDS: Final = 60.0
# One look of all takes some seconds on a busy machine.
LOOK_SECONDS: Final = 150.0
METRICS_PORT: Final = 8080
METRIC: Final = "drawbridge_stuck_since_seconds{"
HOST: Final = "kubernetes.io/hostname"
# The default of Kubernetes; the rig's own evicts after seconds.
STAYS: Final = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
FINALIZER: Final = "example.com/billing"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"


@scenario("node", rig="nodes")
def what_hangs_is_named_by_all_within_a_minute(stage: Stage) -> None:
    """audit, doctor, explain and the leader's metric name object, code and holder."""
    nodes = real(stage)
    cluster = prepared(nodes)
    nodes.template("gpu", claim_spec(request("gpu", GPUS)))
    restarted = _kubelet_ends_before_the_start(nodes, cluster)
    _driver_never_unprepares(nodes, cluster, restarted)
    _namespace_hangs(nodes, cluster)


def _kubelet_ends_before_the_start(nodes: RealStage, cluster: PodInstallation) -> str:
    """Return the node of this kubelet."""
    # Who looks goes on: the leader is on another node.
    busy = {pod["spec"]["nodeName"] for pod in cluster.pods("controller")}
    node = next(name for name in nodes.rig.names if name not in busy)
    driver, kubelet = nodes.fleet.registered(GPUS), nodes.fleet.real_node(node)
    driver.mood.slow_seconds = LOOK_SECONDS
    calls = driver.calls[protocol.PREPARE]
    nodes.pod("unstarted", templates={"gpu": "gpu"}, nodeSelector={HOST: node}, tolerations=STAYS)
    nodes.wait("the driver is asked", lambda: driver.calls[protocol.PREPARE] > calls)
    kubelet.kill_kubelet()
    began = time.monotonic()
    driver.mood.slow_seconds = 0
    nodes.wait("the devices are prepared", lambda: nodes.fleet.prepared(GPUS, node))
    name = f"{nodes.namespace}/unstarted"
    _wait_named(cluster, began, f"Pod/{name}", "NeverPrepared", f"kubelet of node {node}", name)
    kubelet.start_kubelet()
    nodes.wait_running("unstarted")
    _wait_forgotten(cluster, f"Pod/{name}")
    nodes.delete_pod("unstarted")
    return node


def _driver_never_unprepares(nodes: RealStage, cluster: PodInstallation, restarted: str) -> None:
    # A kubelet deletes the slices of a driver that is away, and this one publishes them only once.
    node = next(name for name in nodes.rig.names if name != restarted)
    driver = nodes.fleet.registered(GPUS)
    nodes.run_pod("unended", templates={"gpu": "gpu"}, nodeSelector={HOST: node})
    driver.mood.failures = 1_000_000
    nodes.client.delete(nodes.pod_path("unended"), grace=1)
    began = time.monotonic()
    name = f"{nodes.namespace}/unended"
    _wait_named(cluster, began, f"Pod/{name}", "NeverReleased", f"driver {GPUS} on node", name)
    driver.mood.failures = 0
    nodes.wait_gone(nodes.pod_path("unended"))
    _wait_forgotten(cluster, f"Pod/{name}")


def _namespace_hangs(nodes: RealStage, cluster: PodInstallation) -> None:
    name, path = f"{nodes.namespace}-leaves", CLAIMS.format(f"{nodes.namespace}-leaves")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    nodes.client.create("/api/v1/namespaces", namespace)
    claim: JSON = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "kept", "finalizers": [FINALIZER]},
        "spec": claim_spec(request("gpu", GPUS)),
    }
    nodes.client.create(path, claim)
    nodes.client.delete(f"/api/v1/namespaces/{name}")
    began = time.monotonic()
    _wait_named(cluster, began, f"Namespace/{name}", "DeletionStuck", FINALIZER)
    _wait_named(cluster, began, f"ResourceClaim/{name}/kept", "DeletionStuck", FINALIZER, late=True)
    nodes.client.patch(f"{path}/kept", {"metadata": {"finalizers": None}})
    nodes.wait_gone(f"/api/v1/namespaces/{name}")
    _wait_forgotten(cluster, f"Namespace/{name}")


def _wait_named(  # noqa: PLR0913, PLR0917  # who looks, and what it sees
    cluster: PodInstallation,
    began: float,
    about: str,
    code: str,
    holder: str,
    pod: str = "",
    *,
    late: bool = False,
) -> None:
    """Wait until all name the object; at most a minute after it began, unless another was first."""
    looks: dict[str, Callable[[], bool]] = {
        "audit": lambda: _in_audit(cluster, about, code, holder),
        "doctor": lambda: _in_doctor(cluster, about, code, holder),
        "metric": lambda: _in_metric(cluster, about, code, holder),
    }
    if pod:
        looks["explain"] = lambda: _in_explain(cluster, pod, code, holder)
    seen: dict[str, float] = {}
    while len(seen) < len(looks) and time.monotonic() - began < LOOK_SECONDS:
        for name, look in looks.items():
            at = time.monotonic()
            if name not in seen and look():
                seen[name] = at - began
    told = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in seen.items())
    print_line(f"      {about}: {told}")
    assert set(seen) == set(looks), (about, seen)
    assert late or max(seen.values()) <= PROMISED_SECONDS, (about, seen)


def _in_audit(cluster: PodInstallation, about: str, code: str, holder: str) -> bool:
    told = json.loads(cluster.drawbridge("audit", "-o", "json").check().out)["stuck"]
    return any(
        (each["object"], each["code"]) == (about, code) and holder in each["heldBy"]
        for each in told
    )


def _in_doctor(cluster: PodInstallation, about: str, code: str, holder: str) -> bool:
    checks = json.loads(cluster.drawbridge("doctor", "-o", "json").out)["checks"]
    return any(
        (each["check"], each["code"], each["object"]) == ("stuck", code, about)
        and holder in each["message"]
        for each in checks
    )


def _in_explain(cluster: PodInstallation, pod: str, code: str, holder: str) -> bool:
    printed = cluster.drawbridge("explain", pod).out
    return f"[{code}]" in printed and holder in printed


def _in_metric(cluster: PodInstallation, about: str, code: str, holder: str) -> bool:
    name = about.rpartition("/")[2]
    lines = (line for line in _series(cluster) if f'code="{code}"' in line)
    return any(f'name="{name}"' in line and holder in line for line in lines)


def _series(cluster: PodInstallation) -> list[str]:
    """Return the series of all controllers; only the leader has some."""
    lines: list[str] = []
    for pod in cluster.pods("controller"):
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{METRICS_PORT}/proxy/metrics"
        lines += cluster.kubectl("get", "--raw", path).check().out.splitlines()
    return [line for line in lines if line.startswith(METRIC)]


def _wait_forgotten(cluster: PodInstallation, about: str) -> None:
    """Wait until nobody names it any more."""
    name = f'name="{about.rpartition("/")[2]}"'
    end = time.monotonic() + LOOK_SECONDS
    while any(name in line for line in _series(cluster)):
        assert time.monotonic() < end, about
        time.sleep(1)
    told = json.loads(cluster.drawbridge("audit", "-o", "json").check().out)["stuck"]
    assert about not in {each["object"] for each in told}
