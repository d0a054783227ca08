"""Scenarios: what users of kubectl see of admission."""

import json
import re

from e2e.controlplane.processes import suspended
from e2e.installed import manifest
from e2e.installed.installation import (
    Installation,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.installed.kubectl import Kubectl
from e2e.nodes.machine import Machine
from e2e.scenarios.objects import JSON, RESOURCE, deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
LEGACY = "nvidia.com/gpu"
ORIGINAL, FACTS = "drawbridge.dev/original", "drawbridge.dev/facts"
NEEDS = ("processes", "loopback")
# The controller waits 3 s for the client of a new pod; the rest is for a busy machine.
SOON = 10.0
AGE = re.compile(r"\d+[smh] ago")


def legacy_pod(stage: Stage, name: str, count: int = 1, **metadata: object) -> JSON:
    """Return a pod that requests GPUs of a device plugin, on this stage's nodes."""
    pod = stage.pod_object(name, limits={LEGACY: f"{count}"})
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def add_gpu_node(stage: Stage, suffix: str = "a") -> Machine:
    """Add a node with two GPUs that a driver serves, without a device plugin."""
    return stage.node(suffix, "lab-2g2n", {GPU: "full"})


def prepare_pod(stage: Stage, name: str = "train") -> tuple[Installation, Kubectl, JSON]:
    """Add a GPU node, and return kubectl and a pod as soon as admission translates it."""
    cluster, body = installed(stage), legacy_pod(stage, name)
    add_gpu_node(stage)
    wait_for_facts(stage, cluster, body)
    return cluster, cluster.kubectl.inside(stage.namespace), body


def claim_of(stage: Stage, name: str) -> tuple[str, str]:
    """Return the name of a pod's template and of the claim generated from it."""
    (entry,) = stage.get_pod(name)["spec"]["resourceClaims"]
    return entry["resourceClaimTemplateName"], stage.generated_claim(name)


def devices(stage: Stage, name: str) -> list[str]:
    """List the devices allocated to a pod's claim as driver/pool/device."""
    results = stage.allocated(claim_of(stage, name)[1])
    return sorted(f"{each['driver']}/{each['pool']}/{each['device']}" for each in results)


@scenario("smoke", rig="installed", needs=NEEDS)
def a_legacy_pod_runs_on_the_devices_of_its_claim(stage: Stage) -> None:
    """`kubectl apply` prints the translation. The pod runs on the devices of its claim."""
    cluster = installed(stage)
    machine = add_gpu_node(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = legacy_pod(stage, "train", 2)
    wait_for_facts(stage, cluster, body)
    ran = kubectl.apply(body).check()
    assert ran.out == "pod/train created\n", ran
    assert ran.warnings[0] == (
        f"translated: {LEGACY}: 2 of container main -> 2 devices of class {GPU} (claim drawbridge)"
    ), ran
    assert all(len(each) <= 256 for each in ran.warnings)
    pod = stage.wait_running("train")
    assert pod["spec"]["containers"][0]["resources"] == {
        "claims": [{"name": "drawbridge", "request": "gpu"}]
    }
    assert pod["metadata"]["annotations"][FACTS] == cluster.facts_hash()
    template, claim = claim_of(stage, "train")
    assert template_names(stage) == [template]
    assert stage.get_claim(claim)["metadata"]["ownerReferences"][0]["name"] == "train"
    held = devices(stage, "train")
    assert held == stage.fleet.held_by(pod)
    assert [each.rpartition("/")[0] for each in held] == [f"{GPU}/{machine.name}"] * 2
    words = ("explain", "train", "-n", stage.namespace)
    told = cluster.drawbridge(*words).check().out
    again = AGE.sub("", cluster.plugin(*words).check().out)
    assert again == AGE.sub("", told)
    assert f"{LEGACY}  2" in told, told
    assert all(each in told for each in (template, claim, *held)), told


@scenario("smoke", rig="installed", needs=NEEDS)
def a_dry_run_shows_the_translation_and_creates_no_object(stage: Stage) -> None:
    """`--dry-run=server` prints the same warnings and the translated pod."""
    _, kubectl, body = prepare_pod(stage)
    tried = kubectl.apply(body, words=("--dry-run=server",)).check()
    shown = kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=body).check()
    assert f'"{ORIGINAL}"' in shown.out, shown
    assert LEGACY not in shown.out.partition('"spec"')[2].partition('"tolerations"')[0], shown
    assert template_names(stage) == []
    assert not stage.exists(stage.pod_path("train"))
    applied = kubectl.apply(body).check()
    assert tried.warnings == applied.warnings, f"{tried}{applied}"
    assert len(template_names(stage)) == 1
    stage.wait_running("train")


@scenario("smoke", rig="installed", needs=NEEDS)
def applying_a_legacy_manifest_again_changes_nothing(stage: Stage) -> None:
    """`apply`, `diff` and `replace` of a running pod succeed and leave it unchanged."""
    _, kubectl, body = prepare_pod(stage)
    kubectl.apply(body).check()
    before = stage.wait_running("train")
    different = kubectl("diff", "-f", "-", stdin=body)
    assert (different.code, different.out) == (0, ""), different
    kubectl.apply(body).check()
    kubectl("replace", "-f", "-", stdin=stage.get_pod("train")).check()
    after = stage.get_pod("train")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    for key in (ORIGINAL, FACTS):
        assert after["metadata"]["annotations"][key] == before["metadata"]["annotations"][key]
    kubectl("replace", "--force", "-f", "-", stdin=body).check()
    again = stage.wait_running("train")
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    assert again["spec"]["resourceClaims"] == before["spec"]["resourceClaims"]


@scenario("smoke", rig="installed", needs=NEEDS)
def server_side_apply_of_a_legacy_manifest_can_be_repeated(stage: Stage) -> None:
    """Server-side apply reports no field conflict with the webhook."""
    _, kubectl, body = prepare_pod(stage)
    kubectl.apply(body, words=("--server-side",)).check()
    before = stage.wait_running("train")
    kubectl.apply(body, words=("--server-side",)).check()
    after = stage.get_pod("train")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    # After a client-side apply, the API server keeps its manager as owner of the request.
    kubectl.apply(body).check()
    kubectl.apply(body, words=("--server-side", "--force-conflicts")).check()
    assert stage.get_pod("train")["spec"] == before["spec"]


@scenario("smoke", rig="installed", needs=NEEDS)
def the_pods_of_a_deployment_are_translated(stage: Stage) -> None:
    """Applying it prints the translation. Each pod has its own claim, all from one template."""
    cluster = installed(stage)
    add_gpu_node(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    pod = legacy_pod(stage, "serve")
    wait_for_facts(stage, cluster, pod)
    ran = kubectl.apply(deployment(pod, 2)).check()
    assert any(LEGACY in each for each in ran.warnings), ran
    kubectl("wait", "deployment/serve", "--for=condition=Available", "--timeout=30s").check()
    pods = stage.client.get(stage.pod_path())["items"]
    names = [each["metadata"]["name"] for each in pods]
    held = [device for name in names for device in devices(stage, name)]
    assert len(set(held)) == 2, held
    assert len(template_names(stage)) == 1
    written = stage.client.get(stage.path("deployments", "serve", "/apis/apps/v1"))
    asked = written["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert asked == {LEGACY: "1"}
    # Otherwise it would create new ones during clean-up.
    # In the background: on 1.34 claims block the deletion of their pods in the foreground.
    kubectl("delete", "deployment", "serve").check()
    stage.wait("its pods are gone", lambda: not stage.client.get(stage.pod_path())["items"])


@scenario("smoke", rig="installed", needs=NEEDS)
def pods_in_a_namespace_without_the_label_stay_unchanged(stage: Stage) -> None:
    """The webhook sends no warning. A device plugin serves the pod."""
    cluster = installed(stage, mode="")
    hardware = stage.hardware("a", "lab-2g2n")
    units = tuple(each.uuid for each in hardware.gpus)
    stage.node("a", "lab-2g2n", plugins={LEGACY: units})
    ran = cluster.kubectl.inside(stage.namespace).apply(legacy_pod(stage, "train")).check()
    assert ran.err == "", ran
    pod = stage.wait_running("train")
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    assert ORIGINAL not in pod["metadata"]["annotations"]
    assert template_names(stage) == []


@scenario("smoke", rig="installed", needs=NEEDS)
def the_controller_recreates_the_template_of_a_pending_pod(stage: Stage) -> None:
    """A user deletes the template before its claim exists. The pod still runs."""
    cluster, _, body = prepare_pod(stage)
    with suspended(stage.processes.processes["kube-controller-manager"]):
        cluster.kubectl.inside(stage.namespace).apply(body).check()
        (name,) = template_names(stage)
        path = stage.path("resourceclaimtemplates", name, RESOURCE)
        gone = stage.client.get(path)["metadata"]["uid"]
        stage.client.delete(path)
        again = stage.wait("the template exists again", lambda: stage.client.get(path), SOON)
        assert again["metadata"]["uid"] != gone
    stage.wait_running("train")


@scenario("full", rig="installed", needs=NEEDS)
def an_invalid_mode_label_of_a_namespace_is_reported(stage: Stage) -> None:
    """The first pod created in the namespace gets a warning."""
    cluster = installed(stage, mode="enforced")
    kubectl = cluster.kubectl.inside(stage.namespace)
    told = stage.wait("the warning", lambda: _told(kubectl, legacy_pod(stage, "train")))
    assert "enforced" in told[0], told


def _told(kubectl: Kubectl, body: JSON) -> list[str]:
    """Try to apply, and return the warnings; none while the API server does not know the label."""
    return kubectl.apply(body, words=("--dry-run=server",)).check().warnings


@scenario("full", rig="installed", needs=NEEDS)
def a_pod_opts_out_by_its_label(stage: Stage) -> None:
    """The pod stays unchanged and gets no warning."""
    cluster, _, _ = prepare_pod(stage, "probe")
    labels = {"drawbridge.dev/translate": "off"}
    ran = (
        cluster.kubectl.inside(stage.namespace)
        .apply(legacy_pod(stage, "train", labels=labels))
        .check()
    )
    assert ran.err == "", ran
    assert ORIGINAL not in stage.get_pod("train")["metadata"]["annotations"]


@scenario("full", rig="installed", needs=NEEDS)
def removing_the_namespace_label_stops_translation(stage: Stage) -> None:
    """New pods stay legacy. Translated pods keep running and can be applied again."""
    _, kubectl, body = prepare_pod(stage, "old")
    kubectl.apply(body).check()
    before = stage.wait_running("old")
    set_mode(stage, None)
    probe = legacy_pod(stage, "probe")
    stage.wait("the label is gone", lambda: not _told(kubectl, probe))
    kubectl.apply(body).check()
    different = kubectl("diff", "-f", "-", stdin=body)
    assert (different.code, different.out) == (0, ""), different
    after = stage.get_pod("old")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    kubectl.apply(legacy_pod(stage, "new")).check()
    new = stage.get_pod("new")
    assert new["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    assert ORIGINAL not in new["metadata"]["annotations"]


@scenario("full", rig="installed", needs=NEEDS)
def installing_a_second_time_keeps_the_managed_fields(stage: Stage) -> None:
    """A second `kubectl apply` keeps the CA bundle and the controller's match conditions."""
    cluster = installed(stage)
    before = cluster.kubectl.get("mutatingwebhookconfiguration", "drawbridge")["webhooks"]
    assert [each["name"] for each in before[0]["matchConditions"]] == ["asks-for-devices"]
    rendered = cluster.kubectl("kustomize", str(manifest.BASE)).check().out
    cluster.kubectl("apply", "-f", "-", stdin=rendered).check()
    cluster.replace_pods()
    after = cluster.kubectl.get("mutatingwebhookconfiguration", "drawbridge")["webhooks"]
    assert after == before


@scenario("full", rig="installed", needs=NEEDS)
def explain_names_the_claim_that_a_pending_pod_waits_for(stage: Stage) -> None:
    """Both GPUs are in use. `explain` prints the scheduler's message and the pending claim."""
    cluster = installed(stage)
    add_gpu_node(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = legacy_pod(stage, "first", 2)
    wait_for_facts(stage, cluster, body)
    kubectl.apply(body).check()
    stage.wait_running("first")
    kubectl.apply(legacy_pod(stage, "second")).check()
    claim = claim_of(stage, "second")[1]
    stage.wait_unschedulable("second")
    ran = cluster.drawbridge("explain", "second", "-n", stage.namespace)
    assert ran.code == 1, ran
    assert f"ResourceClaim/{stage.namespace}/{claim}: no devices allocated" in ran.out
    assert "cannot allocate all claims" in ran.out, ran


@scenario("full", rig="installed", needs=NEEDS)
def the_facts_command_agrees_with_the_published_facts(stage: Stage) -> None:
    """`drawbridge config facts` computes the same facts as the leading controller."""
    cluster = installed(stage)
    machine = add_gpu_node(stage)

    def same() -> bool:
        ran = cluster.drawbridge("config", "facts", "--context", "-o", "json").check()
        assert machine.product["name"] in ran.out, ran
        return bool(json.loads(ran.out)["hash"] == cluster.facts_hash())

    stage.wait("the controller has counted the node", same)
