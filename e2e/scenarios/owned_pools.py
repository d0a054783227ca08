"""Scenarios: the taint of owned nodes, what it stops, and who can pass it."""

import functools
import time
from pathlib import Path
from typing import Any

import yaml

from e2e.bridge.placement import LEASE
from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, installed
from e2e.nodes.family import DRIVERS
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, legacy_pod
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.reconcilers import CONFIGURATION
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import LABEL, Stage

KEY = "drawbridge.dev/owned"
FENCE = {"key": KEY, "effect": "NoSchedule"}
TOLERATION = {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}
OTHER = {"key": "rig.drawbridge.dev/other", "effect": "PreferNoSchedule", "value": "x"}
SHAPE = "lab-2g2n"
EXAMPLES = Path(__file__).parents[2] / "examples"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
TEMPLATE = claim_spec(request("gpu", GPU))


def taint(stage: Stage, node: str, *taints: JSON) -> None:
    """Replace the taints of a node."""
    stage.client.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints)}})


def taints(stage: Stage, node: str) -> list[JSON]:
    """Return the taints of a node, without their times."""
    taints: list[JSON] = stage.client.get(f"/api/v1/nodes/{node}")["spec"].get("taints", [])
    return [{key: each[key] for key in each if key != "timeAdded"} for each in taints]


def reason(stage: Stage, name: str) -> str:
    """Wait until the scheduler reports a pod as unschedulable, and return why."""
    stage.wait_unschedulable(name)
    conditions = stage.get_pod(name)["status"]["conditions"]
    return next(str(each["message"]) for each in conditions if each["type"] == "PodScheduled")


def daemon_set(stage: Stage, name: str, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_object
    """Create a DaemonSet for the nodes of the stage."""
    pod = stage.pod_object(name, **spec)
    template = {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}
    body = {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }
    return stage.client.create(stage.path("daemonsets", group="/apis/apps/v1"), body)


def has_synced(stage: Stage, name: str, wanted: int) -> bool:
    """Return whether the controller has handled a DaemonSet and wants this number of pods."""
    daemon_set = stage.client.get(stage.path("daemonsets", name, "/apis/apps/v1"))
    status = daemon_set["status"]
    return bool(
        status.get("observedGeneration") == daemon_set["metadata"]["generation"]
        and status["desiredNumberScheduled"] == wanted
    )


def sees_no_place(stage: Stage, name: str) -> bool:
    """Let the controller look at a DaemonSet again, and return whether it wants no pods.

    A taint that lets running pods stay is no reason for the controller to look.
    """
    looks = {"metadata": {"annotations": {"e2e/looks": f"{time.monotonic_ns()}"}}}
    stage.client.patch(stage.path("daemonsets", name, "/apis/apps/v1"), looks)
    return has_synced(stage, name, 0)


@scenario("smoke")
def the_taint_of_an_owned_node_stops_other_schedulers(stage: Stage) -> None:
    """A pod with a claim stays Pending without an allocation. Running pods stay."""
    node = stage.node("a", SHAPE, {GPU: "full"}).name
    stage.template("gpu", TEMPLATE)
    stage.run_pod("before", templates={"gpu": "gpu"})
    taint(stage, node, FENCE)
    stage.pod("after", templates={"gpu": "gpu"})
    assert "untolerated taint" in reason(stage, "after"), reason(stage, "after")
    claim = stage.generated_claim("after")
    assert "allocation" not in stage.get_claim(claim).get("status", {})
    assert stage.get_pod("before")["status"]["phase"] == "Running"
    taint(stage, node)
    stage.wait_running("after")


@scenario("smoke")
def daemon_sets_need_the_toleration_on_an_owned_node(stage: Stage) -> None:
    """A DaemonSet without the toleration makes no pods there, and its running pods stay."""
    node = stage.node("a", SHAPE).name
    daemon_set(stage, "early")
    stage.wait("it has a pod", lambda: has_synced(stage, "early", 1))
    (early,) = stage.client.get(stage.pod_path(), labelSelector="app=early")["items"]
    stage.wait_running(early["metadata"]["name"])
    taint(stage, node, FENCE)
    stage.wait("the controller sees the taint", lambda: sees_no_place(stage, "early"))
    daemon_set(stage, "late")
    daemon_set(stage, "tolerant", tolerations=[TOLERATION])
    stage.wait("it has a pod", lambda: has_synced(stage, "tolerant", 1))
    stage.wait("it has no pod", lambda: has_synced(stage, "late", 0))
    assert not stage.client.get(stage.pod_path(), labelSelector="app=late")["items"]
    (tolerant,) = stage.client.get(stage.pod_path(), labelSelector="app=tolerant")["items"]
    stage.wait_running(tolerant["metadata"]["name"])
    assert stage.get_pod(early["metadata"]["name"])["status"]["phase"] == "Running"
    for name in ("early", "late", "tolerant"):
        stage.client.delete(stage.path("daemonsets", name, "/apis/apps/v1"), grace=None)


@scenario("smoke")
def a_policy_refuses_the_toleration_of_other_schedulers(stage: Stage) -> None:
    """Without the policy a tenant with the toleration gets an owned device; with it, no pod."""
    node = stage.node("a", SHAPE, {GPU: "full"}).name
    taint(stage, node, FENCE)
    stage.template("gpu", TEMPLATE)
    stage.run_pod("passes", templates={"gpu": "gpu"}, tolerations=[TOLERATION])
    policy, binding = yaml.safe_load_all((EXAMPLES / "owned-nodes-policy.yaml").read_text("utf-8"))
    binding["spec"]["matchResources"]["namespaceSelector"] = {
        "matchLabels": {"kubernetes.io/metadata.name": stage.namespace}
    }
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicies", policy)
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicybindings", binding)
    every = {"operator": "Exists"}
    claims = {"gpu": "gpu"}
    refused = functools.partial(is_refused, stage)
    stage.wait("the policy acts", lambda: refused(templates=claims, tolerations=[TOLERATION]))
    assert refused(templates=claims, tolerations=[every])
    assert refused(limits={LEGACY: "1"}, tolerations=[{"key": KEY, "operator": "Exists"}])
    assert refused(templates=claims, schedulerName="mine", tolerations=[TOLERATION])
    assert not refused(templates=claims, schedulerName="drawbridge", tolerations=[TOLERATION])
    assert not refused(limits={"cpu": "1"}, tolerations=[every])
    assert not refused(templates=claims)
    assert not refused(templates=claims, tolerations=[{**TOLERATION, "effect": "NoExecute"}])
    # The pod from before the policy can change and go.
    stage.client.patch(stage.pod_path("passes"), {"metadata": {"labels": {"x": "y"}}})
    stage.delete_pod("passes")


def is_refused(stage: Stage, **spec: Any) -> bool:  # noqa: ANN401  # goes to pod_object
    """Return whether a dry run of a pod is refused by the policy."""
    try:
        stage.client.create(stage.pod_path(), stage.pod_object("probe", **spec), dryRun="All")
    except ApiError as problem:
        if "drawbridge-owned-nodes" not in str(problem):
            raise
        return True
    return False


@scenario("smoke", rig="installed", needs=NEEDS)
def owned_nodes_get_the_taint_and_pods_the_toleration(stage: Stage) -> None:
    """The controller keeps the taint of selected nodes, and admission opens it for its pods."""
    cluster = installed(stage)
    ours = stage.node("ours", SHAPE, {GPU: "full"}, labels={"pool": "bridge"}).name
    theirs = stage.node("theirs", SHAPE, {GPU: "full"}).name
    taint(stage, ours, OTHER)
    taint(stage, theirs, OTHER)
    before = cluster.plane.admin.get(CONFIGURATION)["data"]["config.yaml"]
    selector = f"matchLabels: {{pool: bridge, {LABEL}: {stage.name}}}"
    own = ", ".join(f"{{driver: {each}, nodeSelector: {{{selector}}}}}" for each in DRIVERS)
    bridge = before.replace("placement: native", "placement: bridge")
    cluster.configure(f"{bridge}ownedPools: [{own}]\n")
    try:
        stage.wait("the node is tainted", lambda: FENCE in taints(stage, ours))
        assert taints(stage, ours) == [OTHER, FENCE]
        assert taints(stage, theirs) == [OTHER]
        taint(stage, ours, OTHER)
        stage.wait("the taint is back", lambda: FENCE in taints(stage, ours))
        renew_lease(stage)
        _check_admission(stage, cluster)
    finally:
        cluster.configure(before)
    stage.wait("the taint is gone", lambda: taints(stage, ours) == [OTHER])


def renew_lease(stage: Stage) -> None:
    """Create the Lease of a scheduler, which no process of this rig renews."""
    collection, _, name = LEASE.rpartition("/")
    spec = {"holderIdentity": "rig", "renewTime": "2100-01-01T00:00:00.000000Z"}
    metadata = {"name": name}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    stage.cluster_object(collection, {**lease, "spec": spec})


def _check_admission(stage: Stage, cluster: Installation) -> None:
    """Check the pods that get the scheduler and the toleration, and those that do not."""
    label = "drawbridge.dev/translate=enforce"
    cluster.kubectl("label", "namespace", stage.namespace, label).check()

    def admitted(body: JSON) -> JSON:
        pod = stage.client.create(stage.pod_path(), body, dryRun="All")
        spec: JSON = pod["spec"]
        return spec

    def moves(body: JSON) -> bool:
        spec = admitted(body)
        tolerated = TOLERATION in spec.get("tolerations", ())
        assert tolerated == (spec["schedulerName"] == "drawbridge"), spec
        return tolerated

    legacy = legacy_pod(stage, "legacy")
    stage.wait("a translated pod moves", lambda: moves(legacy))
    assert admitted(legacy)["resourceClaims"]
    stage.template("gpu", TEMPLATE)
    own = stage.pod_object("own", templates={"gpu": "gpu"})
    stage.wait("a pod with a claim of its own moves", lambda: moves(own))
    kept = stage.pod_object("kept", templates={"gpu": "gpu"}, schedulerName="mine")
    assert not moves(kept)
    assert not moves(stage.pod_object("plain"))
    _check_second_apply(stage, cluster, own)


def _check_second_apply(stage: Stage, cluster: Installation, own: JSON) -> None:
    """Check that applying the manifest again keeps the scheduler and the toleration."""
    ran = cluster.kubectl.inside(stage.namespace)
    ran.apply(own).check()
    again = ran.apply(own).check()
    assert "unchanged" in again.out or "configured" in again.out, again
    spec = stage.get_pod("own")["spec"]
    assert spec["schedulerName"] == "drawbridge"
    assert TOLERATION in spec["tolerations"]
