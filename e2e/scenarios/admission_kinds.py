"""Scenarios: every kind of workload gets a warning, and its pods are translated.

Each pod requests one GPU unless a scenario says otherwise, on a machine with eight. The devices of
a pod are read from the records of the drivers.
"""

from functools import partial

from e2e.installed.installation import (
    set_mode,
    template_names,
)
from e2e.installed.kubectl import CommandResult, Kubectl
from e2e.scenarios.admission import (
    LEGACY,
    NEEDS,
    legacy_pod,
)
from e2e.scenarios.admission_scope import add_plugin_node, pods_of
from e2e.scenarios.objects import deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.workload_checks import (
    enter,
    followed,
    replaced_alike,
    running,
    told,
    told_alike,
    uids,
    untranslated,
)
from e2e.scenarios.workload_makers import MAKERS, cron_job

BATCH = "/apis/batch/v1"


@scenario("full", rig="installed", needs=NEEDS)
def a_deployment_is_scaled_and_rolled_out(stage: Stage) -> None:
    """All pods use one template. A changed request creates another template and a rollout."""
    kubectl = enter(stage, "a")
    body = deployment(legacy_pod(stage, "serve"), 2)
    told(kubectl.apply(body), "deployment.apps serve")
    try:
        first = running(stage, "serve", 2)
        for replicas in (4, 1, 2):
            ran = kubectl("scale", "deployment/serve", f"--replicas={replicas}").check()
            assert ran.warnings == [], ran
            running(stage, "serve", replicas)
        kubectl("rollout", "restart", "deployment/serve").check()
        kubectl("rollout", "status", "deployment/serve", "--timeout=30s").check()
        again = running(stage, "serve", 2)
        assert not uids(first) & uids(again)
        assert len(template_names(stage)) == 1
        told(
            kubectl.apply(deployment(legacy_pod(stage, "serve", 2), 2)), "deployment.apps serve", 2
        )
        kubectl("rollout", "status", "deployment/serve", "--timeout=30s").check()
        running(stage, "serve", 2, 2)
        assert len(template_names(stage)) == 2
        kubectl("rollout", "undo", "deployment/serve").check()
        kubectl("rollout", "status", "deployment/serve", "--timeout=30s").check()
        running(stage, "serve", 2)
        assert len(template_names(stage)) == 2
    finally:
        kubectl("delete", "deployment", "serve", "--cascade=foreground").check()


def play(kind: str, stage: Stage) -> None:
    """Apply one of a kind, in every way there is, and look at its pods."""
    kubectl = enter(stage, "a", "b")
    make = MAKERS[kind]
    body = make(legacy_pod(stage, "work"), 2)
    tried = kubectl.apply(body, words=("--dry-run=server",))
    applied = kubectl.apply(body)
    try:
        told(applied, kind)
        told_alike(applied, tried)
        if kind == "cronjob":
            _is_due(stage)
        pods = running(stage, "work", 2)
        (template,) = template_names(stage)
        assert template in followed(kubectl, applied, body)
        different = kubectl("diff", "-f", "-", stdin=body)
        assert (different.code, different.out) == (0, ""), different
        again = kubectl.apply(body).check()
        assert (again.warnings, "unchanged" in again.out) == ([], True), again
        replaced_alike(stage, kubectl, kind, body, untranslated(stage, make, "bystander", 2))
        assert uids(running(stage, "work", 2)) == uids(pods)
        _changed(stage, kubectl, kind)
    finally:
        kubectl("delete", kind, "work", "--cascade=foreground").check()


def _changed(stage: Stage, kubectl: Kubectl, kind: str) -> None:
    """Ask for two instead of one: the pods follow where their kind lets them."""
    body = MAKERS[kind](legacy_pod(stage, "work", 2), 2)
    if kind == "job":
        # The pod template of a Job is immutable.
        assert "field is immutable" in kubectl.apply(body).err
        kubectl("delete", "job", "work", "--cascade=foreground").check()
    told(kubectl.apply(body), kind, 2)
    if kind == "cronjob":
        kubectl("delete", "job", "--all", "--cascade=foreground").check()
        _is_due(stage)
    elif kind == "replicaset":
        kubectl("delete", "pod", "--all", "--wait=false").check()
    running(stage, "work", 2, 2)
    assert len(template_names(stage)) == 2


def _is_due(stage: Stage) -> None:
    """Let a CronJob's controller believe that it has missed a minute."""
    path = stage.path("cronjobs", "work", BATCH)
    stage.client.patch(f"{path}/status", {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}})


def _register(kind: str) -> None:
    play_it = partial(play, kind)
    play_it.__name__ = f"the_pods_of_a_{kind}_are_translated"  # type: ignore[attr-defined]
    play_it.__doc__ = f"A {kind}: told at once, one template for all its pods, applied again."
    scenario("full", rig="installed", needs=NEEDS)(play_it)


for _kind in MAKERS:
    _register(_kind)


@scenario("full", rig="installed", needs=NEEDS)
def a_report_warning_names_a_command_that_shows_the_details(stage: Stage) -> None:
    """The command works for running pods too."""
    add_plugin_node(stage, "old")
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work")
    (main,) = body["spec"]["containers"]
    # Names so long that a warning has no room for the translation.
    names = [each * 63 for each in "ab"]
    body["spec"]["containers"] = [{**main, "name": name} for name in names]
    tried = kubectl.apply(body, words=("--dry-run=server",)).check()
    set_mode(stage, "report")

    def reported() -> list[str]:
        ran = kubectl.apply(legacy_pod(stage, "probe"), words=("--dry-run=server",)).check()
        return [each for each in ran.warnings if each.startswith("would be")]

    stage.wait("it is reported only", reported)
    ran = kubectl.apply(body).check()
    stage.wait_running("work")
    assert ran.warnings[0][:240] == f"would be {tried.warnings[0]}"[:240]
    assert "kind: ResourceClaimTemplate" in followed(kubectl, ran, body)


@scenario("smoke", rig="installed", needs=NEEDS)
def a_workload_whose_pods_would_be_refused_is_refused(stage: Stage) -> None:
    """No driver serves replicas. The workload gets the message that its pods would get."""
    kubectl = enter(stage, "a")
    pod = stage.pod_object("work", limits={f"{LEGACY}.shared": "1"})
    refused = kubectl.apply(pod)
    for kind, make, where in (
        ("deployments", deployment, "spec.template.spec"),
        ("cronjobs", cron_job, "spec.jobTemplate.spec.template.spec"),
    ):
        for words in (("--dry-run=server",), ()):
            ran = kubectl.apply(make(pod, 2), words=words)
            assert ran.code == 1, ran
            assert f"NotExpressible: {where}.containers[0]: " in ran.err, ran
            assert _sentence(ran) == _sentence(refused), f"{ran}{refused}"
        assert kubectl.get(kind)["items"] == []
    assert pods_of(stage, "work") == []


def _sentence(ran: CommandResult) -> str:
    return ran.err.partition(".containers[0]: ")[2]
