"""What a tenant can write on a pod: the annotation that says the way back is never believed.

Forged, copied or taken away, it changes no other pod, gives nobody more than was asked openly, and
lets the controller write no template that admission would not have written.
"""

import json

from e2e.installed.installation import TEMPLATES, in_step, installed, opt_in, template_names
from e2e.scenarios.admission import (
    FACTS,
    LEGACY,
    NEEDS,
    ORIGINAL,
    SOON,
    claim_of,
    devices,
    frozen,
    gpus,
    legacy,
)
from e2e.scenarios.objects import JSON, RESOURCE
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

HOST = {"name": "host", "hostPath": {"path": "/"}}
# What a tenant would like to be given when somebody goes the way back.
HARM: list[JSON] = [
    {"op": "add", "path": "/spec/hostPID", "value": True},
    {"op": "add", "path": "/spec/hostNetwork", "value": True},
    {"op": "add", "path": "/spec/volumes/0", "value": HOST},
    {"op": "add", "path": "/spec/containers/0/securityContext", "value": {"privileged": True}},
]
MORE: list[JSON] = [
    {"op": "replace", "path": "/spec/containers/0/resources/limits", "value": {LEGACY: "2"}}
]
PARTS = ("hostPID", "hostNetwork")


def forged(stage: Stage, name: str, operations: list[JSON]) -> JSON:
    """Give a legacy pod that says to have been something else."""
    return legacy(stage, name, annotations={ORIGINAL: json.dumps(operations)})


def harmless(pod: JSON) -> None:
    """See that nothing of the harm is in a pod."""
    spec = pod["spec"]
    assert not [part for part in PARTS if spec.get(part)], spec
    assert not [each for each in spec.get("volumes", ()) if "hostPath" in each], spec
    assert not [each for each in spec["containers"] if each.get("securityContext")], spec


def template_path(stage: Stage, name: str) -> str:
    """Give the path of a template."""
    return stage.path(TEMPLATES, name, RESOURCE)


def warned(stage: Stage, pod: str, code: str) -> str:
    """Wait for an event of a pod, and give what it says."""

    def found() -> str:
        told = [each for each in stage.events(pod) if each.startswith(f"{code}: ")]
        return told[0] if told else ""

    return stage.wait(f"event {code} of {pod}", found)


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_way_back_gives_nothing(stage: Stage) -> None:
    """A pod that claims to have been privileged gets its GPU, and no update makes it so."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    in_step(stage, town, legacy(stage, "train"))
    body = forged(stage, "train", HARM)
    kubectl.apply(body).done()
    pod = stage.running("train")
    harmless(pod)
    assert len(devices(stage, "train")) == 1
    kubectl.apply(body).done()
    kubectl("label", "pod", "train", "team=a").done()
    kubectl("replace", "-f", "-", given=stage.get_pod("train")).done()
    after = stage.get_pod("train")
    assert after["spec"] == pod["spec"]
    assert after["metadata"]["annotations"][ORIGINAL] == pod["metadata"]["annotations"][ORIGINAL]
    # Who asks for the harm openly is told by the API server that a pod cannot be changed so.
    openly = {**after, "spec": {**after["spec"], "hostPID": True}}
    ran = kubectl("replace", "-f", "-", given=openly)
    assert ran.code == 1, ran
    harmless(stage.get_pod("train"))


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_amount_is_believed_by_nobody(stage: Stage) -> None:
    """Who claims to have asked for two GPUs has the one of the manifest, and cannot add one."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    in_step(stage, town, legacy(stage, "train"))
    body = forged(stage, "train", MORE)
    kubectl.apply(body).done()
    pod = stage.running("train")
    assert len(devices(stage, "train")) == 1
    # What the lie says was asked is not what the manifest says; nothing is changed quietly.
    ran = kubectl.apply(body)
    assert "DevicesFixed" in ran.err, ran
    kubectl.apply({**body, "spec": legacy(stage, "train", 2)["spec"]})
    after = stage.get_pod("train")
    assert after["spec"] == pod["spec"]
    assert len(devices(stage, "train")) == 1


@scenario("smoke", rig="installed", needs=NEEDS)
def a_forged_way_back_makes_no_other_template(stage: Stage) -> None:
    """Its template is gone, and what the pod claims gives another: nothing is written."""
    town = installed(stage)
    gpus(stage)
    in_step(stage, town, legacy(stage, "lies"))
    kubectl = town.kubectl.inside(stage.namespace)
    with frozen(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(forged(stage, "lies", MORE)).done()
        (name,) = template_names(stage)
        stage.client.delete(template_path(stage, name))
        told = warned(stage, "lies", "TemplateNotReproduced")
        assert name in told, told
        assert template_names(stage) == []
        # Only who lies waits: the template is there again for whoever asks the same; if admission
        # has not heard yet that it went, the controller sees to it.
        kubectl.apply(legacy(stage, "honest")).done()
        stage.wait("the template is there again", lambda: template_names(stage) == [name])
    for pod in ("honest", "lies"):
        harmless(stage.running(pod))
        assert len(devices(stage, pod)) == 1


@scenario("full", rig="installed", needs=NEEDS)
def harm_beside_the_truth_makes_the_template_and_nothing_else(stage: Stage) -> None:
    """The way back leads to the same asking with a privileged container: the template is right."""
    town = installed(stage)
    gpus(stage)
    in_step(stage, town, legacy(stage, "train"))
    with frozen(stage.processes.processes["kube-controller-manager"]):
        town.kubectl.inside(stage.namespace).apply(forged(stage, "train", HARM)).done()
        (name,) = template_names(stage)
        path = template_path(stage, name)
        before = stage.client.get(path)
        stage.client.delete(path)
        again = stage.wait("the template is there again", lambda: stage.client.get(path), SOON)
        assert again["spec"] == before["spec"]
    harmless(stage.running("train"))


def another(pod: JSON, name: str) -> JSON:
    """Give a pod as somebody makes one of another: `get -o yaml`, another name, `create`."""
    kept = ("labels", "annotations")
    metadata = {key: pod["metadata"][key] for key in kept if key in pod["metadata"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    whole = {"apiVersion": "v1", "kind": "Pod"}
    return {**whole, "metadata": {**metadata, "name": name}, "spec": spec}


@scenario("full", rig="installed", needs=NEEDS)
def a_copy_of_a_translated_pod_has_a_claim_of_its_own(stage: Stage) -> None:
    """Under another name it runs on another device; without the template that one is made again."""
    town = installed(stage)
    stage.node("a", "dgx-a100", {"gpu.nvidia.com": "full"})
    kubectl = town.kubectl.inside(stage.namespace)
    in_step(stage, town, legacy(stage, "first"))
    kubectl.apply(legacy(stage, "first")).done()
    first = stage.running("first")
    copy = another(first, "second")
    ran = kubectl.apply(copy).done()
    assert not [each for each in ran.warnings if each.startswith("translated")], ran
    second = stage.running("second")
    for key in (ORIGINAL, FACTS):
        assert second["metadata"]["annotations"][key] == first["metadata"]["annotations"][key]
    (name,) = template_names(stage)
    stage.client.delete(template_path(stage, name))
    kubectl("create", "-f", "-", given=another(first, "third")).done()
    stage.running("third")
    assert template_names(stage) == [name]
    held = [device for pod in ("first", "second", "third") for device in devices(stage, pod)]
    assert len(set(held)) == 3, held
    kubectl.apply(copy).done()
    assert stage.get_pod("second")["spec"] == second["spec"]


@scenario("full", rig="installed", needs=NEEDS)
def a_copy_in_another_namespace_is_given_its_template(stage: Stage) -> None:
    """Opted in or not: what the copy refers to is made there, from what the copy says it asked."""
    town = installed(stage)
    gpus(stage)
    in_step(stage, town, legacy(stage, "first"))
    town.kubectl.inside(stage.namespace).apply(legacy(stage, "first")).done()
    copy = another(stage.running("first"), "second")
    there = f"{stage.namespace}-too"
    path = f"/api/v1/namespaces/{there}/pods"
    stage.cluster_object("/api/v1/namespaces", {"metadata": {"name": there}})
    account = f"/api/v1/namespaces/{there}/serviceaccounts/default"
    stage.wait("the namespace has its account", lambda: stage.exists(account))
    ran = town.kubectl.inside(there).apply(copy).done()
    assert ran.err == "", ran
    stage.wait("it runs", lambda: phase(stage.client.get(f"{path}/second")) == "Running")
    assert len(stage.fleet.held_by(stage.client.get(f"{path}/second"))) == 1
    stage.client.delete(f"{path}/second", grace=None)
    stage.gone(f"{path}/second")


def phase(pod: JSON) -> str:
    """Give the phase of a pod."""
    return str(pod.get("status", {}).get("phase", ""))


@scenario("full", rig="installed", needs=NEEDS)
def a_copy_with_more_written_into_it_gets_what_it_says(stage: Stage) -> None:
    """A copy that asks for a GPU the old way beside its claim has both; the way back has both."""
    town = installed(stage)
    stage.node("a", "dgx-a100", {"gpu.nvidia.com": "full"})
    kubectl = town.kubectl.inside(stage.namespace)
    in_step(stage, town, legacy(stage, "first"))
    kubectl.apply(legacy(stage, "first")).done()
    copy = another(stage.running("first"), "second")
    copy["spec"]["containers"][0]["resources"]["limits"] = {LEGACY: "2"}
    kubectl("create", "-f", "-", given=copy).done()
    pod = stage.running("second")
    claims = [each["name"] for each in pod["spec"]["resourceClaims"]]
    assert claims == ["drawbridge", "drawbridge-2"]
    assert len(stage.fleet.held_by(pod)) == 3


@scenario("full", rig="installed", needs=NEEDS)
def the_way_back_cannot_be_taken_away_by_an_update(stage: Stage) -> None:
    """Removed or rewritten by an update it stays; past us, the pod can no longer be helped."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with frozen(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(body).done()
        stands = stage.get_pod("train")["metadata"]["annotations"]
        for change in (f"{ORIGINAL}-", f"{ORIGINAL}={json.dumps(HARM)}", f"{FACTS}-"):
            kubectl("annotate", "--overwrite", "pod", "train", change).done()
            assert stage.get_pod("train")["metadata"]["annotations"] == stands, change
        # The status has a door of its own, where nobody is asked.
        gone = {"metadata": {"annotations": {ORIGINAL: None}}}
        stage.client.patch(f"{stage.pod_path('train')}/status", gone)
        assert ORIGINAL not in stage.get_pod("train")["metadata"]["annotations"]
        (name,) = template_names(stage)
        stage.client.delete(template_path(stage, name))
        told = warned(stage, "train", "TemplateNotReproduced")
        assert f"no annotation {ORIGINAL} any more" in told, told
        assert "Delete the pod" in told, told
        assert template_names(stage) == []
        # Whoever asks the same helps the one that waits.
        kubectl.apply(legacy(stage, "other")).done()
    for pod in ("other", "train"):
        stage.running(pod)
        assert claim_of(stage, pod)[0] == name


@scenario("full", rig="installed", needs=NEEDS)
def a_forged_pod_outside_the_scope_is_left_alone(stage: Stage) -> None:
    """In a namespace that never opted in, marks of ours on a pod do nothing for it."""
    town = installed(stage, mode="")
    gpus(stage)
    ran = town.kubectl.inside(stage.namespace).apply(forged(stage, "train", HARM)).done()
    assert ran.err == "", ran
    pod = stage.get_pod("train")
    harmless(pod)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    opt_in(stage, "enforce")
    kubectl = town.kubectl.inside(stage.namespace)
    kubectl("label", "pod", "train", "team=a").done()
    after = stage.get_pod("train")
    assert after["spec"] == pod["spec"]
    assert template_names(stage) == []
