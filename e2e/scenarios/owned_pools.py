"""Scenarios: the taint of owned nodes, what it stops, and who can pass it."""

import functools
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.client import ApiError
from e2e.scenarios.admission import GPU, LEGACY
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

KEY = "drawbridge.dev/owned"
FENCE = {"key": KEY, "effect": "NoSchedule"}
TOLERATION = {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}
SHAPE = "lab-2g2n"
EXAMPLES = Path(__file__).parents[2] / "examples"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
TEMPLATE = claim_spec(request("gpu", GPU))


def taint(stage: Stage, node: str, *taints: JSON) -> None:
    """Replace the taints of a node."""
    stage.client.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints)}})


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
    found = stage.client.get(stage.path("daemonsets", name, "/apis/apps/v1"))
    status = found["status"]
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status["desiredNumberScheduled"] == wanted
    )


@scenario("smoke")
def the_taint_of_an_owned_node_stops_other_schedulers(stage: Stage) -> None:
    """A pod with a claim stays Pending without an allocation. Running pods stay."""
    node = stage.node("a", SHAPE, {GPU: "full"}).name
    stage.template("gpu", TEMPLATE)
    stage.pod("before", templates={"gpu": "gpu"})
    stage.wait_running("before")
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
    stage.pod("passes", templates={"gpu": "gpu"}, tolerations=[TOLERATION])
    stage.wait_running("passes")
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
