"""Scenarios: templates with other content, over quota, deleted, recreated and collected."""

import contextlib
import json
from collections.abc import Iterator

from e2e.controlplane.processes import suspended
from e2e.installed.installation import (
    NAMESPACE,
    Installation,
    dry_run,
    installed,
    template_names,
    wait_for_facts,
)
from e2e.installed.kubectl import Kubectl
from e2e.scenarios.admission import (
    FACTS,
    GPU,
    NEEDS,
    SOON,
    claim_of,
    devices,
    legacy_pod,
    prepare_pod,
)
from e2e.scenarios.admission_original import template_path, wait_for_event
from e2e.scenarios.backdating import backdate
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

HAMI = "hami-core-gpu.project-hami.io"
PUBLISHED = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-facts"
USED = "drawbridge.dev/used"
# Templates that another field manager has changed are not collected.
MANAGER = "drawbridge"
LATER = ("H800", "A100-SXM4-80GB")
# A name of Drawbridge's form whose content does not match the hash.
LIKE_OURS = f"drawbridge-{'0' * 32}"


def template_of(stage: Stage, body: JSON) -> str:
    """Return the name of the template that a pod would refer to."""
    (entry,) = dry_run(stage, body)["spec"]["resourceClaims"]
    name: str = entry["resourceClaimTemplateName"]
    return name


def half_gpu_pod(stage: Stage, name: str) -> JSON:
    """Return a pod that requests half the memory of any GPU."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}
    return stage.pod_object(name, limits=limits)


def wait_for_share_facts(stage: Stage, cluster: Installation, body: JSON) -> None:
    """Wait until the facts allow shares and contain none of the GPUs added later."""

    def alone() -> bool:
        text = json.dumps(cluster.facts())
        return not any(product in text for product in LATER)

    stage.wait("facts without GPUs added later", alone)
    wait_for_facts(stage, cluster, body)


def apply_when_admitted(stage: Stage, kubectl: Kubectl, body: JSON) -> None:
    """Apply a pod until it is admitted."""
    stage.wait("the pod is admitted", lambda: not kubectl.apply(body).code)


@scenario("smoke", rig="installed", needs=NEEDS)
def a_template_of_the_same_name_and_other_content_denies_the_pod(stage: Stage) -> None:
    """A dry run reports it too. Following the remedy admits the pod."""
    cluster, kubectl, body = prepare_pod(stage)
    name = template_of(stage, body)
    stage.template(name, claim_spec(request("gpu", GPU, count=2)))
    tried = kubectl.apply(body, words=("--dry-run=server",))
    ran = kubectl.apply(body)
    for command in (tried, ran):
        assert command.code == 1, command
        assert (
            f"TemplateTaken: spec.resourceClaims: ResourceClaimTemplate {stage.namespace}/{name}"
            in command.err
        )
    assert tried.err == ran.err
    remedy = f"delete resourceclaimtemplate -n {stage.namespace} {name}"
    assert f"kubectl {remedy}" in ran.err, ran
    assert not stage.exists(stage.pod_path("train"))
    cluster.kubectl(*remedy.split()).check()
    apply_when_admitted(stage, kubectl, body)
    stage.wait_running("train")
    assert len(devices(stage, "train")) == 1


@scenario("full", rig="installed", needs=NEEDS)
def a_template_over_quota_is_reported_and_created_later(stage: Stage) -> None:
    """The pod is admitted and waits. A warning and an event give the reason."""
    _, kubectl, body = prepare_pod(stage)
    none = {"hard": {"count/resourceclaimtemplates.resource.k8s.io": "0"}}
    quota = stage.path("resourcequotas")
    stage.client.create(quota, {"metadata": {"name": "objects"}, "spec": none})
    (line,) = stage.wait("the dry run prints a warning", lambda: template_warnings(kubectl, body))
    assert "exceeded quota: objects" in line, line
    (line,) = template_warnings(kubectl, body, ())
    assert "exceeded quota: objects" in line, line
    assert "exceeded quota: objects" in wait_for_event(stage, "train", "TemplateRefused")
    assert template_names(stage) == []
    stage.client.delete(f"{quota}/objects")
    stage.wait_running("train")


@contextlib.contextmanager
def verb_removed(stage: Stage, role: str, verb: str) -> Iterator[None]:
    """Remove a verb from one of Drawbridge's roles."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"
    before = stage.client.get(path)["rules"]
    rules = [{**each, "verbs": [one for one in each["verbs"] if one != verb]} for each in before]
    stage.client.patch(path, {"rules": rules})
    try:
        yield
    finally:
        stage.client.patch(path, {"rules": before})


@scenario("full", rig="installed", needs=NEEDS)
def a_missing_rbac_verb_is_reported_and_the_controller_creates_the_template(stage: Stage) -> None:
    """The webhook's role lacks a verb. The warning names it, and the pod runs."""
    cluster, kubectl, body = prepare_pod(stage)
    with verb_removed(stage, "drawbridge-webhook-templates", "create"):
        (line,) = stage.wait(
            "the dry run prints a warning", lambda: template_warnings(kubectl, body)
        )
        assert "cannot create" in line, line
        kubectl.apply(body).check()
        stage.wait_running("train")
    # With the verb restored there are no more warnings.
    stage.wait(
        "the right is there", lambda: not template_warnings(kubectl, legacy_pod(stage, "next", 2))
    )
    cluster.ignore_denials()


def template_warnings(
    kubectl: Kubectl, body: JSON, words: tuple[str, ...] = ("--dry-run=server",)
) -> list[str]:
    """Apply a pod, by default as a dry run, and return the warnings about its template."""
    lines = kubectl.apply(body, words=words).check().warnings
    return [each for each in lines if each.startswith("TemplateRefused: ")]


@contextlib.contextmanager
def controller_manager_stopped(stage: Stage) -> Iterator[None]:
    """Stop the controller-manager, which generates claims; its successor starts at the end."""
    plane = stage.processes
    plane.processes["kube-controller-manager"].stop()
    try:
        yield
    finally:
        plane.start_controller_manager()


@contextlib.contextmanager
def controllers_suspended(cluster: Installation) -> Iterator[None]:
    """Suspend Drawbridge's controllers."""
    with contextlib.ExitStack() as stack:
        for controller in cluster.controllers:
            stack.enter_context(suspended(controller.started_process()))
        yield


@scenario("full", rig="installed", needs=NEEDS)
def a_template_replaced_after_admission_is_reported_by_an_event(stage: Stage) -> None:
    """When the wrong template is deleted, the controller creates the right one."""
    cluster, kubectl, body = prepare_pod(stage)
    with controller_manager_stopped(stage):
        kubectl.apply(body).check()
        (name,) = template_names(stage)
        path = template_path(stage, name)
        right = stage.client.get(path)
        with controllers_suspended(cluster):
            stage.client.delete(path)
            stage.template(name, claim_spec(request("gpu", GPU, count=2)))
        told = wait_for_event(stage, "train", "TemplateTaken")
        assert f"{stage.namespace}/{name}" in told, told
        assert "Delete the template" in told, told
        stage.client.delete(path)
        made = stage.wait("the right one", lambda: stage.client.get(path), SOON)
        assert made["spec"] == right["spec"]
    stage.wait_running("train")
    assert len(devices(stage, "train")) == 1


@scenario("full", rig="installed", needs=NEEDS)
def a_template_is_recreated_with_the_facts_noted_on_its_pod(stage: Stage) -> None:
    """New GPUs changed the facts, which would give the same pod another template."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = half_gpu_pod(stage, "train")
    wait_for_share_facts(stage, cluster, body)
    with suspended(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(body).check()
        (name,) = template_names(stage)
        path = template_path(stage, name)
        before = stage.client.get(path)
        stage.node("b", "koordinator-h800", {HAMI: None})
        wait_for_facts(stage, cluster, half_gpu_pod(stage, "later"), LATER[0])
        assert template_of(stage, half_gpu_pod(stage, "later")) != name
        noted = stage.get_pod("train")["metadata"]["annotations"][FACTS]
        assert noted != cluster.facts_hash()
        stage.client.delete(path)
        again = stage.wait("the template exists again", lambda: stage.client.get(path), SOON)
        assert again["spec"] == before["spec"]
    stage.wait_running("train")


def drop_facts(stage: Stage, digest: str) -> None:
    """Drop a version of the facts, as three newer versions do."""
    key = f"facts-{digest.removeprefix('sha256:')[:16]}.json"
    stage.client.patch(PUBLISHED, {"data": {key: None}})


@scenario("full", rig="installed", needs=NEEDS)
def a_pod_whose_facts_are_gone_gets_an_event_with_the_remedy(stage: Stage) -> None:
    """The template cannot be computed any more. Following the remedy helps."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = half_gpu_pod(stage, "train")
    wait_for_share_facts(stage, cluster, body)
    with suspended(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(body).check()
        (name,) = template_names(stage)
        noted = cluster.facts_hash()
        stage.node("b", "koordinator-h800", {HAMI: None})
        wait_for_facts(stage, cluster, half_gpu_pod(stage, "later"), LATER[0])
        drop_facts(stage, noted)
        stage.node("c", "koordinator-fake-8g4n", {HAMI: None})
        wait_for_facts(stage, cluster, half_gpu_pod(stage, "later"), *LATER)
        stage.client.delete(template_path(stage, name))
        told = wait_for_event(stage, "train", "TemplateNotReproduced")
        assert name in told, told
        assert noted in told, told
        assert "Delete the pod" in told, told
        assert template_names(stage) == []
    stage.delete_pod("train")
    kubectl.apply(body).check()
    stage.wait_running("train")
    assert claim_of(stage, "train")[0] != name


def apply_pod_with_gpus(
    stage: Stage, cluster: Installation, count: int, *, waits: bool = False
) -> str:
    """Apply a pod that requests `count` GPUs, and return its template's name."""
    body = legacy_pod(stage, f"train-{count}", count)
    if waits:
        body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "nowhere"}
    cluster.kubectl.inside(stage.namespace).apply(body).check()
    if not waits:
        stage.wait_running(f"train-{count}")
    return claim_of(stage, f"train-{count}")[0]


def mark_unused(stage: Stage, name: str, *, old: bool = True) -> None:
    """Set the last use of a template to two days ago; with `old` its creation too."""
    path = template_path(stage, name)
    used = backdate(stage.processes, path) if old else "2026-01-01T00:00:00Z"
    change = {"metadata": {"annotations": {USED: used}}}
    stage.client.patch(path, change, fieldManager=MANAGER)


def run_collection(stage: Stage, cluster: Installation) -> None:
    """Let another controller lead, which collects at once, and wait until it has."""
    before = cluster.leader
    before.stop()
    (after,) = (each for each in cluster.controllers if each is not before)
    steps = "drawbridge_controller_steps_total"
    stage.wait("a collection ran", lambda: after.metric(steps, reconciler="janitor"))
    cluster.start_all()


@scenario("full", rig="installed", needs=NEEDS)
def templates_are_collected_only_when_unused(stage: Stage) -> None:
    """Of templates that are two days old, only the one without a pod or renewal is deleted."""
    cluster = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    idle, renewed, young = (apply_pod_with_gpus(stage, cluster, count) for count in (1, 2, 3))
    for count in (1, 2, 3):
        stage.delete_pod(f"train-{count}")
    running, waiting = (
        apply_pod_with_gpus(stage, cluster, 4),
        apply_pod_with_gpus(stage, cluster, 5, waits=True),
    )
    for name in (LIKE_OURS, "theirs"):
        stage.template(name, claim_spec(request("gpu", GPU, count=6)))
    for name in (idle, renewed, running, waiting, LIKE_OURS, "theirs"):
        mark_unused(stage, name)
    mark_unused(stage, young, old=False)
    check_use_is_renewed(stage, cluster, 2, renewed)
    run_collection(stage, cluster)
    stays = {renewed, young, running, waiting, LIKE_OURS, "theirs"}
    assert set(template_names(stage)) == stays, {idle: "idle", renewed: "renewed", young: "young"}
    # A new pod creates the template again.
    assert apply_pod_with_gpus(stage, cluster, 1) == idle


def check_use_is_renewed(stage: Stage, cluster: Installation, count: int, name: str) -> None:
    """Create a pod of a template unused for days and wait until the use is renewed."""
    # These processes saw the template's creation; processes that run for days would not have.
    for replica in cluster.webhooks:
        replica.stop()
    cluster.start_all()
    path = template_path(stage, name)
    before = stage.client.get(path)["metadata"]["annotations"][USED]
    assert apply_pod_with_gpus(stage, cluster, count) == name
    stage.wait(
        "it is renewed",
        lambda: stage.client.get(path)["metadata"]["annotations"][USED] > before,
    )
    stage.delete_pod(f"train-{count}")
