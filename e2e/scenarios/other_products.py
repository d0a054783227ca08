"""Scenarios: the APIs of other products do not work, and Drawbridge goes on without them."""

import contextlib
from collections.abc import Iterator

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.installed.installation import installed, set_mode, wait_for_facts
from e2e.scenarios.admission import GPU, NEEDS, legacy_pod
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.owned_pools import reason
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
AWAY = {"name": "away", "namespace": "default", "path": "/convert"}


def definition(group: str, plural: str, kind: str, *versions: str) -> JSON:
    """Return a CRD that stores the last version, and that a webhook converts that is away."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    hook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": AWAY}}
    served = [
        {
            "name": version,
            "served": True,
            "storage": version == versions[-1],
            "schema": {"openAPIV3Schema": schema},
        }
        for version in versions
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": served,
            "conversion": {"strategy": "Webhook", "webhook": hook},
        },
    }


@contextlib.contextmanager
def unreadable(stage: Stage, crd: JSON) -> Iterator[str]:
    """Install a CRD whose first version cannot be listed, with an object; yields the path."""
    client, name, spec = stage.client, crd["metadata"]["name"], crd["spec"]
    versions = [each["name"] for each in spec["versions"]]
    plural, group = spec["names"]["plural"], spec["group"]
    client.create(CRDS, crd)
    try:
        made = {"apiVersion": f"{group}/{versions[-1]}", "kind": spec["names"]["kind"]}
        made |= {"metadata": {"name": "default"}, "spec": {}}
        path = f"/apis/{group}/{versions[-1]}/namespaces/{stage.namespace}/{plural}"
        stage.wait("the CRD is served", lambda: _is_listed(stage, path))
        client.create(path, made)
        yield f"/apis/{group}/{versions[0]}/{plural}"
    finally:
        no_conversion = {"conversion": {"strategy": "None", "webhook": None}}
        client.patch(f"{CRDS}/{name}", {"spec": no_conversion})
        client.delete(f"{CRDS}/{name}")
        stage.wait("the CRD is gone", lambda: not stage.exists(f"{CRDS}/{name}"))


def _is_listed(stage: Stage, path: str) -> bool:
    try:
        stage.client.get(path)
    except ApiError as problem:
        if problem.code not in (404, 429, 500):
            raise
        return False
    return True


@scenario("full", rig="installed", needs=NEEDS)
def admission_starts_while_the_conversion_webhook_of_kueue_is_away(stage: Stage) -> None:
    """As after a restart of all replicas: the queues are unknown, and pods are translated."""
    cluster = installed(stage, mode="")
    stage.node("a", "lab-2g2n", {GPU: "full"})
    set_mode(stage, "enforce")
    pod = legacy_pod(stage, "train")
    wait_for_facts(stage, cluster, pod)
    crd = definition("kueue.x-k8s.io", "localqueues", "LocalQueue", "v1beta2", "v1beta3")
    with unreadable(stage, crd) as path:
        stage.wait("the queues cannot be listed", lambda: not _is_listed(stage, path))
        for replica in cluster.webhooks:
            replica.stop()
        cluster.start_all()
        created = stage.client.create(stage.pod_path(), pod, dryRun="All")
        assert created["spec"]["resourceClaims"]
        text = cluster.webhooks[0].request("metrics", "/metrics").text
        assert 'drawbridge_cache_synced{resource="localqueues"} 0.0' in text


@bridge_scenario("full")
def allocators_start_while_the_conversion_webhook_of_podgroups_is_away(stage: BridgeStage) -> None:
    """Only the members of a group wait whose minimum nothing else says, and are told why."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    crd = definition("scheduling.x-k8s.io", "podgroups", "PodGroup", "v1alpha1", "v1beta1")
    with unreadable(stage, crd) as path:
        stage.wait("the groups cannot be listed", lambda: not _is_listed(stage, path))
        for pair in stage.placement.pairs:
            pair.allocator.stop()
        stage.placement.start()
        stage.run_pod("alone", templates={"gpu": "gpu"})
        member = stage.pod_object("member", templates={"gpu": "gpu"})
        member["metadata"]["labels"][GROUP_LABEL] = "default"
        stage.client.create(stage.pod_path(), member)
        told = reason(stage, "member")
        assert "the PodGroups of Coscheduling cannot be read: " in told, told
        stage.delete_pod("member")
