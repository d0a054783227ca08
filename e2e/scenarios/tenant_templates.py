"""Scenarios: what invalid pods, Job pods and GitOps templates leave behind."""

import json
from concurrent.futures import ThreadPoolExecutor

from e2e.controlplane.client import ApiError, Client
from e2e.installed.installation import installed, template_names, wait_for_facts
from e2e.scenarios.admission import (
    GPU,
    LEGACY,
    NEEDS,
    ORIGINAL,
    devices,
    legacy_pod,
)
from e2e.scenarios.admission_original import template_path
from e2e.scenarios.admission_templates import mark_unused, run_collection
from e2e.scenarios.objects import JSON, deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import tenant_client

HAMI = "hami-core-gpu.project-hami.io"
INSTASLICE = "org.instaslice/accelarator"
TRACKING = "batch.kubernetes.io/job-tracking"
PARTITION = "nvidia.com/mig-1g.5gb"
INVALID_PODS, WRITERS = 300, 8
# Of templates that admission creates for pods that do not exist yet, in one namespace.
MOST_TEMPLATES = 60


def gated_pod(stage: Stage, name: str) -> JSON:
    """Return a pod with the scheduling gate that the nvidia dialect removes."""
    pod = stage.pod_object(name, limits={PARTITION: "1"})
    pod["metadata"]["labels"] = {"app": "gated"}
    pod["spec"] |= {"schedulingGates": [{"name": INSTASLICE}], "restartPolicy": "Never"}
    return pod


@scenario("smoke", rig="installed", needs=NEEDS)
def pods_of_a_job_keep_their_finalizer(stage: Stage) -> None:
    """Admission has just translated a similar pod, whose only finalizer it removed."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "static-mig"})
    pod = gated_pod(stage, "single")
    wait_for_facts(stage, cluster, pod)
    pod["metadata"]["finalizers"] = [INSTASLICE]
    for number in range(2 * len(cluster.webhooks)):
        made = stage.client.create(stage.pod_path(), renamed(pod, f"single-{number}"))
        assert ORIGINAL in made["metadata"]["annotations"]
        assert "finalizers" not in made["metadata"], made["metadata"]
        held = {**pod, "metadata": {**pod["metadata"], "finalizers": [TRACKING]}}
        made = stage.client.create(stage.pod_path(), renamed(held, "held"), dryRun="All")
        assert made["metadata"]["finalizers"] == [TRACKING], made["metadata"]
    body = {
        "metadata": {"name": "batch"},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "template": {
                "metadata": {"labels": {"app": "gated"}},
                "spec": {**pod["spec"], "nodeSelector": {"nowhere": "true"}},
            },
        },
    }
    stage.client.create(stage.path("jobs", "", "/apis/batch/v1"), body)
    selector = "batch.kubernetes.io/job-name=batch"

    def job_pods() -> list[JSON]:
        pods = stage.client.get(stage.pod_path(), labelSelector=selector)["items"]
        return pods if len(pods) == 2 else []

    for created in stage.wait("both pods exist", job_pods):
        assert ORIGINAL in created["metadata"]["annotations"]
        assert created["metadata"]["finalizers"] == [TRACKING], created["metadata"]
    options = {"propagationPolicy": "Background", "apiVersion": "v1", "kind": "DeleteOptions"}
    stage.client.call("DELETE", stage.path("jobs", "batch", "/apis/batch/v1"), options)


def renamed(pod: JSON, name: str) -> JSON:
    """Return the pod under another name."""
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


@scenario("full", rig="installed", needs=NEEDS)
def templates_applied_by_gitops_are_not_collected(stage: Stage) -> None:
    """Another manager applied them for a workload at zero; one that only we wrote is collected."""
    cluster = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    names = [create_template(stage, count) for count in range(1, 5)]
    ours, applied, adopted, owned = names
    path = template_path(stage, applied)
    printed = stage.client.get(path)
    stage.client.delete(path)
    kept = {key: printed["metadata"].get(key, {}) for key in ("labels", "annotations")}
    body = {"apiVersion": printed["apiVersion"], "kind": printed["kind"], "spec": printed["spec"]}
    stage.client.apply(path, {**body, "metadata": {"name": applied, **kept}}, "argocd")
    labels = {"metadata": {"labels": {"argocd.argoproj.io/instance": "team"}}}
    stage.client.patch(template_path(stage, adopted), labels)
    other = stage.client.create(stage.path("configmaps"), {"metadata": {"name": "owner"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    references = [{**owner, "uid": other["metadata"]["uid"]}]
    change = {"metadata": {"ownerReferences": references}}
    stage.client.patch(template_path(stage, owned), change)
    for name in names:
        mark_unused(stage, name)
    run_collection(stage, cluster)
    assert set(template_names(stage)) == {applied, adopted, owned}, {ours: "ours"}


@scenario("full", rig="installed", needs=NEEDS)
def a_pruned_template_is_created_again_for_an_old_replica_set(stage: Stage) -> None:
    """A pipeline applied manifests in JSON; its next version has another request and template.

    The running pod keeps its device, and a pod of the old ReplicaSet still gets one.
    """
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    kubectl = cluster.kubectl.inside(stage.namespace)
    pod = legacy_pod(stage, "serve")
    wait_for_facts(stage, cluster, pod)
    manifest = json.dumps({**deployment(pod, 1), "metadata": {"name": "serve"}})
    words = ("translate", "-f", "-", "-q", "--context", "--short-original")
    translated = cluster.drawbridge(*words, stdin=manifest).check().out
    kubectl("apply", "-f", "-", "--field-manager=argocd", stdin=json.loads(translated)).check()
    kubectl("wait", "deployment/serve", "--for=condition=Available", "--timeout=30s").check()
    (running,) = stage.client.get(stage.pod_path())["items"]
    first = running["metadata"]["name"]
    (template,) = template_names(stage)
    held = devices(stage, first)
    kubectl("delete", "resourceclaimtemplate", template).check()
    kubectl("scale", "deployment/serve", "--replicas=2").check()
    kubectl("wait", "deployment/serve", "--for=condition=Available", "--timeout=30s").check()
    stage.wait("both pods run", lambda: len(running_pods(stage)) == 2)
    assert template_names(stage) == [template]
    assert devices(stage, first) == held
    (second,) = {*running_pods(stage)} - {first}
    assert devices(stage, second) != held
    kubectl("delete", "deployment", "serve").check()
    stage.wait("its pods are gone", lambda: not stage.client.get(stage.pod_path())["items"])


def running_pods(stage: Stage) -> list[str]:
    """Return the names of the pods that run."""
    pods = stage.client.get(stage.pod_path())["items"]
    return [each["metadata"]["name"] for each in pods if each["status"].get("phase") == "Running"]


def create_template(stage: Stage, count: int) -> str:
    """Let admission create a template of a pod that is deleted again; returns its name."""
    pod = legacy_pod(stage, f"train-{count}", count)
    pod["spec"]["schedulerName"] = "nobody"
    made = stage.client.create(stage.pod_path(), pod)
    name: str = made["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    stage.wait("the template exists", lambda: name in template_names(stage))
    stage.delete_pod(f"train-{count}")
    return name


def invalid_pod(stage: Stage, number: int) -> JSON:
    """Return a pod that admission translates and the API server then rejects."""
    limits = {LEGACY: "1", "nvidia.com/gpumem": f"{1000 + number}"}
    pod = stage.pod_object(f"invalid-{number}", limits=limits)
    pod["spec"]["containers"][0]["name"] = "Not A Valid Name"
    return pod


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def invalid_pods_leave_few_templates(stage: Stage) -> None:
    """Of 300 rejected pods only some leave a template, and a valid pod after them runs."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    valid = stage.pod_object("valid", limits={LEGACY: "1", "nvidia.com/gpumem": "999"})
    wait_for_facts(stage, cluster, valid)
    client = tenant_client(stage)
    with ThreadPoolExecutor(WRITERS) as pool:
        rejected = list(
            pool.map(lambda number: is_rejected(client, stage, number), range(INVALID_PODS))
        )
    assert all(rejected)
    left = template_names(stage)
    assert len(left) <= MOST_TEMPLATES, len(left)
    client.create(stage.pod_path(), valid)
    stage.wait_running("valid")


def is_rejected(client: Client, stage: Stage, number: int) -> bool:
    """Create an invalid pod; true if the API server's validation rejects it."""
    try:
        client.create(stage.pod_path(), invalid_pod(stage, number))
    except ApiError as problem:
        return problem.code == 422 and "Invalid value" in str(problem)
    return False
