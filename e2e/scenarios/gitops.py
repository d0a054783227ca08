"""Scenario: what GitOps tools are told to ignore is what the processes write."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import yaml

from e2e.audit.__main__ import read_roles
from e2e.audit.writes import Write, changed_paths, compare, covers, find_writes, read_argo
from e2e.bridge.placement import HEADER, OWNED, BridgeStage, bridge_scenario
from e2e.controlplane.client import Client
from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import dry_run, set_mode, wait_for_facts
from e2e.installed.judge import judged
from e2e.nodes.fleet import NodePlan
from e2e.scenarios.admission_scope import CONFIGURATION
from e2e.scenarios.bridge_rule_fence import POLICY, SWITCH_SECONDS, create_policy, fenced_by_rules
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.stage import LABEL, Stage

GPU, LEGACY, SHAPE = "gpu.nvidia.com", "nvidia.com/gpu", "lab-2g2n"
PRODUCT = "NVIDIA-A100-SXM4-40GB"
LIST = Path(__file__).parents[2] / "examples" / "gitops" / "argocd" / "ignored.yaml"
WRITING = ("create", "update", "patch")
MODE = "drawbridge.dev/translate"
ADMISSION = "admissionregistration.k8s.io"
HOOKS = f"/apis/{ADMISSION}/v1/mutatingwebhookconfigurations"
WEBHOOKS = {
    HOOKS: "MutatingWebhookConfiguration",
    f"/apis/{ADMISSION}/v1/validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@bridge_scenario("full", since="1.36")
def gitops_tools_ignore_what_the_processes_write(stage: BridgeStage) -> None:
    """Each field that a process writes to somebody's object is in the list, and no other."""
    stage.enter(judged(stage, stage.placement.cluster))
    written = set(_place_natively(stage))
    _let_nodes_change(stage)
    _use_named_claim(stage)
    written |= {*_find_writes(stage.client), *_change_webhooks(stage), *_translate_pod(stage)}
    create_policy(stage)
    with fenced_by_rules(stage):
        wrote = partial(_has, stage, POLICY, ".spec.variables")
        stage.wait("the policy names the pools", wrote, SWITCH_SECONDS)
        written |= set(_find_writes(stage.client))
    ignored = read_argo(yaml.safe_load(LIST.read_text("utf-8")))
    differences = compare(ignored, written)
    assert differences == ([], []), differences


def _place_natively(stage: BridgeStage) -> list[Write]:
    """Return what is written with native placement, in which a webhook sees fewer pods."""
    cluster = stage.placement.cluster
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    configure_and_wait(cluster, HEADER)
    try:
        # The controller owns no condition once it is written.
        condition = Write(ADMISSION, WEBHOOKS[HOOKS], ".webhooks[].matchConditions")
        stage.wait(
            "the webhook for pods has another condition",
            lambda: any(covers(condition, each) for each in _change_webhooks(stage)),
        )
        return [*_change_webhooks(stage), *_find_writes(stage.client)]
    finally:
        configure_and_wait(cluster, before)


def _change_webhooks(stage: Stage) -> Iterator[Write]:
    """Yield what differs from what kubectl applied: the controller gives up such fields again."""
    for collection, kind in WEBHOOKS.items():
        for live in stage.client.get(collection)["items"]:
            applied = json.loads(live["metadata"]["annotations"][APPLIED])
            applied["metadata"]["name"] = f"{stage.name}-as-applied"
            usual = stage.client.create(collection, applied, dryRun="All")
            for path in changed_paths(usual["webhooks"], live["webhooks"], ".webhooks"):
                yield Write(ADMISSION, kind, path)


def _let_nodes_change(stage: BridgeStage) -> None:
    """Add an owned node without the taint, and a node with plugin and driver."""
    owned, labels = stage.node_name("a"), {**OWNED, LABEL: stage.name}
    stage.fleet.add_all([NodePlan(owned, SHAPE, {GPU: "full"}, labels)])
    dual = Stage.node(stage, "dual", SHAPE, {GPU: "full"}).name
    amounts = {LEGACY: "2"}
    status = {"status": {"allocatable": amounts, "capacity": amounts}}
    stage.client.patch(f"/api/v1/nodes/{dual}/status", status)
    for path in ('labels["drawbridge.dev/dual"]', 'annotations["drawbridge.dev/', ".spec.taints"):
        stage.wait(f"nodes have {path}", partial(_has, stage, "/api/v1/nodes", path))


def _use_named_claim(stage: BridgeStage) -> None:
    """Run a pod with a claim that somebody applied."""
    stage.claim("named", claim_spec(request("gpu", GPU)))
    stage.run_pod("worker", claims={"gpu": "named"})


def _translate_pod(stage: BridgeStage) -> Iterator[Write]:
    """Yield what admission changes in a pod that somebody applies."""
    set_mode(stage, "enforce")
    pod = _with_all_fields(stage.legacy_pod("bare", 1))
    wait_for_facts(stage, stage.placement.cluster, pod)
    off = {**pod, "metadata": {**pod["metadata"], "labels": {MODE: "off"}}}
    before, after = dry_run(stage, off), dry_run(stage, pod)
    for path in changed_paths(_applied(before), _applied(after)):
        yield Write("", "Pod", path)


def _with_all_fields(pod: JSON) -> JSON:
    """Add what a translation changes beside the requests: product, devices by name, a sidecar."""
    spec = pod["spec"]
    named = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    (main,) = containers = [{**each, "env": named} for each in spec["containers"]]
    sidecar = {**main, "name": "sidecar", "restartPolicy": "Always"}
    selector = {**spec["nodeSelector"], "nvidia.com/gpu.product": PRODUCT}
    added = {"containers": containers, "initContainers": [sidecar], "nodeSelector": selector}
    return {**pod, "spec": {**spec, **added}}


def _applied(pod: JSON) -> JSON:
    """Return the parts of a pod that can be in a repository."""
    metadata = {"annotations": pod["metadata"].get("annotations", {})}
    spec = {key: value for key, value in pod["spec"].items() if key != "volumes"}
    for part in ("containers", "initContainers"):
        # The name of the volume with the token is drawn.
        spec[part] = [
            {key: value for key, value in each.items() if key != "volumeMounts"}
            for each in spec.get(part, ())
        ]
    return {"metadata": metadata, "spec": spec}


def _has(stage: Stage, collection: str, path: str) -> bool:
    """Return whether a process wrote a field with this part of its path."""
    objects = stage.client.get(collection)["items"]
    return any(path in write.path for write in find_writes("", objects))


def _find_writes(client: Client) -> Iterator[Write]:
    """Yield what processes wrote to objects of each kind that their rights let them write."""
    granted = {(right.group, right.resource) for right in read_roles() if right.verb in WRITING}
    for path, kind in _collections(client, granted):
        yield from find_writes(kind, client.get(path)["items"])


def _collections(client: Client, granted: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield path and kind of resources that can be listed, of the preferred version with each."""
    groups = client.get("/apis")["groups"]
    versions = [(each["name"], v["groupVersion"]) for each in groups for v in each["versions"]]
    left = set(granted)
    for group, version in [("", "v1"), *versions]:
        root = f"/apis/{version}" if group else "/api/v1"
        for resource in client.get(root)["resources"]:
            if (group, resource["name"]) in left and "list" in resource["verbs"]:
                left.remove((group, resource["name"]))
                yield f"{root}/{resource['name']}", resource["kind"]
