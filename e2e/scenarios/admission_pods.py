"""Scenarios: pods without a workload are created, replaced and changed.

Each pod requests one GPU.
"""

from e2e.installed.installation import (
    dry_run,
    template_names,
)
from e2e.scenarios.admission import (
    LEGACY,
    NEEDS,
    legacy_pod,
)
from e2e.scenarios.admission_scope import add_plugin_node
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.workload_checks import enter, replaced_alike, running, untranslated


@scenario("full", rig="installed", needs=NEEDS)
def pods_with_generated_names_share_a_template(stage: Stage) -> None:
    """`kubectl create` of a pod with generateName, twice: two pods, two claims, one template."""
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work")
    body["metadata"] = {"generateName": "work-", "labels": {"app": "work"}}
    for _ in range(2):
        ran = kubectl("create", "-f", "-", stdin=body).check()
        assert ran.warnings[0].startswith(f"translated: {LEGACY}: 1 of container main -> "), ran
    running(stage, "work", 2)
    assert len(template_names(stage)) == 1


@scenario("full", rig="installed", needs=NEEDS)
def replacing_a_running_pod_fails_as_without_drawbridge(stage: Stage) -> None:
    """`kubectl replace` of a bare pod by its manifest reports the usual error."""
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work", labels={"app": "work"})
    kubectl.apply(body).check()
    before = running(stage, "work", 1)
    replaced_alike(stage, kubectl, "pod", body, untranslated(stage, _alone, "bystander", 1))
    assert [each["spec"] for each in running(stage, "work", 1)] == [before[0]["spec"]]


@scenario("full", rig="installed", needs=NEEDS)
def mutable_fields_of_a_translated_pod_can_be_changed(stage: Stage) -> None:
    """Applying a new image, label or toleration changes only that field."""
    kubectl = enter(stage, "a")
    body = legacy_pod(stage, "work", labels={"app": "work"})
    kubectl.apply(body).check()
    (before,) = running(stage, "work", 1)
    body["metadata"]["labels"]["team"] = "research"
    body["spec"]["containers"][0]["image"] = "example.com/other"
    added = {"key": "example.com/slow", "operator": "Exists", "effect": "NoSchedule"}
    body["spec"]["tolerations"] = [*before["spec"]["tolerations"], added]
    different = kubectl("diff", "-f", "-", stdin=body)
    changes = [line for line in different.out.splitlines() if line[:1] in ("+", "-")]
    assert (different.code, bool(changes)) == (1, True), different
    assert not any(LEGACY in line or "drawbridge" in line for line in changes), different
    kubectl.apply(body).check()
    (after,) = running(stage, "work", 1)
    assert after["metadata"]["labels"] == {**before["metadata"]["labels"], "team": "research"}
    wanted = {**before["spec"], "tolerations": body["spec"]["tolerations"]}
    wanted["containers"] = [{**before["spec"]["containers"][0], "image": "example.com/other"}]
    assert after["spec"] == wanted
    kubectl.apply(body).check()
    assert stage.get_pod("work")["spec"] == wanted


@scenario("full", rig="installed", needs=NEEDS)
def a_queue_can_set_the_node_selector_of_a_gated_pod(stage: Stage) -> None:
    """It narrows the required node affinity. The API server rejects an additional term."""
    add_plugin_node(stage, "old")
    enter(stage, "a")
    body = legacy_pod(stage, "work")
    stage.wait("the plugin is known", lambda: "affinity" in dry_run(stage, body)["spec"])
    gates = [{"name": "example.com/queue"}]
    stage.client.create(
        stage.pod_path(), {**body, "spec": {**body["spec"], "schedulingGates": gates}}
    )
    (term,) = required(stage.get_pod("work"))
    assert [each["key"] for each in term["matchExpressions"]] == ["drawbridge.dev/dual"]
    field = {"key": "metadata.name", "operator": "In", "values": [f"{stage.name}-a"]}
    here = {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}
    path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    steps = [
        {"op": "add", "path": f"{path}/nodeSelectorTerms/0/matchFields", "value": [field]},
        {"op": "add", "path": f"{path}/nodeSelectorTerms/0/matchExpressions/-", "value": here},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]
    stage.client.patch(stage.pod_path("work"), steps, "application/json-patch+json")
    (after,) = required(stage.wait_running("work"))
    assert after == {"matchExpressions": [*term["matchExpressions"], here], "matchFields": [field]}


def required(pod: JSON) -> list[JSON]:
    """Return the terms of nodes of which a pod requires one."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    terms: list[JSON] = affinity["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return terms


def _alone(pod: JSON, _: int) -> JSON:
    return pod
