"""Scenarios: who owns the fields that a translation changes, and what pruning deletes.

Each pod requests one GPU. Without the label of the namespace, nobody changes its pods.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.installed.installation import (
    Installation,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.installed.kubectl import Kubectl
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, add_gpu_node, claim_of, legacy_pod
from e2e.scenarios.admission_scope import pods_of
from e2e.scenarios.objects import JSON, deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

REQUESTED = {"limits": {LEGACY: "1"}}
CLAIMED = {"claims": [{"name": "drawbridge", "request": "gpu"}]}
BESIDE = "RequestBesideClaim"
ARGO = ("--server-side", "--force-conflicts", "--field-manager=argocd-controller")


@scenario("full", rig="installed", needs=NEEDS)
def what_runs_is_translated_and_undone_whoever_applied_it(stage: Stage) -> None:
    """The commands of migrating.md leave no request beside a claim, and no claim beside one."""
    cluster, kubectl = _enter_unlabelled(stage)
    with _workloads_of_all_clients(stage, kubectl) as names, TemporaryDirectory() as temporary:
        folder = Path(temporary)
        words = ("--context", "-n", stage.namespace, "--output-dir")
        told = cluster.drawbridge("translate", *words, f"{folder / 'new'}").check()
        lines = told.out.splitlines()
        managed = {line.split()[2] for line in lines if line.endswith("[ManagedElsewhere]")}
        assert managed == {f"Deployment/{stage.namespace}/{name}:" for name in ("argo", "helm")}, (
            told
        )
        kubectl("apply", "-f", f"{folder / 'new' / 'drawbridge-templates.yaml'}").check()
        kubectl("replace", "--save-config", "-f", f"{folder / 'new' / 'cluster.yaml'}").check()
        assert _resources(stage, names) == dict.fromkeys(names, CLAIMED)
        for name in names:
            rolled_out(kubectl, name)
        cluster.drawbridge("undo", *words, f"{folder / 'old'}").check()
        kubectl("replace", "--save-config", "-f", f"{folder / 'old' / 'cluster.yaml'}").check()
        assert _resources(stage, names) == dict.fromkeys(names, REQUESTED)
        assert not any("resourceClaims" in _template(stage, name)["spec"] for name in names)


@scenario("full", rig="installed", needs=NEEDS)
def a_request_that_another_field_manager_keeps_is_reported(stage: Stage) -> None:
    """Its pods wait without Drawbridge. `check`, `explain` and `audit` say why; admission helps."""
    cluster, kubectl = _enter_unlabelled(stage)
    body = deployment(legacy_pod(stage, "serve"), 1)
    manifest = cluster.drawbridge("translate", "-f", "-", "--context", "-q", stdin=json.dumps(body))
    kubectl("create", "--field-manager=helm", "-f", "-", stdin=body).check()
    try:
        kubectl("apply", *ARGO, "-f", "-", stdin=manifest.check().out).check()
        assert _resources(stage, ["serve"]) == {"serve": {**REQUESTED, **CLAIMED}}
        live = json.dumps(kubectl.get("deployment", "serve"))
        assert BESIDE in cluster.drawbridge("check", "-f", "-", "--context", stdin=live).out
        waiting = stage.wait("a pod has the claim", lambda: _find_claimed(stage))
        stage.wait_unschedulable(waiting)
        # Its template came after it, in the same apply.
        events = stage.events(waiting)
        assert not any(each.startswith("TemplateOutOfScope") for each in events), events
        assert BESIDE in cluster.drawbridge("explain", waiting, "-n", stage.namespace).out
        assert BESIDE in cluster.drawbridge("audit", stage.namespace).out
        set_mode(stage, "enforce")
        wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
        kubectl("delete", "pod", waiting).check()
        rolled_out(kubectl, "serve")
        kubectl("apply", *ARGO, "-f", "-", stdin=manifest.out).check()
        different = kubectl("diff", *ARGO, "-f", "-", stdin=manifest.out)
        assert (different.code, different.out) == (0, ""), different
    finally:
        _delete(stage, kubectl, "serve")


@scenario("full", rig="installed", needs=NEEDS)
def a_bare_pod_takes_its_manifest_before_and_after_a_commit(stage: Stage) -> None:
    """Whoever translated it, both manifests can be applied, and neither changes the pod."""
    cluster, body = installed(stage), legacy_pod(stage, "bare")
    add_gpu_node(stage)
    wait_for_facts(stage, cluster, body)
    kubectl = cluster.kubectl.inside(stage.namespace)
    asked = json.dumps(body)
    words = ("translate", "-f", "-", "--context", "-n", stage.namespace, "-q")
    committed = cluster.drawbridge(*words, stdin=asked).check().out
    for first, second in ((asked, committed), (committed, asked)):
        kubectl("apply", "-f", "-", stdin=first).check()
        before = stage.wait_running("bare")
        for manifest in (second, first, second):
            for way in ((), ARGO):
                kubectl("apply", *way, "-f", "-", stdin=manifest).check()
        after = stage.get_pod("bare")
        for each in (before, after):
            each["spec"]["tolerations"].sort(key=json.dumps)
        assert (after["metadata"]["uid"], after["spec"]) == (
            before["metadata"]["uid"],
            before["spec"],
        )
        stage.delete_pod("bare")


@scenario("full", rig="installed", needs=NEEDS)
def pruning_deletes_no_object_that_admission_made(stage: Stage) -> None:
    """An ApplySet of legacy manifests prunes what leaves it, and claims end with their pods."""
    cluster, body = installed(stage), legacy_pod(stage, "bare")
    add_gpu_node(stage)
    wait_for_facts(stage, cluster, body)
    kubectl = cluster.kubectl.inside(stage.namespace)
    serve = deployment(legacy_pod(stage, "serve"), 1)
    try:
        _apply_set(kubectl, stage, serve, body)
        stage.wait_running("bare")
        rolled_out(kubectl, "serve")
        (template,), (_, claim) = template_names(stage), claim_of(stage, "bare")
        before = stage.get_pod("bare")
        assert "prune" not in _apply_set(kubectl, stage, serve, body)
        after = stage.get_pod("bare")
        assert (after["metadata"]["uid"], after["spec"]) == (
            before["metadata"]["uid"],
            before["spec"],
        )
        assert "pod/bare pruned" in _apply_set(kubectl, stage, serve)
        stage.wait_gone(stage.claim_path(claim))
        assert template_names(stage) == [template]
        (pod,) = pods_of(stage, "serve")
        assert pod["status"]["phase"] == "Running"
    finally:
        _delete(stage, kubectl, "serve")


def rolled_out(kubectl: Kubectl, name: str) -> None:
    """Wait until a Deployment has its new pods."""
    kubectl("rollout", "status", f"deployment/{name}", "--timeout=30s").check()


def _enter_unlabelled(stage: Stage) -> tuple[Installation, Kubectl]:
    """Add a machine with a driver and one with a plugin, in a namespace without the label."""
    cluster = installed(stage)
    stage.node("new", "dgx-a100", {GPU: "full"})
    units = tuple(each.uuid for each in stage.hardware("old", "dgx-a100").gpus)
    stage.node("old", "dgx-a100", plugins={LEGACY: units})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"), "A100")
    set_mode(stage, None)
    return cluster, cluster.kubectl.inside(stage.namespace)


@contextmanager
def _workloads_of_all_clients(stage: Stage, kubectl: Kubectl) -> Iterator[list[str]]:
    """Create a Deployment as each client does that owns fields in its own way."""
    ways = {
        "argo": ("apply", *ARGO),
        "helm": ("create", "--field-manager=helm"),
        "person": ("apply",),
        "script": ("create",),
    }
    for name, words in ways.items():
        kubectl(*words, "-f", "-", stdin=deployment(legacy_pod(stage, name), 1)).check()
    try:
        for name in ways:
            rolled_out(kubectl, name)
        yield [*ways]
    finally:
        for name in ways:
            _delete(stage, kubectl, name)


def _template(stage: Stage, name: str) -> JSON:
    written = stage.client.get(stage.path("deployments", name, "/apis/apps/v1"))
    template: JSON = written["spec"]["template"]
    return template


def _resources(stage: Stage, names: list[str]) -> Mapping[str, JSON]:
    return {name: _template(stage, name)["spec"]["containers"][0]["resources"] for name in names}


def _find_claimed(stage: Stage) -> str:
    """Return the name of a pod with a claim; empty if there is none."""
    pods = stage.client.get(stage.pod_path())["items"]
    names = (each["metadata"]["name"] for each in pods if each["spec"].get("resourceClaims"))
    return next(names, "")


def _apply_set(kubectl: Kubectl, stage: Stage, *objects: JSON) -> str:
    """Apply objects as a set that deletes its former members, and return what kubectl says."""
    with TemporaryDirectory() as folder:
        for number, each in enumerate(objects):
            Path(folder, f"{number}.json").write_text(json.dumps(each), encoding="utf-8")
        words = f"-n {stage.namespace} apply --server-side --applyset=set --prune -f {folder}"
        return kubectl.shell(f"KUBECTL_APPLYSET=true kubectl {words}").check().out


def _delete(stage: Stage, kubectl: Kubectl, name: str) -> None:
    """Delete a Deployment, which otherwise creates pods during the clean-up."""
    kubectl("delete", "deployment", name).check()
    stage.wait("its pods are gone", lambda: not pods_of(stage, name))
