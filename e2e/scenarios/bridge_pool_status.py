"""Scenario: the API of the allocator counts the devices of a pool as Kubernetes does (KEP-5677)."""

from dataclasses import replace
from typing import Final

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.plane import CONTROLLERS, Options
from e2e.runner import print_line
from e2e.scenarios.bridge_api import Asked
from e2e.scenarios.objects import JSON, claim_spec, request, taint_rules_path
from e2e.scenarios.registry import RIGS, default_options

GPU: Final = "gpu.nvidia.com"
RIG: Final = "pool status"
REQUESTS: Final = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
# What both say of a pool. The request also has summaries of shares and partitions.
FIELDS: Final = (
    "poolName",
    "nodeName",
    "generation",
    "resourceSliceCount",
    "totalDevices",
    "allocatedDevices",
    "availableDevices",
    "unavailableDevices",
)


def status_options(version: str) -> Options:
    """Return a control plane that answers ResourcePoolStatusRequests."""
    usual = default_options(version)
    return replace(
        usual,
        gates={**usual.gates, "DRAResourcePoolStatus": True},
        runtime={**usual.runtime, "resource.k8s.io/v1alpha3": True},
        controllers=(*CONTROLLERS, "resourcepoolstatusrequest-controller"),
    )


RIGS[RIG] = status_options


@bridge_scenario("full", since="1.36", rig=RIG)
def pools_are_counted_as_kubernetes_does(stage: BridgeStage) -> None:
    """One pool has allocated devices. On 1.37 it has a tainted one, which 1.36 does not look at."""
    first = stage.node("a", "dgx-a100", {GPU: "full"}).name
    stage.node("b", "lab-2g2n", {GPU: "full"})
    stage.template("two", claim_spec(request("gpu", GPU, count=2)))
    stage.run_pod(
        "worker", templates={"gpu": "two"}, nodeSelector={"kubernetes.io/hostname": first}
    )
    asked, admin = Asked(stage), stage.processes.tokens["admin"]
    ours = f"GET /v1/pools?driver={GPU}"

    def count(name: str) -> int:
        return sum(each.get(name, 0) for each in asked(ours, admin).body["pools"])

    if stage.version != "1.36":
        taint_free_device(stage, asked(f"GET /v1/nodes/{first}", admin).body)
        stage.wait("the allocator knows the rule", lambda: count("unavailableDevices") == 1)
    stage.wait("the allocator owns both pools", lambda: count("totalDevices") == 10)
    stage.cluster_object(REQUESTS, {"metadata": {"name": "all"}, "spec": {"driver": GPU}})
    stage.wait("Kubernetes answers", lambda: stage.client.get(f"{REQUESTS}/all").get("status"))
    theirs, own = stage.client.get(f"{REQUESTS}/all")["status"], asked(ours, admin).body
    assert theirs["poolCount"] == own["poolCount"] == 2, (theirs, own)
    assert select_fields(own) == select_fields(theirs), (own, theirs)
    for each in select_fields(own):
        print_line(f"      {each}")


def taint_free_device(stage: BridgeStage, node: JSON) -> None:
    """Taint the first device of a node that no claim holds."""
    (pool,) = (each for each in node["pools"] if each["driver"] == GPU)
    free = next(each["name"] for each in pool["devices"] if not each.get("held"))
    selector = {"driver": GPU, "pool": pool["pool"], "device": free}
    taint = {"key": "rig.drawbridge.dev/broken", "effect": "NoSchedule"}
    body: JSON = {
        "metadata": {"name": stage.name},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    stage.cluster_object(taint_rules_path(stage.version), body)


def select_fields(status: JSON) -> list[JSON]:
    """Return what both say of each pool."""
    return [{name: each.get(name) for name in FIELDS} for each in status["pools"]]
