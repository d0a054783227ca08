"""Scenarios: the scope changes at run time by labels, exclusions and rollout percentages."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import yaml

from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import (
    MODE,
    NAMESPACE,
    Installation,
    dry_run,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.scenarios.admission import LEGACY, NEEDS, ORIGINAL, add_gpu_node, legacy_pod
from e2e.scenarios.objects import JSON, deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

CONFIGURATION = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-config"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
OWNERS, WORKERS = 200, 8
# 30 % of 200 owners, within three standard deviations.
NEAR = range(41, 80)
DIGEST = "5d4f8c7b9"


def is_translated(pod: JSON) -> bool:
    """Return whether a pod was translated."""
    return ORIGINAL in pod["metadata"].get("annotations", {})


def configure(stage: Stage, cluster: Installation, text: str) -> None:
    """Change the configuration, and wait until every process uses it."""
    if text == stage.client.get(CONFIGURATION)["data"]["config.yaml"]:
        return
    configure_and_wait(cluster, text)


@contextlib.contextmanager
def restored_configuration(stage: Stage, cluster: Installation) -> Iterator[JSON]:
    """Yield the installed configuration and restore it at the end."""
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    try:
        yield yaml.safe_load(before)
    finally:
        configure(stage, cluster, before)


def set_scope(stage: Stage, cluster: Installation, whole: JSON, **scope: object) -> None:
    """Configure a scope."""
    configure(stage, cluster, yaml.safe_dump({**whole, "scope": scope}))


def add_plugin_node(stage: Stage, suffix: str) -> None:
    """Add a node whose two GPUs a device plugin serves, without a driver."""
    hardware = stage.hardware(suffix, "lab-2g2n")
    stage.node(suffix, "lab-2g2n", plugins={LEGACY: tuple(gpu.uuid for gpu in hardware.gpus)})


def pods_of(stage: Stage, app: str) -> list[JSON]:
    """Return the pods with this label that are not being deleted."""
    pods = stage.client.get(stage.pod_path(), labelSelector=f"app={app}")["items"]
    return [each for each in pods if "deletionTimestamp" not in each["metadata"]]


@scenario("full", rig="installed", needs=NEEDS)
def a_deployment_returns_to_the_device_plugin(stage: Stage) -> None:
    """Without the label a new pod runs on the plugin's node. The old pod stays."""
    cluster = installed(stage)
    add_gpu_node(stage)
    add_plugin_node(stage, "b")
    kubectl = cluster.kubectl.inside(stage.namespace)
    pod = legacy_pod(stage, "serve")
    wait_for_facts(stage, cluster, pod)
    kubectl.apply(deployment(pod, 1)).check()
    (old,) = stage.wait("the first pod", lambda: pods_of(stage, "serve"))
    old = stage.wait_running(old["metadata"]["name"])
    assert is_translated(old)
    set_mode(stage, None)
    probe = legacy_pod(stage, "probe")
    stage.wait("the label is gone", lambda: not is_translated(dry_run(stage, probe)))
    ran = kubectl.apply(deployment(pod, 2)).check()
    assert ran.err == "", ran
    both = stage.wait(
        "the second pod", lambda: pods if len(pods := pods_of(stage, "serve")) == 2 else []
    )
    (new,) = (one for one in both if one["metadata"]["uid"] != old["metadata"]["uid"])
    new = stage.wait_running(new["metadata"]["name"])
    assert not is_translated(new)
    assert [each["spec"]["nodeName"][-1] for each in (old, new)] == ["a", "b"]
    again = stage.get_pod(old["metadata"]["name"])
    assert (again["metadata"]["uid"], again["spec"]) == (old["metadata"]["uid"], old["spec"])
    kubectl("delete", "deployment", "serve", "--cascade=foreground").check()


@scenario("full", rig="installed", needs=NEEDS)
def report_mode_warns_and_changes_nothing(stage: Stage) -> None:
    """Pods that would be translated or refused run or wait as without Drawbridge."""
    cluster = installed(stage, mode="report")
    add_gpu_node(stage)
    add_plugin_node(stage, "b")
    kubectl = cluster.kubectl.inside(stage.namespace)
    body = legacy_pod(stage, "train")
    told = f"would be translated: {LEGACY}: 1 of container main ->"
    # Facts with the plugin and without the slices can be published first.
    stage.wait(
        "the report",
        lambda: [
            warning
            for warning in kubectl.apply(body, words=("--dry-run=server",)).warnings[:1]
            if warning.startswith(told)
        ],
    )
    workload = kubectl.apply(deployment(body, 1), words=("--dry-run=server",)).check()
    assert any("pods would be translated" in each for each in workload.warnings), workload
    never = legacy_pod(stage, "never", annotations={"gpu-fraction": "0.5"})
    never["spec"]["schedulerName"] = "kai-scheduler"
    ran = kubectl.apply(never).check()
    assert any(each.startswith("would be denied: ") for each in ran.warnings), ran
    kubectl.apply(body).check()
    pod = stage.wait_running("train")
    assert pod["spec"]["nodeName"].endswith("-b")
    for name in ("train", "never"):
        stands = stage.get_pod(name)
        assert stands["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
        assert not is_translated(stands)
    assert template_names(stage) == []


@scenario("full", rig="installed", needs=NEEDS)
def an_excluded_namespace_is_not_translated_despite_its_label(stage: Stage) -> None:
    """The exclusion takes effect at once, and so does its removal."""
    cluster = installed(stage)
    add_gpu_node(stage)
    body = legacy_pod(stage, "train")
    wait_for_facts(stage, cluster, body)
    with restored_configuration(stage, cluster) as whole:
        set_scope(stage, cluster, whole, excludeNamespaces=["kube-system", stage.namespace])
        ran = (
            cluster.kubectl.inside(stage.namespace).apply(body, words=("--dry-run=server",)).check()
        )
        assert ran.err == "", ran
        assert not is_translated(dry_run(stage, body))
    assert is_translated(dry_run(stage, body))


@contextlib.contextmanager
def webhooks_for_all_namespaces(stage: Stage) -> Iterator[None]:
    """Register the webhooks for namespaces without the label, as docs/installing.md says."""
    wide = {"key": MODE, "operator": "NotIn", "values": ["off"]}
    narrow = {"key": MODE, "operator": "Exists"}
    hooks = [(f"{HOOKS}/{kind}/drawbridge", kind) for kind in KINDS]
    before = {path: stage.client.get(path)["webhooks"][0] for path, _ in hooks}
    for path, _ in hooks:
        kept = before[path]["namespaceSelector"]["matchExpressions"]
        assert narrow in kept, kept
        assert wide in kept, kept
        set_namespace_selector(stage, path, [each for each in kept if each != narrow])
    try:
        yield
    finally:
        for path, _ in hooks:
            set_namespace_selector(
                stage, path, before[path]["namespaceSelector"]["matchExpressions"]
            )


def set_namespace_selector(stage: Stage, path: str, expressions: list[JSON]) -> None:
    """Set the namespace selector of the first webhook of a configuration."""
    where = "/webhooks/0/namespaceSelector/matchExpressions"
    patch = [{"op": "replace", "path": where, "value": expressions}]
    stage.client.patch(path, patch, "application/json-patch+json")


@scenario("full", rig="installed", needs=NEEDS)
def a_namespace_selector_adds_namespaces_without_the_label(stage: Stage) -> None:
    """A label overrides the selector. Other namespaces stay out of scope."""
    cluster = installed(stage, mode="")
    add_gpu_node(stage)
    body = legacy_pod(stage, "train")
    chooses = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    with restored_configuration(stage, cluster) as whole:
        set_scope(stage, cluster, whole, namespaceSelector=chooses)
        stage.wait(
            "the finding about the selector is logged",
            lambda: has_finding(cluster, "scope.namespaceSelector"),
        )
        assert not is_translated(dry_run(stage, body))
        stage.enter(webhooks_for_all_namespaces(stage))
        stage.wait("the namespace is selected", lambda: is_translated(dry_run(stage, body)))
        cluster.kubectl.inside(stage.namespace).apply(body).check()
        assert is_translated(stage.wait_running("train"))
        set_mode(stage, "off")
        probe = legacy_pod(stage, "probe")
        stage.wait(
            "the label overrides the selector", lambda: not is_translated(dry_run(stage, probe))
        )
        assert not cluster.kubectl.inside("default").apply(probe, words=("--dry-run=server",)).err


def has_finding(cluster: Installation, word: str) -> bool:
    """Return whether the leader logged a finding that contains this text."""
    lines = cluster.leader.lines()
    return any(word in line["finding"]["message"] for line in lines if "finding" in line)


def pod_of_deployment(stage: Stage, number: int) -> JSON:
    """Return a pod of the current ReplicaSet of a Deployment."""
    name = f"web-{number}-{DIGEST}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"u-{number}"}
    pod = legacy_pod(stage, f"{name}-x", ownerReferences=[{**owner, "controller": True}])
    pod["metadata"]["labels"] = {"pod-template-hash": DIGEST}
    return pod


def selected_deployments(stage: Stage) -> frozenset[int]:
    """Return which of 200 Deployments are in scope, by dry runs."""

    def ask(number: int) -> bool:
        return is_translated(dry_run(stage, pod_of_deployment(stage, number)))

    with ThreadPoolExecutor(WORKERS) as pool:
        return frozenset(n for n, one in enumerate(pool.map(ask, range(OWNERS))) if one)


@scenario("full", rig="installed", needs=NEEDS)
def a_rollout_percentage_selects_the_same_deployments(stage: Stage) -> None:
    """30 % select about 60 of 200, in every revision. 60 % include those of 30 %."""
    cluster = installed(stage)
    add_gpu_node(stage)
    add_plugin_node(stage, "b")
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    with restored_configuration(stage, cluster) as whole:
        set_scope(stage, cluster, whole, rollout={"percent": 30})
        third = selected_deployments(stage)
        assert len(third) in NEAR, sorted(third)
        check_both_revisions(stage, cluster, min(third), inside=True)
        check_both_revisions(stage, cluster, min(set(range(OWNERS)) - third), inside=False)
        set_scope(stage, cluster, whole, rollout={"percent": 60})
        more = selected_deployments(stage)
        assert third < more, sorted(third - more)
        assert len(more) in range(100, 141), sorted(more)
        set_scope(stage, cluster, whole, rollout={"percent": 0})
        assert not selected_deployments(stage)


def check_both_revisions(stage: Stage, cluster: Installation, number: int, *, inside: bool) -> None:
    """Roll out a second revision: the pods of both are in scope, or none is."""
    name = f"web-{number}"
    kubectl = cluster.kubectl.inside(stage.namespace)
    first = deployment(legacy_pod(stage, name), 1)
    second = deployment(legacy_pod(stage, name), 1)
    second["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/second"
    seen: dict[str, JSON] = {}
    for manifest in (first, second):
        ran = kubectl.apply(manifest).check()
        assert any(LEGACY in line for line in ran.warnings) == inside, ran
        words = ("rollout", "status", f"deployment/{name}", "--timeout=30s")
        kubectl(*words).check()
        seen |= {pod["metadata"]["name"]: pod for pod in pods_of(stage, name)}
    hashes = {pod["metadata"]["labels"]["pod-template-hash"] for pod in seen.values()}
    assert len(hashes) == 2, sorted(seen)
    assert {is_translated(pod) for pod in seen.values()} == {inside}, sorted(seen)
    kubectl("delete", "deployment", name, "--cascade=foreground").check()
