"""Scenarios: a tenant tries to use the controller's rights in a namespace out of scope."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.processes import suspended
from e2e.installed.installation import (
    Installation,
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
    add_gpu_node,
    claim_of,
    legacy_pod,
    prepare_pod,
)
from e2e.scenarios.admission_original import PRIVILEGES, template_path, wait_for_event
from e2e.scenarios.admission_scope import restored_configuration, set_scope
from e2e.scenarios.objects import JSON, RESOURCE
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import another_namespace, forged_copy, tenant_client

MODE = "drawbridge.dev/translate"
OUT_OF_SCOPE, LATE = "TemplateOutOfScope", "RequestsAddedLate"
CREATORS, PODS = 8, 400
SYSTEM = "/api/v1/namespaces/kube-system"


def translated_pod(stage: Stage, cluster: Installation) -> JSON:
    """Return a pod that admission has translated in another team's namespace."""
    add_gpu_node(stage)
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    path = f"/api/v1/namespaces/{another_namespace(stage, 'other', {MODE: 'enforce'})}/pods"
    pod = legacy_pod(stage, "first")
    pod["spec"]["schedulerName"] = "nobody"
    pod = stage.client.create(path, pod)
    assert {ORIGINAL, FACTS} <= pod["metadata"]["annotations"].keys()
    return pod


def check_no_template(stage: Stage, client: Client, pod: JSON) -> None:
    """Create a pod and check that the controller reports it and creates no template."""
    client.create(stage.pod_path(), pod)
    name = pod["metadata"]["name"]
    told = wait_for_event(stage, name, OUT_OF_SCOPE)
    assert pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] in told, told
    assert template_names(stage) == []
    assert stage.client.get(stage.claim_path())["items"] == []


@scenario("smoke", rig="installed", needs=NEEDS)
def a_copied_pod_out_of_scope_gets_no_template(stage: Stage) -> None:
    """Its namespace has no label. The same holds for a forged undo patch and template name."""
    cluster = installed(stage)
    pod = translated_pod(stage, cluster)
    set_mode(stage, None)
    client = tenant_client(stage)
    check_no_template(stage, client, forged_copy(pod, "copied"))
    forged = forged_copy(pod, "forged")
    forged["metadata"]["annotations"][ORIGINAL] = f"{PRIVILEGES}".replace("'", '"')
    forged["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = f"drawbridge-{'0' * 32}"
    check_no_template(stage, client, forged)


@scenario("full", rig="installed", needs=NEEDS)
def a_copied_pod_in_an_excluded_namespace_gets_no_template(stage: Stage) -> None:
    """The configuration excludes a labelled namespace. A pod in kube-system gets none, too."""
    cluster = installed(stage)
    pod = translated_pod(stage, cluster)
    client = tenant_client(stage)
    with restored_configuration(stage, cluster) as whole:
        set_scope(stage, cluster, whole, excludeNamespaces=["kube-system", stage.namespace])
        check_no_template(stage, client, forged_copy(pod, "excluded"))
    check_kube_system(stage, forged_copy(pod, stage.name))


def check_kube_system(stage: Stage, pod: JSON) -> None:
    """Check the same in kube-system, where only an administrator can create the pod."""
    name = pod["metadata"]["name"]
    stage.client.create(f"{SYSTEM}/pods", {**pod, "spec": {**pod["spec"], "volumes": []}})
    try:
        stage.wait("the event in kube-system", lambda: events_in_kube_system(stage, name))
        path = f"{RESOURCE}/namespaces/kube-system/resourceclaimtemplates"
        assert stage.client.get(path)["items"] == []
    finally:
        stage.client.delete(f"{SYSTEM}/pods/{name}")


def events_in_kube_system(stage: Stage, name: str) -> list[JSON]:
    """Return the events about a template of a pod in kube-system."""
    selector = f"involvedObject.name={name},reason={OUT_OF_SCOPE}"
    events: list[JSON] = stage.client.get(f"{SYSTEM}/events", fieldSelector=selector)["items"]
    return events


@scenario("full", rig="installed", needs=NEEDS)
def a_pod_whose_namespace_left_the_scope_gets_an_event(stage: Stage) -> None:
    """Its template is deleted and not created again. With the label back, the pod runs."""
    prepare_pod(stage)
    client = tenant_client(stage)
    with suspended(stage.processes.processes["kube-controller-manager"]):
        client.create(stage.pod_path(), legacy_pod(stage, "train"))
        (name,) = template_names(stage)
        set_mode(stage, None)

        def reported() -> bool:
            # The controller can see the deletion before the label, and then creates it once more.
            if name in template_names(stage):
                stage.client.delete(template_path(stage, name))
            return any(each.startswith(f"{OUT_OF_SCOPE}: ") for each in stage.events("train"))

        stage.wait("the event", reported)
        assert template_names(stage) == []
        set_mode(stage, "enforce")
        stage.wait("the template exists again", lambda: template_names(stage) == [name])
    stage.wait_running("train")
    assert claim_of(stage, "train")[0] == name


@scenario("full", rig="installed", needs=NEEDS)
def a_namespace_label_that_flaps_leaves_no_half_translated_pod(stage: Stage) -> None:
    """Pods are created all the time. Each is translated as a whole, stays as it is, or is denied.

    The guard can deny a pod whose creation began before the label was set.
    """
    prepare_pod(stage, "probe")
    outcomes: Counter[str] = Counter()

    def create(number: int) -> None:
        pod = legacy_pod(stage, f"train-{number}")
        pod["spec"]["schedulerName"] = "nobody"
        try:
            made = stage.client.create(stage.pod_path(), pod)
        except ApiError as problem:
            outcomes["denied" if LATE in str(problem) else str(problem)] += 1
            return
        outcomes[outcome_of(made)] += 1

    with ThreadPoolExecutor(CREATORS) as creators:
        created = [creators.submit(create, number) for number in range(PODS)]
        while not all(each.done() for each in created):
            for mode in (None, "enforce", "off", "enforce"):
                set_mode(stage, mode)
        for creation in created:
            creation.result()
    sys.stdout.write(f"      {dict(outcomes)}\n")
    assert outcomes.keys() <= {"translated", "unchanged", "denied"}, outcomes
    assert outcomes["translated"], outcomes
    assert outcomes["unchanged"], outcomes
    set_mode(stage, "enforce")
    stage.wait("every claim gets its template", lambda: not without_template(stage))


def outcome_of(pod: JSON) -> str:
    """Say whether a pod was translated; AssertionError if it was in part."""
    limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
    translated = {
        ORIGINAL in pod["metadata"].get("annotations", {}),
        "resourceClaims" in pod["spec"],
        LEGACY not in limits,
    }
    assert len(translated) == 1, pod
    return "translated" if translated == {True} else "unchanged"


def without_template(stage: Stage) -> set[str]:
    """Return the templates that pods refer to and that do not exist."""
    pods = stage.client.get(stage.pod_path())["items"]
    claims = (claim for pod in pods for claim in pod["spec"].get("resourceClaims", ()))
    return {each["resourceClaimTemplateName"] for each in claims} - {*template_names(stage)}


@scenario("smoke", rig="installed", needs=NEEDS)
def admin_access_of_a_legacy_request_is_refused_by_default(stage: Stage) -> None:
    """The request for Intel's monitoring resource creates no claim with admin access."""
    cluster = installed(stage)
    stage.node("a", "lab-2intel", {"gpu.intel.com": "i915"})
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={"gpu.intel.com/i915": "1"}))
    pod = stage.pod_object("monitor", limits={"gpu.intel.com/i915_monitoring": "1"})
    ran = cluster.kubectl.inside(stage.namespace).apply(pod)
    assert ran.code == 1, ran
    assert "decisions.adminAccess" in ran.err, ran
    assert template_names(stage) == []
