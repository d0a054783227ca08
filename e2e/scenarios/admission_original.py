"""Scenarios: a tenant forges, copies or removes `drawbridge.dev/original`.

The annotation never changes another pod, adds no device that the pod did not request openly, and
causes no template that admission would not have created.
"""

import json

from e2e.controlplane.processes import suspended
from e2e.installed.installation import (
    MODE,
    TEMPLATES,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.scenarios.admission import (
    FACTS,
    LEGACY,
    NEEDS,
    ORIGINAL,
    SOON,
    add_gpu_node,
    claim_of,
    devices,
    legacy_pod,
    prepare_pod,
)
from e2e.scenarios.objects import JSON, RESOURCE
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

HOST = {"name": "host", "hostPath": {"path": "/"}}
# Privileges that a tenant could try to gain from the undo patch.
PRIVILEGES: list[JSON] = [
    {"op": "add", "path": "/spec/hostPID", "value": True},
    {"op": "add", "path": "/spec/hostNetwork", "value": True},
    {"op": "add", "path": "/spec/volumes/0", "value": HOST},
    {"op": "add", "path": "/spec/containers/0/securityContext", "value": {"privileged": True}},
]
ANOTHER_GPU: list[JSON] = [
    {"op": "replace", "path": "/spec/containers/0/resources/limits", "value": {LEGACY: "2"}}
]
PARTS = ("hostPID", "hostNetwork")


def forged_pod(stage: Stage, name: str, operations: list[JSON]) -> JSON:
    """Return a legacy pod that says to have been something else."""
    return legacy_pod(stage, name, annotations={ORIGINAL: json.dumps(operations)})


def check_no_privileges(pod: JSON) -> None:
    """Check that nothing of the harm is in a pod."""
    spec = pod["spec"]
    assert not [part for part in PARTS if spec.get(part)], spec
    assert not [each for each in spec.get("volumes", ()) if "hostPath" in each], spec
    assert not [each for each in spec["containers"] if each.get("securityContext")], spec


def template_path(stage: Stage, name: str) -> str:
    """Return the path of a template."""
    return stage.path(TEMPLATES, name, RESOURCE)


def wait_for_event(stage: Stage, pod: str, code: str) -> str:
    """Wait for an event of a pod, and return what it says."""

    def message() -> str:
        told = [each for each in stage.events(pod) if each.startswith(f"{code}: ")]
        return told[0] if told else ""

    return stage.wait(f"event {code} of {pod}", message)


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_undo_patch_adds_no_privileges(stage: Stage) -> None:
    """A pod whose annotation describes a privileged original gets its GPU and nothing else."""
    _, kubectl, _ = prepare_pod(stage)
    body = forged_pod(stage, "train", PRIVILEGES)
    kubectl.apply(body).check()
    pod = stage.wait_running("train")
    check_no_privileges(pod)
    assert len(devices(stage, "train")) == 1
    kubectl.apply(body).check()
    kubectl("label", "pod", "train", "team=a").check()
    kubectl("replace", "-f", "-", stdin=stage.get_pod("train")).check()
    after = stage.get_pod("train")
    assert after["spec"] == pod["spec"]
    assert after["metadata"]["annotations"][ORIGINAL] == pod["metadata"]["annotations"][ORIGINAL]
    # The API server rejects the same change in an ordinary update.
    openly = {**after, "spec": {**after["spec"], "hostPID": True}}
    ran = kubectl("replace", "-f", "-", stdin=openly)
    assert ran.code == 1, ran
    check_no_privileges(stage.get_pod("train"))


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_amount_adds_no_device(stage: Stage) -> None:
    """A pod whose annotation says two GPUs gets the one of its manifest and cannot add one."""
    _, kubectl, _ = prepare_pod(stage)
    body = forged_pod(stage, "train", ANOTHER_GPU)
    kubectl.apply(body).check()
    pod = stage.wait_running("train")
    assert len(devices(stage, "train")) == 1
    # The annotation and the manifest disagree, so the update is refused.
    ran = kubectl.apply(body)
    assert "DevicesFixed" in ran.err, ran
    kubectl.apply({**body, "spec": legacy_pod(stage, "train", 2)["spec"]})
    after = stage.get_pod("train")
    assert after["spec"] == pod["spec"]
    assert len(devices(stage, "train")) == 1


@scenario("smoke", rig="installed", needs=NEEDS)
def a_forged_undo_patch_creates_no_other_template(stage: Stage) -> None:
    """Its template is deleted. The forged original has another hash, so nothing is written."""
    _, kubectl, _ = prepare_pod(stage, "lies")
    with suspended(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(forged_pod(stage, "lies", ANOTHER_GPU)).check()
        (name,) = template_names(stage)
        stage.client.delete(template_path(stage, name))
        told = wait_for_event(stage, "lies", "TemplateNotReproduced")
        assert name in told, told
        assert template_names(stage) == []
        # Only the forged pod waits. Another pod with the same request gets the template from
        # admission, or from the controller if admission has not seen the deletion.
        kubectl.apply(legacy_pod(stage, "honest")).check()
        stage.wait("the template exists again", lambda: template_names(stage) == [name])
    for pod in ("honest", "lies"):
        check_no_privileges(stage.wait_running(pod))
        assert len(devices(stage, pod)) == 1


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_original_with_the_same_request_restores_only_the_template(stage: Stage) -> None:
    """The forged original adds a privileged container. Only the correct template is created."""
    cluster, _, _ = prepare_pod(stage)
    with suspended(stage.processes.processes["kube-controller-manager"]):
        cluster.kubectl.inside(stage.namespace).apply(
            forged_pod(stage, "train", PRIVILEGES)
        ).check()
        (name,) = template_names(stage)
        path = template_path(stage, name)
        before = stage.client.get(path)
        stage.client.delete(path)
        again = stage.wait("the template exists again", lambda: stage.client.get(path), SOON)
        assert again["spec"] == before["spec"]
    check_no_privileges(stage.wait_running("train"))


def copy_of(pod: JSON, name: str) -> JSON:
    """Return a pod as somebody makes one of another: `get -o yaml`, another name, `create`."""
    kept = ("labels", "annotations")
    metadata = {key: pod["metadata"][key] for key in kept if key in pod["metadata"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    whole = {"apiVersion": "v1", "kind": "Pod"}
    return {**whole, "metadata": {**metadata, "name": name}, "spec": spec}


@scenario("full", rig="installed", needs=NEEDS)
def a_copy_of_a_translated_pod_gets_its_own_claim(stage: Stage) -> None:
    """It runs on another device. A missing template is created again."""
    cluster = installed(stage)
    stage.node("a", "dgx-a100", {"gpu.nvidia.com": "full"})
    kubectl = cluster.kubectl.inside(stage.namespace)
    wait_for_facts(stage, cluster, legacy_pod(stage, "first"))
    kubectl.apply(legacy_pod(stage, "first")).check()
    first = stage.wait_running("first")
    copy = copy_of(first, "second")
    ran = kubectl.apply(copy).check()
    assert not [each for each in ran.warnings if each.startswith("translated")], ran
    second = stage.wait_running("second")
    for key in (ORIGINAL, FACTS):
        assert second["metadata"]["annotations"][key] == first["metadata"]["annotations"][key]
    (name,) = template_names(stage)
    stage.client.delete(template_path(stage, name))
    kubectl("create", "-f", "-", stdin=copy_of(first, "third")).check()
    stage.wait_running("third")
    assert template_names(stage) == [name]
    held = [device for pod in ("first", "second", "third") for device in devices(stage, pod)]
    assert len(set(held)) == 3, held
    kubectl.apply(copy).check()
    assert stage.get_pod("second")["spec"] == second["spec"]


@scenario("full", rig="installed", needs=NEEDS)
def a_copy_in_another_namespace_in_scope_gets_its_template(stage: Stage) -> None:
    """Admission keeps the copy. The controller creates the template from its undo patch."""
    cluster, _, _ = prepare_pod(stage, "first")
    cluster.kubectl.inside(stage.namespace).apply(legacy_pod(stage, "first")).check()
    copy = copy_of(stage.wait_running("first"), "second")
    there = f"{stage.namespace}-too"
    path = f"/api/v1/namespaces/{there}/pods"
    metadata = {"name": there, "labels": {MODE: "enforce"}}
    stage.cluster_object("/api/v1/namespaces", {"metadata": metadata})
    account = f"/api/v1/namespaces/{there}/serviceaccounts/default"
    stage.wait("the namespace has its account", lambda: stage.exists(account))
    ran = cluster.kubectl.inside(there).apply(copy).check()
    assert ran.err == "", ran
    stage.wait("it runs", lambda: phase(stage.client.get(f"{path}/second")) == "Running")
    assert len(stage.fleet.held_by(stage.client.get(f"{path}/second"))) == 1
    stage.client.delete(f"{path}/second", grace=None)
    stage.wait_gone(f"{path}/second")


def phase(pod: JSON) -> str:
    """Return the phase of a pod."""
    return str(pod.get("status", {}).get("phase", ""))


@scenario("full", rig="installed", needs=NEEDS)
def a_copy_with_another_amount_of_a_claimed_resource_is_denied(stage: Stage) -> None:
    """A container that has a claim for one GPU cannot request two of them in the legacy way."""
    cluster = installed(stage)
    stage.node("a", "dgx-a100", {"gpu.nvidia.com": "full"})
    kubectl = cluster.kubectl.inside(stage.namespace)
    wait_for_facts(stage, cluster, legacy_pod(stage, "first"))
    kubectl.apply(legacy_pod(stage, "first")).check()
    copy = copy_of(stage.wait_running("first"), "second")
    copy["spec"]["containers"][0]["resources"]["limits"] = {LEGACY: "2"}
    ran = kubectl("create", "-f", "-", stdin=copy)
    assert ran.code == 1, ran
    assert "RequestsContradict" in ran.err, ran
    assert not stage.exists(stage.pod_path("second"))


@scenario("full", rig="installed", needs=NEEDS)
def an_update_cannot_remove_the_undo_patch(stage: Stage) -> None:
    """An update keeps the annotation. After a status patch removes it, an event says so."""
    _, kubectl, body = prepare_pod(stage)
    with suspended(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(body).check()
        stands = stage.get_pod("train")["metadata"]["annotations"]
        for change in (f"{ORIGINAL}-", f"{ORIGINAL}={json.dumps(PRIVILEGES)}", f"{FACTS}-"):
            kubectl("annotate", "--overwrite", "pod", "train", change).check()
            assert stage.get_pod("train")["metadata"]["annotations"] == stands, change
        # No webhook is called for the status subresource.
        gone = {"metadata": {"annotations": {ORIGINAL: None}}}
        stage.client.patch(f"{stage.pod_path('train')}/status", gone)
        assert ORIGINAL not in stage.get_pod("train")["metadata"]["annotations"]
        (name,) = template_names(stage)
        stage.client.delete(template_path(stage, name))
        told = wait_for_event(stage, "train", "TemplateNotReproduced")
        assert f"does not have the annotation {ORIGINAL}" in told, told
        assert "Delete the pod" in told, told
        assert template_names(stage) == []
        # Another pod with the same request creates the template for the pending one.
        kubectl.apply(legacy_pod(stage, "other")).check()
    for pod in ("other", "train"):
        stage.wait_running(pod)
        assert claim_of(stage, pod)[0] == name


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_annotation_outside_the_scope_has_no_effect(stage: Stage) -> None:
    """The namespace has never opted in. The pod stays unchanged."""
    cluster = installed(stage, mode="")
    add_gpu_node(stage)
    ran = (
        cluster.kubectl.inside(stage.namespace)
        .apply(forged_pod(stage, "train", PRIVILEGES))
        .check()
    )
    assert ran.err == "", ran
    pod = stage.get_pod("train")
    check_no_privileges(pod)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    set_mode(stage, "enforce")
    kubectl = cluster.kubectl.inside(stage.namespace)
    kubectl("label", "pod", "train", "team=a").check()
    after = stage.get_pod("train")
    assert after["spec"] == pod["spec"]
    assert template_names(stage) == []
