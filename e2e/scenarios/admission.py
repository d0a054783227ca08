"""What users of kubectl see of admission: applied, tried, applied again, in and out of scope."""

import contextlib
import json
import signal
from collections.abc import Iterator

from e2e.controlplane.processes import Process
from e2e.installed import manifest
from e2e.installed.installation import NAMESPACE, in_step, installed, opt_in, template_names
from e2e.installed.kubectl import Kubectl
from e2e.nodes.machine import Machine
from e2e.scenarios.objects import JSON, RESOURCE
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
LEGACY = "nvidia.com/gpu"
ORIGINAL, FACTS = "drawbridge.dev/original", "drawbridge.dev/facts"
NEEDS = ("processes", "loopback")
# Made again "within a second"; the rest is this machine's, which does other things beside.
SOON = 3.0


def legacy(stage: Stage, name: str, count: int = 1, **metadata: object) -> JSON:
    """Give a pod that asks a device plugin for GPUs, on this stage's nodes."""
    pod = stage.pod_object(name, limits={LEGACY: f"{count}"})
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def deployment(pod: JSON, replicas: int) -> JSON:
    """Give a Deployment of such pods, with the pod's name."""
    name = pod["metadata"]["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]},
        },
    }


def gpus(stage: Stage, suffix: str = "a") -> Machine:
    """Add a node with two GPUs, which a driver serves and no device plugin."""
    return stage.node(suffix, "lab-2g2n", {GPU: "full"})


def claim_of(stage: Stage, name: str) -> tuple[str, str]:
    """Name the template that a pod refers to, and the claim that was made from it."""
    (entry,) = stage.get_pod(name)["spec"]["resourceClaims"]
    return entry["resourceClaimTemplateName"], stage.generated_claim(name)


def devices(stage: Stage, name: str) -> list[str]:
    """List what a pod's claim was allocated, as driver/pool/device."""
    results = stage.allocated(claim_of(stage, name)[1])
    return sorted(f"{each['driver']}/{each['pool']}/{each['device']}" for each in results)


@contextlib.contextmanager
def frozen(process: Process) -> Iterator[None]:
    """Let a process stand still."""
    process.child.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.child.send_signal(signal.SIGCONT)


@scenario("smoke", rig="installed", needs=NEEDS)
def a_legacy_pod_runs_on_the_devices_of_its_claim(stage: Stage) -> None:
    """`kubectl apply` says what the pod became; it runs on what its claim was allocated."""
    town = installed(stage)
    machine = gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train", 2)
    in_step(stage, town, body)
    ran = kubectl.apply(body).done()
    assert ran.out == "pod/train created\n", ran
    assert ran.warnings[0] == (
        f"translated: {LEGACY}: 2 of container main -> 2 devices of class {GPU} (claim drawbridge)"
    ), ran
    assert all(len(each) <= 256 for each in ran.warnings)
    pod = stage.running("train")
    assert pod["spec"]["containers"][0]["resources"] == {
        "claims": [{"name": "drawbridge", "request": "gpu"}]
    }
    assert pod["metadata"]["annotations"][FACTS] == town.facts_hash()
    template, claim = claim_of(stage, "train")
    assert template_names(stage) == [template]
    assert stage.get_claim(claim)["metadata"]["ownerReferences"][0]["name"] == "train"
    held = devices(stage, "train")
    assert held == stage.fleet.held_by(pod)
    assert [each.rpartition("/")[0] for each in held] == [f"{GPU}/{machine.name}"] * 2
    words = ("explain", "train", "-n", stage.namespace)
    told = town.drawbridge(*words).done().out
    assert town.plugin(*words).done().out == told
    assert f"{LEGACY}  2" in told, told
    assert all(each in told for each in (template, claim, *held)), told


@scenario("smoke", rig="installed", needs=NEEDS)
def a_dry_run_tells_everything_and_leaves_nothing(stage: Stage) -> None:
    """`--dry-run=server` prints the same warnings and the translated pod, and makes no object."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    tried = kubectl.apply(body, words=("--dry-run=server",)).done()
    shown = kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=body).done()
    assert f'"{ORIGINAL}"' in shown.out, shown
    assert LEGACY not in shown.out.partition('"spec"')[2].partition('"tolerations"')[0], shown
    assert template_names(stage) == []
    assert not stage.exists(stage.pod_path("train"))
    applied = kubectl.apply(body).done()
    assert tried.warnings == applied.warnings, f"{tried}{applied}"
    assert len(template_names(stage)) == 1
    stage.running("train")


@scenario("smoke", rig="installed", needs=NEEDS)
def applying_a_legacy_manifest_again_changes_nothing(stage: Stage) -> None:
    """`apply`, `diff` and `replace` of what runs succeed, and the pod stays as it is."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    kubectl.apply(body).done()
    before = stage.running("train")
    different = kubectl("diff", "-f", "-", given=body)
    assert (different.code, different.out) == (0, ""), different
    kubectl.apply(body).done()
    kubectl("replace", "-f", "-", given=stage.get_pod("train")).done()
    after = stage.get_pod("train")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    for key in (ORIGINAL, FACTS):
        assert after["metadata"]["annotations"][key] == before["metadata"]["annotations"][key]
    kubectl("replace", "--force", "-f", "-", given=body).done()
    again = stage.running("train")
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    assert again["spec"]["resourceClaims"] == before["spec"]["resourceClaims"]


@scenario("smoke", rig="installed", needs=NEEDS)
def server_side_apply_of_a_legacy_manifest_can_be_repeated(stage: Stage) -> None:
    """Who applies on the server's side from the beginning meets no conflict with us."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    kubectl.apply(body, words=("--server-side",)).done()
    before = stage.running("train")
    kubectl.apply(body, words=("--server-side",)).done()
    after = stage.get_pod("train")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    # Where the client's side came first, the API server keeps it as the owner of what was asked.
    kubectl.apply(body).done()
    kubectl.apply(body, words=("--server-side", "--force-conflicts")).done()
    assert stage.get_pod("train")["spec"] == before["spec"]


@scenario("smoke", rig="installed", needs=NEEDS)
def the_pods_of_a_deployment_are_translated(stage: Stage) -> None:
    """Its author is told at once; each of its pods has a claim of its own, all of one template."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    pod = legacy(stage, "serve")
    in_step(stage, town, pod)
    ran = kubectl.apply(deployment(pod, 2)).done()
    assert any(LEGACY in each for each in ran.warnings), ran
    kubectl("wait", "deployment/serve", "--for=condition=Available", "--timeout=30s").done()
    pods = stage.client.get(stage.pod_path())["items"]
    names = [each["metadata"]["name"] for each in pods]
    held = [device for name in names for device in devices(stage, name)]
    assert len(set(held)) == 2, held
    assert len(template_names(stage)) == 1
    written = stage.client.get(stage.path("deployments", "serve", "/apis/apps/v1"))
    asked = written["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert asked == {LEGACY: "1"}
    # Or it would make new ones while the stage is cleared.
    # In the background: the claims of 1.34 keep their pods from going in the foreground.
    kubectl("delete", "deployment", "serve").done()
    stage.wait("its pods are gone", lambda: not stage.client.get(stage.pod_path())["items"])


@scenario("smoke", rig="installed", needs=NEEDS)
def a_namespace_without_the_label_is_left_alone(stage: Stage) -> None:
    """Nothing is said and nothing is changed; a device plugin serves the pod as ever."""
    town = installed(stage, mode="")
    hardware = stage.hardware("a", "lab-2g2n")
    units = tuple(each.uuid for each in hardware.gpus)
    stage.node("a", "lab-2g2n", plugins={LEGACY: units})
    ran = town.kubectl.inside(stage.namespace).apply(legacy(stage, "train")).done()
    assert ran.err == "", ran
    pod = stage.running("train")
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    assert ORIGINAL not in pod["metadata"]["annotations"]
    assert template_names(stage) == []


@scenario("smoke", rig="installed", needs=NEEDS)
def a_template_that_a_waiting_pod_lacks_is_made_again(stage: Stage) -> None:
    """Somebody deletes the template before a claim was made from it; the pod runs all the same."""
    town = installed(stage)
    gpus(stage)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with frozen(stage.processes.processes["kube-controller-manager"]):
        town.kubectl.inside(stage.namespace).apply(body).done()
        (name,) = template_names(stage)
        path = stage.path("resourceclaimtemplates", name, RESOURCE)
        gone = stage.client.get(path)["metadata"]["uid"]
        stage.client.delete(path)
        again = stage.wait("the template is there again", lambda: stage.client.get(path), SOON)
        assert again["metadata"]["uid"] != gone
    stage.running("train")


@scenario("full", rig="installed", needs=NEEDS)
def a_label_that_means_nothing_is_told(stage: Stage) -> None:
    """Whoever misspelt the mode of a namespace hears of it with the first pod."""
    town = installed(stage, mode="enforced")
    kubectl = town.kubectl.inside(stage.namespace)
    told = stage.wait("the warning", lambda: _told(kubectl, legacy(stage, "train")))
    assert "enforced" in told[0], told


def _told(kubectl: Kubectl, body: JSON) -> list[str]:
    """Try to apply, and give the warnings; none while the API server does not know the label."""
    return kubectl.apply(body, words=("--dry-run=server",)).done().warnings


@scenario("full", rig="installed", needs=NEEDS)
def a_pod_opts_out_by_its_label(stage: Stage) -> None:
    """It stays as its manifest says, and nothing is said of it."""
    town = installed(stage)
    gpus(stage)
    in_step(stage, town, legacy(stage, "probe"))
    labels = {"drawbridge.dev/translate": "off"}
    ran = town.kubectl.inside(stage.namespace).apply(legacy(stage, "train", labels=labels)).done()
    assert ran.err == "", ran
    assert ORIGINAL not in stage.get_pod("train")["metadata"]["annotations"]


@scenario("full", rig="installed", needs=NEEDS)
def a_namespace_can_go_back(stage: Stage) -> None:
    """Without the label new pods are legacy; old ones run on, and can still be applied again."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "old")
    in_step(stage, town, body)
    kubectl.apply(body).done()
    before = stage.running("old")
    opt_in(stage, None)
    probe = legacy(stage, "probe")
    stage.wait("the label is gone", lambda: not _told(kubectl, probe))
    kubectl.apply(body).done()
    different = kubectl("diff", "-f", "-", given=body)
    assert (different.code, different.out) == (0, ""), different
    after = stage.get_pod("old")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    kubectl.apply(legacy(stage, "new")).done()
    new = stage.get_pod("new")
    assert new["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    assert ORIGINAL not in new["metadata"]["annotations"]


@scenario("full", rig="installed", needs=NEEDS)
def what_the_manifests_say_can_be_applied_again(stage: Stage) -> None:
    """A second `kubectl apply` keeps the certificate authority and the controller's conditions."""
    town = installed(stage)
    before = town.kubectl.get("mutatingwebhookconfiguration", "drawbridge")["webhooks"]
    assert [each["name"] for each in before[0]["matchConditions"]] == ["asks-for-devices"]
    rendered = town.kubectl("kustomize", str(manifest.BASE)).done().out
    town.kubectl("apply", "-f", "-", given=rendered).done()
    town.kubectl.inside(NAMESPACE)("scale", "deployment", "--all", "--replicas=0").done()
    after = town.kubectl.get("mutatingwebhookconfiguration", "drawbridge")["webhooks"]
    assert after == before


@scenario("full", rig="installed", needs=NEEDS)
def explain_says_what_a_waiting_pod_lacks(stage: Stage) -> None:
    """Both GPUs are held, and whoever asks hears what the scheduler says and which claim waits."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "first", 2)
    in_step(stage, town, body)
    kubectl.apply(body).done()
    stage.running("first")
    kubectl.apply(legacy(stage, "second")).done()
    claim = claim_of(stage, "second")[1]
    stage.unschedulable("second")
    ran = town.drawbridge("explain", "second", "-n", stage.namespace)
    assert ran.code == 1, ran
    assert f"ResourceClaim/{stage.namespace}/{claim}: no devices allocated" in ran.out
    assert "cannot allocate all claims" in ran.out, ran


@scenario("full", rig="installed", needs=NEEDS)
def the_facts_of_the_command_are_those_that_were_published(stage: Stage) -> None:
    """`drawbridge facts` counts what the leading controller counted."""
    town = installed(stage)
    machine = gpus(stage)

    def same() -> bool:
        ran = town.drawbridge("facts", "--context", "-o", "json").done()
        assert machine.product["name"] in ran.out, ran
        return bool(json.loads(ran.out)["hash"] == town.facts_hash())

    stage.wait("the controller has counted the node", same)
