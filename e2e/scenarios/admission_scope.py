"""Whose pods are translated, changed while everything runs: by labels, exclusions and shares."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import yaml

from e2e.installed.installation import (
    MODE,
    NAMESPACE,
    Installed,
    asked,
    in_step,
    installed,
    opt_in,
    template_names,
)
from e2e.scenarios.admission import LEGACY, NEEDS, ORIGINAL, deployment, gpus, legacy
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

CONFIGURATION = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-config"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
USED = "configuration in use"
OWNERS, WORKERS = 200, 8
# Of 200 owners at 30 %: three times what chance alone would give.
NEAR = range(41, 80)
DIGEST = "5d4f8c7b9"


def translated(pod: JSON) -> bool:
    """Whether a pod was translated."""
    return ORIGINAL in pod["metadata"].get("annotations", {})


def configure(stage: Stage, town: Installed, text: str) -> None:
    """Change the configuration, and wait until every process has read it."""
    if text == stage.client.get(CONFIGURATION)["data"]["config.yaml"]:
        return
    before = [len(each.said(USED)) for each in town.replicas]
    town.configure(text)

    def followed() -> bool:
        now = [len(each.said(USED)) for each in town.replicas]
        return all(one > other for one, other in zip(now, before, strict=True))

    stage.wait("every process uses it", followed)


@contextlib.contextmanager
def configured(stage: Stage, town: Installed) -> Iterator[JSON]:
    """Give the configuration as it is installed; whatever is made of it is undone after."""
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    try:
        yield yaml.safe_load(before)
    finally:
        configure(stage, town, before)


def scoped(stage: Stage, town: Installed, whole: JSON, **scope: object) -> None:
    """Let a scope be in use."""
    configure(stage, town, yaml.safe_dump({**whole, "scope": scope}))


def plugged(stage: Stage, suffix: str) -> None:
    """Add a node whose two GPUs a device plugin serves, and no driver."""
    hardware = stage.hardware(suffix, "lab-2g2n")
    stage.node(suffix, "lab-2g2n", plugins={LEGACY: tuple(gpu.uuid for gpu in hardware.gpus)})


def pods_of(stage: Stage, app: str) -> list[JSON]:
    """Give the pods with this label that are not being deleted."""
    found = stage.client.get(stage.pod_path(), labelSelector=f"app={app}")["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


@scenario("full", rig="installed", needs=NEEDS)
def a_deployment_goes_back_to_the_device_plugin(stage: Stage) -> None:
    """The label is gone: its new pod runs on the plugin's node, its old one stays where it is."""
    town = installed(stage)
    gpus(stage)
    plugged(stage, "b")
    kubectl = town.kubectl.inside(stage.namespace)
    pod = legacy(stage, "serve")
    in_step(stage, town, pod)
    kubectl.apply(deployment(pod, 1)).done()
    (old,) = stage.wait("the first pod", lambda: pods_of(stage, "serve"))
    old = stage.running(old["metadata"]["name"])
    assert translated(old)
    opt_in(stage, None)
    probe = legacy(stage, "probe")
    stage.wait("the label is gone", lambda: not translated(asked(stage, probe)))
    ran = kubectl.apply(deployment(pod, 2)).done()
    assert ran.err == "", ran
    both = stage.wait(
        "the second pod", lambda: found if len(found := pods_of(stage, "serve")) == 2 else []
    )
    (new,) = (one for one in both if one["metadata"]["uid"] != old["metadata"]["uid"])
    new = stage.running(new["metadata"]["name"])
    assert not translated(new)
    assert [each["spec"]["nodeName"][-1] for each in (old, new)] == ["a", "b"]
    again = stage.get_pod(old["metadata"]["name"])
    assert (again["metadata"]["uid"], again["spec"]) == (old["metadata"]["uid"], old["spec"])
    kubectl("delete", "deployment", "serve", "--cascade=foreground").done()


@scenario("full", rig="installed", needs=NEEDS)
def a_report_says_what_would_happen_and_changes_nothing(stage: Stage) -> None:
    """What would be translated, and what would be refused, both run or wait as ever."""
    town = installed(stage, mode="report")
    gpus(stage)
    plugged(stage, "b")
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    told = stage.wait(
        "the report", lambda: kubectl.apply(body, words=("--dry-run=server",)).warnings
    )
    assert told[0].startswith(f"would be translated: {LEGACY}: 1 of container main ->"), told
    workload = kubectl.apply(deployment(body, 1), words=("--dry-run=server",)).done()
    assert any("pods would be translated" in each for each in workload.warnings), workload
    never = legacy(stage, "never", annotations={"gpu-fraction": "0.5"})
    never["spec"]["schedulerName"] = "kai-scheduler"
    ran = kubectl.apply(never).done()
    assert any(each.startswith("would be denied: ") for each in ran.warnings), ran
    kubectl.apply(body).done()
    pod = stage.running("train")
    assert pod["spec"]["nodeName"].endswith("-b")
    for name in ("train", "never"):
        stands = stage.get_pod(name)
        assert stands["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
        assert not translated(stands)
    assert template_names(stage) == []


@scenario("full", rig="installed", needs=NEEDS)
def an_excluded_namespace_is_left_alone_whatever_its_label(stage: Stage) -> None:
    """Excluded while everything runs, it is out at once, and in again when that is taken back."""
    town = installed(stage)
    gpus(stage)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with configured(stage, town) as whole:
        scoped(stage, town, whole, excludeNamespaces=["kube-system", stage.namespace])
        ran = town.kubectl.inside(stage.namespace).apply(body, words=("--dry-run=server",)).done()
        assert ran.err == "", ran
        assert not translated(asked(stage, body))
    assert translated(asked(stage, body))


@contextlib.contextmanager
def widened(stage: Stage) -> Iterator[None]:
    """Let our webhooks be asked about namespaces without the label, as docs/installing.md says."""
    wide = {"key": MODE, "operator": "NotIn", "values": ["off"]}
    narrow = {"key": MODE, "operator": "Exists"}
    hooks = [(f"{HOOKS}/{kind}/drawbridge", kind) for kind in KINDS]
    before = {path: stage.client.get(path)["webhooks"][0] for path, _ in hooks}
    for path, _ in hooks:
        kept = before[path]["namespaceSelector"]["matchExpressions"]
        assert narrow in kept, kept
        assert wide in kept, kept
        select(stage, path, [each for each in kept if each != narrow])
    try:
        yield
    finally:
        for path, _ in hooks:
            select(stage, path, before[path]["namespaceSelector"]["matchExpressions"])


def select(stage: Stage, path: str, expressions: list[JSON]) -> None:
    """Let the first webhook of a configuration be asked about these namespaces."""
    where = "/webhooks/0/namespaceSelector/matchExpressions"
    patch = [{"op": "replace", "path": where, "value": expressions}]
    stage.client.patch(path, patch, "application/json-patch+json")


@scenario("full", rig="installed", needs=NEEDS)
def a_selector_chooses_namespaces_without_the_label(stage: Stage) -> None:
    """What it chooses is translated, a label that says otherwise wins, and the rest is left."""
    town = installed(stage, mode="")
    gpus(stage)
    body = legacy(stage, "train")
    chooses = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    with configured(stage, town) as whole:
        scoped(stage, town, whole, namespaceSelector=chooses)
        stage.wait("what is never sent is told", lambda: told(town, "scope.namespaceSelector"))
        assert not translated(asked(stage, body))
        stage.enter(widened(stage))
        stage.wait("it is chosen", lambda: translated(asked(stage, body)))
        town.kubectl.inside(stage.namespace).apply(body).done()
        assert translated(stage.running("train"))
        opt_in(stage, "off")
        probe = legacy(stage, "probe")
        stage.wait("the label wins", lambda: not translated(asked(stage, probe)))
        assert not town.kubectl.inside("default").apply(probe, words=("--dry-run=server",)).err


def told(town: Installed, word: str) -> bool:
    """Whether the leader told a finding with this word."""
    lines = town.leader.lines()
    return any(word in line["finding"]["message"] for line in lines if "finding" in line)


def of_owner(stage: Stage, number: int) -> JSON:
    """Give a pod of the current ReplicaSet of a Deployment."""
    name = f"web-{number}-{DIGEST}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"u-{number}"}
    pod = legacy(stage, f"{name}-x", ownerReferences=[{**owner, "controller": True}])
    pod["metadata"]["labels"] = {"pod-template-hash": DIGEST}
    return pod


def chosen(stage: Stage) -> frozenset[int]:
    """Tell which of 200 Deployments are in, by dry runs."""

    def ask(number: int) -> bool:
        return translated(asked(stage, of_owner(stage, number)))

    with ThreadPoolExecutor(WORKERS) as pool:
        return frozenset(n for n, one in enumerate(pool.map(ask, range(OWNERS))) if one)


@scenario("full", rig="installed", needs=NEEDS)
def a_rollout_chooses_deployments_and_keeps_to_them(stage: Stage) -> None:
    """At 30 % of 200 about 60 are in; a new revision changes nothing, 60 % keep those of 30 %."""
    town = installed(stage)
    gpus(stage)
    plugged(stage, "b")
    in_step(stage, town, legacy(stage, "probe"))
    with configured(stage, town) as whole:
        scoped(stage, town, whole, rollout={"percent": 30})
        third = chosen(stage)
        assert len(third) in NEAR, sorted(third)
        revised(stage, town, min(third), inside=True)
        revised(stage, town, min(set(range(OWNERS)) - third), inside=False)
        scoped(stage, town, whole, rollout={"percent": 60})
        more = chosen(stage)
        assert third < more, sorted(third - more)
        assert len(more) in range(100, 141), sorted(more)
        scoped(stage, town, whole, rollout={"percent": 0})
        assert not chosen(stage)


def revised(stage: Stage, town: Installed, number: int, *, inside: bool) -> None:
    """Roll a Deployment to another revision: the pods of both are in, or both are out."""
    name = f"web-{number}"
    kubectl = town.kubectl.inside(stage.namespace)
    first = deployment(legacy(stage, name), 1)
    second = deployment(legacy(stage, name), 1)
    second["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/second"
    seen: dict[str, JSON] = {}
    for each in (first, second):
        ran = kubectl.apply(each).done()
        assert any(LEGACY in line for line in ran.warnings) == inside, ran
        words = ("rollout", "status", f"deployment/{name}", "--timeout=30s")
        kubectl(*words).done()
        seen |= {pod["metadata"]["name"]: pod for pod in pods_of(stage, name)}
    hashes = {pod["metadata"]["labels"]["pod-template-hash"] for pod in seen.values()}
    assert len(hashes) == 2, sorted(seen)
    assert {translated(pod) for pod in seen.values()} == {inside}, sorted(seen)
    kubectl("delete", "deployment", name, "--cascade=foreground").done()
