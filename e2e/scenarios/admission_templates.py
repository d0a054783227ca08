"""Templates that are taken, lost, wanted again under other facts, and collected when unused."""

import contextlib
import json
from collections.abc import Iterator

from e2e.installed.installation import (
    NAMESPACE,
    Installed,
    asked,
    in_step,
    installed,
    template_names,
)
from e2e.installed.kubectl import Kubectl
from e2e.scenarios.admission import (
    FACTS,
    GPU,
    NEEDS,
    SOON,
    claim_of,
    devices,
    frozen,
    gpus,
    legacy,
)
from e2e.scenarios.admission_original import template_path, warned
from e2e.scenarios.aged import age
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

HAMI = "hami-core-gpu.project-hami.io"
PUBLISHED = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-facts"
USED = "drawbridge.dev/used"
LATER = ("H800", "A100-SXM4-80GB")
# A name that only we would choose, for a content that is not ours.
LIKE_OURS = f"drawbridge-{'0' * 32}"


def wanted(stage: Stage, body: JSON) -> str:
    """Name the template that a pod would refer to."""
    (entry,) = asked(stage, body)["spec"]["resourceClaims"]
    name: str = entry["resourceClaimTemplateName"]
    return name


def half(stage: Stage, name: str) -> JSON:
    """Give a pod that asks for half the memory of a GPU, whatever GPUs there are."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}
    return stage.pod_object(name, limits=limits)


def shared(stage: Stage, town: Installed, body: JSON) -> None:
    """Wait until shares can be had, and those GPUs that come later are not known yet."""

    def alone() -> bool:
        text = json.dumps(town.facts())
        return not any(product in text for product in LATER)

    stage.wait("facts without later ones", alone)
    in_step(stage, town, body)


def later(stage: Stage, kubectl: Kubectl, body: JSON) -> None:
    """Apply a pod as soon as it is let in again."""
    stage.wait("it is let in", lambda: not kubectl.apply(body).code)


@scenario("smoke", rig="installed", needs=NEEDS)
def a_template_name_that_a_tenant_took_refuses_the_pod(stage: Stage) -> None:
    """A dry run says it as well; who does what the message says has the pod a moment later."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    name = wanted(stage, body)
    stage.template(name, claim_spec(request("gpu", GPU, count=2)))
    tried = kubectl.apply(body, words=("--dry-run=server",))
    ran = kubectl.apply(body)
    for each in (tried, ran):
        assert each.code == 1, each
        assert (
            f"TemplateTaken: spec.resourceClaims: ResourceClaimTemplate {stage.namespace}/{name}"
            in each.err
        )
    assert tried.err == ran.err
    remedy = f"delete resourceclaimtemplate -n {stage.namespace} {name}"
    assert f"kubectl {remedy}" in ran.err, ran
    assert not stage.exists(stage.pod_path("train"))
    town.kubectl(*remedy.split()).done()
    later(stage, kubectl, body)
    stage.running("train")
    assert len(devices(stage, "train")) == 1


@scenario("full", rig="installed", needs=NEEDS)
def a_template_that_a_quota_refuses_is_told_and_made_when_there_is_room(stage: Stage) -> None:
    """The pod is let in and waits; who applied it reads why, and so does who describes it."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    none = {"hard": {"count/resourceclaimtemplates.resource.k8s.io": "0"}}
    quota = stage.path("resourcequotas")
    stage.client.create(quota, {"metadata": {"name": "objects"}, "spec": none})
    (line,) = stage.wait("the dry run tells", lambda: refusals(kubectl, body))
    assert "exceeded quota: objects" in line, line
    (line,) = refusals(kubectl, body, ())
    assert "exceeded quota: objects" in line, line
    assert "exceeded quota: objects" in warned(stage, "train", "TemplateRefused")
    assert template_names(stage) == []
    stage.client.delete(f"{quota}/objects")
    stage.running("train")


@contextlib.contextmanager
def without_a_right(stage: Stage, role: str, verb: str) -> Iterator[None]:
    """Take a verb out of a role of ours for a while."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"
    before = stage.client.get(path)["rules"]
    rules = [{**each, "verbs": [one for one in each["verbs"] if one != verb]} for each in before]
    stage.client.patch(path, {"rules": rules})
    try:
        yield
    finally:
        stage.client.patch(path, {"rules": before})


@scenario("full", rig="installed", needs=NEEDS)
def a_right_that_is_missing_is_told_and_the_controller_makes_the_template(stage: Stage) -> None:
    """An administrator forgot a verb: whoever applies a pod reads which, and the pod runs."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with without_a_right(stage, "drawbridge-webhook-templates", "create"):
        (line,) = stage.wait("the dry run tells", lambda: refusals(kubectl, body))
        assert "cannot create" in line, line
        kubectl.apply(body).done()
        stage.running("train")
    # Once it may again, nobody is told anything any more.
    stage.wait("the right is there", lambda: not refusals(kubectl, legacy(stage, "next", 2)))
    town.excuse()


def refusals(
    kubectl: Kubectl, body: JSON, words: tuple[str, ...] = ("--dry-run=server",)
) -> list[str]:
    """Apply a pod, by default for show, and give what is said of a template that is refused."""
    lines = kubectl.apply(body, words=words).done().warnings
    return [each for each in lines if each.startswith("TemplateRefused: ")]


@contextlib.contextmanager
def nobody_generates(stage: Stage) -> Iterator[None]:
    """End who makes claims, for a while; who comes after sees only what stands then."""
    plane = stage.processes
    plane.processes["kube-controller-manager"].stop()
    try:
        yield
    finally:
        plane.start_controller_manager()


@contextlib.contextmanager
def nobody_helps(town: Installed) -> Iterator[None]:
    """Let the controllers of ours stand still for a moment."""
    with contextlib.ExitStack() as stack:
        for each in town.controllers:
            stack.enter_context(frozen(each.running()))
        yield


@scenario("full", rig="installed", needs=NEEDS)
def a_template_that_was_exchanged_under_a_pod_is_told(stage: Stage) -> None:
    """Not refused any more, but told by an event; without the wrong one the right one is made."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with nobody_generates(stage):
        kubectl.apply(body).done()
        (name,) = template_names(stage)
        path = template_path(stage, name)
        right = stage.client.get(path)
        with nobody_helps(town):
            stage.client.delete(path)
            stage.template(name, claim_spec(request("gpu", GPU, count=2)))
        told = warned(stage, "train", "TemplateTaken")
        assert f"{stage.namespace}/{name}" in told, told
        assert "Delete the template" in told, told
        stage.client.delete(path)
        made = stage.wait("the right one", lambda: stage.client.get(path), SOON)
        assert made["spec"] == right["spec"]
    stage.running("train")
    assert len(devices(stage, "train")) == 1


@scenario("full", rig="installed", needs=NEEDS)
def a_template_is_made_again_with_the_facts_of_its_pod(stage: Stage) -> None:
    """New GPUs came meanwhile, and with these the same pod would have another template."""
    town = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    kubectl = town.kubectl.inside(stage.namespace)
    body = half(stage, "train")
    shared(stage, town, body)
    with frozen(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(body).done()
        (name,) = template_names(stage)
        path = template_path(stage, name)
        before = stage.client.get(path)
        stage.node("b", "koordinator-h800", {HAMI: None})
        in_step(stage, town, half(stage, "later"), LATER[0])
        assert wanted(stage, half(stage, "later")) != name
        noted = stage.get_pod("train")["metadata"]["annotations"][FACTS]
        assert noted != town.facts_hash()
        stage.client.delete(path)
        again = stage.wait("the template is there again", lambda: stage.client.get(path), SOON)
        assert again["spec"] == before["spec"]
    stage.running("train")


def forget(stage: Stage, digest: str) -> None:
    """Let a version of the facts be forgotten, as it is when three newer ones have come."""
    key = f"facts-{digest.removeprefix('sha256:')[:16]}.json"
    stage.client.patch(PUBLISHED, {"data": {key: None}})


@scenario("full", rig="installed", needs=NEEDS)
def facts_that_are_forgotten_are_told_with_the_remedy(stage: Stage) -> None:
    """Nobody can say any more what the template was: an event says so, and what to do helps."""
    town = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    kubectl = town.kubectl.inside(stage.namespace)
    body = half(stage, "train")
    shared(stage, town, body)
    with frozen(stage.processes.processes["kube-controller-manager"]):
        kubectl.apply(body).done()
        (name,) = template_names(stage)
        noted = town.facts_hash()
        stage.node("b", "koordinator-h800", {HAMI: None})
        in_step(stage, town, half(stage, "later"), LATER[0])
        forget(stage, noted)
        stage.node("c", "koordinator-fake-8g4n", {HAMI: None})
        in_step(stage, town, half(stage, "later"), *LATER)
        stage.client.delete(template_path(stage, name))
        told = warned(stage, "train", "TemplateNotReproduced")
        assert name in told, told
        assert noted in told, told
        assert "Delete the pod" in told, told
        assert template_names(stage) == []
    stage.delete_pod("train")
    kubectl.apply(body).done()
    stage.running("train")
    assert claim_of(stage, "train")[0] != name


def kept_by(stage: Stage, town: Installed, count: int, *, waits: bool = False) -> str:
    """Apply a pod that asks for so many GPUs, and name its template."""
    body = legacy(stage, f"train-{count}", count)
    if waits:
        body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "nowhere"}
    town.kubectl.inside(stage.namespace).apply(body).done()
    if not waits:
        stage.running(f"train-{count}")
    return claim_of(stage, f"train-{count}")[0]


def unused(stage: Stage, name: str, *, old: bool = True) -> None:
    """Let a template say that it was used two days ago, and be as old where it is `old`."""
    path = template_path(stage, name)
    used = age(stage.processes, path) if old else "2026-01-01T00:00:00Z"
    stage.client.patch(path, {"metadata": {"annotations": {USED: used}}})


def collected(stage: Stage, town: Installed) -> None:
    """Let another leader begin, which looks at once, and wait until it has looked."""
    before = town.leader
    before.stop()
    (after,) = (each for each in town.controllers if each is not before)
    steps = "drawbridge_controller_steps_total"
    stage.wait("somebody looked", lambda: after.metric(steps, reconciler="janitor"))
    town.heal()


@scenario("full", rig="installed", needs=NEEDS)
def templates_are_collected_only_when_nobody_uses_them(stage: Stage) -> None:
    """Of templates that are two days old only the one without any pod or renewal goes."""
    town = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    in_step(stage, town, legacy(stage, "probe"))
    idle, renewed, young = (kept_by(stage, town, count) for count in (1, 2, 3))
    for count in (1, 2, 3):
        stage.delete_pod(f"train-{count}")
    running, waiting = kept_by(stage, town, 4), kept_by(stage, town, 5, waits=True)
    for name in (LIKE_OURS, "theirs"):
        stage.template(name, claim_spec(request("gpu", GPU, count=6)))
    for name in (idle, renewed, running, waiting, LIKE_OURS, "theirs"):
        unused(stage, name)
    unused(stage, young, old=False)
    use_again(stage, town, 2, renewed)
    collected(stage, town)
    stays = {renewed, young, running, waiting, LIKE_OURS, "theirs"}
    assert set(template_names(stage)) == stays, {idle: "idle", renewed: "renewed", young: "young"}
    # Whoever wants it once more has it once more.
    assert kept_by(stage, town, 1) == idle


def use_again(stage: Stage, town: Installed, count: int, name: str) -> None:
    """Make a pod of a template that was not used for days, and see it renewed."""
    # Processes that have been there for days would know; these have seen it made just now.
    for replica in town.webhooks:
        replica.stop()
    town.heal()
    path = template_path(stage, name)
    before = stage.client.get(path)["metadata"]["annotations"][USED]
    assert kept_by(stage, town, count) == name
    stage.wait(
        "it is renewed",
        lambda: stage.client.get(path)["metadata"]["annotations"][USED] > before,
    )
    stage.delete_pod(f"train-{count}")
